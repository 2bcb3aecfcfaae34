/* source_check.c - what a provider and a claim must be. A wrong row is found here, when it is
 * written, not when a request meets it.
 *
 * Types come from the table of columns (db.h); the checks below are of meaning: ranges that cannot
 * be, dates, expressions that do not compile, parameters that are misspelt.
 */
#include "source.h"

#include <math.h>
#include <regex.h>
#include <string.h>

/* Claims about what is no sampling parameter: behaviours (catalog.h) and texts kept for people. A
 * name that is neither of these nor a parameter is taken for a slip. */
static const char *const text_params[] = {
    "context_overflow",
    "do_sample",
    "grammar",
    "mirostat",
    "reasoning_output",
    "regex_grammar",
    "thinking_budget",
    "thinking_token_budget",
    "tool_choice_required",
    "top_a",
    "top_n_sigma",
    "xtc",
    "dry",
    "penalty_window",
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_one_of(const char *s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(s, words[i]) == 0) {
            return true;
        }
    }
    return false;
}
#define IS_ONE_OF(s, ...)                                                                          \
    is_one_of(s, (const char *const[]){__VA_ARGS__},                                               \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static bool is_known_param(const char *name)
{
    for (int b = 0; b < BEHAVIOUR_COUNT; b++) {
        if (strcmp(name, behaviour_name((enum behaviour)b)) == 0) {
            return true;
        }
    }
    return sampling_find(name) != PARAM_COUNT ||
           is_one_of(name, text_params, sizeof text_params / sizeof text_params[0]);
}

/* YYYY, YYYY-MM or YYYY-MM-DD: sources often say no more than the month. They compare as text. */
static bool is_date(const char *s)
{
    static const char form[] = "0000-00-00";
    size_t n = strlen(s);
    if (n != 4 && n != 7 && n != 10) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i]) {
            return false;
        }
    }
    static const char *const last_day[] = {"31", "29", "31", "30", "31", "30",
                                           "31", "31", "30", "31", "30", "31"};
    int month = n < 7 ? 1 : (s[5] - '0') * 10 + (s[6] - '0');
    return month >= 1 && month <= 12 &&
           (n < 10 || (memcmp(s + 8, "01", 2) >= 0 && memcmp(s + 8, last_day[month - 1], 2) <= 0));
}

static bool check_text(const struct source_place *at, const char *field, const json_t *v)
{
    if (!json_is_string(v) || json_string_length(v) == 0) {
        return source_bad(at, field, "must be a string that is not empty");
    }
    if (json_string_length(v) > SOURCE_TEXT_MAX) {
        return source_bad(at, field, "is longer than %d bytes", SOURCE_TEXT_MAX);
    }
    return true;
}

/* ---- providers */

static bool check_pairs(const struct source_place *at, const char *field, const json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object) || json_object_size(object) > SOURCE_LIST_MAX) {
        return source_bad(at, field, "must be an object of at most %d strings", SOURCE_LIST_MAX);
    }
    json_object_foreach ((json_t *)object, key, value) /* jansson's iterators lack const */
    {
        if (!check_text(at, field, value)) {
            return false;
        }
        if (strpbrk(json_string_value(value), "\r\n") || strpbrk(key, "\r\n: ")) {
            return source_bad(at, field, "must hold header names and values");
        }
    }
    return true;
}

static bool check_auth(const struct source_place *at, const json_t *provider)
{
    const char *auth = text_of(provider, "auth");
    const char *header = text_of(provider, "auth_header");
    if (!auth || !IS_ONE_OF(auth, "none", "bearer", "header")) {
        return source_bad(at, "auth", "must be none, bearer or header");
    }
    if ((strcmp(auth, "header") == 0) != (header != NULL)) {
        return source_bad(at, "auth_header", "goes with \"auth\": \"header\", always");
    }
    return true;
}

bool source_check_provider(const struct source_place *at, const json_t *provider)
{
    static const char *const needed[] = {"id", "title", "dialect", "auth"};
    const char *key;
    json_t *value;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!json_object_get(provider, needed[i])) {
            return source_bad(at, needed[i], "is missing");
        }
    }
    json_object_foreach ((json_t *)provider, key, value) {
        bool ok;
        if (strcmp(key, "headers") == 0) {
            ok = check_pairs(at, key, value);
        } else if (strcmp(key, "is_local") == 0) {
            ok = json_is_true(value) || source_bad(at, key, "must be true or false");
        } else if (IS_ONE_OF(key, "id", "title", "dialect", "base_url", "chat_path", "text_path",
                             "chat_endpoint", "text_endpoint", "auth", "auth_header", "key_env",
                             "stand_in", "request_id_header")) {
            ok = check_text(at, key, value);
        } else {
            ok = source_bad(at, key, "is not a field of a provider");
        }
        if (!ok) {
            return false;
        }
    }
    const char *id = text_of(provider, "id");
    if (strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(id) || strlen(id) > 63) {
        return source_bad(at, "id", "must be of a-z, 0-9 and -, at most 63");
    }
    return check_auth(at, provider);
}

/* ---- claims */

static bool check_list(const struct source_place *at, const char *field, const json_t *v)
{
    if (!json_is_array(v) || json_array_size(v) > SOURCE_LIST_MAX) {
        return source_bad(at, field, "must be a list of at most %d", SOURCE_LIST_MAX);
    }
    return true;
}

static bool check_column(const struct source_place *at, const char *field, const char *kind,
                         const json_t *v)
{
    if (strcmp(kind, "TEXT") == 0) {
        return check_text(at, field, v);
    }
    if (strcmp(kind, "BOOL") == 0) {
        return json_is_boolean(v) || source_bad(at, field, "must be true or false");
    }
    if (strcmp(kind, "NUMBER") == 0) {
        return json_is_number(v) || source_bad(at, field, "must be a number");
    }
    if (strcmp(kind, "COUNT") == 0) {
        return (json_is_integer(v) && json_integer_value(v) > 0 &&
                json_integer_value(v) <= INT32_MAX) ||
               source_bad(at, field, "must be an integer above 0");
    }
    if (strcmp(kind, "LIST") == 0) {
        return check_list(at, field, v);
    }
    if (strcmp(kind, "OBJECT") == 0) {
        return json_is_object(v) || source_bad(at, field, "must be an object");
    }
    return !json_is_array(v) && !json_is_object(v) /* ANY: the default */
               ? true
               : source_bad(at, field, "must be a plain value");
}

static bool check_columns(const struct source_place *at, const json_t *claim)
{
    static const struct {
        const char *name, *kind;
    } columns[] = {
#define X(name, kind) {#name, #kind},
        CLAIM_COLUMNS(X)
#undef X
    };
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)claim, key, value) {
        size_t i = 0;
        while (i < COLUMN_COUNT && strcmp(columns[i].name, key) != 0) {
            i++;
        }
        if (i == COLUMN_COUNT) {
            return source_bad(at, key, "is not a field of a claim");
        }
        if (!check_column(at, key, columns[i].kind, value)) {
            return false;
        }
    }
    return true;
}

static bool check_needed(const struct source_place *at, const json_t *claim)
{
    static const char *const needed[] = {"models", "endpoint", "param",     "support",
                                         "source", "as_of",    "confidence"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!json_object_get(claim, needed[i])) {
            return source_bad(at, needed[i], "is missing");
        }
    }
    return true;
}

static bool check_words(const struct source_place *at, const json_t *claim)
{
    const char *variant = text_of(claim, "variant");
    if (!is_known_param(text_of(claim, "param"))) {
        return source_bad(at, "param", "is neither a parameter nor a behaviour that is known");
    }
    if (!IS_ONE_OF(text_of(claim, "support"), "yes", "rejected", "ignored", "absent")) {
        return source_bad(at, "support", "must be yes, rejected, ignored or absent");
    }
    if (!IS_ONE_OF(text_of(claim, "confidence"), "high", "medium", "low")) {
        return source_bad(at, "confidence", "must be high, medium or low");
    }
    if (variant && !IS_ONE_OF(variant, "current", "conditional", "history", "disputed")) {
        return source_bad(at, "variant", "must be current, conditional, history or disputed");
    }
    return true;
}

static bool check_dates(const struct source_place *at, const json_t *claim)
{
    static const char *const dates[] = {"as_of", "valid_from", "valid_to"};
    for (size_t i = 0; i < sizeof dates / sizeof dates[0]; i++) {
        const char *date = text_of(claim, dates[i]);
        if (date && !is_date(date)) {
            return source_bad(at, dates[i], "must be a date, 2026-11-30 or 2026-11 or 2026");
        }
    }
    const char *from = text_of(claim, "valid_from"), *to = text_of(claim, "valid_to");
    if (from && to && strcmp(from, to) > 0) {
        return source_bad(at, "valid_to", "is before 'valid_from'");
    }
    return true;
}

static bool check_models(const struct source_place *at, const json_t *claim)
{
    const char *models = text_of(claim, "models");
    regex_t re;
    char text[80];
    if (strcmp(models, "*") == 0) {
        return true;
    }
    if (strlen(models) > SOURCE_PATTERN_MAX) {
        return source_bad(at, "models", "is longer than %d bytes", SOURCE_PATTERN_MAX);
    }
    int rc = regcomp(&re, models, REG_EXTENDED | REG_NOSUB);
    if (rc != 0) {
        (void)regerror(rc, &re, text, sizeof text);
        return source_bad(at, "models", "is no regular expression: %s", text);
    }
    regfree(&re);
    return true;
}

static bool check_range(const struct source_place *at, const json_t *claim)
{
    const json_t *min = json_object_get(claim, "min"), *max = json_object_get(claim, "max");
    double lo = json_number_value(min), hi = json_number_value(max);
    bool is_open =
        json_object_get(claim, "min_exclusive") || json_object_get(claim, "max_exclusive");
    if (min && max && (lo > hi || (is_open && lo == hi))) {
        return source_bad(at, "min", "is above 'max': no value is left");
    }
    if (json_object_get(claim, "min_exclusive") && !min) {
        return source_bad(at, "min_exclusive", "needs 'min'");
    }
    if (json_object_get(claim, "max_exclusive") && !max) {
        return source_bad(at, "max_exclusive", "needs 'max'");
    }
    if (json_object_get(claim, "integer") && (lo != rint(lo) || hi != rint(hi))) {
        return source_bad(at, "integer", "needs bounds without a fraction");
    }
    return true;
}

static bool check_names(const struct source_place *at, const json_t *claim, const char *field)
{
    const json_t *list = json_object_get(claim, field);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || !is_known_param(name)) {
            return source_bad(at, field, "must hold names of parameters");
        }
    }
    return true;
}

static bool check_when(const struct source_place *at, const json_t *claim)
{
    const char *variant = text_of(claim, "variant");
    const json_t *when = json_object_get(claim, "when");
    const json_t *in = json_object_get(when, "in"), *not_in = json_object_get(when, "not_in");
    const json_t *values = in ? in : not_in;
    bool is_conditional = variant && strcmp(variant, "conditional") == 0;
    if (is_conditional != (when != NULL)) {
        return source_bad(at, "when", "goes with \"variant\": \"conditional\", always");
    }
    if (!when) {
        return true;
    }
    if (!text_of(when, "param") || json_object_size(when) != 2 || json_array_size(values) == 0 ||
        json_array_size(values) > SOURCE_LIST_MAX) {
        return source_bad(at, "when", "must be {\"param\": name, \"in\" or \"not_in\": [values]}");
    }
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (!json_is_string(json_array_get(values, i))) {
            return source_bad(at, "when", "must hold its values as strings");
        }
    }
    return true;
}

/* What the planner relies on: a parameter that is supported has a place in the body. */
static bool check_wire(const struct source_place *at, const json_t *claim)
{
    const char *support = text_of(claim, "support");
    if (strcmp(support, "absent") == 0 && text_of(claim, "wire")) {
        return source_bad(at, "wire", "must not be there: what is absent has no place in the body");
    }
    if (strcmp(support, "yes") == 0 && !text_of(claim, "wire") &&
        sampling_find(text_of(claim, "param")) != PARAM_COUNT) {
        return source_bad(at, "wire", "is missing: where in the body does it go");
    }
    return true;
}

bool source_check_claim(const struct source_place *at, const json_t *claim)
{
    return check_columns(at, claim) && check_needed(at, claim) && check_words(at, claim) &&
           check_dates(at, claim) && check_models(at, claim) && check_range(at, claim) &&
           check_names(at, claim, "conflicts") && check_names(at, claim, "needs") &&
           check_when(at, claim) && check_wire(at, claim);
}
