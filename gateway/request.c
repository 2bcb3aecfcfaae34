/* request.c - see request.h. The body is read field by field against two lists: the gateway's own
 * fields below, and the sampling table. Whatever is in neither is kept by name, so that nothing
 * vanishes. Shapes that clients write in two ways (a single stop string, integer logprobs of the
 * completions endpoint) are made one shape inside the owned body. */
#include "request.h"

#include "base/jsonio.h"
#include <string.h>

static bool bad(struct failure *f, const char *param, const char *text)
{
    return failure_set(f, 400, "invalid_value", param, "'%s' %s", param, text);
}

bool request_policy_range(const char *word, enum plan_range *out)
{
    static const char *const words[] = {
        [PLAN_RANGE_CLAMP] = "clamp", [PLAN_RANGE_REJECT] = "reject", [PLAN_RANGE_LOCAL] = "local"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = (enum plan_range)i;
            return true;
        }
    }
    return false;
}

bool request_policy_unsupported(const char *word, enum plan_unsupported *out)
{
    static const char *const words[] = {[PLAN_UNSUPPORTED_LOCAL] = "local",
                                        [PLAN_UNSUPPORTED_DROP] = "drop",
                                        [PLAN_UNSUPPORTED_REJECT] = "reject"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = (enum plan_unsupported)i;
            return true;
        }
    }
    return false;
}

bool request_policy_many(const char *word, enum plan_many *out)
{
    bool is_calls = strcmp(word, "calls") == 0, is_known = is_calls || strcmp(word, "local") == 0;
    if (is_known) {
        *out = is_calls ? PLAN_MANY_CALLS : PLAN_MANY_LOCAL;
    }
    return is_known;
}

/* ---- sampling parameters */

/* A schema is read many times on its way. */
static bool check_form_size(const char *name, const json_t *j, struct failure *f)
{
    return !jsonio_has_more(j, LIMIT_FORM_VALUES) ||
           failure_set(f, 400, "list_too_long", name,
                       "'%s' holds more than %d values: make it smaller", name, LIMIT_FORM_VALUES);
}

static bool take_value(struct request *r, enum param p, const json_t *j, struct failure *f)
{
    struct value v = {.type = sampling_table[p].type};
    const char *name = sampling_table[p].name;
    switch (v.type) {
    case VALUE_BOOL:
        if (!json_is_boolean(j)) {
            return bad(f, name, "must be true or false");
        }
        v.b = json_is_true(j);
        break;
    case VALUE_INT:
        if (!json_is_integer(j)) {
            return bad(f, name, "must be an integer of at most 64 bits");
        }
        v.i = json_integer_value(j);
        break;
    case VALUE_NUMBER:
        if (!json_is_number(j)) {
            return bad(f, name, "must be a number");
        }
        v.d = json_number_value(j);
        break;
    case VALUE_STRING:
        if (!json_is_string(j)) {
            return bad(f, name, "must be a string");
        }
        v.s = json_string_value(j);
        break;
    default:
        if ((p == PARAM_STRUCTURED_OUTPUTS || p == PARAM_TOOLS) && !check_form_size(name, j, f)) {
            return false;
        }
        v.j = j;
    }
    sampling_set(&r->asked, p, v);
    return true;
}

/* A single stop string becomes a list of one. */
static bool take_stop(struct request *r, json_t *j, struct failure *f)
{
    if (json_is_string(j)) {
        json_t *list = json_array();
        if (!list || json_array_append(list, j) != 0 ||
            json_object_set_new(r->body, "stop", list) != 0) {
            return failure_set(f, 503, "out_of_memory", NULL, "out of memory");
        }
        j = list;
    }
    if (!json_is_array(j)) {
        return bad(f, "stop", "must be a string or a list of strings");
    }
    if (json_array_size(j) > LIMIT_STOPS) {
        return failure_set(f, 400, "list_too_long", "stop",
                           "'stop' has %zu strings, at most %d are taken", json_array_size(j),
                           LIMIT_STOPS);
    }
    size_t i;
    const json_t *s;
    json_array_foreach (j, i, s) {
        if (!json_is_string(s) || json_string_length(s) > LIMIT_STOP_BYTES) {
            return failure_set(f, 400, "invalid_value", "stop",
                               "'stop' must hold strings of at most %d bytes", LIMIT_STOP_BYTES);
        }
    }
    return take_value(r, PARAM_STOP, j, f);
}

static bool take_response_format(struct request *r, json_t *j, struct failure *f)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    if (!json_is_object(j) || !type) {
        return bad(f, "response_format", "must be an object with a type");
    }
    if (strcmp(type, "text") == 0) {
        return true;
    }
    if (strcmp(type, "json_object") == 0) {
        return take_value(r, PARAM_RESPONSE_FORMAT_JSON_OBJECT, j, f);
    }
    if (strcmp(type, "json_schema") == 0) {
        const json_t *s = json_object_get(j, "json_schema");
        if (!json_is_string(json_object_get(s, "name"))) {
            return bad(f, "response_format",
                       "of type json_schema needs json_schema.name and json_schema.schema");
        }
        return check_form_size("response_format", j, f) &&
               take_value(r, PARAM_RESPONSE_FORMAT_JSON_SCHEMA, j, f);
    }
    return bad(f, "response_format",
               "has an unknown type; text, json_object and json_schema are known");
}

/* The completions endpoint counts alternatives with an integer: k means logprobs with k
 * alternatives. */
static bool take_integer_logprobs(struct request *r, const json_t *j, struct failure *f)
{
    if (json_integer_value(j) < 0 || json_integer_value(j) > 20) {
        return bad(f, "logprobs", "must be between 0 and 20");
    }
    sampling_set(&r->asked, PARAM_LOGPROBS, (struct value){.type = VALUE_BOOL, .b = true});
    sampling_set(&r->asked, PARAM_TOP_LOGPROBS,
                 (struct value){.type = VALUE_INT, .i = json_integer_value(j)});
    return true;
}

/* max_completion_tokens is the newer name of max_tokens; given both, the newer one holds. */
static bool take_max_tokens(struct request *r, const char *name, const json_t *j, struct failure *f)
{
    if (r->max_tokens_name && strcmp(name, "max_tokens") == 0) {
        return true;
    }
    if (!json_is_integer(j)) {
        return bad(f, name, "must be an integer");
    }
    r->max_tokens_name = name;
    return take_value(r, PARAM_MAX_TOKENS, j, f);
}

/* ---- the gateway's own fields */

static bool take_require(struct request *r, const json_t *list, struct failure *f)
{
    size_t i;
    const json_t *s;
    if (!json_is_array(list)) {
        return bad(f, "isotherm.require", "must be a list of parameter names");
    }
    json_array_foreach (list, i, s) {
        const char *name = json_is_string(s) ? json_string_value(s) : "";
        enum param p = sampling_find(name);
        if (p < PARAM_COUNT) {
            r->policy.require |= PARAM_BIT(p);
        } else if (strcmp(name, "response_format") == 0) {
            r->policy.require |= PARAM_BIT(PARAM_RESPONSE_FORMAT_JSON_OBJECT) |
                                 PARAM_BIT(PARAM_RESPONSE_FORMAT_JSON_SCHEMA);
        } else if (strcmp(name, "max_completion_tokens") == 0) {
            r->policy.require |= PARAM_BIT(PARAM_MAX_TOKENS);
        } else {
            return failure_set(f, 400, "invalid_value", "isotherm.require",
                               "'isotherm.require' names '%.64s', which is no parameter", name);
        }
    }
    return true;
}

static bool take_isotherm_field(struct request *r, const char *key, const json_t *j,
                                struct failure *f)
{
    const char *word = json_is_string(j) ? json_string_value(j) : "";
    if (json_is_null(j)) {
        return true;
    }
    if (strcmp(key, "on_out_of_range") == 0) {
        return request_policy_range(word, &r->policy.on_out_of_range) ||
               bad(f, "isotherm.on_out_of_range", "must be clamp, reject or local");
    }
    if (strcmp(key, "on_unsupported") == 0) {
        return request_policy_unsupported(word, &r->policy.on_unsupported) ||
               bad(f, "isotherm.on_unsupported", "must be local, drop or reject");
    }
    if (strcmp(key, "on_many") == 0) {
        return request_policy_many(word, &r->policy.on_many) ||
               bad(f, "isotherm.on_many", "must be calls or local");
    }
    if (strcmp(key, "require") == 0) {
        return take_require(r, j, f);
    }
    if (strcmp(key, "allow_retired") == 0) {
        r->allow_retired = json_is_true(j);
        return json_is_boolean(j) || bad(f, "isotherm.allow_retired", "must be true or false");
    }
    if (strcmp(key, "catalog_version") == 0) {
        r->catalog_version = json_integer_value(j);
        return r->catalog_version > 0 ||
               bad(f, "isotherm.catalog_version", "must be a version number");
    }
    return failure_set(f, 400, "unknown_parameter", "isotherm",
                       "'isotherm.%.64s' is not known; on_out_of_range, on_unsupported, "
                       "on_many, require, allow_retired and catalog_version are",
                       key);
}

static bool take_isotherm(struct request *r, json_t *j, struct failure *f)
{
    if (!json_is_object(j)) {
        return bad(f, "isotherm", "must be an object");
    }
    const char *key;
    json_t *v;
    json_object_foreach (j, key, v) {
        if (!take_isotherm_field(r, key, v, f)) {
            return false;
        }
    }
    return true;
}

static bool take_stream_options(struct request *r, json_t *j, struct failure *f)
{
    const json_t *usage = json_object_get(j, "include_usage");
    if (!json_is_object(j) || (usage && !json_is_boolean(usage) && !json_is_null(usage))) {
        return bad(f, "stream_options", "must be an object; include_usage is true or false");
    }
    r->include_usage = json_is_true(usage);
    return true;
}

/* ---- content */

static bool check_parts(const json_t *parts, size_t at, struct failure *f)
{
    size_t i;
    const json_t *part;
    json_array_foreach (parts, i, part) {
        if (!json_is_string(json_object_get(part, "type"))) {
            return failure_set(f, 400, "invalid_value", "messages",
                               "'messages[%zu].content[%zu]' must be an object with a type", at, i);
        }
    }
    return true;
}

static bool check_message(const json_t *m, size_t at, struct failure *f)
{
    static const char *const roles[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    const json_t *content = json_object_get(m, "content");
    const char *role = json_string_value(json_object_get(m, "role"));
    bool is_known = false;
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++) {
        is_known = is_known || strcmp(role, roles[i]) == 0;
    }
    if (!is_known) {
        return failure_set(
            f, 400, "invalid_value", "messages",
            "'messages[%zu].role' must be system, developer, user, assistant or tool", at);
    }
    if (json_is_string(content)) {
        return true;
    }
    if (json_is_array(content)) {
        return check_parts(content, at, f);
    }
    bool may_lack = strcmp(role, "assistant") == 0;
    if ((!content || json_is_null(content)) && may_lack) {
        return true;
    }
    return failure_set(f, 400, "invalid_value", "messages",
                       "'messages[%zu].content' must be a string or a list of parts", at);
}

static bool check_messages(const json_t *list, struct failure *f)
{
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return bad(f, "messages", "must be a list of at least one message");
    }
    if (json_array_size(list) > LIMIT_MESSAGES) {
        return failure_set(f, 400, "list_too_long", "messages",
                           "'messages' has %zu entries, at most %d are taken",
                           json_array_size(list), LIMIT_MESSAGES);
    }
    size_t i;
    const json_t *m;
    json_array_foreach (list, i, m) {
        if (!check_message(m, i, f)) {
            return false;
        }
    }
    return true;
}

static bool is_list_of(const json_t *list, json_type type)
{
    size_t i;
    const json_t *v;
    json_array_foreach (list, i, v) {
        if (json_typeof(v) != type) {
            return false;
        }
    }
    return json_array_size(list) > 0;
}

static bool check_prompt(const json_t *p, struct failure *f)
{
    if (json_is_string(p) || is_list_of(p, JSON_INTEGER)) {
        return true;
    }
    if (json_array_size(p) > 128) {
        return bad(f, "prompt", "has more than 128 entries");
    }
    if (is_list_of(p, JSON_STRING)) {
        return true;
    }
    size_t i;
    const json_t *v;
    json_array_foreach (p, i, v) {
        if (!is_list_of(v, JSON_INTEGER)) {
            return bad(
                f, "prompt",
                "must be a string, a list of strings, token ids, or a list of lists of token ids");
        }
    }
    return (json_is_array(p) && i > 0) ||
           bad(f, "prompt",
               "must be a string, a list of strings, token ids, or a list of lists of token ids");
}

/* ---- the walk over the body */

static bool take_model(struct request *r, json_t *j, struct failure *f)
{
    r->model = json_string_value(j);
    if (!r->model || json_string_length(j) == 0 || json_string_length(j) > LIMIT_MODEL_NAME) {
        return failure_set(f, 400, "invalid_value", "model",
                           "'model' must be a name of at most %d bytes", LIMIT_MODEL_NAME);
    }
    return true;
}

static bool take_unknown(struct request *r, const char *key, struct failure *f)
{
    if (r->n_unknown == LIMIT_UNKNOWN_FIELDS) {
        return failure_set(f, 400, "unknown_parameter", "body",
                           "the body has more than %d unknown fields", LIMIT_UNKNOWN_FIELDS);
    }
    r->unknown[r->n_unknown++] = key;
    return true;
}

static bool take_content(struct request *r, json_t *j, struct failure *f)
{
    if (r->kind == REQUEST_CHAT) {
        r->content.messages = j;
        return check_messages(j, f);
    }
    r->content.prompt = j;
    return check_prompt(j, f);
}

static bool take_stream(struct request *r, json_t *j, struct failure *f)
{
    r->stream = json_is_true(j);
    return json_is_boolean(j) || bad(f, "stream", "must be true or false");
}

static bool take_older_limit(struct request *r, json_t *j, struct failure *f)
{
    return take_max_tokens(r, "max_tokens", j, f);
}

static bool take_newer_limit(struct request *r, json_t *j, struct failure *f)
{
    return take_max_tokens(r, "max_completion_tokens", j, f);
}

static bool take_logprobs(struct request *r, json_t *j, struct failure *f)
{
    bool is_count = r->kind == REQUEST_TEXT && json_is_integer(j);
    return is_count ? take_integer_logprobs(r, j, f) : take_value(r, PARAM_LOGPROBS, j, f);
}

/* The fields that are not simply a value of the sampling table. */
static const struct field {
    const char *name;
    bool takes_null; /* null is a value of it, and a wrong one; elsewhere null counts as absent */
    bool (*take)(struct request *r, json_t *j, struct failure *f);
} fields[] = {
    {"model", true, take_model},
    {"messages", true, take_content}, /* of chat only */
    {"prompt", true, take_content},   /* of completions only */
    {"stream", false, take_stream},
    {"stream_options", false, take_stream_options},
    {"isotherm", false, take_isotherm},
    {"response_format", false, take_response_format},
    {"max_tokens", false, take_older_limit},
    {"max_completion_tokens", false, take_newer_limit},
    {"stop", false, take_stop},
    {"logprobs", false, take_logprobs},
};

/* NULL: a parameter of the table, or unknown. The other endpoint's content is unknown here. */
static const struct field *find_field(const struct request *r, const char *key)
{
    const char *other = r->kind == REQUEST_CHAT ? "prompt" : "messages";
    for (size_t i = 0; i < sizeof fields / sizeof *fields && strcmp(key, other) != 0; i++) {
        if (strcmp(fields[i].name, key) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static bool take_field(struct request *r, const char *key, json_t *j, struct failure *f)
{
    const struct field *own = find_field(r, key);
    if (json_is_null(j) && !(own && own->takes_null)) {
        return true; /* a client that writes out its unset options */
    }
    if (own) {
        return own->take(r, j, f);
    }
    enum param p = sampling_find(key);
    bool is_format =
        p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA;
    return p < PARAM_COUNT && !is_format ? take_value(r, p, j, f) : take_unknown(r, key, f);
}

static bool take_body(struct request *r, struct failure *f)
{
    if (!json_is_object(r->body)) {
        return failure_set(f, 400, "invalid_json", NULL, "the body must be a JSON object");
    }
    /* Keys are collected first: a single stop string is replaced in the body during the walk. */
    const char *key;
    json_t *j;
    void *next;
    json_object_foreach_safe (r->body, next, key, j) {
        if (!take_field(r, key, j, f)) {
            return false;
        }
    }
    if (!r->model) {
        return bad(f, "model", "is missing: name a provider/model, an alias, or local");
    }
    if (!r->content.messages && !r->content.prompt) {
        return bad(f, r->kind == REQUEST_CHAT ? "messages" : "prompt", "is missing");
    }
    if (r->stream && sampling_has(&r->asked, PARAM_BEST_OF) &&
        r->asked.v[PARAM_BEST_OF].i >
            (sampling_has(&r->asked, PARAM_N) ? r->asked.v[PARAM_N].i : 1)) {
        return bad(f, "best_of", "above n cannot be streamed: the best are known at the end only");
    }
    if (r->n_unknown > 0 && r->policy.on_unsupported == PLAN_UNSUPPORTED_REJECT) {
        return failure_set(f, 400, "unknown_parameter", r->unknown[0],
                           "'%.64s' is not a parameter of this endpoint", r->unknown[0]);
    }
    return true;
}

bool request_parse(struct request *r, enum request_kind kind, const char *bytes, size_t len,
                   const struct policy *defaults, struct failure *f)
{
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->policy = *defaults;
    r->body = jsonio_parse(bytes, len, f);
    if (!r->body) {
        return false;
    }
    if (!take_body(r, f)) {
        request_release(r);
        return false;
    }
    return true;
}

void request_release(struct request *r)
{
    if (r) {
        json_decref(r->body);
        memset(r, 0, sizeof *r);
    }
}
