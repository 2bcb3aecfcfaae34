/* source_check.c - what a provider and a claim must be. A wrong row is found here, when it is
 * written, not when a request meets it.
 *
 * Types come from the table of columns (db.h); the checks below are of meaning: ranges that cannot
 * be, dates, expressions that do not compile, parameters that are misspelt.
 */
#include "pattern.h"
#include "source.h"

#include <math.h>
#include <string.h>

/* Claims about what is no sampling parameter: behaviours (catalog.h) and texts kept for people. A
 * name that is neither of these nor a parameter is taken for a slip. */
static const char *const text_params[] = {
    "allowed_token_ids",
    "bad_words",
    "cache_prompt",
    "chat_template_kwargs",
    "choice",
    "context_length",
    "context_overflow",
    "do_sample",
    "dry_allowed_length",
    "dry_base",
    "dry_multiplier",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "dynatemp_exponent",
    "dynatemp_range",
    "grammar",
    "include_stop_str_in_output",
    "json_schema_native",
    "keep_alive",
    "loop_abort",
    "max_tokens_alias",
    "min_keep",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_keep",
    "penalty_window",
    "post_sampling_probs",
    "prompt_logprobs",
    "reasoning_output",
    "regex",
    "regex_grammar",
    "repetition_detection",
    "repetition_penalty_window",
    "return_token_ids",
    "smoothing_factor",
    "stop_regex",
    "suffix",
    "temperature_last",
    "tfs",
    "thinking_budget",
    "thinking_token_budget",
    "tool_choice_required",
    "top_a",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
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
    if (!auth || !IS_ONE_OF(auth, "none", "bearer", "header", "sigv4")) {
        return source_bad(at, "auth", "must be none, bearer, header or sigv4");
    }
    if ((strcmp(auth, "header") == 0) != (header != NULL)) {
        return source_bad(at, "auth_header", "goes with \"auth\": \"header\", always");
    }
    if ((strcmp(auth, "sigv4") == 0) != (text_of(provider, "sign_service") != NULL)) {
        return source_bad(at, "sign_service", "goes with \"auth\": \"sigv4\", always");
    }
    if (text_of(provider, "sign_hosts") && !text_of(provider, "sign_service")) {
        return source_bad(at, "sign_hosts", "goes with \"auth\": \"sigv4\"");
    }
    return true;
}

static bool check_route(const struct source_place *at, const char *field, const json_t *route)
{
    const char *key;
    json_t *value;
    if (!text_of(route, "dialect") || !text_of(route, "chat_path") ||
        !text_of(route, "chat_endpoint")) {
        return source_bad(at, field, "must be an object with dialect, chat_path, chat_endpoint");
    }
    json_object_foreach ((json_t *)route, key, value) {
        if (!IS_ONE_OF(key, "dialect", "chat_path", "stream_path", "chat_endpoint")) {
            return source_bad(at, field, "has a field '%.40s' that no route has", key);
        }
        if (!check_text(at, field, value)) {
            return false;
        }
    }
    return true;
}

static bool check_quirks(const struct source_place *at, const char *field, const json_t *quirks)
{
    const char *key;
    json_t *value;
    if (!json_is_object(quirks)) {
        return source_bad(at, field, "must be an object");
    }
    json_object_foreach ((json_t *)quirks, key, value) {
        if (strcmp(key, "reasoning_key") == 0) {
            if (!check_text(at, field, value)) {
                return false;
            }
        } else if (IS_ONE_OF(key, "tool_id_len", "tool_id_len_max")) {
            json_int_t n = json_integer_value(value);
            if (n < SOURCE_TOOL_ID_MIN || n > SOURCE_TOOL_ID_MAX) {
                return source_bad(at, field, "must have a %.40s from %d to %d", key,
                                  SOURCE_TOOL_ID_MIN, SOURCE_TOOL_ID_MAX);
            }
        } else if (!IS_ONE_OF(key, "one_system", "turn_after_tool", "strict_messages",
                              "thinks_in_tags", "call_ids", "untyped_links")) {
            return source_bad(at, field, "has a field '%.40s' that no quirk has", key);
        } else if (!json_is_boolean(value)) {
            return source_bad(at, field, "must have true or false as '%.40s'", key);
        }
    }
    return true;
}

static bool check_provider_field(const struct source_place *at, const char *key,
                                 const json_t *value)
{
    if (strcmp(key, "headers") == 0) {
        return check_pairs(at, key, value);
    }
    if (strcmp(key, "also") == 0) {
        return check_route(at, key, value);
    }
    if (strcmp(key, "quirks") == 0) {
        return check_quirks(at, key, value);
    }
    if (strcmp(key, "is_local") == 0) {
        return json_is_true(value) || source_bad(at, key, "must be true or false");
    }
    return IS_ONE_OF(key, "id", "title", "dialect", "base_url", "chat_path", "stream_path",
                     "text_path", "text_stream_path", "sign_service", "sign_hosts", "chat_endpoint",
                     "text_endpoint", "auth", "auth_header", "key_env", "stand_in",
                     "request_id_header", "model_prefix", "prefill_path")
               ? check_text(at, key, value)
               : source_bad(at, key, "is not a field of a provider");
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
        if (!check_provider_field(at, key, value)) {
            return false;
        }
    }
    const char *id = text_of(provider, "id"), *url = text_of(provider, "base_url");
    if (strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-.") != strlen(id) || strlen(id) > 63 ||
        id[0] == '.') {
        return source_bad(at, "id", "must be of a-z, 0-9, - and ., at most 63");
    }
    if (url && strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0) {
        return source_bad(at, "base_url", "must begin with https:// or http://");
    }
    return check_auth(at, provider);
}

/* ---- claims */

static bool check_list(const struct source_place *at, const char *field, const json_t *v)
{
    if (!json_is_array(v) || json_array_size(v) > SOURCE_LIST_MAX) {
        return source_bad(at, field, "must be a list of at most %d", SOURCE_LIST_MAX);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        if (json_is_array(item) || json_is_object(item) || json_is_null(item)) {
            return source_bad(at, field, "must hold plain values");
        }
        if (json_is_string(item) && !check_text(at, field, item)) {
            return false;
        }
    }
    return true;
}

/* 64-bit integers, signed and not, are the largest that a source has meant. */
static bool check_number(const struct source_place *at, const char *field, const json_t *v)
{
    if (!json_is_number(v)) {
        return source_bad(at, field, "must be a number");
    }
    return fabs(json_number_value(v)) <= 0x1p64 || source_bad(at, field, "is beyond 64 bits");
}

/* What may be sent or said as it is: small, and not nested without end. */
static bool check_json(const struct source_place *at, const char *field, const json_t *v, int depth)
{
    const char *key;
    json_t *item;
    if (depth > SOURCE_DEPTH_MAX) {
        return source_bad(at, field, "is nested deeper than %d", SOURCE_DEPTH_MAX);
    }
    if (json_array_size(v) + json_object_size(v) > SOURCE_LIST_MAX) {
        return source_bad(at, field, "holds more than %d values", SOURCE_LIST_MAX);
    }
    if (json_string_length(v) > SOURCE_TEXT_MAX) {
        return source_bad(at, field, "is longer than %d bytes", SOURCE_TEXT_MAX);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        if (!check_json(at, field, json_array_get(v, i), depth + 1)) {
            return false;
        }
    }
    json_object_foreach ((json_t *)v, key, item) {
        if (strlen(key) > SOURCE_NAME_MAX || !check_json(at, field, item, depth + 1)) {
            return source_bad(at, field, "has a name longer than %d bytes", SOURCE_NAME_MAX);
        }
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
        return check_number(at, field, v);
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
    return check_json(at, field, v, 0); /* ANY: the default */
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
    struct catalog_error why = {.code = CATALOG_OK};
    struct pattern p;
    if (pattern_init(&p, text_of(claim, "models"), &why)) {
        pattern_release(&p);
        return true;
    }
    return why.code == CATALOG_NOMEM ? catalog_fail(at->err, why.code, "%s", why.text)
                                     : source_bad(at, "models", "%s", why.text);
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
    const char *param = text_of(when, "param");
    if (strspn(param, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(param) ||
        strlen(param) > 63) {
        return source_bad(at, "when", "must name a parameter or a switch, of a-z, 0-9 and _");
    }
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *word = json_array_get(values, i);
        if (!json_is_string(word) || json_string_length(word) == 0) {
            return source_bad(at, "when", "must hold its values as strings");
        }
        if (json_string_length(word) > SOURCE_NAME_MAX) {
            return source_bad(at, "when", "has a value longer than %d bytes", SOURCE_NAME_MAX);
        }
    }
    return true;
}

static bool check_words_of_source(const struct source_place *at, const json_t *claim)
{
    const json_t *list = json_object_get(claim, "conflicts_text");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_string(json_array_get(list, i))) {
            return source_bad(at, "conflicts_text", "must hold strings");
        }
    }
    return true;
}

/* "a.b_c": names with dots between them. */
static bool is_path(const char *s)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    while (*s) {
        size_t n = strspn(s, letters);
        if (n == 0 || (s[n] != '\0' && (s[n] != '.' || s[n + 1] == '\0'))) {
            return false;
        }
        s += n + (s[n] == '.');
    }
    return true;
}

static bool check_adds(const struct source_place *at, const json_t *claim)
{
    json_t *adds = json_object_get(claim, "adds"), *value;
    const char *path;
    if (!adds) {
        return true;
    }
    if (json_object_size(adds) == 0 || strcmp(text_of(claim, "support"), "yes") != 0) {
        return source_bad(at, "adds", "must hold something, and goes with \"support\": \"yes\"");
    }
    json_object_foreach (adds, path, value) {
        if (!path[0] || strlen(path) > SOURCE_NAME_MAX || !is_path(path)) {
            return source_bad(at, "adds", "must map paths such as \"options.seed\" to values");
        }
    }
    return check_json(at, "adds", adds, 0);
}

/* What the planner relies on: a parameter that is supported has a place in the body. What is not
 * supported may have one too: where the source says it would be. */
static bool check_wire(const struct source_place *at, const json_t *claim)
{
    bool is_supported = strcmp(text_of(claim, "support"), "yes") == 0;
    return !is_supported || text_of(claim, "wire") ||
           sampling_find(text_of(claim, "param")) == PARAM_COUNT ||
           source_bad(at, "wire", "is missing: where in the body does it go");
}

bool source_check_claim(const struct source_place *at, const json_t *claim)
{
    return check_columns(at, claim) && check_needed(at, claim) && check_words(at, claim) &&
           check_dates(at, claim) && check_models(at, claim) && check_range(at, claim) &&
           check_names(at, claim, "conflicts") && check_names(at, claim, "needs") &&
           check_words_of_source(at, claim) && check_when(at, claim) && check_adds(at, claim) &&
           check_wire(at, claim);
}
