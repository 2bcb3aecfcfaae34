/* ctl_catalog_set.c - `isothermctl catalog set`: one override, from the options of the command
 * line.
 *
 * What is not given comes from the claim that holds today: for a model id from whatever pattern
 * decides for it, so that "one model differs in one thing" is one short line.
 */
#include "gateway/ctl/ctl_catalog_write.h"

#include "gateway/base/program.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: isothermctl catalog set PROVIDER MODELS PARAM [FIELDS] --source TEXT\n"
    "\n"
    "Overrides on this machine what the catalog says of one parameter; a daemon takes it up within "
    "a second.\nMODELS is a model id, * or a regular expression that begins with ^. What is not "
    "given comes from the\nclaim that holds today (for an expression: from the claim with the same "
    "one; where there is none,\n--support is needed); a note does not, values and a range take "
    "each "
    "other's place, and what is rejected\nor absent has no limits. Nothing else is touched, and "
    "shipped data that come later do not undo it: see\n'catalog upgrade', 'unset', 'rollback'. "
    "What "
    "nothing could fit is refused.\n"
    "\n"
    "  --source TEXT              who says so: a page, a ticket, an observation (required)\n"
    "  --support yes|rejected|ignored|absent\n"
    "  --min X, --max X           with --min-exclusive, --max-exclusive where it is not taken "
    "itself\n"
    "  --integer, --no-integer    fractions are refused, or not\n"
    "  --values a,b,c             what is taken; or a JSON list\n"
    "  --default JSON             the provider's own\n"
    "  --wire PATH                where it goes in the body, as generationConfig.topK\n"
    "  --items-max N, --len-max N longest list, longest string\n"
    "  --len-min N                shortest string\n"
    "  --conflicts a,b            parameters that may not travel with it\n"
    "  --needs a,b                parameters that it needs\n"
    "  --required, --no-required  a request without it is refused, or not\n"
    "  --when 'P=a,b'             only while the parameter P has one of these values; 'P!=a': "
    "another\n"
    "  --valid-from D, --valid-to D\n"
    "  --confidence high|medium|low, --note TEXT\n"
    "  --endpoint E               default: where the provider takes chats\n"
    "  --author N, --reason T     kept with the version\n"
    "  --db DB                    default: the machine's own\n"
    "  --dry-run                  shows what would change and writes nothing\n"
    "  --json                     what changed as JSON\n"
    "\n"
    "'none' as a value takes a field away.\n";

/* How a field's option is read. */
enum kind { TEXT, NUMBER, COUNT, WORDS, NAMES, JSON, CONDITION, YES, NO };
static const struct field {
    const char *option, *name;
    enum kind kind;
} fields[] = {
    {"support", "support", TEXT},
    {"min", "min", NUMBER},
    {"max", "max", NUMBER},
    {"min-exclusive", "min_exclusive", YES},
    {"max-exclusive", "max_exclusive", YES},
    {"integer", "integer", YES},
    {"no-integer", "integer", NO},
    {"values", "values", WORDS},
    {"default", "default", JSON},
    {"wire", "wire", TEXT},
    {"items-max", "items_max", COUNT},
    {"len-max", "len_max", COUNT},
    {"len-min", "len_min", COUNT},
    {"conflicts", "conflicts", NAMES},
    {"needs", "needs", NAMES},
    {"required", "required", YES},
    {"no-required", "required", NO},
    {"when", "when", CONDITION},
    {"valid-from", "valid_from", TEXT},
    {"valid-to", "valid_to", TEXT},
    {"source", "source", TEXT},
    {"confidence", "confidence", TEXT},
    {"note", "note", TEXT},
};
#define N_FIELDS (sizeof fields / sizeof fields[0])
#define N_OTHERS 8

struct options {
    const char *db, *author, *reason, *endpoint;
    bool is_json, is_dry;
    json_t *fields; /* owned */
    char **words;
    int n_words;
};

/* ---- values */

/* A number, true or false as that, anything else as a string. */
static json_t *scalar(const char *text, size_t len)
{
    json_t *j = json_loadb(text, len, JSON_DECODE_ANY, NULL);
    if (j && (json_is_number(j) || json_is_boolean(j))) {
        return j;
    }
    json_decref(j);
    return json_stringn(text, len);
}

static json_t *split(const char *text, bool are_scalars)
{
    json_t *list = json_array();
    for (const char *p = text; list;) {
        size_t n = strcspn(p, ",");
        json_t *item = n == 0 ? NULL : are_scalars ? scalar(p, n) : json_stringn(p, n);
        if (!item || json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
        if (!p[n]) {
            break;
        }
        p += n + 1;
    }
    return list;
}

/* "thinking=on,off" or "thinking!=on". */
static json_t *condition(const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        return NULL;
    }
    bool is_negated = equals[-1] == '!';
    size_t n = (size_t)(equals - text) - is_negated;
    json_t *values = n ? split(equals + 1, false) : NULL;
    return values ? json_pack("{s:s%, s:o}", "param", text, n, is_negated ? "not_in" : "in", values)
                  : NULL;
}

static json_t *number(const char *text)
{
    json_t *j = strpbrk(text, " \t\r\n") ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(j)) {
        return j;
    }
    json_decref(j);
    char *end;
    errno = 0;
    if (strspn(text, "+-.0123456789eE") != strlen(text)) {
        return NULL; /* strtod() takes blanks, hexadecimal and words too */
    }
    double x = strtod(text, &end); /* ".5", "1e9" */
    return end != text && !*end && isfinite(x) ? json_real(x) : NULL;
}

static json_t *count(const char *text)
{
    int64_t n;
    return ctl_catalog_number(text, &n) ? json_integer(n) : NULL;
}

static json_t *words(const char *text)
{
    if (text[0] != '[') {
        return split(text, true);
    }
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_array(j)) {
        return j;
    }
    json_decref(j);
    return NULL;
}

/* NULL: it is not of that kind. */
static json_t *read_value(enum kind kind, const char *text)
{
    if (kind == YES || kind == NO) {
        return json_boolean(kind == YES);
    }
    if (strcmp(text, "none") == 0) {
        return json_null();
    }
    switch (kind) {
    case NUMBER:
        return number(text);
    case COUNT:
        return count(text);
    case WORDS:
        return words(text);
    case NAMES:
        return split(text, false);
    case JSON:
        return json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    case CONDITION:
        return condition(text);
    default:
        return json_string(text);
    }
}

static const char *kind_words(enum kind kind)
{
    static const char *const names[] = {
        [TEXT] = "text in UTF-8",
        [NUMBER] = "a number, or none",
        [COUNT] = "a whole number from 1, or none",
        [WORDS] = "a,b,c or a JSON list, or none",
        [NAMES] = "names of parameters, a,b, or none",
        [JSON] = "JSON (a text in quotes: '\"low\"'), or none",
        [CONDITION] = "'parameter=value' or 'parameter!=value', or none",
    };
    return names[kind];
}

static bool take_field(struct options *o, const struct field *f, const char *text)
{
    char line[160];
    json_t *v = read_value(f->kind, text);
    if (!v) {
        (void)snprintf(line, sizeof line, "--%s takes %s", f->option, kind_words(f->kind));
        (void)ctl_catalog_usage("set", line);
        return false;
    }
    if (json_object_set_new(o->fields, f->name, v) != 0) {
        (void)fprintf(stderr, "isothermctl: out of memory\n");
        return false;
    }
    return true;
}

/* ---- options */

static void fill_table(struct option *longs)
{
    static const struct option others[N_OTHERS] = {
        {"db", required_argument, NULL, 'd'},     {"author", required_argument, NULL, 'a'},
        {"reason", required_argument, NULL, 'r'}, {"endpoint", required_argument, NULL, 'e'},
        {"json", no_argument, NULL, 'j'},         {"dry-run", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    for (size_t i = 0; i < N_FIELDS; i++) {
        bool has_value = fields[i].kind != YES && fields[i].kind != NO;
        longs[i] = (struct option){fields[i].option, has_value ? required_argument : no_argument,
                                   NULL, 256 + (int)i};
    }
    memcpy(longs + N_FIELDS, others, sizeof others);
}

static bool take_other(struct options *o, int c)
{
    switch (c) {
    case 'd':
        o->db = optarg;
        return true;
    case 'a':
        o->author = optarg;
        return true;
    case 'r':
        o->reason = optarg;
        return true;
    case 'e':
        o->endpoint = optarg;
        return true;
    case 'j':
        o->is_json = true;
        return true;
    case 'n':
        o->is_dry = true;
        return true;
    default:
        return false;
    }
}

/* A negative number after an option is its value: getopt takes it so. As for parse_options() of the
 * other verbs: 0 done, 1 help, -1 wrong, said. */
static int parse_options(struct options *o, int argc, char **argv)
{
    struct option longs[N_FIELDS + N_OTHERS];
    int c;
    fill_table(longs);
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        if (c == 'h') {
            return 1;
        }
        if (c >= 256) {
            if (!take_field(o, &fields[c - 256], optarg)) {
                return -1;
            }
        } else if (!take_other(o, c)) {
            (void)program_bad_option("isothermctl catalog set", c, argv);
            return -1;
        }
    }
    o->words = argv + optind;
    o->n_words = argc - optind;
    if (o->n_words != 3) {
        (void)ctl_catalog_usage("set", "it needs PROVIDER MODELS PARAM");
        return -1;
    }
    if (!*o->words[1]) {
        (void)ctl_catalog_usage("set", "MODELS is empty: * is every model");
        return -1;
    }
    if (!json_is_string(json_object_get(o->fields, "source"))) {
        (void)ctl_catalog_usage("set", "it needs --source: who says so");
        return -1;
    }
    return 0;
}

/* ---- the claim that holds today */

static int64_t holding(const struct snapshot *s, const struct options *o, const char *day)
{
    static const struct sampling nothing;
    struct rules *r = malloc(sizeof *r);
    struct catalog_error err = {0};
    const struct provider *p = snapshot_provider(s, o->words[0]);
    bool is_text =
        o->endpoint && p && p->text_endpoint && strcmp(o->endpoint, p->text_endpoint) == 0;
    enum param param = sampling_find(o->words[2]);
    const struct claim *c = NULL;
    if (r && snapshot_rules(s, o->words[0], o->words[1], is_text ? CATALOG_TEXT : CATALOG_CHAT, day,
                            r, &err)) {
        if (param != PARAM_COUNT) {
            c = r->param[param] ? r->param[param] : rules_claim(r, param, &nothing);
        }
        for (int b = 0; b < BEHAVIOUR_COUNT; b++) {
            if (strcmp(behaviour_name((enum behaviour)b), o->words[2]) == 0) {
                c = r->behaviour[b];
            }
        }
    }
    int64_t id = c && strcmp(c->param, o->words[2]) == 0 ? c->id : 0;
    free(r);
    return id;
}

/* A name that is misspelt is told before anything is read. */
static bool check_names(struct catalog *c, const struct options *o, struct catalog_error *err)
{
    bool is_ours = sampling_find(o->words[2]) != PARAM_COUNT;
    return catalog_check_names(c, 0, o->words[0], is_ours ? NULL : o->words[2], err);
}

/* 0: an expression, or nobody says anything. */
static bool find_like(const char *db, const struct options *o, const char *day, int64_t *like,
                      struct catalog_error *err)
{
    struct catalog *c;
    struct snapshot *s;
    const char *models = o->words[1];
    bool is_id = strcmp(models, "*") != 0 && models[0] != '^';
    *like = 0;
    if (!catalog_open_quick(&c, db, err)) {
        return false;
    }
    bool ok = check_names(c, o, err) && (!is_id || catalog_snapshot(c, 0, &s, err));
    if (ok && is_id) {
        *like = holding(s, o, day);
        snapshot_release(s);
    }
    catalog_close(c);
    return ok;
}

/* ---- the verb */

static bool set_in(const char *db, const struct options *o, const char *models,
                   struct write_stamp *s, struct catalog_version *v, struct catalog_error *err)
{
    struct version_override what = {.provider = o->words[0],
                                    .models = models,
                                    .endpoint = o->endpoint,
                                    .param = o->words[2],
                                    .fields = o->fields};
    char day[sizeof "2026-11-30"];
    (void)snprintf(day, sizeof day, "%.10s", s->created);
    if (json_object_set_new(o->fields, "as_of", json_string(day)) != 0) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    return find_like(db, o, day, &what.like, err) && catalog_set(db, &what, &s->stamp, v, err);
}

static bool newest(const char *db, int64_t *out, struct catalog_error *err)
{
    struct catalog *c;
    if (!catalog_open(&c, db, err)) {
        return false;
    }
    bool ok = catalog_newest(c, out, err);
    catalog_close(c);
    return ok;
}

static int run(const char *db, const struct options *o, const char *models)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    struct write_stamp s;
    int64_t before;
    write_stamp_init(&s, o->author, o->reason ? o->reason : "set by hand");
    if (!newest(db, &before, &err) || !set_in(db, o, models, &s, &v, &err)) {
        return ctl_catalog_failed(&err);
    }
    return write_report(db, before, &v, o->is_dry, o->is_json);
}

/* On a copy: what is shown is what would be done. */
static int try_on_copy(const char *db, const struct options *o, const char *models)
{
    struct catalog_error err = {0};
    struct write_stamp s;
    const char *temp = getenv("TMPDIR");
    char folder[CTL_PATH_MAX], copy[CTL_PATH_MAX + 16];
    int rc = 1;
    (void)snprintf(folder, sizeof folder, "%s/isotherm-XXXXXX", temp && *temp ? temp : "/tmp");
    if (!mkdtemp(folder)) {
        (void)fprintf(stderr, "isothermctl: folder '%s' cannot be made: %s: name one by TMPDIR\n",
                      folder, strerror(errno));
        return 1;
    }
    (void)snprintf(copy, sizeof copy, "%s/catalog.db", folder);
    write_stamp_init(&s, NULL, "");
    if (catalog_upgrade(copy, db, &s.stamp, NULL, NULL, &err)) {
        rc = run(copy, o, models);
    } else {
        (void)ctl_catalog_failed(&err);
    }
    (void)unlink(copy);
    (void)rmdir(folder);
    return rc;
}

int ctl_catalog_set(int argc, char **argv)
{
    struct options o = {.fields = json_object()};
    char path[CTL_PATH_MAX], models[WRITE_MODELS_MAX];
    int rc = o.fields ? parse_options(&o, argc, argv) : -1;
    if (rc > 0) {
        (void)fputs(help, stdout);
        rc = 0;
    } else if (rc < 0) {
        rc = 2;
    } else if (!write_models(o.words[1], models)) {
        rc = ctl_catalog_usage("set", "MODELS is too long");
    } else if (!ctl_catalog_path(o.db, !o.is_dry, path)) {
        rc = 1;
    } else {
        rc = o.is_dry ? try_on_copy(path, &o, models) : run(path, &o, models);
    }
    json_decref(o.fields);
    return rc;
}
