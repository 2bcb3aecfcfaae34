/* compare.c - see compare.h.
 *
 * Read of theirs: of a model `provider`, `model`, `authType` ("subscription" is another product
 * than the API: not compared) and `params`; of a parameter `path`, `type`, `range.min`,
 * `range.max`, `range.step`, `values` and `default`. Conditions (`applicability`) are not read:
 * ours is what holds for a request that asks for nothing else.
 *
 * Only what both say is held against each other: a bound that one of the two leaves out is no
 * difference. Bounds are equal within rounding, and within theirs.step of a bound that ours
 * excludes (they write 0.01 where the provider takes what is above 0); words without regard to
 * case.
 */
#include "compare.h"
#include "claim_json.h"
#include "compare_names.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX      32    /* the package nests six deep */
#define MODELS_MAX     20000 /* it has 239 */
#define PARAMS_MAX     256   /* of a model; it has 20 */
#define VALUES_MAX     256
#define NAME_BYTES_MAX 160 /* longest id or path */

/* ---- names */

static const struct {
    const char *theirs, *ours, *their_start, *our_start;
} providers[] = {
#define X(theirs, ours, their_start, our_start) {theirs, ours, their_start, our_start},
    COMPARE_PROVIDERS(X)
#undef X
};

static const struct {
    const char *path, *param, *value;
} params[] = {
#define X(path, param, value) {path, param, value},
    COMPARE_PARAMS(X)
#undef X
};
#define N_PARAMS (sizeof params / sizeof params[0])

static const char *const result_names[] = {
    [COMPARE_AGREES] = "agrees",
    [COMPARE_DIFFERS] = "differs",
    [COMPARE_ONLY_THEIRS] = "only_theirs",
    [COMPARE_ONLY_OURS] = "only_ours",
    [COMPARE_NOT_COMPARED] = "not_compared",
};

const char *compare_result_name(enum compare_result r)
{
    return result_names[r];
}

struct compare {
    const struct snapshot *snapshot;
    const char *path, *day;
    compare_fn *fn;
    void *ud;
    struct catalog_error *err;
    bool is_over; /* the caller wants no more */
};

/* One model of theirs, and what ours says of it. */
struct subject {
    char name[2 * NAME_BYTES_MAX + 2]; /* "provider/model", theirs */
    char model[NAME_BYTES_MAX + 16];   /* ours */
    const char *provider;              /* ours, or NULL */
    struct rules rules;
    uint64_t listed; /* parameters that theirs lists */
};

static bool bad(const struct compare *c, size_t model, const char *what)
{
    return catalog_fail(c->err, CATALOG_BAD_SOURCE, "'%.150s': model %zu: %s", c->path, model,
                        what);
}

static void say(struct compare *c, const struct subject *s, struct comparison *found)
{
    found->model = s->name;
    found->provider = s->provider;
    c->is_over = c->is_over || !c->fn(found, c->ud);
}

/* ---- texts */

static void value_text(const json_t *v, char *out, size_t cap)
{
    if (json_is_number(v)) {
        (void)snprintf(out, cap, "%.10g", json_number_value(v));
        return;
    }
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    (void)snprintf(out, cap, "%s", text ? text : "?"); /* cut where it is long */
    free(text);
}

static void our_text(const struct claim *c, char out[96])
{
    char range[64];
    if (!c) {
        (void)snprintf(out, 96, "nothing");
        return;
    }
    claim_range_text(c, range, sizeof range);
    int n = snprintf(out, 96, "%s%s%s", claim_support_name(c->support), range[0] ? " " : "", range);
    if (n > 0 && n < 80 && c->fallback.type != VALUE_NONE) {
        json_t *v = value_json(c->fallback);
        char text[24];
        value_text(v, text, sizeof text);
        json_decref(v);
        (void)snprintf(out + n, 96 - (size_t)n, " default %s", text);
    }
}

static void their_text(const json_t *param, char out[96])
{
    const json_t *range = json_object_get(param, "range"),
                 *values = json_object_get(param, "values");
    const json_t *min = json_object_get(range, "min"), *max = json_object_get(range, "max");
    const json_t *fallback = json_object_get(param, "default");
    size_t n = (size_t)snprintf(out, 96, "yes");
    char text[32];
    if (json_is_number(min) || json_is_number(max)) {
        char lo[32] = "", hi[32] = "";
        if (json_is_number(min)) {
            (void)snprintf(lo, sizeof lo, "%.10g", json_number_value(min));
        }
        if (json_is_number(max)) {
            (void)snprintf(hi, sizeof hi, "%.10g", json_number_value(max));
        }
        n += (size_t)snprintf(out + n, 96 - n, " %s..%s", lo, hi);
    }
    for (size_t i = 0; i < json_array_size(values) && n < 96; i++) {
        value_text(json_array_get(values, i), text, sizeof text);
        n += (size_t)snprintf(out + n, 96 - n, "%s%s", i ? "|" : " ", text);
    }
    if (fallback && !json_is_null(fallback) && n < 96) {
        value_text(fallback, text, sizeof text);
        (void)snprintf(out + n, 96 - n, " default %s", text);
    }
}

/* ---- what both say */

static bool is_near(double a, double b, double tolerance)
{
    return fabs(a - b) <= fmax(tolerance, 1e-9 * fmax(1, fabs(a)));
}

static bool bounds_agree(const struct claim *c, const json_t *range)
{
    const json_t *min = json_object_get(range, "min"), *max = json_object_get(range, "max");
    const struct param_info *p = &sampling_table[c->param_id];
    double step = fmax(0, json_number_value(json_object_get(range, "step")));
    if (p->type != VALUE_INT && p->type != VALUE_NUMBER) {
        return true; /* bounds of a boolean are those of an older integer form */
    }
    step = p->type == VALUE_INT ? 1 : fmax(step, 1e-6);
    bool is_min_same = !c->has_min || !json_is_number(min) ||
                       is_near(c->min, json_number_value(min), c->min_exclusive ? step : 0);
    bool is_max_same = !c->has_max || !json_is_number(max) ||
                       is_near(c->max, json_number_value(max), c->max_exclusive ? step : 0);
    return is_min_same && is_max_same;
}

static bool scalars_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        return is_near(json_number_value(a), json_number_value(b), 0);
    }
    if (json_is_string(a) && json_is_string(b)) {
        return strcasecmp(json_string_value(a), json_string_value(b)) == 0;
    }
    return json_equal(a, b) == 1;
}

/* Whether each of `a` is one of `b`. */
static bool is_within(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        bool is_found = false;
        for (size_t j = 0; j < json_array_size(b) && !is_found; j++) {
            is_found = scalars_equal(json_array_get(a, i), json_array_get(b, j));
        }
        if (!is_found) {
            return false;
        }
    }
    return true;
}

static bool values_agree(const struct claim *c, const json_t *values)
{
    return !c->values || !json_is_array(values) ||
           (is_within(c->values, values) && is_within(values, c->values));
}

static bool defaults_agree(const struct claim *c, const json_t *fallback)
{
    if (c->fallback.type == VALUE_NONE || !fallback || json_is_null(fallback)) {
        return true;
    }
    json_t *ours = value_json(c->fallback);
    bool ok = ours && scalars_equal(ours, fallback);
    json_decref(ours);
    return ok;
}

/* What ours says for a request that asks for nothing else. */
static const struct claim *our_claim(const struct rules *r, enum param p)
{
    static const struct sampling nothing;
    const struct claim *c = rules_claim(r, p, &nothing);
    for (size_t i = 0; !c && i < r->n_conditional; i++) {
        c = r->conditional[i]->param_id == p ? r->conditional[i] : NULL;
    }
    return c;
}

/* `value`: their path means ours by listing that value, so the list itself is not compared. */
static void compare_param(struct compare *c, struct subject *s, enum param p, const json_t *theirs,
                          const char *value)
{
    const struct claim *ours = our_claim(&s->rules, p);
    struct comparison found = {.param = sampling_table[p].name, .claim = ours};
    s->listed |= PARAM_BIT(p);
    our_text(ours, found.ours);
    if (*value) {
        (void)snprintf(found.theirs, sizeof found.theirs, "yes");
    } else {
        their_text(theirs, found.theirs);
    }
    if (!ours || ours->support == CLAIM_ABSENT) {
        found.result = COMPARE_ONLY_THEIRS;
    } else if (ours->support != CLAIM_YES) {
        found.result = COMPARE_DIFFERS;
    } else {
        bool is_same = *value || (bounds_agree(ours, json_object_get(theirs, "range")) &&
                                  values_agree(ours, json_object_get(theirs, "values")) &&
                                  defaults_agree(ours, json_object_get(theirs, "default")));
        found.result = is_same ? COMPARE_AGREES : COMPARE_DIFFERS;
    }
    say(c, s, &found);
}

static bool lists(const json_t *param, const char *value)
{
    const json_t *values = json_object_get(param, "values");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *word = json_string_value(json_array_get(values, i));
        if (word && strcmp(word, value) == 0) {
            return true;
        }
    }
    return false;
}

static void compare_path(struct compare *c, struct subject *s, const json_t *param,
                         const char *path)
{
    bool is_known = false;
    for (size_t i = 0; i < N_PARAMS && !c->is_over; i++) {
        if (strcmp(params[i].path, path) != 0) {
            continue;
        }
        is_known = true;
        if (!*params[i].value || lists(param, params[i].value)) {
            compare_param(c, s, sampling_find(params[i].param), param, params[i].value);
        }
    }
    if (!is_known && !c->is_over) {
        struct comparison found = {.result = COMPARE_NOT_COMPARED, .param = path};
        our_text(NULL, found.ours);
        their_text(param, found.theirs);
        say(c, s, &found);
    }
}

static void say_only_ours(struct compare *c, struct subject *s)
{
    for (int p = 0; p < PARAM_COUNT && !c->is_over; p++) {
        const struct claim *ours = our_claim(&s->rules, (enum param)p);
        if (ours && ours->support == CLAIM_YES && !(s->listed & PARAM_BIT(p))) {
            struct comparison found = {
                .result = COMPARE_ONLY_OURS, .param = sampling_table[p].name, .claim = ours};
            our_text(ours, found.ours);
            (void)snprintf(found.theirs, sizeof found.theirs, "not listed");
            say(c, s, &found);
        }
    }
}

/* ---- models */

static bool has_claims(const struct rules *r)
{
    bool has_any = r->n_conditional > 0;
    for (int p = 0; p < PARAM_COUNT && !has_any; p++) {
        has_any = r->param[p] != NULL;
    }
    return has_any;
}

/* NULL, or why the model has no counterpart. */
static const char *find_counterpart(const struct compare *c, struct subject *s,
                                    const char *provider, const char *model)
{
    for (size_t i = 0; i < sizeof providers / sizeof providers[0] && !s->provider; i++) {
        size_t n = strlen(providers[i].their_start);
        if (strcmp(providers[i].theirs, provider) == 0 &&
            strncmp(model, providers[i].their_start, n) == 0) {
            s->provider = providers[i].ours;
            (void)snprintf(s->model, sizeof s->model, "%s%s", providers[i].our_start, model + n);
        }
    }
    if (!s->provider || !snapshot_provider(c->snapshot, s->provider)) {
        s->provider = NULL;
        return "no such provider";
    }
    bool is_known =
        snapshot_rules(c->snapshot, s->provider, s->model, CATALOG_CHAT, c->day, &s->rules, NULL) &&
        !s->rules.is_stand_in && has_claims(&s->rules);
    return is_known ? NULL : s->rules.retired_on ? "its claims have ended" : "no pattern takes it";
}

static const char *name_in(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s && *s && strlen(s) <= NAME_BYTES_MAX ? s : NULL;
}

static bool check_param(const struct compare *c, size_t number, const json_t *param)
{
    const json_t *values = json_object_get(param, "values");
    if (!name_in(param, "path")) {
        return bad(c, number, "each of 'params' must be an object with a 'path' of 1 to 160 bytes");
    }
    if (values && (!json_is_array(values) || json_array_size(values) > VALUES_MAX)) {
        return bad(c, number, "'values' must be a list of at most 256");
    }
    return true;
}

static bool compare_model(struct compare *c, size_t number, const json_t *model)
{
    const char *provider = name_in(model, "provider"), *id = name_in(model, "model");
    const json_t *list = json_object_get(model, "params");
    const char *auth = json_string_value(json_object_get(model, "authType"));
    struct subject s = {.provider = NULL};
    if (!provider || !id) {
        return bad(c, number, "'provider' and 'model' must be strings of 1 to 160 bytes");
    }
    if (!json_is_array(list) || json_array_size(list) > PARAMS_MAX) {
        return bad(c, number, "'params' must be a list of at most 256");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!check_param(c, number, json_array_get(list, i))) {
            return false;
        }
    }
    (void)snprintf(s.name, sizeof s.name, "%s/%s", provider, id);
    const char *why = find_counterpart(c, &s, provider, id);
    why = auth && strcmp(auth, "subscription") == 0 ? "a subscription, not the API" : why;
    if (why) {
        struct comparison found = {.result = COMPARE_NOT_COMPARED, .param = "*"};
        (void)snprintf(found.ours, sizeof found.ours, "%s", why);
        (void)snprintf(found.theirs, sizeof found.theirs, "%zu parameters", json_array_size(list));
        say(c, &s, &found);
        return true;
    }
    for (size_t i = 0; i < json_array_size(list) && !c->is_over; i++) {
        const json_t *param = json_array_get(list, i);
        compare_path(c, &s, param, name_in(param, "path"));
    }
    say_only_ours(c, &s);
    return true;
}

static bool compare_models(struct compare *c, const json_t *root)
{
    const json_t *models =
        json_is_array(json_object_get(root, "models")) ? json_object_get(root, "models")
        : json_is_array(json_object_get(root, "data")) ? json_object_get(root, "data")
                                                       : root;
    size_t n = json_is_array(models) ? json_array_size(models) : json_object_size(models);
    if (n == 0 || n > MODELS_MAX) {
        return catalog_fail(c->err, CATALOG_BAD_SOURCE,
                            "'%.150s' must hold a list of 1 to %d models", c->path, MODELS_MAX);
    }
    void *at = json_object_iter((json_t *)models); /* jansson's iterators lack const */
    for (size_t i = 0; i < n && !c->is_over; i++) {
        const json_t *model =
            json_is_array(models) ? json_array_get(models, i) : json_object_iter_value(at);
        if (!compare_model(c, i + 1, model)) {
            return false;
        }
        at = at ? json_object_iter_next((json_t *)models, at) : NULL;
    }
    return true;
}

/* ---- the file */

static bool read_file(const char *path, char **out, size_t *len, struct catalog_error *err)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    size_t n = 0, cap = 0, got = 1;
    while (f && got > 0 && n <= COMPARE_BYTES_MAX) {
        if (cap - n < 65536) {
            cap = cap ? cap * 2 : 1u << 17;
            char *more = realloc(data, cap);
            if (!more) {
                (void)fclose(f); /* only read */
                free(data);
                return catalog_fail(err, CATALOG_NOMEM, "out of memory");
            }
            data = more;
        }
        got = fread(data + n, 1, 65536 - 1, f);
        n += got;
    }
    if (!f || ferror(f)) {
        (void)catalog_fail(err, CATALOG_IO, "cannot read '%.150s': %s", path, strerror(errno));
    } else if (n > COMPARE_BYTES_MAX) {
        (void)catalog_fail(err, CATALOG_BAD_SOURCE, "'%.150s' is larger than %u MiB", path,
                           COMPARE_BYTES_MAX >> 20);
    }
    bool ok = f && !ferror(f) && n <= COMPARE_BYTES_MAX;
    if (f) {
        (void)fclose(f); /* only read */
    }
    if (!ok) {
        free(data);
        return false;
    }
    data[n] = '\0';
    *out = data;
    *len = n;
    return true;
}

/* The deepest nesting of brackets outside of strings; no check of anything else. */
static size_t depth_of(const char *text, size_t len)
{
    size_t depth = 0, deepest = 0;
    bool is_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (is_string) {
            i += c == '\\';
            is_string = c != '"';
        } else if (c == '"') {
            is_string = true;
        } else if (c == '[' || c == '{') {
            depth++;
            deepest = depth > deepest ? depth : deepest;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return deepest;
}

/* Where the literal of the next "export const NAME =" begins; NULL: there is no other. */
static const char *next_literal(const char *text)
{
    const char *at = text;
    while ((at = strstr(at, "export const "))) {
        at += strlen("export const ");
        const char *behind = at + strcspn(at, "=;\n");
        if (*behind == '=') {
            behind += 1 + strspn(behind + 1, " \t\r\n");
            if (*behind == '[' || *behind == '{') {
                return behind;
            }
        }
    }
    return NULL;
}

static json_t *parse(const struct compare *c, const char *text, size_t len)
{
    static const char bom[] = "\xef\xbb\xbf";
    const char *start = text + (strncmp(text, bom, 3) == 0 ? 3 : 0);
    json_error_t e = {.line = 0};
    start += strspn(start, " \t\r\n");
    bool is_json = *start == '[' || *start == '{';
    const char *literal = is_json ? start : next_literal(start);
    if (literal && depth_of(literal, len - (size_t)(literal - text)) > DEPTH_MAX) {
        (void)catalog_fail(c->err, CATALOG_BAD_SOURCE, "'%.150s' is nested deeper than %d", c->path,
                           DEPTH_MAX);
        return NULL;
    }
    /* As numbers of JavaScript: it writes 2^64 as 18446744073709552000, too large an integer here.
     */
    json_t *root =
        literal ? json_loadb(literal, len - (size_t)(literal - text),
                             JSON_DECODE_INT_AS_REAL | (is_json ? 0 : JSON_DISABLE_EOF_CHECK), &e)
                : NULL;
    if (!root && literal) {
        (void)catalog_fail(c->err, CATALOG_BAD_SOURCE,
                           "'%.100s': line %d of its list is no JSON: %.80s%s", c->path, e.line,
                           e.text, is_json ? "" : ": convert it, see --help");
    } else if (!root) {
        (void)catalog_fail(c->err, CATALOG_BAD_SOURCE,
                           "'%.150s' is neither JSON nor a module with a list in JSON: convert it, "
                           "see --help",
                           c->path);
    }
    return root;
}

bool catalog_compare(const struct snapshot *s, const char *path, const char *day, compare_fn *fn,
                     void *ud, struct catalog_error *err)
{
    struct compare c = {.snapshot = s, .path = path, .day = day, .fn = fn, .ud = ud, .err = err};
    char *text = NULL;
    size_t len = 0;
    if (!read_file(path, &text, &len, err)) {
        return false;
    }
    json_t *root = parse(&c, text, len);
    bool ok = root && compare_models(&c, root);
    json_decref(root);
    free(text);
    return ok;
}
