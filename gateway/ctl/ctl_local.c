/* ctl_local.c - one table of the options that are parameters. */
#include "gateway/ctl/ctl_local.h"

#include "gateway/base/buf.h"
#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include "gateway/base/paths.h"
#include "gateway/base/program.h"
#include "local-engine/chat.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PROMPT_BYTES_MAX (64u << 20)

enum option_kind {
    OPTION_NUMBER,
    OPTION_INT,
    OPTION_WORD,
    OPTION_FLAG,
    OPTION_TEXTS,
    OPTION_IDS,
    OPTION_BIAS,
    OPTION_SCHEMA, /* these three are members of structured_outputs */
    OPTION_REGEX,
    OPTION_CHOICE
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
    {"sampler-order", "sampler_order", OPTION_WORD},
    {"no-repeat-ngram-size", "no_repeat_ngram_size", OPTION_INT},
    {"logit-bias", "logit_bias", OPTION_BIAS},
    {"echo", "echo", OPTION_FLAG},
    {"logprobs", "logprobs", OPTION_FLAG},
    {"top-logprobs", "top_logprobs", OPTION_INT},
    {"logprobs-mode", "logprobs_mode", OPTION_WORD},
    {"json-schema", "structured_outputs", OPTION_SCHEMA},
    {"regex", "structured_outputs", OPTION_REGEX},
    {"choice", "structured_outputs", OPTION_CHOICE},
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
    [OPTION_SCHEMA] = "a file with a JSON schema",
    [OPTION_REGEX] = "a pattern in UTF-8",
    [OPTION_CHOICE] = "a text in UTF-8",
};

enum other_option {
    OTHER_MODEL = 1000,
    OTHER_PROMPT,
    OTHER_CHAT,
    OTHER_CHAT_TEMPLATE,
    OTHER_THREADS,
    OTHER_JSON,
    OTHER_HELP,
    OTHER_OWN /* and those that follow: the verb's */
};
enum { N_OTHERS = OTHER_OWN - OTHER_MODEL };

int ctl_local_usage_error(const struct ctl_local_options *o, const char *fmt, const char *what)
{
    (void)fprintf(stderr, "isothermctl %s: ", o->verb);
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

static bool read_text(FILE *f, struct buf *b, struct engine_error *err)
{
    char bytes[1 << 16];
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        if (!buf_append(b, bytes, n)) {
            return engine_fail(err, ENGINE_BAD_PARAM, "prompt", "the prompt is longer than %u MiB",
                               PROMPT_BYTES_MAX >> 20);
        }
    }
    return !ferror(f) ||
           engine_fail(err, ENGINE_IO, "prompt", "standard input: %s", strerror(errno));
}

/* NULL: there is no such file, or it is no JSON that a request could hold; '-' is standard input.
 */
static json_t *read_schema(const char *path)
{
    struct buf b;
    struct failure why = {.status = 0};
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    buf_init(&b, LIMIT_BODY_BYTES);
    json_t *schema = f && read_text(f, &b, NULL) && b.p ? jsonio_parse(b.p, b.len, &why) : NULL;
    if (f && f != stdin) {
        (void)fclose(f); /* it was only read */
    }
    buf_release(&b);
    return schema;
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
        return add_bias(params, name, text);
    case OPTION_SCHEMA:
        return json_object_set_new(collected(params, name, false), "json", read_schema(text)) == 0;
    case OPTION_REGEX:
        return json_object_set_new(collected(params, name, false), "regex", json_string(text)) == 0;
    case OPTION_CHOICE:
        break;
    }
    return json_array_append_new(collected(collected(params, name, false), "choice", true),
                                 json_string(text)) == 0;
}

static bool take_other(int c, struct ctl_local_options *o)
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

static void long_options(struct option *longs, const struct ctl_local_own *own, size_t n_own)
{
    static const struct option others[N_OTHERS] = {
        {"model", required_argument, NULL, OTHER_MODEL},
        {"prompt", required_argument, NULL, OTHER_PROMPT},
        {"chat", no_argument, NULL, OTHER_CHAT},
        {"chat-template", required_argument, NULL, OTHER_CHAT_TEMPLATE},
        {"threads", required_argument, NULL, OTHER_THREADS},
        {"json", no_argument, NULL, OTHER_JSON},
        {"help", no_argument, NULL, OTHER_HELP},
    };
    for (size_t i = 0; i < N_PARAMS; i++) {
        bool is_flag = params_table[i].kind == OPTION_FLAG;
        *longs++ = (struct option){params_table[i].option,
                                   is_flag ? no_argument : required_argument, NULL, (int)i + 1};
    }
    memcpy(longs, others, sizeof others);
    longs += N_OTHERS;
    for (size_t i = 0; i < n_own; i++) {
        *longs++ = (struct option){own[i].name, required_argument, NULL, OTHER_OWN + (int)i};
    }
    *longs = (struct option){NULL, 0, NULL, 0};
}

/* One option with its value; false: said, and the exit status is 2. */
static bool take_option(struct ctl_local_options *o, int c, const struct ctl_local_own *own,
                        void *ud)
{
    const char *name = "threads", *expected = "0 to 256";
    bool ok;
    if (c >= 1 && c <= (int)N_PARAMS) {
        name = params_table[c - 1].option;
        expected = value_names[params_table[c - 1].kind];
        ok = add_param(o->params, (size_t)c - 1, optarg);
    } else if (c >= OTHER_OWN) {
        name = own[c - OTHER_OWN].name;
        expected = own[c - OTHER_OWN].expected;
        ok = own[c - OTHER_OWN].take(optarg, ud);
    } else {
        ok = take_other(c, o);
    }
    if (!ok) {
        (void)fprintf(stderr, "isothermctl %s: '%s' is not a value of --%s: %s expected\n", o->verb,
                      optarg, name, expected);
    }
    return ok;
}

int ctl_local_parse(struct ctl_local_options *o, int argc, char **argv,
                    const struct ctl_local_own *own, size_t n_own, void *ud)
{
    struct option longs[N_PARAMS + N_OTHERS + CTL_LOCAL_OWN_MAX + 1];
    char program[64];
    int c;
    assert(n_own <= CTL_LOCAL_OWN_MAX);
    o->model = "local";
    o->params = json_object();
    if (!o->params) {
        return 1;
    }
    long_options(longs, own, n_own);
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:h", longs, NULL)) != -1) {
        if (c == OTHER_HELP || c == 'h') {
            (void)fputs(o->usage, stdout);
            return 0;
        }
        if (c == '?' || c == ':') {
            (void)snprintf(program, sizeof program, "isothermctl %s", o->verb);
            return program_bad_option(program, c, argv);
        }
        if (!take_option(o, c, own, ud)) {
            return 2;
        }
    }
    if (optind < argc) {
        return ctl_local_usage_error(o, "'%s' belongs to no option", argv[optind]);
    }
    return o->prompt ? -1 : ctl_local_usage_error(o, "%s is needed", "--prompt");
}

void ctl_local_options_release(struct ctl_local_options *o)
{
    json_decref(o->params);
    o->params = NULL;
}

/* ---- the model and the prompt */

bool ctl_local_find_model(const char *name, char *path, struct engine_error *err)
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

static bool encode_chat(struct ctl_local *l, const struct ctl_local_options *o, struct slice text,
                        struct engine_error *err)
{
    struct chat_message m = {.role = "user", .content = text.p, .content_len = text.len};
    struct chat *chat = NULL;
    size_t len;
    const char *template = engine_chat_template(l->engine, &len);
    bool ok = chat_open(&chat, engine_tokenizer(l->engine), o->chat_template, template, len, err) &&
              chat_render(chat, &m, 1, &l->prompt, &l->n_prompt, err);
    chat_close(chat);
    return ok;
}

static bool encode_text(struct ctl_local *l, struct slice text, struct engine_error *err)
{
    const struct tokenizer *t = engine_tokenizer(l->engine);
    int32_t *ids, bos = tokenizer_bos(t);
    size_t n;
    if (!tokenizer_encode(t, text.p, text.len, true, &ids, &n, err)) {
        return false;
    }
    bool has_bos = bos >= 0 && (tokenizer_adds_bos(t) || n == 0);
    l->prompt = malloc((n + 1) * sizeof *l->prompt);
    if (!l->prompt) {
        free(ids);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for %zu token ids", n);
    }
    l->prompt[0] = bos;
    if (n > 0) {
        memcpy(l->prompt + has_bos, ids, n * sizeof *ids);
    }
    l->n_prompt = n + has_bos;
    free(ids);
    return true;
}

static bool encode(struct ctl_local *l, const struct ctl_local_options *o, struct engine_error *err)
{
    struct buf in;
    buf_init(&in, PROMPT_BYTES_MAX);
    bool ok = true;
    struct slice text = slice_str(o->prompt);
    if (strcmp(o->prompt, "-") == 0) {
        ok = read_text(stdin, &in, err);
        text = in.len ? buf_slice(&in) : SLICE_LIT("");
    }
    ok = ok && (o->is_chat ? encode_chat(l, o, text, err) : encode_text(l, text, err));
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

bool ctl_local_open(struct ctl_local *l, const struct ctl_local_options *o,
                    struct engine_error *err)
{
    char path[PATH_MAX], draft[PATH_MAX];
    struct engine_options options = {.n_threads = o->n_threads,
                                     .speculation = o->speculation,
                                     .draft_path = o->draft ? draft : NULL};
    *l = (struct ctl_local){.engine = NULL};
    sampler_config_init(&l->params.sampling);
    return complete_params(o->params, err) && link_params_parse(o->params, &l->params, err) &&
           ctl_local_find_model(o->model, path, err) &&
           (!o->draft || ctl_local_find_model(o->draft, draft, err)) &&
           engine_open(&l->engine, path, &options, err) && encode(l, o, err);
}

bool ctl_local_append(struct ctl_local *l, const char *text, size_t *n, struct engine_error *err)
{
    int32_t *ids;
    if (!tokenizer_encode(engine_tokenizer(l->engine), text, strlen(text), true, &ids, n, err)) {
        return false;
    }
    int32_t *p = realloc(l->prompt, (l->n_prompt + *n + 1) * sizeof *p);
    if (!p) {
        free(ids);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for %zu token ids", *n);
    }
    if (*n > 0) {
        memcpy(p + l->n_prompt, ids, *n * sizeof *ids);
    }
    free(ids);
    l->prompt = p;
    l->n_prompt += *n;
    return true;
}

void ctl_local_close(struct ctl_local *l)
{
    link_params_release(&l->params);
    free(l->prompt);
    engine_close(l->engine);
    *l = (struct ctl_local){.engine = NULL};
}
