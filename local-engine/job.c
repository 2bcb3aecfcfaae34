/* job.c - frame -> token ids and parameters -> session; events -> frames.
 *
 * A frame that cannot be made for lack of memory breaks the outbox, and with it the program: the
 * daemon starts it again. That is more honest than an answer with a hole.
 */
#include "job.h"
#include "chat.h"
#include "distribution_json.h"
#include "link.h"
#include "token_json.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { JOB_TOP_DEFAULT = 20 };

static json_t *tokens_list(const struct tokenizer *t, const struct session_token *tokens, size_t n,
                           size_t n_top)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        if (json_array_append_new(list, token_json_logprobs(t, &tokens[i], n_top)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* ---- frames out */

void job_send_error(struct outbox *out, int64_t id, const struct engine_error *err)
{
    /* Names and texts may have been cut inside a character. */
    json_t *frame = json_pack("{s:s, s:I, s:s, s:o, s:o}", "op", "error", "id", (json_int_t)id,
                              "code", engine_code_name(err->code), "param",
                              token_json_text(err->param, strlen(err->param)), "text",
                              token_json_text(err->text, strlen(err->text)));
    if (!outbox_put(out, frame)) {
        out->is_broken = true;
    }
}

/* A frame of an answer: one that is too long ends the answer. */
static void send(struct job *j, json_t *frame)
{
    if (j->has_failed || outbox_put(j->out, frame)) {
        if (j->has_failed) {
            json_decref(frame);
        }
        return;
    }
    struct engine_error err = {.code = ENGINE_OK};
    (void)engine_fail(&err, ENGINE_INTERNAL, "",
                      "the answer is too long for a frame: ask for less at once");
    job_send_error(j->out, j->id, &err);
    j->has_failed = true;
}

static void send_text(struct job *j, uint32_t choice, json_t *text, json_t *tokens)
{
    json_t *frame = json_pack("{s:s, s:I, s:I, s:o}", "op", "text", "id", (json_int_t)j->id,
                              "choice", (json_int_t)choice, "text", text);
    if (frame && tokens && json_object_set(frame, "tokens", tokens) != 0) {
        json_decref(frame);
        frame = NULL;
    }
    json_decref(tokens);
    send(j, frame);
}

static void send_done(struct outbox *out, int64_t id, size_t n_prompt, int64_t n_generated,
                      const char *fingerprint)
{
    json_t *frame = json_pack("{s:s, s:I, s:I, s:I, s:s}", "op", "done", "id", (json_int_t)id,
                              "prompt_tokens", (json_int_t)n_prompt, "completion_tokens",
                              (json_int_t)n_generated, "fingerprint", fingerprint);
    if (!outbox_put(out, frame)) {
        out->is_broken = true;
    }
}

static void on_text(struct job *j, const struct session_event *ev)
{
    json_t *tokens = NULL;
    if (j->params.logprobs) {
        tokens = tokens_list(engine_tokenizer(j->model->engine), ev->tokens, ev->n_tokens,
                             (size_t)j->params.n_top_logprobs);
        if (!tokens) {
            j->out->is_broken = true;
            return;
        }
    }
    send_text(j, ev->choice, json_stringn_nocheck(ev->text, ev->len), tokens);
}

static void on_finish(struct job *j, const struct session_event *ev)
{
    const char *stop = ev->matched_stop >= 0 ? j->params.stops[ev->matched_stop] : NULL;
    j->n_generated += ev->n_generated;
    send(j, json_pack("{s:s, s:I, s:I, s:s, s:s?, s:I}", "op", "finish", "id", (json_int_t)j->id,
                      "choice", (json_int_t)ev->choice, "reason", ev->finish, "stop", stop,
                      "tokens", (json_int_t)ev->n_generated));
}

static void on_distribution(struct job *j, const struct session_event *ev)
{
    const struct tokenizer *t = engine_tokenizer(j->model->engine);
    json_t *frame = distribution_json(ev->distribution, t, ev->is_first);
    bool ok = json_object_set_new(frame, "op", json_string("distribution")) == 0 &&
              json_object_set_new(frame, "id", json_integer(j->id)) == 0;
    if (!ok) {
        json_decref(frame);
        frame = NULL;
    }
    send(j, frame);
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct job *j = ud;
    switch (ev->kind) {
    case SESSION_TEXT:
        on_text(j, ev);
        break;
    case SESSION_FINISH:
        on_finish(j, ev);
        break;
    case SESSION_DISTRIBUTION:
        on_distribution(j, ev);
        break;
    case SESSION_ERROR:
        if (!j->has_failed) {
            job_send_error(j->out, j->id, ev->error);
        }
        j->has_failed = true;
        break;
    }
}

/* ---- the prompt */

static bool bad(struct engine_error *err, const char *param, const char *text)
{
    return engine_fail(err, ENGINE_BAD_PARAM, param, "%s", text);
}

/* A list of integers -> ids; `param` names it in errors. */
static bool read_ids(const json_t *list, const char *param, int32_t **ids, size_t *n_ids,
                     struct engine_error *err)
{
    size_t n = json_array_size(list);
    int32_t *p = malloc((n + 1) * sizeof *p);
    if (!p) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for %zu token ids", n);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id > INT32_MAX) {
            free(p);
            return engine_fail(
                err, ENGINE_BAD_PARAM, param,
                "'%s[%zu]' is not a token id: a frame takes one prompt, a string or a list of ids",
                param, i);
        }
        p[i] = (int32_t)id;
    }
    *ids = p;
    *n_ids = n;
    return true;
}

/* bos where the model wants it, and where there would be nothing at all. */
static bool encode_text(struct job *j, const json_t *text, struct engine_error *err)
{
    const struct tokenizer *t = engine_tokenizer(j->model->engine);
    int32_t *ids;
    size_t n;
    if (!tokenizer_encode(t, json_string_value(text), json_string_length(text), true, &ids, &n,
                          err)) {
        return false;
    }
    int32_t bos = tokenizer_bos(t);
    bool has_bos = bos >= 0 && (tokenizer_adds_bos(t) || n == 0);
    int32_t *p = malloc((n + 1) * sizeof *p);
    if (!p) {
        free(ids);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for %zu token ids", n);
    }
    p[0] = bos;
    if (n > 0) {
        memcpy(p + has_bos, ids, n * sizeof *p);
    }
    free(ids);
    j->prompt = p;
    j->n_prompt = n + has_bos;
    return true;
}

/* The text of a message: a string, nothing, or a list of text parts. *joined is the caller's to
 * free. */
static bool content_text(const json_t *content, const char **text, size_t *len, char **joined,
                         struct engine_error *err)
{
    *joined = NULL;
    *text = json_is_string(content) ? json_string_value(content) : "";
    *len = json_string_length(content);
    if (!content || json_is_null(content) || json_is_string(content)) {
        return true;
    }
    if (!json_is_array(content)) {
        return bad(err, "messages", "a message's content must be a string or a list of text parts");
    }
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_object_get(json_array_get(content, i), "text");
        if (!json_is_string(part)) {
            free(*joined);
            *joined = NULL;
            return bad(err, "messages",
                       "the model reads text only: a message has a part that is no text");
        }
        char *p = realloc(*joined, n + json_string_length(part) + 1);
        if (!p) {
            free(*joined);
            *joined = NULL;
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a message");
        }
        memcpy(p + n, json_string_value(part), json_string_length(part));
        n += json_string_length(part);
        *joined = p;
    }
    *text = *joined ? *joined : "";
    *len = n;
    return true;
}

static bool read_messages(const json_t *messages, struct chat_message *m, char **joined,
                          struct engine_error *err)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        m[i].role = json_string_value(json_object_get(message, "role"));
        if (!m[i].role) {
            return bad(err, "messages", "a message has no role");
        }
        if (!content_text(json_object_get(message, "content"), &m[i].content, &m[i].content_len,
                          &joined[i], err)) {
            return false;
        }
    }
    return true;
}

static bool encode_messages(struct job *j, const json_t *messages, struct engine_error *err)
{
    size_t n = json_array_size(messages);
    if (!j->model->chat) {
        return engine_fail(err, ENGINE_BAD_PARAM, "chat_template",
                           "messages need a chat template, and that of the model's files is of no "
                           "use: %s; name one in the configuration (models[].chat_template), or "
                           "give a prompt",
                           j->model->chat_error.text);
    }
    if (n == 0 || n > CHAT_MESSAGES_MAX) {
        return bad(err, "messages", "'messages' must be a list with at least one message");
    }
    struct chat_message *m = calloc(n, sizeof *m);
    char **joined = calloc(n, sizeof(*joined));
    bool ok = m && joined;
    if (!ok) {
        (void)engine_fail(err, ENGINE_NOMEM, "", "out of memory for the messages");
    } else {
        ok = read_messages(messages, m, joined, err) &&
             chat_render(j->model->chat, m, n, &j->prompt, &j->n_prompt, err);
    }
    for (size_t i = 0; joined && i < n; i++) {
        free(joined[i]);
    }
    free(joined);
    free(m);
    return ok;
}

static bool is_given(const json_t *v)
{
    return v && !json_is_null(v);
}

static bool read_prompt(struct job *j, struct engine_error *err)
{
    const json_t *prompt = json_object_get(j->frame, "prompt"),
                 *messages = json_object_get(j->frame, "messages");
    if (is_given(prompt) == is_given(messages)) {
        return bad(err, "prompt", "one of 'prompt' and 'messages' must be given");
    }
    if (is_given(messages)) {
        j->is_chat = true;
        if (j->params.echo) {
            return bad(err, "echo", "'echo' needs a prompt: messages cannot be echoed");
        }
        return encode_messages(j, messages, err);
    }
    if (json_is_string(prompt)) {
        return encode_text(j, prompt, err);
    }
    if (json_is_array(prompt)) {
        return read_ids(prompt, "prompt", &j->prompt, &j->n_prompt, err);
    }
    return bad(err, "prompt", "'prompt' must be a string or a list of token ids");
}

/* ---- a job's life */

int64_t job_frame_id(const json_t *frame)
{
    const json_t *id = json_object_get(frame, "id");
    return json_is_integer(id) && json_integer_value(id) >= 0 ? json_integer_value(id) : -1;
}

/* A turn ends with its marker, whatever the model's files call the end of a text. */
static bool add_turn_end(struct job *j, struct engine_error *err)
{
    struct sampler_config *c = &j->params.sampling;
    int32_t turn_end = j->is_chat ? chat_turn_end(j->model->chat) : -1;
    if (turn_end < 0) {
        return true;
    }
    int32_t *p = realloc(c->stop_ids, (c->n_stop_ids + 1) * sizeof *p);
    if (!p) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the stop token ids");
    }
    p[c->n_stop_ids++] = turn_end;
    c->stop_ids = p;
    return true;
}

static bool append_ids(struct job *j, const int32_t *ids, size_t n, struct engine_error *err)
{
    int32_t *p = realloc(j->prompt, (j->n_prompt + n + 1) * sizeof *p);
    if (!p) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for %zu token ids", n);
    }
    if (n > 0) {
        memcpy(p + j->n_prompt, ids, n * sizeof *p);
    }
    j->prompt = p;
    j->n_prompt += n;
    j->n_given = n;
    return true;
}

/* `generated` of a distribution frame: a text or ids that the model is taken to have said. */
static bool read_given(struct job *j, struct engine_error *err)
{
    const json_t *given = json_object_get(j->frame, "generated");
    int32_t *ids = NULL;
    size_t n = 0;
    if (!is_given(given)) {
        return true;
    }
    bool ok = json_is_string(given)
                  ? tokenizer_encode(engine_tokenizer(j->model->engine), json_string_value(given),
                                     json_string_length(given), true, &ids, &n, err)
              : json_is_array(given)
                  ? read_ids(given, "generated", &ids, &n, err)
                  : bad(err, "generated", "'generated' must be a string or a list of token ids");
    ok = ok && append_ids(j, ids, n, err);
    free(ids);
    return ok;
}

static bool read_distribution(struct job *j, struct engine_error *err)
{
    const char *op = json_string_value(json_object_get(j->frame, "op"));
    const json_t *top = json_object_get(j->frame, "top");
    if (!op || strcmp(op, "distribution") != 0) {
        return true;
    }
    j->n_distribution = is_given(top) ? json_integer_value(top) : JOB_TOP_DEFAULT;
    if (j->n_distribution < 1 || j->n_distribution > DISTRIBUTION_TOP_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "top", "'top' must be an integer from 1 to %d",
                           DISTRIBUTION_TOP_MAX);
    }
    return read_given(j, err);
}

/* A prompt that was given as text comes back as it was given; with log-probabilities, as its tokens
 * say it, for they count the characters of that. */
static bool echoes_string(const struct job *j)
{
    return j->params.echo && !j->params.logprobs && !j->n_distribution &&
           json_is_string(json_object_get(j->frame, "prompt"));
}

static struct session_request request_of(struct job *j)
{
    struct session_request r = link_params_request(&j->params, j->prompt, j->n_prompt);
    r.echo = r.echo && !echoes_string(j);
    r.n_distribution = (uint32_t)j->n_distribution;
    r.n_given = j->n_given;
    return r;
}

static bool prepare(struct job *j, struct engine_error *err)
{
    if (!link_params_parse(json_object_get(j->frame, "params"), &j->params, err) ||
        !read_prompt(j, err) || !add_turn_end(j, err) || !read_distribution(j, err)) {
        return false;
    }
    struct session_request r = request_of(j);
    return session_check(j->model->engine, &r, err);
}

bool job_new(struct job **out, json_t *frame, const struct job_model *m, struct outbox *box,
             struct engine_error *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a request");
    }
    j->id = job_frame_id(frame);
    j->model = m;
    j->out = box;
    j->frame = json_incref(frame);
    sampler_config_init(&j->params.sampling);
    struct engine_error own = {.code = ENGINE_OK};
    if (!prepare(j, &own)) {
        bool is_prompt = j->is_chat && strcmp(own.param, "prompt") == 0;
        (void)engine_fail(err, own.code, is_prompt ? "messages" : own.param, "%s", own.text);
        job_free(j);
        return false;
    }
    *out = j;
    return true;
}

void job_free(struct job *j)
{
    if (!j) {
        return;
    }
    session_free(j->session);
    link_params_release(&j->params);
    free(j->prompt);
    json_decref(j->frame);
    free(j);
}

static void send_echo(struct job *j)
{
    for (uint32_t i = 0; i < (uint32_t)j->params.n; i++) {
        send_text(j, i, json_incref(json_object_get(j->frame, "prompt")), NULL);
    }
}

bool job_start(struct job *j, struct engine_error *err)
{
    assert(!j->session);
    struct session_request r = request_of(j);
    if (!session_start(j->model->engine, &r, on_event, j, &j->session, err)) {
        return false;
    }
    send(j,
         json_pack("{s:s, s:I, s:I, s:s}", "op", "begin", "id", (json_int_t)j->id, "prompt_tokens",
                   (json_int_t)j->n_prompt, "fingerprint", engine_fingerprint(j->model->engine)));
    if (echoes_string(j)) {
        send_echo(j);
    }
    return true;
}

bool job_is_done(const struct job *j)
{
    return j->has_failed || session_is_done(j->session);
}

void job_end(struct job *j)
{
    if (!j->has_failed) {
        send_done(j->out, j->id, j->n_prompt, j->n_generated, engine_fingerprint(j->model->engine));
    }
}

/* ---- without a session */

static json_t *pieces_list(const struct tokenizer *t, const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        size_t k;
        const char *piece = tokenizer_piece(t, ids[i], i == 0, &k);
        if (json_array_append_new(list, token_json_text(piece, k)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *ids_list(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        if (json_array_append_new(list, json_integer(ids[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* A text as its tokens say it. */
static json_t *ids_text(const struct tokenizer *t, const int32_t *ids, size_t n)
{
    char *text = NULL;
    size_t len = 0, cap = 0;
    bool is_first = true;
    for (size_t i = 0; i < n; i++) {
        size_t k;
        const char *piece = tokenizer_piece(t, ids[i], is_first, &k);
        is_first = is_first && tokenizer_is_special(t, ids[i]);
        if (k > cap - len) {
            cap = cap * 2 + k + 256;
            char *p = realloc(text, cap);
            if (!p) {
                free(text);
                return NULL;
            }
            text = p;
        }
        if (k > 0) {
            memcpy(text + len, piece, k);
        }
        len += k;
    }
    json_t *s = token_json_text(text ? text : "", len);
    free(text);
    return s;
}

/* Sends `frame` and done, or an error. */
static void answer(struct outbox *out, int64_t id, json_t *frame, const struct job_model *m)
{
    if (outbox_put(out, frame)) {
        send_done(out, id, 0, 0, engine_fingerprint(m->engine));
        return;
    }
    struct engine_error err = {.code = ENGINE_OK};
    (void)engine_fail(&err, ENGINE_BAD_PARAM, "text",
                      "the answer is too long for a frame: send less at once");
    job_send_error(out, id, &err);
}

void job_tokenize(const json_t *frame, const struct job_model *m, struct outbox *out)
{
    const struct tokenizer *t = engine_tokenizer(m->engine);
    const json_t *text = json_object_get(frame, "text");
    struct engine_error err = {.code = ENGINE_OK};
    int32_t *ids = NULL;
    size_t n = 0;
    bool ok = json_is_string(text)
                  ? tokenizer_encode(t, json_string_value(text), json_string_length(text), true,
                                     &ids, &n, &err)
                  : bad(&err, "text", "'text' must be a string");
    if (!ok) {
        job_send_error(out, job_frame_id(frame), &err);
        return;
    }
    int64_t id = job_frame_id(frame);
    answer(out, id,
           json_pack("{s:s, s:I, s:o, s:o}", "op", "tokens", "id", (json_int_t)id, "ids",
                     ids_list(ids, n), "pieces", pieces_list(t, ids, n)),
           m);
    free(ids);
}

void job_detokenize(const json_t *frame, const struct job_model *m, struct outbox *out)
{
    const struct tokenizer *t = engine_tokenizer(m->engine);
    const json_t *list = json_object_get(frame, "ids");
    int64_t id = job_frame_id(frame);
    struct engine_error err = {.code = ENGINE_OK};
    int32_t *ids = NULL;
    size_t n = 0;
    bool ok = json_is_array(list) ? read_ids(list, "ids", &ids, &n, &err)
                                  : bad(&err, "ids", "'ids' must be a list of token ids");
    for (size_t i = 0; ok && i < n; i++) {
        if (!tokenizer_spelling(t, ids[i])) {
            ok = engine_fail(&err, ENGINE_BAD_PARAM, "ids", "token id %d is not in the vocabulary",
                             ids[i]);
        }
    }
    if (ok) {
        answer(out, id,
               json_pack("{s:s, s:I, s:i, s:o}", "op", "text", "id", (json_int_t)id, "choice", 0,
                         "text", ids_text(t, ids, n)),
               m);
    } else {
        job_send_error(out, id, &err);
    }
    free(ids);
}

bool job_model_init(struct job_model *m, struct engine *e, const char *chat_template,
                    struct engine_error *err)
{
    struct chat *chat = NULL;
    size_t len;
    const char *text = engine_chat_template(e, &len);
    struct engine_error why = {.code = ENGINE_OK};
    if (!chat_open(&chat, engine_tokenizer(e), chat_template, text, len, &why) &&
        (chat_template || !text || why.code != ENGINE_BAD_PARAM)) {
        /* the name is the configuration's: no request is at fault */
        return engine_fail(err, why.code == ENGINE_BAD_PARAM ? ENGINE_BAD_FILE : why.code,
                           why.param, "%s", why.text);
    }
    *m = (struct job_model){.engine = e, .chat = chat, .chat_error = why};
    return true;
}

void job_model_release(struct job_model *m)
{
    chat_close(m->chat);
    *m = (struct job_model){.engine = NULL};
}
