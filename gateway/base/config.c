/* config.c - how a configuration comes to be.
 *
 * The table below is the only place of defaults: it is printed as the commented example and that
 * text is parsed like any file, so the example cannot be wrong. Each file is read in two passes:
 * yaml_lines finds where each key is and refuses what YAML can do and a configuration must not;
 * libcyaml fills a fresh struct by the schema. Then each key that the file holds moves its value
 * over into the result. What was made from all files is checked once, at the end, with the last
 * file that set a key to blame.
 *
 * libcyaml tells why it refused only through its log: a first line with the reason and a backtrace
 * of fields, innermost first. It allocates with realloc and free (cyaml_mem), so its strings may be
 * replaced by ours.
 */
#include "config.h"

#include "config_calls.h"
#include "config_check.h"
#include "config_keys.h"
#include "paths.h"
#include "yaml_lines.h"
#include <assert.h>
#include <cyaml/cyaml.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX  4095
#define VALUE_BYTES_MAX 4095 /* any string; what is right for each is checked later */

/* ---- the keys: default, bounds of numbers, documentation. Same order as `fields`. */

struct key {
    const char *name, *value; /* value: YAML text */
    int64_t lowest, highest;  /* numbers; equal: no number */
    const char *doc;
    bool at_start; /* a reload cannot change it: the value's line says (restart) */
};
static const struct key keys[] = {
    {"listen", "\"127.0.0.1:4117\"", 0, 0,
     "Where clients connect: numeric address and port, IPv6 as \"[::1]:4117\"; \"\" for no TCP.\n"
     "There is no authentication by default: keep it on the loopback, or put a proxy in front.",
     true},
    {"socket", "null", 0, 0,
     "A unix socket to listen on as well, such as /run/isotherm/isotherm.sock; null for none.",
     true},
    {"threads", "0", 0, 64, "Event loops, 0 to 64; 0 is one a core, at most 4.", true},
    {"log_level", "info", 0, 0,
     "What is logged to standard error: error, warning, info or debug. Prompts, answers\n"
     "and keys never are.",
     false},
    {"catalog_path", "null", 0, 0,
     "The catalog of what providers accept. null: the machine's own, catalog.db in the folder "
     "that\n"
     "records.db has by default; it is made from the catalog.db beside the program after the first "
     "start,\n"
     "keeps what is set on this machine, and is upgraded when the program brings a newer one. A "
     "file that\n"
     "is named here is used as it is. One that cannot be used is refused with a line of the log, "
     "and the\n"
     "last good version, or the catalog beside the program, is used meanwhile.",
     true},
    {"catalog_pin", "0", 0, INT64_MAX,
     "The version of the catalog to plan with; 0 is the newest, taken up within a second of its "
     "making.\n"
     "A request may name another one.",
     false},
    {"catalog_learn", "suggest", 0, 0,
     "What answers of providers teach about the catalog: off keeps nothing; suggest keeps what "
     "confirms or\n"
     "contradicts a claim, for 'isothermctl catalog show' and 'check'; apply also sets a parameter "
     "that a\n"
     "model refused, and answered without, to rejected for that model, as a version of its own.",
     false},
    {"catalog_stale_days", "180", 1, 36500,
     "Days after which a claim counts as stale (isothermctl catalog check) and so does the catalog "
     "in\n"
     "GET /readyz, 1 to 36500.",
     false},
    {"records_path", "null", 0, 0,
     "The database of fingerprints, one record for each response. null: records.db in\n"
     "$STATE_DIRECTORY (set by systemd), else in $XDG_STATE_HOME/isotherm, else in "
     "$HOME/.local/state/isotherm,\n"
     "else in /var/lib/isotherm.",
     true},
    {"records_on_failure", "refuse", 0, 0,
     "When a record cannot be written (disk full): refuse answers 500 and asks nobody until it "
     "can, "
     "flag lets the\nanswer go out and counts it.",
     false},
    {"engine_program", "null", 0, 0,
     "The local engine; null for the isotherm-engine beside the program.", true},
    {"engine_threads", "0", 0, 256, "Threads of the local engine, 0 to 256; 0 is one a core.",
     true},
    {"memory_max", "0", 0, INT64_MAX,
     "Bytes that all loaded local models may take together: the files, and about 200 bytes a token "
     "of the\n"
     "vocabulary; caches of running requests come on top. 0 is no limit. A model is loaded when a "
     "request\n"
     "names it, the first one at once; where there is no room the least recently used one is "
     "unloaded.",
     true},
    {"engine_speculation", "lookup", 0, 0,
     "What the local engine does beside the next token: lookup guesses those after it from what "
     "prompt and\n"
     "answer have said before and evaluates them together, which is faster where text repeats; off "
     "does not.\n"
     "Answers are the same.",
     true},
    {"on_out_of_range", "clamp", 0, 0,
     "A value outside the provider's range: clamp sends the nearest allowed one, reject answers "
     "400,\n"
     "local lets the fallback answer. A request can say otherwise.",
     false},
    {"on_unsupported", "local", 0, 0,
     "A parameter the provider does not have: local lets the fallback answer, drop leaves it out,\n"
     "reject answers 400. Whatever is changed is reported with the answer.",
     false},
    {"on_many", "calls", 0, 0,
     "More choices (n) than the provider makes in one call: calls asks it several times, each call "
     "is\n"
     "billed; local treats n as any parameter that the provider does not have.",
     false},
    {"fallback", "local", 0, 0, "Who answers then: local, local/NAME or PROVIDER/MODEL.", false},
    {"body_bytes_max", "16777216", 1024, 268435456,
     "The largest request body, 1024 to 268435456 bytes; larger ones get 413.", true},
    {"in_flight_max", "1024", 1, 65536,
     "Requests at once, 1 to 65536; the next one gets 503 with retry-after.", true},
    {"connect_ms", "10000", 1, 600000, "Milliseconds to connect to a provider, 1 to 600000.",
     false},
    {"first_byte_ms", "600000", 1, 3600000,
     "Milliseconds until the first byte of its answer, 1 to 3600000. An answer that is not "
     "streamed\n"
     "usually comes whole, so this is about the time for all of it.",
     false},
    {"idle_ms", "300000", 1, 3600000,
     "Milliseconds without content within an answer, 1 to 3600000. A provider's pings and "
     "comments do\n"
     "not count: a model that thinks longer than this in silence is cut off.",
     false},
    {"keepalive_ms", "15000", 0, 3600000,
     "Milliseconds after which a silent stream sends a comment to its client, 0 to 3600000;\n"
     "0 for never.",
     true},
    {"providers", "[]", 0, 0,
     "Providers, called by PROVIDER/MODEL:\n"
     "  - name: openai              # the part before the slash\n"
     "    catalog: openai           # whose entries in the catalog hold; null for the name\n"
     "    base_url: null            # null for the catalog's; any OpenAI-compatible server "
     "otherwise\n"
     "    api_key: OPENAI_API_KEY   # NAME of an environment variable or credential, never the "
     "key\n"
     "    api_key_file: null        # instead: absolute path of a file that holds the key, read "
     "when "
     "a request\n"
     "                              # needs it; others must not be able to read or write it\n"
     "    ca_file: null             # absolute path of the only certificates to trust; null for "
     "the "
     "system's\n"
     "    region: null              # where requests are signed (AWS); null: the host says it\n"
     "    switches: null            # what no request says and entries depend on:\n"
     "                              # deployment=reasoning (azure), deterministic_inference=on "
     "(sglang)\n"
     "    models: [gpt-4o-mini]     # listed by GET /v1/models; others are passed on too",
     false},
    {"aliases", "[]", 0, 0,
     "Names of your own for models:\n"
     "  - name: fast\n"
     "    target: openai/gpt-4o-mini   # local, local/NAME or PROVIDER/MODEL\n"
     "  - name: steady\n"
     "    targets: [openai/gpt-4o-mini, anthropic/claude-haiku-4-5, local]   # 1 to 16: when one "
     "fails, the next\n"
     "                                 # is asked at once, as long as nothing went to the client",
     false},
    {"models", "[]", 0, 0,
     "Models of the local engine, called by local/NAME; the first is also `local`. Without any "
     "there is\n"
     "the small one that comes with the program:\n"
     "  - name: tales\n"
     "    path: /var/lib/isotherm/models/tales.gguf   # a folder or a .gguf file\n"
     "    chat_template: null   # how messages become text; null for what the model's files say. "
     "Else:\n"
     "                          # plain chatml qwen2.5 qwen3 llama2 llama3 llama3.1 mistral-v0.1 "
     "mistral-v0.2\n"
     "                          # mistral-v1 mistral-v3 mistral-v3-tekken mistral-v7 "
     "mistral-v7-tekken gemma\n"
     "                          # gemma3 phi3 phi3-v1 zephyr deepseek-v2 deepseek-v3 deepseek-r1\n"
     "    draft_model: null     # path of a smaller model with the same vocabulary: it guesses "
     "tokens "
     "that this one\n"
     "                          # then evaluates together, where engine_speculation is not off; "
     "answers are the same\n"
     "    kv_type: f32          # how keys and values are kept: f32, or f16 in half the memory "
     "(other "
     "answers)\n"
     "    kv_memory: null       # bytes for those of all requests, as in 4G; null for 128 "
     "contexts, "
     "but at most\n"
     "                          # a quarter of the machine's memory and at least one context. What "
     "is "
     "below one\n"
     "                          # context makes the context shorter; requests beyond it wait",
     true},
};
#define N_KEYS (sizeof keys / sizeof *keys)

/* ---- the schema */

#define OPTIONAL_STRING(s, m)                                                                      \
    CYAML_FIELD_STRING_PTR(#m, CYAML_FLAG_POINTER_NULL_STR | CYAML_FLAG_OPTIONAL, struct s, m, 0,  \
                           VALUE_BYTES_MAX)
#define STRING(s, m)                                                                               \
    CYAML_FIELD_STRING_PTR(#m, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct s, m, 0,           \
                           VALUE_BYTES_MAX)
#define NEEDED_STRING(s, m)                                                                        \
    CYAML_FIELD_STRING_PTR(#m, CYAML_FLAG_POINTER, struct s, m, 0, VALUE_BYTES_MAX)
#define NUMBER(m) CYAML_FIELD_UINT(#m, CYAML_FLAG_OPTIONAL, struct config, m)
/* What is missing or odd among these is config_calls.c's. */
#define CALLS_NUMBER(m) CYAML_FIELD_UINT(#m, CYAML_FLAG_OPTIONAL, struct config_provider, calls.m)
#define CALLS_SWITCH(m) CYAML_FIELD_BOOL(#m, CYAML_FLAG_OPTIONAL, struct config_provider, calls.m)
#define LIST(s, m, entry, max)                                                                     \
    CYAML_FIELD_SEQUENCE_COUNT(#m, CYAML_FLAG_POINTER_NULL_STR | CYAML_FLAG_OPTIONAL, struct s, m, \
                               n_##m, entry, 0, max)

static const cyaml_schema_value_t model_id_value = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 0, VALUE_BYTES_MAX)};
static const cyaml_schema_field_t provider_fields[] = {
    NEEDED_STRING(config_provider, name),
    OPTIONAL_STRING(config_provider, catalog),
    OPTIONAL_STRING(config_provider, base_url),
    OPTIONAL_STRING(config_provider, api_key),
    OPTIONAL_STRING(config_provider, api_key_file),
    OPTIONAL_STRING(config_provider, ca_file),
    OPTIONAL_STRING(config_provider, region),
    OPTIONAL_STRING(config_provider, switches),
    LIST(config_provider, models, &model_id_value, CONFIG_PROVIDER_MODELS_MAX),
    CALLS_NUMBER(retries),
    CALLS_NUMBER(retry_wait_max_ms),
    CALLS_SWITCH(retry_sent),
    CALLS_NUMBER(in_flight_max),
    CALLS_NUMBER(queue_ms),
    CALLS_NUMBER(breaker_failures),
    CALLS_NUMBER(breaker_ms),
    CALLS_SWITCH(http2),
    CALLS_SWITCH(allow_retired),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t provider_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_provider, provider_fields)};
static const cyaml_schema_field_t alias_fields[] = {
    NEEDED_STRING(config_alias, name),
    CYAML_FIELD_STRING_PTR("target", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct config_alias,
                           target, 0, VALUE_BYTES_MAX),
    LIST(config_alias, targets, &model_id_value, CONFIG_ALIAS_TARGETS_MAX),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t alias_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_alias, alias_fields)};
static const cyaml_schema_field_t model_fields[] = {NEEDED_STRING(config_model, name),
                                                    NEEDED_STRING(config_model, path),
                                                    OPTIONAL_STRING(config_model, chat_template),
                                                    OPTIONAL_STRING(config_model, draft_model),
                                                    OPTIONAL_STRING(config_model, kv_type),
                                                    OPTIONAL_STRING(config_model, kv_memory),
                                                    CYAML_FIELD_END};
static const cyaml_schema_value_t model_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_model, model_fields)};

static const cyaml_schema_field_t fields[] = {
    STRING(config, listen),
    OPTIONAL_STRING(config, socket),
    NUMBER(threads),
    STRING(config, log_level),
    OPTIONAL_STRING(config, catalog_path),
    CYAML_FIELD_INT("catalog_pin", CYAML_FLAG_OPTIONAL, struct config, catalog_pin),
    STRING(config, catalog_learn),
    NUMBER(catalog_stale_days),
    OPTIONAL_STRING(config, records_path),
    STRING(config, records_on_failure),
    OPTIONAL_STRING(config, engine_program),
    NUMBER(engine_threads),
    CYAML_FIELD_INT("memory_max", CYAML_FLAG_OPTIONAL, struct config, memory_max),
    STRING(config, engine_speculation),
    STRING(config, on_out_of_range),
    STRING(config, on_unsupported),
    STRING(config, on_many),
    STRING(config, fallback),
    NUMBER(body_bytes_max),
    NUMBER(in_flight_max),
    NUMBER(connect_ms),
    NUMBER(first_byte_ms),
    NUMBER(idle_ms),
    NUMBER(keepalive_ms),
    LIST(config, providers, &provider_value, CONFIG_PROVIDERS_MAX),
    LIST(config, aliases, &alias_value, CONFIG_ALIASES_MAX),
    LIST(config, models, &model_value, CONFIG_MODELS_MAX),
    CYAML_FIELD_END,
};
static_assert(sizeof fields / sizeof *fields == N_KEYS + 1,
              "one line in `keys` for each of `fields`");
static const cyaml_schema_value_t config_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct config, fields)};

/* ---- libcyaml's log -> one line */

struct refusal {
    char reason[256];
    char path[YAML_LINES_PATH];
    unsigned n_places; /* lines of the backtrace so far */
    bool
        is_too_many; /* the innermost place is the entry before the one too many: not of interest */
};

/* Puts `part` before the path: the backtrace goes outwards. */
static void path_prepend(struct refusal *r, const char *part)
{
    char old[YAML_LINES_PATH];
    memcpy(old, r->path, sizeof old);
    const char *dot = old[0] && old[0] != '[' ? "." : "";
    (void)snprintf(r->path, sizeof r->path, "%.60s%s%.130s", part, dot, old);
}

static void refusal_log(cyaml_log_t level, void *ctx, const char *fmt, va_list ap)
{
    (void)level;
    struct refusal *r = ctx;
    char line[sizeof r->reason], name[64];
    unsigned entry;
    (void)vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "Load: Backtrace", 15) == 0) {
        return;
    }
    if (strncmp(line, "Load: ", 6) == 0) {
        if (!r->reason[0]) {
            memcpy(r->reason, line + 6, strlen(line + 6) + 1);
            r->is_too_many = strncmp(r->reason, "Excessive", 9) == 0;
        }
        return;
    }
    bool is_entry = sscanf(line, "  in sequence entry '%u'", &entry) == 1;
    if (is_entry && !(r->is_too_many && r->n_places == 0)) {
        (void)snprintf(name, sizeof name, "[%u]", entry - 1); /* libcyaml counts from 1 */
        path_prepend(r, name);
    } else if (sscanf(line, "  in mapping field '%60[^']'", name) == 1) {
        path_prepend(r, name);
    }
    r->n_places++;
}

/* The schema of the mapping at a path; NULL: none there. */
static const cyaml_schema_field_t *fields_at(const char *path)
{
    const cyaml_schema_field_t *level = fields;
    while (*path) {
        size_t n = strcspn(path, ".[");
        while (level->key && (strlen(level->key) != n || strncmp(level->key, path, n) != 0)) {
            level++;
        }
        if (!level->key || level->value.type != CYAML_SEQUENCE ||
            level->value.sequence.entry->type != CYAML_MAPPING) {
            return NULL;
        }
        level = level->value.sequence.entry->mapping.fields;
        path += n;
        path += strcspn(path, ".");
        path += *path == '.';
    }
    return level;
}

static bool fail_unknown_key(const struct config_places *pl, const char *parent, const char *key,
                             struct config_error *err)
{
    char known[400] = "", path[YAML_LINES_PATH];
    for (const cyaml_schema_field_t *f = fields_at(parent); f && f->key; f++) {
        size_t n = strlen(known);
        (void)snprintf(known + n, sizeof known - n, "%s%s", n ? " " : "", f->key);
    }
    (void)snprintf(path, sizeof path, "%.120s%s%.60s", parent, *parent ? "." : "", key);
    return config_fail_at(pl, err, path, "unknown key, known here: %s", known);
}

static const char *kind_name(const char *cyaml_type)
{
    if (strncmp(cyaml_type, "SEQUENCE", 8) == 0) {
        return "a list";
    }
    if (strncmp(cyaml_type, "MAPPING", 7) == 0) {
        return "a mapping ('key: value' lines)";
    }
    return "one value";
}

/* Errors are told of a file that is not among the places yet: it is the only place here. */
static bool refusal_fail(const struct config_file *file, const struct refusal *r, cyaml_err_t code,
                         struct config_error *err)
{
    struct config_places *pl = calloc(1, sizeof *pl);
    if (!pl) {
        return config_fail(err, "out of memory");
    }
    pl->file[pl->n_files++] = *file;
    const char *why = r->reason, *p, *path = r->path;
    char parent[YAML_LINES_PATH];
    if (strncmp(why, "Unexpected key: ", 16) == 0) {
        (void)fail_unknown_key(pl, path, why + 16, err);
    } else if (strncmp(why, "Missing required mapping field: ", 32) == 0) {
        /* The innermost place is the last key of the mapping that lacks one. */
        const char *dot = strrchr(path, '.');
        (void)snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : (int)strlen(path),
                       path);
        (void)config_fail_at(pl, err, parent, "key '%s' is missing, add it", why + 32);
    } else if (strncmp(why, "Expecting ", 10) == 0 && (p = strstr(why, "got event: "))) {
        (void)config_fail_at(pl, err, path, "%s expected, this is %s", kind_name(why + 10),
                             kind_name(p + 11));
    } else if (r->is_too_many) {
        (void)config_fail_at(pl, err, path, "too many entries, at most %u expected",
                             (unsigned)strtoul(why + 19, NULL, 10));
    } else if (strncmp(why, "STRING length > ", 16) == 0) {
        (void)config_fail_at(pl, err, path, "too long, at most %d bytes expected", VALUE_BYTES_MAX);
    } else if (*path) {
        (void)config_fail_at(pl, err, path, "%s", cyaml_strerror(code));
    } else {
        (void)config_fail(err, "%.100s: %s", file->name, cyaml_strerror(code));
    }
    free(pl);
    return false;
}

static cyaml_config_t loader(struct refusal *r)
{
    return (cyaml_config_t){
        .log_fn = r ? refusal_log : NULL,
        .log_ctx = r,
        .mem_fn = cyaml_mem,
        .log_level = CYAML_LOG_ERROR,
        .flags = CYAML_CFG_NO_ALIAS,
    };
}

/* ---- numbers: libcyaml 1.3.1 reads 3.5 as 3, 10s as 10 and 010 as 8 */

static bool check_numbers(const struct config_file *f, struct config_error *err)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        const char *s = yaml_lines_scalar(f->lines, keys[i].name);
        if (keys[i].lowest == keys[i].highest || !s) {
            continue;
        }
        size_t n = strspn(s, "0123456789");
        bool is_number = n > 0 && n <= 19 && !s[n] && !(s[0] == '0' && n > 1);
        unsigned long long v = is_number ? strtoull(s, NULL, 10) : 0;
        if (!is_number || v < (unsigned long long)keys[i].lowest ||
            v > (unsigned long long)keys[i].highest) {
            return config_fail(err,
                               "%.100s:%u: %s: '%.40s' is not allowed, a whole number from %" PRId64
                               " to %" PRId64 " expected",
                               f->name, yaml_lines_find(f->lines, keys[i].name), keys[i].name, s,
                               keys[i].lowest, keys[i].highest);
        }
    }
    return true;
}

/* ---- one file into the result */

static void swap_bytes(char *a, char *b, size_t n)
{
    while (n--) {
        char t = *a;
        *a++ = *b;
        *b++ = t;
    }
}

/* Each key that the file holds moves over; what was there before goes with the file's struct. */
static void move_values(struct config *to, struct config *from, const struct yaml_lines *lines)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        const cyaml_schema_field_t *f = &fields[i];
        assert(strcmp(f->key, keys[i].name) == 0);
        if (!yaml_lines_has(lines, f->key)) {
            continue;
        }
        size_t size = f->value.flags & CYAML_FLAG_POINTER ? sizeof(void *) : f->value.data_size;
        swap_bytes((char *)to + f->data_offset, (char *)from + f->data_offset, size);
        if (f->value.type == CYAML_SEQUENCE) {
            swap_bytes((char *)to + f->count_offset, (char *)from + f->count_offset, f->count_size);
        }
    }
}

/* `place` is taken over into pl when the text holds a key. */
static bool apply_text(struct config *c, struct config_places *pl, const char *name,
                       const char *text, size_t len, struct config_error *err)
{
    struct yaml_lines_error at = {0};
    struct config_file file = {0};
    if (memchr(text, '\0', len)) { /* YAML would end there and call the rest good */
        return config_fail(err, "%.100s: holds NUL bytes, put back a copy of it", name);
    }
    if (!yaml_lines_parse(&file.lines, text, len, &at)) {
        return config_fail(err, "%.100s:%u: %s", name, at.line, at.text);
    }
    file.name = strdup(name);
    bool ok = file.name || config_fail(err, "out of memory");
    struct config *fresh = NULL;
    ok = ok && check_numbers(&file, err) && config_calls_check(&file, err);
    if (ok && yaml_lines_count(file.lines)) {
        struct refusal r = {0};
        cyaml_config_t k = loader(&r);
        cyaml_err_t code = cyaml_load_data((const uint8_t *)text, len, &k, &config_value,
                                           (cyaml_data_t **)&fresh, NULL);
        ok = code == CYAML_OK || refusal_fail(&file, &r, code, err);
    }
    if (!ok) {
        yaml_lines_free(file.lines);
        free(file.name);
        return false;
    }
    if (fresh) {
        config_calls_fill(fresh, file.lines);
        move_values(c, fresh, file.lines);
        config_free(fresh);
    }
    pl->file[pl->n_files++] = file;
    return true;
}

static bool apply_file(struct config *c, struct config_places *pl, const char *path,
                       struct config_error *err)
{
    size_t len;
    char *text = malloc(CONFIG_BYTES_MAX + 1);
    if (!text) {
        return config_fail(err, "out of memory");
    }
    const char *why = config_read_file(path, text, CONFIG_BYTES_MAX + 1, &len);
    bool ok = !why || config_fail(err, "%.200s: cannot be read: %s, name a YAML file", path, why);
    ok = ok && (len <= CONFIG_BYTES_MAX ||
                config_fail(err, "%.200s: is larger than %u bytes, name a configuration", path,
                            CONFIG_BYTES_MAX));
    ok = ok && apply_text(c, pl, path, text, len, err);
    free(text);
    return ok;
}

/* ---- conf.d */

static int is_dropin(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return d->d_name[0] != '.' && n > 5 && strcmp(d->d_name + n - 5, ".yaml") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name,
                  (*b)->d_name); /* not alphasort: the order must not hang on the locale */
}

static bool apply_dropins(struct config *c, struct config_places *pl, const char *path,
                          struct config_error *err)
{
    char dir[PATH_BYTES_MAX + 1], file[PATH_BYTES_MAX + 1];
    const char *slash = strrchr(path, '/');
    int n = snprintf(dir, sizeof dir, "%.*sconf.d", slash ? (int)(slash - path + 1) : 0, path);
    if (n < 0 || (size_t)n >= sizeof dir) {
        return config_fail(err, "%.200s: the path is too long", path);
    }
    struct dirent **list = NULL;
    int n_list = scandir(dir, &list, is_dropin, by_name);
    if (n_list < 0) {
        return errno == ENOENT ||
               config_fail(err, "%.200s: cannot be read: %s", dir, strerror(errno));
    }
    bool ok = n_list <= CONFIG_DROPINS_MAX ||
              config_fail(err, "%.200s: more than %d files, join some", dir, CONFIG_DROPINS_MAX);
    for (int i = 0; i < n_list; i++) {
        n = snprintf(file, sizeof file, "%s/%s", dir, list[i]->d_name);
        ok = ok && ((n > 0 && (size_t)n < sizeof file) ||
                    config_fail(err, "%.200s: the path is too long", dir));
        ok = ok && apply_file(c, pl, file, err);
        free(list[i]);
    }
    free(list);
    return ok;
}

/* ---- the whole */

bool config_write_default(struct buf *b)
{
    bool ok =
        buf_puts(b, "# isotherm.yaml - configuration of isothermd: every key with its default.\n"
                    "#\n"
                    "# A key that is left out has its default. Files in conf.d/*.yaml beside this "
                    "one are read after it,\n"
                    "# in the order of their names; a key in a later file replaces the earlier "
                    "one, lists as a whole.\n"
                    "# Check with `isothermd --config FILE --check-config`. SIGHUP reads it again: "
                    "what is bad changes nothing,\n"
                    "# and a key that says (restart) is taken at a start only. API keys are never "
                    "in here.\n");
    for (size_t i = 0; ok && i < N_KEYS; i++) {
        ok = buf_puts(b, "\n");
        for (const char *p = keys[i].doc; ok && *p;) {
            int n = (int)strcspn(p, "\n");
            ok = buf_printf(b, "# %.*s\n", n, p);
            p += n + (p[n] == '\n');
        }
        ok = ok && (strcmp(keys[i].name, "providers") != 0 || config_calls_document(b));
        ok = ok && buf_printf(b, "%s: %s%s\n", keys[i].name, keys[i].value,
                              keys[i].at_start ? " # (restart)" : "");
    }
    return ok;
}

static bool apply_defaults(struct config *c, struct config_places *pl, struct config_error *err)
{
    struct buf b;
    buf_init(&b, CONFIG_BYTES_MAX);
    bool ok = config_write_default(&b) || config_fail(err, "out of memory");
    ok = ok && apply_text(c, pl, "defaults", b.p, b.len, err);
    buf_release(&b);
    for (size_t i = 0; i < pl->n_files; i++) { /* nobody is sent to the line of a default */
        yaml_lines_free(pl->file[i].lines);
        free(pl->file[i].name);
    }
    pl->n_files = 0;
    return ok;
}

/* One target is a list of one. */
static bool list_target(struct config_alias *a)
{
    if (a->target) {
        a->targets = calloc(1, sizeof *a->targets);
        if (!a->targets || !(a->targets[0] = strdup(a->target))) {
            return false;
        }
        a->n_targets = 1;
    }
    return true;
}

/* What is easier to use than what was written. */
static bool normalise(struct config *c, struct config_error *err)
{
    for (unsigned i = 0; i < c->n_providers; i++) {
        struct config_provider *p = &c->providers[i];
        if (!p->catalog && !(p->catalog = strdup(p->name))) {
            return config_fail(err, "out of memory");
        }
        for (size_t n = p->base_url ? strlen(p->base_url) : 0; n && p->base_url[n - 1] == '/';
             n--) {
            p->base_url[n - 1] = '\0';
        }
    }
    for (unsigned i = 0; i < c->n_aliases; i++) {
        if (!list_target(&c->aliases[i])) {
            return config_fail(err, "out of memory");
        }
    }
    return true;
}

static void places_free(struct config_places *pl)
{
    for (size_t i = 0; pl && i < pl->n_files; i++) {
        yaml_lines_free(pl->file[i].lines);
        free(pl->file[i].name);
    }
    free(pl);
}

bool config_load(struct config **out, const char *path, struct config_error *err)
{
    struct config *c = calloc(1, sizeof *c);
    struct config_places *pl = calloc(1, sizeof *pl);
    if (err) {
        err->text[0] = '\0';
    }
    bool ok = (c && pl) || config_fail(err, "out of memory");
    ok = ok && apply_defaults(c, pl, err);
    ok = ok && (!path || (apply_file(c, pl, path, err) && apply_dropins(c, pl, path, err)));
    ok = ok && config_check(c, pl, err) && normalise(c, err);
    places_free(pl);
    if (!ok) {
        config_free(c);
        return false;
    }
    *out = c;
    return true;
}

const struct config *config_ref(const struct config *c)
{
    (void)atomic_fetch_add(&((struct config *)c)->n_refs, 1); /* the count is not its value */
    return c;
}

void config_free(const struct config *c)
{
    if (c && atomic_fetch_sub(&((struct config *)c)->n_refs, 1) == 0) {
        cyaml_config_t k = loader(NULL);
        (void)cyaml_free(&k, &config_value, (struct config *)c,
                         0); /* fails only for a wrong schema */
    }
}

/* ---- what a reload may change */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_models(const struct config *a, const struct config *b)
{
    bool same = a->n_models == b->n_models;
    for (unsigned i = 0; same && i < a->n_models; i++) {
        same = same_text(a->models[i].name, b->models[i].name) &&
               same_text(a->models[i].path, b->models[i].path) &&
               same_text(a->models[i].chat_template, b->models[i].chat_template) &&
               same_text(a->models[i].draft_model, b->models[i].draft_model) &&
               same_text(a->models[i].kv_type, b->models[i].kv_type) &&
               same_text(a->models[i].kv_memory, b->models[i].kv_memory);
    }
    return same;
}

const char *config_needs_restart(const struct config *from, const struct config *to)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        const char *a = (const char *)from + fields[i].data_offset,
                   *b = (const char *)to + fields[i].data_offset;
        bool same;
        if (fields[i].value.type == CYAML_STRING) {
            const char *s, *t;
            memcpy(&s, a, sizeof s);
            memcpy(&t, b, sizeof t);
            same = same_text(s, t);
        } else if (fields[i].value.type == CYAML_SEQUENCE) {
            same = same_models(from, to); /* of the lists, the one that is taken at a start */
        } else {
            same = memcmp(a, b, fields[i].value.data_size) == 0;
        }
        if (keys[i].at_start && !same) {
            return keys[i].name;
        }
    }
    return NULL;
}

/* ---- what the configuration names outside of itself */

bool config_records_path(const struct config *c, char *out, size_t cap)
{
    if (c && c->records_path) {
        int n = snprintf(out, cap, "%s", c->records_path);
        return n > 0 && (size_t)n < cap;
    }
    paths_state("records.db", out, cap);
    return strlen(out) + 1 < cap; /* filled to the brim: may have been cut */
}

bool config_catalog_path(const struct config *c, char *out, size_t cap)
{
    if (c && c->catalog_path) {
        int n = snprintf(out, cap, "%s", c->catalog_path);
        return n > 0 && (size_t)n < cap;
    }
    paths_state("catalog.db", out, cap);
    return strlen(out) + 1 < cap; /* filled to the brim: may have been cut */
}
