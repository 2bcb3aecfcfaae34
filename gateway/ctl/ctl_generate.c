/* ctl_generate.c - the options become the same `params` object that the daemon sends to the
 * engine, and link_params.c reads them: an option means exactly what the parameter of that name
 * means, and is refused with the same words.
 */
#include "gateway/ctl/ctl_generate.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/paths.h"
#include "gateway/base/program.h"
#include "local-engine/chat.h"
#include "local-engine/engine.h"
#include "local-engine/link_params.h"
#include "local-engine/utf8.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PROMPT_BYTES_MAX (64u << 20)
#define OUTPUT_BYTES_MAX (256u << 20)

static const char usage[] =
    "usage: isothermctl generate [-m MODEL] --prompt TEXT [options]\n"
    "Generates text with a local model. The same seed gives the same text on any machine.\n"
    "  -m, --model MODEL          a model's folder or .gguf file, or 'local': the one that came "
    "with "
    "the program (default)\n"
    "      --prompt TEXT          what to continue; '-' reads it from standard input\n"
    "      --chat                 the prompt is a user's message: the model's template goes around "
    "it\n"
    "      --chat-template NAME   another template than that of the model's files\n"
    "      --max-tokens N         default: to the end of the context\n"
    "      --temperature X        default 1; 0 takes the most likely token\n"
    "      --top-k N  --top-p X  --min-p X  --typical-p X\n"
    "      --seed N               a 64-bit integer; default, and -1: drawn and reported\n"
    "      --stop TEXT            ends the answer before TEXT; may be given several times\n"
    "      --stop-token-ids IDS   comma-separated ids that end the answer\n"
    "      --min-tokens N  --ignore-eos\n"
    "      --n N  --best-of N     several answers; the best by mean log-probability\n"
    "      --use-beam-search  --num-beams N  --length-penalty X   a search in place of sampling\n"
    "      --presence-penalty X  --frequency-penalty X  --repetition-penalty X\n"
    "      --penalty-scope WORD   generated (default) or all: what --repetition-penalty counts\n"
    "      --no-repeat-ngram-size N\n"
    "      --logit-bias ID=BIAS   -100 to 100; may be given several times\n"
    "      --logprobs  --top-logprobs N  --logprobs-mode WORD   with --json\n"
    "      --threads N            default: one a core, at most 8\n"
    "      --json                 one JSON object at the end in place of text\n"
    "      --help                 this text\n";

enum option_kind {
    OPTION_NUMBER,
    OPTION_INT,
    OPTION_WORD,
    OPTION_FLAG,
    OPTION_TEXTS,
    OPTION_IDS,
    OPTION_BIAS
};

/* Options that are parameters: the name with '-' for '_'. */
static const struct {
    const char *option, *param;
    enum option_kind kind;
} params_table[] = {
    {"max-tokens", "max_tokens", OPTION_INT},
    {"temperature", "temperature", OPTION_NUMBER},
    {"top-k", "top_k", OPTION_INT},
    {"top-p", "top_p", OPTION_NUMBER},
    {"min-p", "min_p", OPTION_NUMBER},
    {"typical-p", "typical_p", OPTION_NUMBER},
    {"seed", "seed", OPTION_INT},
    {"stop", "stop", OPTION_TEXTS},
    {"stop-token-ids", "stop_token_ids", OPTION_IDS},
    {"min-tokens", "min_tokens", OPTION_INT},
    {"ignore-eos", "ignore_eos", OPTION_FLAG},
    {"n", "n", OPTION_INT},
    {"best-of", "best_of", OPTION_INT},
    {"use-beam-search", "use_beam_search", OPTION_FLAG},
    {"num-beams", "num_beams", OPTION_INT},
    {"length-penalty", "length_penalty", OPTION_NUMBER},
    {"presence-penalty", "presence_penalty", OPTION_NUMBER},
    {"frequency-penalty", "frequency_penalty", OPTION_NUMBER},
    {"repetition-penalty", "repetition_penalty", OPTION_NUMBER},
    {"penalty-scope", "penalty_scope", OPTION_WORD},
    {"no-repeat-ngram-size", "no_repeat_ngram_size", OPTION_INT},
    {"logit-bias", "logit_bias", OPTION_BIAS},
    {"logprobs", "logprobs", OPTION_FLAG},
    {"top-logprobs", "top_logprobs", OPTION_INT},
    {"logprobs-mode", "logprobs_mode", OPTION_WORD},
};
enum { N_PARAMS = sizeof params_table / sizeof *params_table };

/* What is right, for an error text. */
static const char *const value_names[] = {
    [OPTION_NUMBER] = "a number such as 0.7",
    [OPTION_INT] = "a whole number",
    [OPTION_WORD] = "a word",
    [OPTION_FLAG] = "nothing",
    [OPTION_TEXTS] = "a text in UTF-8",
    [OPTION_IDS] = "token ids such as 5,17",
    [OPTION_BIAS] = "ID=BIAS such as 17=-5",
};

enum other_option {
    OTHER_MODEL = 1000,
    OTHER_PROMPT,
    OTHER_CHAT,
    OTHER_CHAT_TEMPLATE,
    OTHER_THREADS,
    OTHER_JSON,
    OTHER_HELP
};

struct options {
    const char *model, *prompt, *chat_template;
    bool is_chat, is_json;
    int n_threads;
    json_t *params;
};

/* One answer while it comes. */
struct answer {
    struct buf text;
    json_t *logprobs; /* or NULL */
    const char *finish;
    const char *stop; /* the stop string that was met */
    int64_t n_tokens;
};

struct run {
    const struct options *o;
    struct engine *engine;
    struct link_params params;
    int32_t *prompt;
    size_t n_prompt;
    struct answer answers[ENGINE_CHOICES_MAX];
    struct engine_error err;
    bool streams; /* prints text as it comes */
    double seconds;
};

static int usage_error(const char *fmt, const char *what)
{
    (void)fputs("isothermctl generate: ", stderr);
    (void)fprintf(stderr, fmt, what);
    (void)fputs("; --help shows the options\n", stderr);
    return 2;
}

/* ---- options */

static json_t *parse_number(const char *text)
{
    char *end;
    errno = 0;
    double d = strtod(text, &end);
    return end != text && !*end ? json_real(d) : NULL; /* jansson refuses nan and infinity */
}

static json_t *parse_int(const char *text)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    return end != text && !*end && !errno ? json_integer(n) : NULL;
}

/* "1,2,3" */
static json_t *parse_ids(const char *text)
{
    json_t *list = json_array();
    const char *p = text;
    for (;;) {
        char *end;
        errno = 0;
        long long n = strtoll(p, &end, 10);
        if (end == p || errno || (*end && *end != ',') ||
            json_array_append_new(list, json_integer(n)) != 0) {
            json_decref(list);
            return NULL;
        }
        if (!*end) {
            return list;
        }
        p = end + 1;
    }
}

/* The list or object of a repeatable option; borrowed. */
static json_t *collected(json_t *params, const char *name, bool is_list)
{
    if (!json_object_get(params, name)) {
        (void)json_object_set_new(params, name,
                                  is_list ? json_array() : json_object()); /* seen below */
    }
    return json_object_get(params, name);
}

static bool add_bias(json_t *params, const char *name, const char *text)
{
    const char *equals = strchr(text, '=');
    json_t *bias = equals ? parse_number(equals + 1) : NULL;
    char key[24];
    if (!bias || equals == text || (size_t)(equals - text) >= sizeof key) {
        json_decref(bias);
        return false;
    }
    (void)snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    return json_object_set_new(collected(params, name, false), key, bias) == 0;
}

/* false: the text is not what the parameter takes. */
static bool add_param(json_t *params, size_t i, const char *text)
{
    const char *name = params_table[i].param;
    switch (params_table[i].kind) {
    case OPTION_NUMBER:
        return json_object_set_new(params, name, parse_number(text)) == 0;
    case OPTION_INT:
        return json_object_set_new(params, name, parse_int(text)) == 0;
    case OPTION_WORD:
        return json_object_set_new(params, name, json_string(text)) == 0;
    case OPTION_FLAG:
        return json_object_set_new(params, name, json_true()) == 0;
    case OPTION_TEXTS:
        return json_array_append_new(collected(params, name, true), json_string(text)) == 0;
    case OPTION_IDS:
        return json_object_set_new(params, name, parse_ids(text)) == 0;
    case OPTION_BIAS:
        break;
    }
    return add_bias(params, name, text);
}

static bool take_other(int c, struct options *o)
{
    char *end;
    switch (c) {
    case 'm':
    case OTHER_MODEL:
        o->model = optarg;
        return true;
    case OTHER_PROMPT:
        o->prompt = optarg;
        return true;
    case OTHER_CHAT:
        o->is_chat = true;
        return true;
    case OTHER_CHAT_TEMPLATE:
        o->chat_template = optarg;
        o->is_chat = true;
        return true;
    case OTHER_JSON:
        o->is_json = true;
        return true;
    default:
        o->n_threads = (int)strtol(optarg, &end, 10);
        return end != optarg && !*end && o->n_threads >= 0 && o->n_threads <= 256;
    }
}

static void long_options(struct option *longs)
{
    static const struct option others[] = {
        {"model", required_argument, NULL, OTHER_MODEL},
        {"prompt", required_argument, NULL, OTHER_PROMPT},
        {"chat", no_argument, NULL, OTHER_CHAT},
        {"chat-template", required_argument, NULL, OTHER_CHAT_TEMPLATE},
        {"threads", required_argument, NULL, OTHER_THREADS},
        {"json", no_argument, NULL, OTHER_JSON},
        {"help", no_argument, NULL, OTHER_HELP},
        {NULL, 0, NULL, 0},
    };
    for (size_t i = 0; i < N_PARAMS; i++) {
        bool is_flag = params_table[i].kind == OPTION_FLAG;
        longs[i] = (struct option){params_table[i].option,
                                   is_flag ? no_argument : required_argument, NULL, (int)i + 1};
    }
    memcpy(longs + N_PARAMS, others, sizeof others);
}

/* -1: go on; otherwise the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    struct option longs[N_PARAMS + 9];
    int c;
    long_options(longs);
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:h", longs, NULL)) != -1) {
        if (c == OTHER_HELP || c == 'h') {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (c == '?' || c == ':') {
            return program_bad_option("isothermctl generate", c, argv);
        }
        bool is_param = c >= 1 && c <= (int)N_PARAMS;
        if (is_param ? !add_param(o->params, (size_t)c - 1, optarg) : !take_other(c, o)) {
            (void)fprintf(stderr,
                          "isothermctl generate: '%s' is not a value of --%s: %s expected\n",
                          optarg, is_param ? params_table[c - 1].option : "threads",
                          is_param ? value_names[params_table[c - 1].kind] : "0 to 256");
            return 2;
        }
    }
    if (optind < argc) {
        return usage_error("'%s' belongs to no option", argv[optind]);
    }
    if (!o->prompt) {
        return usage_error("%s is needed", "--prompt");
    }
    if (json_object_get(o->params, "logprobs") && !o->is_json) {
        return usage_error("%s needs --json", "--logprobs");
    }
    return -1;
}

/* ---- the model and the prompt */

bool ctl_generate_find_model(const char *name, char *path, struct engine_error *err)
{
    if (strcmp(name, "local") != 0) {
        (void)snprintf(path, PATH_MAX, "%s", name);
        return access(path, F_OK) == 0 ||
               engine_fail(err, ENGINE_IO, "model",
                           "'%s' cannot be read: give a model's folder or .gguf file, or 'local'",
                           name);
    }
    return (paths_find("default-model", path, PATH_MAX) && access(path, F_OK) == 0) ||
           engine_fail(err, ENGINE_BAD_FILE, "model",
                       "there is no '%s': give a model's folder or .gguf file with -m", path);
}

static bool read_stdin(struct buf *b, struct engine_error *err)
{
    char bytes[1 << 16];
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, stdin)) > 0) {
        if (!buf_append(b, bytes, n)) {
            return engine_fail(err, ENGINE_BAD_PARAM, "prompt", "the prompt is longer than %u MiB",
                               PROMPT_BYTES_MAX >> 20);
        }
    }
    return !ferror(stdin) ||
           engine_fail(err, ENGINE_IO, "prompt", "standard input: %s", strerror(errno));
}

static bool encode_chat(struct run *r, struct slice text)
{
    struct chat_message m = {.role = "user", .content = text.p, .content_len = text.len};
    struct chat *chat = NULL;
    size_t len;
    const char *template = engine_chat_template(r->engine, &len);
    bool ok = chat_open(&chat, engine_tokenizer(r->engine), r->o->chat_template, template, len,
                        &r->err) &&
              chat_render(chat, &m, 1, &r->prompt, &r->n_prompt, &r->err);
    chat_close(chat);
    return ok;
}

static bool encode_text(struct run *r, struct slice text)
{
    const struct tokenizer *t = engine_tokenizer(r->engine);
    int32_t *ids, bos = tokenizer_bos(t);
    size_t n;
    if (!tokenizer_encode(t, text.p, text.len, true, &ids, &n, &r->err)) {
        return false;
    }
    bool has_bos = bos >= 0 && (tokenizer_adds_bos(t) || n == 0);
    r->prompt = malloc((n + 1) * sizeof *r->prompt);
    if (!r->prompt) {
        free(ids);
        return engine_fail(&r->err, ENGINE_NOMEM, "", "out of memory for %zu token ids", n);
    }
    r->prompt[0] = bos;
    if (n > 0) {
        memcpy(r->prompt + has_bos, ids, n * sizeof *ids);
    }
    r->n_prompt = n + has_bos;
    free(ids);
    return true;
}

static bool encode(struct run *r)
{
    struct buf in;
    buf_init(&in, PROMPT_BYTES_MAX);
    bool ok = true;
    struct slice text = slice_str(r->o->prompt);
    if (strcmp(r->o->prompt, "-") == 0) {
        ok = read_stdin(&in, &r->err);
        text = in.len ? buf_slice(&in) : SLICE_LIT("");
    }
    ok = ok && (r->o->is_chat ? encode_chat(r, text) : encode_text(r, text));
    buf_release(&in);
    return ok;
}

/* Draws a seed where none was given. */
static bool complete_params(json_t *params, struct engine_error *err)
{
    const json_t *seed = json_object_get(params, "seed");
    uint64_t drawn;
    if (seed && json_integer_value(seed) != -1) {
        return true;
    }
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
        return engine_fail(err, ENGINE_IO, "seed", "no random seed: %s", strerror(errno));
    }
    return json_object_set_new(params, "seed", json_integer((json_int_t)(drawn >> 1))) == 0 ||
           engine_fail(err, ENGINE_NOMEM, "", "out of memory");
}

/* ---- events */

static json_t *lossy(const char *bytes, size_t n)
{
    struct utf8 u = {.n_waiting = 0};
    char *out = malloc(UTF8_OUT_MAX(n) + 4);
    if (!out) {
        return NULL;
    }
    size_t len = utf8_feed(&u, bytes, n, out);
    len += utf8_finish(&u, out + len);
    json_t *s = json_stringn_nocheck(out, len);
    free(out);
    return s;
}

static json_t *token_object(const struct run *r, int32_t id, bool is_first, double logprob)
{
    size_t n;
    const char *p = tokenizer_piece(engine_tokenizer(r->engine), id, is_first, &n);
    return json_pack("{s:i, s:o, s:f}", "id", (int)id, "token", lossy(p, n), "logprob", logprob);
}

static bool add_logprobs(struct run *r, struct answer *a, const struct session_event *ev)
{
    a->logprobs = a->logprobs ? a->logprobs : json_array();
    for (size_t i = 0; i < ev->n_tokens; i++) {
        const struct session_token *t = &ev->tokens[i];
        json_t *token = token_object(r, t->id, t->is_first, t->logprob), *top = json_array();
        for (size_t k = 0; k < (size_t)r->params.n_top_logprobs && t->top[k].id >= 0; k++) {
            (void)json_array_append_new(top, token_object(r, t->top[k].id, t->is_first,
                                                          t->top[k].logprob)); /* counted below */
        }
        if (json_object_set_new(token, "top", top) != 0 ||
            json_array_append_new(a->logprobs, token) != 0) {
            return false;
        }
    }
    return a->logprobs != NULL;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct run *r = ud;
    struct answer *a = &r->answers[ev->choice];
    if (ev->kind == SESSION_ERROR) {
        r->err = *ev->error;
    } else if (ev->kind == SESSION_FINISH) {
        a->finish = ev->finish;
        a->n_tokens = ev->n_generated;
        a->stop = ev->matched_stop >= 0 ? r->params.stops[ev->matched_stop] : NULL;
    } else if (r->streams) {
        if (ev->len > 0 &&
            (fwrite(ev->text, 1, ev->len, stdout) != ev->len || fflush(stdout) != 0)) {
            (void)engine_fail(&r->err, ENGINE_IO, "", "standard output: %s", strerror(errno));
        }
    } else if (!buf_append(&a->text, ev->text, ev->len) ||
               (r->params.logprobs && !add_logprobs(r, a, ev))) {
        (void)engine_fail(&r->err, ENGINE_NOMEM, "", "out of memory for an answer");
    }
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool compute(struct run *r)
{
    struct session_request request = link_params_request(&r->params, r->prompt, r->n_prompt);
    struct session *s;
    double start = now_s();
    if (!session_start(r->engine, &request, on_event, r, &s, &r->err)) {
        return false;
    }
    while (r->err.code == ENGINE_OK && !session_is_done(s)) {
        (void)engine_step(r->engine);
    }
    session_free(s);
    r->seconds = now_s() - start;
    return r->err.code == ENGINE_OK;
}

/* ---- output */

static int64_t count_tokens(const struct run *r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->params.n; i++) {
        n += r->answers[i].n_tokens;
    }
    return n;
}

static json_t *answer_object(struct answer *a)
{
    json_t *o = json_pack("{s:o, s:s, s:s?, s:I}", "text",
                          json_stringn(a->text.p ? a->text.p : "", a->text.len), "finish",
                          a->finish, "stop", a->stop, "tokens", (json_int_t)a->n_tokens);
    if (o && a->logprobs && json_object_set(o, "logprobs", a->logprobs) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static bool print_json(struct run *r)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < r->params.n; i++) {
        if (json_array_append_new(list, answer_object(&r->answers[i])) != 0) {
            json_decref(list);
            return engine_fail(&r->err, ENGINE_NOMEM, "", "out of memory for the answer");
        }
    }
    int64_t n = count_tokens(r);
    json_t *o = json_pack("{s:o, s:I, s:{s:I, s:I, s:I}, s:s}", "choices", list, "seed",
                          (json_int_t)r->params.seed, "usage", "prompt_tokens",
                          (json_int_t)r->n_prompt, "completion_tokens", (json_int_t)n,
                          "total_tokens", (json_int_t)((int64_t)r->n_prompt + n), "fingerprint",
                          engine_fingerprint(r->engine));
    struct buf out;
    buf_init(&out, OUTPUT_BYTES_MAX);
    bool ok = o && jsonio_write(&out, o) && buf_puts(&out, "\n") &&
              fwrite(out.p, 1, out.len, stdout) == out.len;
    buf_release(&out);
    json_decref(o);
    return ok ||
           engine_fail(&r->err, ENGINE_IO, "", "the answer cannot be written: %s", strerror(errno));
}

static void print_texts(const struct run *r)
{
    for (int64_t i = 0; !r->streams && i < r->params.n; i++) {
        (void)printf("--- %lld (%s)\n", (long long)i, r->answers[i].finish);
        (void)fwrite(r->answers[i].text.p ? r->answers[i].text.p : "", 1, r->answers[i].text.len,
                     stdout);
        (void)putchar('\n');
    }
    if (r->streams) {
        (void)putchar('\n');
    }
}

static bool print(struct run *r)
{
    int64_t n = count_tokens(r);
    if (r->o->is_json) {
        return print_json(r) &&
               (fflush(stdout) == 0 ||
                engine_fail(&r->err, ENGINE_IO, "", "standard output: %s", strerror(errno)));
    }
    print_texts(r);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return engine_fail(&r->err, ENGINE_IO, "", "standard output: %s", strerror(errno));
    }
    (void)fprintf(stderr, "seed %lld, %zu + %lld tokens, %s, %.1f tokens/s\n",
                  (long long)r->params.seed, r->n_prompt, (long long)n, r->answers[0].finish,
                  r->seconds > 0 ? (double)n / r->seconds : 0.0);
    return true;
}

/* ---- */

static bool generate(struct run *r)
{
    char folder[PATH_MAX];
    struct engine_options options = {.n_threads = r->o->n_threads, .n_sessions_max = 1};
    if (!complete_params(r->o->params, &r->err) ||
        !link_params_parse(r->o->params, &r->params, &r->err) ||
        !ctl_generate_find_model(r->o->model, folder, &r->err) ||
        !engine_open(&r->engine, folder, &options, &r->err) || !encode(r)) {
        return false;
    }
    r->streams = !r->o->is_json && r->params.n == 1;
    return compute(r) && print(r);
}

static void release(struct run *r)
{
    for (size_t i = 0; i < ENGINE_CHOICES_MAX; i++) {
        buf_release(&r->answers[i].text);
        json_decref(r->answers[i].logprobs);
    }
    link_params_release(&r->params);
    free(r->prompt);
    engine_close(r->engine);
}

int ctl_generate(int argc, char **argv)
{
    static struct run r; /* large */
    struct options o = {.model = "local", .params = json_object()};
    int status = o.params ? parse_options(argc, argv, &o) : 1;
    if (status < 0) {
        memset(&r, 0, sizeof r);
        r.o = &o;
        sampler_config_init(&r.params.sampling);
        for (size_t i = 0; i < ENGINE_CHOICES_MAX; i++) {
            buf_init(&r.answers[i].text, OUTPUT_BYTES_MAX);
        }
        status = generate(&r) ? 0 : r.err.code == ENGINE_BAD_PARAM ? 2 : 1;
        if (status) {
            (void)fprintf(stderr, "isothermctl generate: %s\n", r.err.text);
        }
        release(&r);
    }
    json_decref(o.params);
    return status;
}
