/* engine.c - which rows go into the next batch, and who gets their logits.
 *
 * A step has one row for each running choice, at most DECODE_ROWS of them, in turn, and a chunk of
 * at most PREFILL_ROWS rows of prompts that are not evaluated yet, shared evenly among them, or of
 * PREFILL_ROWS_BESIDE where there are rows of choices: a long prompt costs the others a slower
 * token, never a stop, and a short one beside it is through after a few steps. A prompt that begins
 * like one before it waits for that one's blocks. How rows are batched does not change their bits
 * (model.h), so neither does the company.
 */
#include "beam.h"
#include "chat_source.h"
#include "session.h"
#include "sha256.h"
#include "tokenizer_source.h"
#include "weights.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DECODE_ROWS = 64, PREFILL_ROWS = 64, ROWS = DECODE_ROWS + PREFILL_ROWS };
/* Beside sessions that generate: a step is then about twice as long as without a prompt. */
enum { PREFILL_ROWS_BESIDE = 8 };
enum { SESSIONS_DEFAULT = 16, THREADS_DEFAULT_MAX = 8, THREADS_MAX = 64 };
static_assert(PREFILL_ROWS >= ENGINE_SESSIONS_MAX, "a row for each");

/* Who gets the logits of a row. */
struct owner {
    struct session *session;
    struct session_choice *choice; /* NULL: a row of a prompt */
};

struct engine {
    char *path; /* of the model, as it was given */
    struct model *model;
    struct tokenizer *tokenizer;
    struct constrain_cache *constraints;
    struct kvpool *pool;
    enum kernels_type kv_type;
    int32_t context;     /* the model's, or less where the pool is smaller */
    char *chat_template; /* the text in the model's files, or NULL */
    size_t chat_template_len;
    struct model_worker *worker;
    const struct model_shape *shape;
    struct session *sessions[ENGINE_SESSIONS_MAX]; /* running ones */
    size_t n_sessions, n_sessions_max, turn;
    struct model_row rows[ROWS];
    struct owner owners[ROWS];
    size_t n_rows, n_wanted;
    float *logits; /* [ROWS][n_vocab]; pages that are never used cost nothing */
    int64_t weight_bytes;
    char fingerprint[160];
};

/* ---- opening */

static int threads_default(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX : (int)n;
}

static bool check_end_ids(const struct engine *e, struct engine_error *err)
{
    size_t n;
    const int32_t *eos = tokenizer_eos(e->tokenizer, &n);
    for (size_t i = 0; i < n; i++) {
        if (eos[i] < 0 || eos[i] >= e->shape->n_vocab) {
            return engine_fail(
                err, ENGINE_BAD_FILE, "",
                "'%s': the tokenizer's end token %d is outside the model's vocabulary of %d",
                e->path, eos[i], e->shape->n_vocab);
        }
    }
    return true;
}

/* The other files of the model: beside a .gguf file, in the folder else. */
static const char *folder_of(const struct engine *e)
{
    return weights_folder(model_weights(e->model));
}

/* Unless the caller says: room for as many contexts as one request may have choices, but at most a
 * quarter of the machine's memory and at least one context. */
static size_t default_n_blocks(const struct engine *e, size_t block_bytes)
{
    size_t context = kvcache_n_blocks(e->shape->context), n = context * ENGINE_CHOICES_MAX;
    long n_pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t fits = n_pages > 0 && page > 0 ? (size_t)n_pages / 4 * (size_t)page / block_bytes : n;
    n = fits < n ? fits : n;
    return n > context ? n : context;
}

static bool open_pool(struct engine *e, const struct engine_options *o, struct engine_error *err)
{
    e->kv_type = o && o->is_kv_f16 ? KERNELS_F16 : KERNELS_F32;
    size_t block_bytes = kvcache_block_bytes(e->model, e->kv_type);
    size_t n = o && o->kv_bytes_max > 0 ? (size_t)o->kv_bytes_max / block_bytes
                                        : default_n_blocks(e, block_bytes);
    if (n == 0) {
        return engine_fail(err, ENGINE_BAD_PARAM, "kv_memory",
                           "'%s': kv_memory of %" PRId64 " bytes has no room for one block of %zu "
                           "bytes (%d tokens): raise it",
                           e->path, o->kv_bytes_max, block_bytes, KVPOOL_TOKENS);
    }
    bool is_less = n < kvcache_n_blocks(e->shape->context);
    e->context = is_less ? (int32_t)n * KVPOOL_TOKENS : e->shape->context;
    return kvpool_new(&e->pool, block_bytes, n, err);
}

static bool open_parts(struct engine *e, const struct engine_options *o, struct engine_error *err)
{
    int n_threads = o && o->n_threads > 0 ? o->n_threads : threads_default();
    n_threads = n_threads > THREADS_MAX ? THREADS_MAX : n_threads;
    if (!model_open(&e->model, e->path, err)) {
        return false;
    }
    e->shape = model_get_shape(e->model);
    e->weight_bytes = (int64_t)weights_file_bytes(model_weights(e->model));
    if (!tokenizer_source_open(&e->tokenizer, model_weights(e->model), err) ||
        !check_end_ids(e, err) ||
        !constrain_cache_new(&e->constraints, e->tokenizer, e->shape->n_vocab, err) ||
        !chat_source_read(model_weights(e->model), &e->chat_template, &e->chat_template_len, err) ||
        !model_worker_new(&e->worker, e->model, ROWS, n_threads, err) || !open_pool(e, o, err)) {
        return false;
    }
    e->logits = calloc((size_t)ROWS * (size_t)e->shape->n_vocab, sizeof *e->logits);
    return e->logits || engine_fail(err, ENGINE_NOMEM, "", "out of memory for the logits");
}

bool engine_open(struct engine **out, const char *path, const struct engine_options *o,
                 struct engine_error *err)
{
    struct engine *e = calloc(1, sizeof *e);
    if (!e) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for an engine");
    }
    int n_max = o && o->n_sessions_max > 0 ? o->n_sessions_max : SESSIONS_DEFAULT;
    e->n_sessions_max = n_max < ENGINE_SESSIONS_MAX ? (size_t)n_max : ENGINE_SESSIONS_MAX;
    e->path = strdup(path);
    if (!e->path) {
        engine_close(e);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for an engine");
    }
    if (!open_parts(e, o, err)) {
        engine_close(e);
        return false;
    }
    *out = e;
    return true;
}

void engine_close(struct engine *e)
{
    if (!e) {
        return;
    }
    assert(e->n_sessions == 0);
    model_worker_free(e->worker);
    constrain_cache_free(e->constraints);
    tokenizer_close(e->tokenizer);
    kvpool_free(e->pool);
    model_close(e->model);
    free(e->logits);
    free(e->chat_template);
    free(e->path);
    free(e);
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
    return e->tokenizer;
}

const struct model *engine_model(const struct engine *e)
{
    return e->model;
}

const char *engine_chat_template(const struct engine *e, size_t *len)
{
    *len = e->chat_template_len;
    return e->chat_template;
}

const struct model_shape *engine_shape(const struct engine *e)
{
    return e->shape;
}

int32_t engine_context(const struct engine *e)
{
    return e->context;
}

int64_t engine_weight_bytes(const struct engine *e)
{
    return e->weight_bytes;
}

/* Adds a file's name and bytes; one that is not there adds nothing. false: it cannot be read. */
static bool add_file(struct sha256 *sum, const char *folder, const char *name)
{
    char path[4096], bytes[16384];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return false;
    }
    FILE *f = fopen(path, "re");
    if (!f) {
        return errno == ENOENT;
    }
    sha256_update(sum, name, strlen(name) + 1);
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        sha256_update(sum, bytes, n);
    }
    bool ok = !ferror(f);
    (void)fclose(f); /* it was only read */
    return ok;
}

/* First eight hex digits of the SHA-256 of these files; "none" where one cannot be read. */
static void hash_files(const char *folder, const char *const *names, size_t n, char out[9])
{
    char hex[65];
    uint8_t digest[32];
    struct sha256 sum;
    bool ok = true;
    sha256_init(&sum);
    for (size_t i = 0; i < n; i++) {
        ok = add_file(&sum, folder, names[i]) && ok;
    }
    sha256_final(&sum, digest);
    sha256_hex(digest, hex);
    (void)snprintf(out, 9, "%.8s", ok ? hex : "none");
}

const char *engine_fingerprint(struct engine *e)
{
    /* all that decide about begin and end tokens and about messages, too */
    static const char *const configs[] = {"config.json", "generation_config.json",
                                          "tokenizer_config.json", "chat_template.jinja",
                                          "chat_template.json"};
    static const char *const tokenizers[] = {"tokenizer.json"};
    if (!e->fingerprint[0]) {
        char config[9], tokenizer[9];
        hash_files(folder_of(e), configs, sizeof configs / sizeof *configs, config);
        hash_files(folder_of(e), tokenizers, 1, tokenizer);
        char limit[24] = "";
        if (e->context < e->shape->context) {
            (void)snprintf(limit, sizeof limit, " context:%d", e->context);
        }
        (void)snprintf(e->fingerprint, sizeof e->fingerprint,
                       "isotherm-engine/%s exact%s%s weights:%.16s config:%s tokenizer:%s",
                       ENGINE_VERSION, e->kv_type == KERNELS_F16 ? " kv:f16" : "", limit,
                       model_hash(e->model), config, tokenizer);
    }
    return e->fingerprint;
}

/* ---- sessions */

static bool check_prompt(const struct engine *e, const struct session_request *r,
                         struct engine_error *err)
{
    if (r->n_prompt == 0) {
        return engine_fail(err, ENGINE_BAD_PARAM, "prompt",
                           "the prompt has no tokens: give at least one");
    }
    if (r->n_prompt >= (size_t)e->context) {
        return engine_fail(
            err, ENGINE_CONTEXT_FULL, "prompt",
            "prompt has %zu tokens, the context of the model is %d%s: at most %d leave "
            "room for a new one",
            r->n_prompt, e->context,
            e->context < e->shape->context ? " (for its 'kv_memory' is no greater)" : "",
            e->context - 1);
    }
    for (size_t i = 0; i < r->n_prompt; i++) {
        if (r->prompt[i] < 0 || r->prompt[i] >= e->shape->n_vocab) {
            return engine_fail(err, ENGINE_BAD_PARAM, "prompt",
                               "token id %d of the prompt is outside the vocabulary 0..%d",
                               r->prompt[i], e->shape->n_vocab - 1);
        }
    }
    return true;
}

/* What beam searches and distributions ask. */
static bool check_kind(const struct session_request *r, struct engine_error *err)
{
    assert(r->n_given <= r->n_prompt);
    if (r->n_beams && (r->n > r->n_beams || r->n_beams > BEAM_WIDTH_MAX)) {
        return engine_fail(err, ENGINE_BAD_PARAM, r->n > r->n_beams ? "n" : "num_beams",
                           "'num_beams' must be from 'n' to %d", BEAM_WIDTH_MAX);
    }
    if (r->n_beams && r->constraint.kind != CONSTRAIN_NOTHING) {
        return engine_fail(err, ENGINE_BAD_PARAM, "use_beam_search",
                           "a beam search takes no constraint: leave one of them out");
    }
    if (r->n_distribution > DISTRIBUTION_TOP_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "top", "'top' must be from 1 to %d",
                           DISTRIBUTION_TOP_MAX);
    }
    if (r->n_distribution && r->n_beams) {
        return engine_fail(err, ENGINE_BAD_PARAM, "use_beam_search",
                           "a beam search draws from no distribution: leave it out");
    }
    return true;
}

/* Whether the blocks that it may need are fewer than there are; those of others do not count. */
static bool check_room(const struct engine *e, const struct session_request *r,
                       struct engine_error *err)
{
    size_t n = session_n_blocks(r, e->context), n_max = kvpool_n_max(e->pool);
    return n <= n_max ||
           engine_fail(err, ENGINE_CONTEXT_FULL, "max_tokens",
                       "the choices may come to %zu tokens of keys and values, 'kv_memory' of the "
                       "model has room for %zu: ask for fewer choices, fewer beams or a lower "
                       "max_tokens, or raise it",
                       n * KVPOOL_TOKENS, n_max * KVPOOL_TOKENS);
}

static bool check_constraint(const struct engine *e, const struct session_request *r,
                             struct engine_error *err)
{
    struct constrain *c;
    if (r->constraint.kind == CONSTRAIN_NOTHING) {
        return true;
    }
    if (!constrain_cache_get(e->constraints, &r->constraint, &c, err)) {
        return false;
    }
    constrain_free(c); /* the cache has it until session_new() asks */
    return true;
}

bool session_check(const struct engine *e, const struct session_request *r,
                   struct engine_error *err)
{
    if (r->n < 1 || r->n > ENGINE_CHOICES_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "n", "'n' must be from 1 to %d",
                           ENGINE_CHOICES_MAX);
    }
    if (r->best_of < r->n || r->best_of > ENGINE_CHOICES_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "best_of", "'best_of' must be from 'n' to %d",
                           ENGINE_CHOICES_MAX);
    }
    if (!check_kind(r, err)) {
        return false;
    }
    if (r->max_tokens > 0 && r->sampling->min_tokens > r->max_tokens) {
        return engine_fail(err, ENGINE_BAD_PARAM, "min_tokens",
                           "'min_tokens' must not be above 'max_tokens'");
    }
    if (r->n_top_logprobs > (uint32_t)e->shape->n_vocab) {
        return engine_fail(err, ENGINE_BAD_PARAM, "top_logprobs",
                           "'top_logprobs' is above the vocabulary of %d tokens",
                           e->shape->n_vocab);
    }
    if (!check_prompt(e, r, err) || !sampler_config_check(r->sampling, e->shape->n_vocab, err) ||
        !check_room(e, r, err)) {
        return false;
    }
    struct stop *stop;
    if (!stop_new(&stop, r->stops, r->n_stops, err)) {
        return false;
    }
    stop_free(stop);
    return check_constraint(e, r, err);
}

bool session_start(struct engine *e, const struct session_request *r, session_event_fn *fn,
                   void *ud, struct session **out, struct engine_error *err)
{
    if (!session_check(e, r, err)) {
        return false;
    }
    if (e->n_sessions == e->n_sessions_max) {
        return engine_fail(err, ENGINE_BUSY, "",
                           "%zu sessions are running, no more are possible: try again later",
                           e->n_sessions);
    }
    const struct session_engine parts = {.model = e->model,
                                         .tokenizer = e->tokenizer,
                                         .constraints = e->constraints,
                                         .pool = e->pool,
                                         .kv_type = e->kv_type,
                                         .context = e->context};
    struct session *s;
    if (!session_new(&s, r, &parts, err)) {
        return false;
    }
    s->engine = e;
    s->fn = fn;
    s->ud = ud;
    e->sessions[e->n_sessions++] = s;
    *out = s;
    return true;
}

static void remove_session(struct engine *e, size_t i)
{
    e->n_sessions--;
    memmove(&e->sessions[i], &e->sessions[i + 1], (e->n_sessions - i) * sizeof(e->sessions[0]));
    if (e->turn > i) {
        e->turn--;
    }
}

void session_free(struct session *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->engine->n_sessions; i++) {
        if (s->engine->sessions[i] == s) {
            remove_session(s->engine, i);
            break;
        }
    }
    session_release(s);
}

bool session_is_done(const struct session *s)
{
    return s->is_done;
}

/* ---- a step */

static bool is_prefilling(const struct session *s)
{
    return s->n_evaluated < s->n_prompt;
}

static void add_row(struct engine *e, struct session *s, struct session_choice *c,
                    struct kvcache *cache, int32_t token, bool wants_logits)
{
    assert(e->n_rows < ROWS);
    float *logits = wants_logits ? e->logits + e->n_wanted++ * (size_t)e->shape->n_vocab : NULL;
    e->rows[e->n_rows] = (struct model_row){.cache = cache, .token = token, .logits = logits};
    e->owners[e->n_rows++] = (struct owner){s, c};
}

/* A row for each running choice of s; false when there is no room for the next one, which then is
 * the first next time. */
static bool add_choices(struct engine *e, struct session *s)
{
    uint32_t first = s->turn;
    for (uint32_t j = 0; j < s->n_choices; j++) {
        uint32_t i = (first + j) % s->n_choices;
        struct session_choice *c = &s->choices[i];
        if (c->is_done || c->is_idle) {
            continue;
        }
        if (e->n_rows == DECODE_ROWS) {
            s->turn = i;
            return false;
        }
        add_row(e, s, c, c->cache, c->last, true);
    }
    return true;
}

static void add_decode(struct engine *e)
{
    for (size_t k = 0; k < e->n_sessions; k++) {
        size_t i = (e->turn + k) % e->n_sessions;
        if (!is_prefilling(e->sessions[i]) && !add_choices(e, e->sessions[i])) {
            e->turn = i;
            return;
        }
    }
}

/* Whether a session before the i-th evaluates just now what this one needs next: then it is found
 * in the index soon. */
static bool is_coming(const struct engine *e, size_t i)
{
    const struct session *s = e->sessions[i];
    size_t n = s->n_evaluated + KVPOOL_TOKENS;
    if (s->n_evaluated % KVPOOL_TOKENS > 0 || n >= s->n_prompt) {
        return false;
    }
    for (size_t j = 0; j < i; j++) {
        const struct session *other = e->sessions[j];
        if (n <= other->n_prompt && is_prefilling(other) && other->n_evaluated >= s->n_evaluated &&
            other->n_evaluated < n &&
            memcmp(s->prompt, other->prompt, n * sizeof *s->prompt) == 0) {
            return true;
        }
    }
    return false;
}

/* Sessions that evaluate a part of their prompt now. */
static size_t find_prefilling(struct engine *e, bool *is_one)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n_sessions; i++) {
        is_one[i] = is_prefilling(e->sessions[i]);
        if (is_one[i]) {
            session_attach(e->sessions[i]);
            is_one[i] = !is_coming(e, i);
        }
        n += is_one[i];
    }
    return n;
}

static void add_prefill(struct engine *e)
{
    bool is_one[ENGINE_SESSIONS_MAX];
    size_t n_left = find_prefilling(e, is_one);
    size_t room = e->n_rows > 0 ? PREFILL_ROWS_BESIDE : PREFILL_ROWS;
    for (size_t i = 0; i < e->n_sessions; i++) {
        struct session *s = e->sessions[i];
        if (!is_one[i]) {
            continue;
        }
        size_t need = s->n_prompt - s->n_evaluated;
        size_t share = room > n_left ? room / n_left : (size_t)(room > 0);
        size_t n = need < share ? need : share;
        for (size_t j = s->n_evaluated; j < s->n_evaluated + n; j++) {
            add_row(e, s, NULL, s->choices[0].cache, s->prompt[j], j + 1 == s->n_prompt);
        }
        room -= n;
        n_left--;
    }
}

/* What is known of a prompt others may take over, before its own choices share it. */
static void publish_prompts(struct engine *e)
{
    for (size_t i = 0; i < e->n_sessions; i++) {
        if (is_prefilling(e->sessions[i])) {
            kvcache_publish(e->sessions[i]->choices[0].cache);
        }
    }
}

static void hand_out(struct engine *e)
{
    for (size_t i = 0; i < e->n_rows; i++) {
        struct session *s = e->owners[i].session;
        struct session_choice *c = e->owners[i].choice;
        const float *logits = e->rows[i].logits;
        if (!c) {
            s->n_evaluated++;
        }
        if (!logits || s->is_done) {
            continue;
        }
        if (c) {
            session_advance(s, c, logits);
        } else {
            session_begin(s, logits);
        }
    }
}

bool engine_rest(struct engine *e)
{
    kvpool_trim(e->pool, true);
    return kvpool_n_stored(e->pool) == 0;
}

bool engine_step(struct engine *e)
{
    struct engine_error err = {.code = ENGINE_OK};
    e->n_rows = 0;
    e->n_wanted = 0;
    add_decode(e);
    add_prefill(e);
    if (e->n_rows == 0) {
        return false;
    }
    if (model_forward(e->worker, e->rows, e->n_rows, &err)) {
        publish_prompts(e);
        hand_out(e);
    } else {
        for (size_t i = 0; i < e->n_rows; i++) {
            session_fail(e->owners[i].session, &err);
        }
    }
    for (size_t i = e->n_sessions; i-- > 0;) {
        if (e->sessions[i]->is_done) {
            remove_session(e, i);
        }
    }
    return true;
}
