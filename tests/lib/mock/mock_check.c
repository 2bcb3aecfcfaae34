/* mock_check.c - from the wire back to parameters: each claim says where its parameter would be in
 * the body; what is found there is compared with what the claim allows.
 *
 * A wire path that is no plain path ("tools[].functionDeclarations", "header X") says nothing about
 * a field and is left to the dialect and the schema.
 */
#include "mock_check.h"
#include "gateway/base/jsonio.h"
#include "mock_schema.h"
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUTES 3

/* What is known of one provider by one route: made when it is first asked. */
struct known {
    const struct provider *provider;
    enum catalog_route route;
    json_t *fields; /* set of the top-level fields that some claim is about */
    struct mock_schema *schema;
    struct known *next;
};
struct mock_check {
    const struct snapshot *snapshot;
    const char *schemas;
    struct known *known;
};

/* One body that is looked at. */
struct look {
    const struct mock_request *r;
    const struct mock_wish *w;
    const struct mock_dialect *d;
    struct rules rules;
    struct sampling asked;
    const char *wire[PARAM_COUNT]; /* of those that are there */
    const json_t *value[PARAM_COUNT];
    struct mock_error *e;
};

/* ---- faults */

static bool fault(struct mock_error *e, enum mock_fault f, const char *param, const json_t *value,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* fmt is `limit`. Always false. */
static bool fault(struct mock_error *e, enum mock_fault f, const char *param, const json_t *value,
                  const char *fmt, ...)
{
    static const char *const said[] = {
        [MOCK_FAULT_BODY] = "the body is no JSON object%s%s",
        [MOCK_FAULT_NO_ADDRESS] = "%s is not served here: %s",
        [MOCK_FAULT_HEADER] = "header %s is required%s",
        [MOCK_FAULT_MISSING] = "%s is required%s",
        [MOCK_FAULT_UNKNOWN] = "%s is not known%s",
        [MOCK_FAULT_UNSUPPORTED] = "%s is not supported with this model%s",
        [MOCK_FAULT_TYPE] = "%s should be %s",
        [MOCK_FAULT_ABOVE] = "%s should be at most %s",
        [MOCK_FAULT_BELOW] = "%s should be at least %s",
        [MOCK_FAULT_VALUE] = "%s should be one of %s",
        [MOCK_FAULT_TOO_LONG] = "%s may have at most %s",
        [MOCK_FAULT_CONFLICT] = "%s cannot be used together with %s",
        [MOCK_FAULT_NEEDS] = "%s is only allowed together with %s",
        [MOCK_FAULT_SCHEMA] = "%s %s",
    };
    va_list ap;
    e->fault = f;
    (void)snprintf(e->param, sizeof e->param, "%s", param);
    va_start(ap, fmt);
    (void)vsnprintf(e->limit, sizeof e->limit, fmt, ap);
    va_end(ap);
    if (value) {
        struct buf b;
        buf_init(&b, 1u << 20);
        (void)jsonio_write(&b, value);
        (void)snprintf(e->value, sizeof e->value, "%s", b.p ? b.p : "");
        buf_release(&b);
    }
    assert(said[f]);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(e->message, sizeof e->message, said[f], param[0] ? param : "the body", e->limit);
#pragma GCC diagnostic pop
    return false;
}

/* ---- where a parameter is */

static bool is_plain(const char *wire)
{
    for (; wire && *wire; wire++) {
        if (!isalnum((unsigned char)*wire) && *wire != '_' && *wire != '.') {
            return false;
        }
    }
    return wire != NULL;
}

/* "response_format.type=json_object": the path up to the sign. */
static const json_t *value_at(const json_t *body, const char *wire)
{
    char path[128];
    size_t len = wire ? strcspn(wire, "=") : 0;
    if (!wire || len >= sizeof path) {
        return NULL;
    }
    (void)snprintf(path, sizeof path, "%.*s", (int)len, wire);
    return is_plain(path) ? mock_get(body, path) : NULL;
}

static bool is_word(const json_t *v, const char *a, const char *b, const char *c)
{
    const char *s = json_string_value(v);
    return s && (strcmp(s, a) == 0 || strcmp(s, b) == 0 || strcmp(s, c) == 0);
}

/* A format field holds plain text, JSON or a schema: which of the parameters is it? */
static bool is_meant(enum param p, const json_t *v)
{
    const json_t *type = json_is_object(v) ? json_object_get(v, "type") : v;
    bool is_json = is_word(type, "json_object", "json", "application/json");
    if ((p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) &&
        json_object_get(v, "value")) {
        return false; /* a form of TGI's own, which has a schema there; claims are about OpenAI's */
    }
    switch (p) {
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
        return is_json;
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        return json_is_object(v) && !is_json && !is_word(type, "text", "grammar", "regex");
    case PARAM_TOOLS:
        return json_array_size(v) > 0;
    default:
        return true;
    }
}

static void find_param(struct look *l, enum param p)
{
    const struct rules *r = &l->rules;
    size_t i = r->conditional_first[p], end = r->conditional_first[p + 1];
    for (const struct claim *c = r->param[p]; c || i < end; c = NULL) {
        c = c ? c : r->conditional[i++];
        const char *wire = c->wire ? c->wire : c->support == CLAIM_REJECTED ? c->param : NULL;
        const json_t *v = value_at(l->r->body, wire);
        if (v && is_meant(p, v)) {
            l->wire[p] = wire;
            l->value[p] = v;
            sampling_set(&l->asked, p, value_from_json(v));
            return;
        }
    }
}

/* The canonical word of a forced or barred call. */
static const char *choice_word(const json_t *v)
{
    static const struct {
        const char *wire, *name;
    } words[] = {{"any", "required"},      {"required", "required"}, {"auto", "auto"},
                 {"none", "none"},         {"function", "required"}, {"tool", "required"},
                 {"validated", "required"}};
    const char *s = json_string_value(json_is_object(v) ? json_object_get(v, "type") : v);
    for (size_t i = 0; s && i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(words[i].wire, s) == 0) {
            return words[i].name;
        }
    }
    return NULL;
}

static void find_params(struct look *l)
{
    for (int p = 0; p < PARAM_COUNT; p++) {
        find_param(l, (enum param)p);
    }
    const char *word = choice_word(l->value[PARAM_TOOL_CHOICE]);
    if (word) {
        sampling_set(&l->asked, PARAM_TOOL_CHOICE, (struct value){.type = VALUE_STRING, .s = word});
    }
}

/* ---- one value against its claim */

static bool check_bounds(struct look *l, enum param p, const struct claim *c, double x)
{
    const json_t *v = l->value[p];
    if (c->has_min && (c->min_exclusive ? x <= c->min : x < c->min)) {
        return fault(l->e, MOCK_FAULT_BELOW, l->wire[p], v, "%s%g",
                     c->min_exclusive ? "above " : "", c->min);
    }
    if (c->has_max && (c->max_exclusive ? x >= c->max : x > c->max)) {
        return fault(l->e, MOCK_FAULT_ABOVE, l->wire[p], v, "%s%g",
                     c->max_exclusive ? "below " : "", c->max);
    }
    return true;
}

static bool is_same(const json_t *one, const json_t *v, const char *word)
{
    const char *text = json_string_value(one);
    return text && word ? strcasecmp(text, word) == 0 /* some write their words large */
                        : json_is_number(one) && json_is_number(v) &&
                              json_number_value(one) == json_number_value(v);
}

/* "'low', 'high'" */
static void list_values(const json_t *values, char *out, size_t cap)
{
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *one = json_array_get(values, i);
        size_t len = strlen(out);
        if (json_is_string(one)) {
            (void)snprintf(out + len, cap - len, "%s'%s'", len ? ", " : "", json_string_value(one));
        } else {
            (void)snprintf(out + len, cap - len, "%s%g", len ? ", " : "", json_number_value(one));
        }
    }
}

/* A tool_choice that says which function. */
static bool names_function(enum param p, const json_t *v)
{
    const json_t *type = json_object_get(v, "type");
    return p == PARAM_TOOL_CHOICE && is_word(type, "function", "tool", "tool");
}

static bool check_values(struct look *l, enum param p, const struct claim *c)
{
    const json_t *v = l->value[p];
    const char *word = p == PARAM_TOOL_CHOICE ? choice_word(v) : json_string_value(v);
    char list[200];
    if (!c->values || (!word && !json_is_number(v))) {
        return true;
    }
    for (size_t i = 0; i < json_array_size(c->values); i++) {
        const json_t *one = json_array_get(c->values, i);
        if (is_same(one, v, word) || (names_function(p, v) && is_same(one, v, "function"))) {
            return true;
        }
    }
    list_values(c->values, list, sizeof list);
    return fault(l->e, MOCK_FAULT_VALUE, l->wire[p], v, "%s", list);
}

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t\r\n")] == '\0';
}

/* A string, or one of a list. */
static bool check_string(struct look *l, enum param p, const struct claim *c, const json_t *v)
{
    const char *s = json_string_value(v);
    if (!s) {
        return p != PARAM_STOP || fault(l->e, MOCK_FAULT_TYPE, l->wire[p], v, "string");
    }
    if (c->len_max > 0 && json_string_length(v) > (size_t)c->len_max) {
        return fault(l->e, MOCK_FAULT_TOO_LONG, l->wire[p], v, "%lld characters",
                     (long long)c->len_max);
    }
    if (c->len_min > 0 && sampling_table[p].type == VALUE_STRING &&
        json_string_length(v) < (size_t)c->len_min) {
        return fault(l->e, MOCK_FAULT_BELOW, l->wire[p], v, "%lld characters",
                     (long long)c->len_min);
    }
    return !c->no_blank || !is_blank(s) ||
           fault(l->e, MOCK_FAULT_VALUE, l->wire[p], v, "strings that are not only white space");
}

static bool check_strings(struct look *l, enum param p, const struct claim *c)
{
    const json_t *v = l->value[p];
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (json_is_array(v) && c->items_max > 0 && n > (size_t)c->items_max) {
        return fault(l->e, MOCK_FAULT_TOO_LONG, l->wire[p], v, "%lld items",
                     (long long)c->items_max);
    }
    bool may_stand_alone = p != PARAM_STOP || !l->d->stop_is_list;
    if (!json_is_array(v) && !(json_is_string(v) && may_stand_alone)) {
        return p != PARAM_STOP || fault(l->e, MOCK_FAULT_TYPE, l->wire[p], v, "array");
    }
    for (size_t i = 0; i < n; i++) {
        if (!check_string(l, p, c, json_is_array(v) ? json_array_get(v, i) : v)) {
            return false;
        }
    }
    return true;
}

static bool is_whole(const json_t *v)
{
    return json_is_integer(v) ||
           (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)));
}

static bool check_number(struct look *l, enum param p, const struct claim *c)
{
    const json_t *v = l->value[p];
    bool is_integer = c->is_integer || sampling_table[p].type == VALUE_INT;
    if (!json_is_number(v)) {
        return fault(l->e, MOCK_FAULT_TYPE, l->wire[p], v, is_integer ? "integer" : "number");
    }
    if (is_integer && !is_whole(v)) {
        return fault(l->e, MOCK_FAULT_TYPE, l->wire[p], v, "integer");
    }
    return check_bounds(l, p, c, json_number_value(v));
}

/* Words and objects of the wire that have another type than the parameter (reasoning as an object,
 * log-probabilities as a count) are judged by what they are. */
static bool check_value(struct look *l, enum param p, const struct claim *c)
{
    const json_t *v = l->value[p];
    enum value_type type = sampling_table[p].type;
    if (!check_values(l, p, c)) {
        return false;
    }
    if (type == VALUE_NUMBER || type == VALUE_INT) {
        return check_number(l, p, c);
    }
    if (type == VALUE_BOOL) {
        bool may_count = c->is_integer || c->has_min || c->has_max;
        if (json_is_number(v) && may_count) {
            return check_number(l, p, c);
        }
        return json_is_boolean(v) ||
               fault(l->e, MOCK_FAULT_TYPE, l->wire[p], v, may_count ? "integer" : "boolean");
    }
    if (p == PARAM_STOP || type == VALUE_STRING || c->items_max > 0) {
        return check_strings(l, p, c);
    }
    return true;
}

/* ---- parameters against each other */

static bool is_there(const struct look *l, const char *name)
{
    enum param p = sampling_find(name);
    if (p != PARAM_COUNT) {
        return l->value[p] && !json_is_false(l->value[p]);
    }
    if (strcmp(name, "stream") == 0) {
        return l->w->stream;
    }
    if (strcmp(name, "tool_choice_required") == 0) {
        return l->w->is_forced;
    }
    if (strcmp(name, "prefill") == 0) {
        const json_t *list = json_object_get(l->r->body, "messages");
        const json_t *last = json_array_get(list, json_array_size(list) - 1);
        const char *role = json_string_value(json_object_get(last, "role"));
        return role && strcmp(role, "assistant") == 0;
    }
    return false;
}

static bool check_company(struct look *l, enum param p, const struct claim *c)
{
    for (size_t i = 0; i < json_array_size(c->conflicts); i++) {
        const char *name = json_string_value(json_array_get(c->conflicts, i));
        enum param other = sampling_find(name);
        const char *wire = other == PARAM_COUNT ? name : l->wire[other];
        if (is_there(l, name) && strcmp(wire, l->wire[p]) != 0) {
            return fault(l->e, MOCK_FAULT_CONFLICT, l->wire[p], l->value[p], "%s", wire);
        }
    }
    for (size_t i = 0; i < json_array_size(c->needs); i++) {
        const char *name = json_string_value(json_array_get(c->needs, i));
        if (!is_there(l, name)) {
            return fault(l->e, MOCK_FAULT_NEEDS, l->wire[p], l->value[p], "%s", name);
        }
    }
    return true;
}

/* Two parameters may live in one field (a count of log-probabilities): what one of them takes is
 * right. */
static bool has_neighbour(const struct look *l, enum param p)
{
    for (int q = 0; q < PARAM_COUNT; q++) {
        if (q != (int)p && l->wire[q] && strcmp(l->wire[q], l->wire[p]) == 0) {
            const struct claim *c = rules_claim(&l->rules, (enum param)q, &l->asked);
            if (c && c->support != CLAIM_REJECTED) {
                return true;
            }
        }
    }
    return false;
}

static bool check_param(struct look *l, enum param p)
{
    const struct claim *c = rules_claim(&l->rules, p, &l->asked);
    if (!l->value[p]) {
        return !c || !c->is_required ||
               fault(l->e, MOCK_FAULT_MISSING, c->wire ? c->wire : c->param, NULL, "%s", "");
    }
    if (!c || c->support == CLAIM_ABSENT) {
        return true;
    }
    if (c->support == CLAIM_REJECTED) {
        return has_neighbour(l, p) ||
               fault(l->e, MOCK_FAULT_UNSUPPORTED, l->wire[p], l->value[p], "%s", "");
    }
    return check_value(l, p, c) && check_company(l, p, c);
}

/* ---- behaviours */

static bool check_roles(struct look *l)
{
    static const struct {
        enum behaviour behaviour;
        const char *role;
    } roles[] = {{BEHAVIOUR_SYSTEM_ROLE, "system"}, {BEHAVIOUR_DEVELOPER_ROLE, "developer"}};
    const json_t *list = json_object_get(l->r->body, "messages");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(list, i), "role"));
        for (size_t k = 0; role && k < sizeof roles / sizeof *roles; k++) {
            const struct claim *c = l->rules.behaviour[roles[k].behaviour];
            if (c && c->support == CLAIM_REJECTED && strcmp(role, roles[k].role) == 0) {
                char path[64];
                (void)snprintf(path, sizeof path, "messages.%zu.role", i);
                return fault(l->e, MOCK_FAULT_UNSUPPORTED, path,
                             json_object_get(json_array_get(list, i), "role"), "%s", "");
            }
        }
    }
    return true;
}

static bool check_behaviours(struct look *l)
{
    const struct claim *endpoint = l->rules.behaviour[BEHAVIOUR_ENDPOINT],
                       *stream = l->rules.behaviour[BEHAVIOUR_STREAM];
    if (endpoint && (endpoint->support == CLAIM_REJECTED || endpoint->support == CLAIM_ABSENT)) {
        return fault(l->e, MOCK_FAULT_NO_ADDRESS, "model", NULL, "%s", l->r->model);
    }
    if (l->w->stream && stream && stream->support == CLAIM_REJECTED) {
        return fault(l->e, MOCK_FAULT_UNSUPPORTED, "stream", NULL, "%s", "");
    }
    return check_roles(l);
}

/* ---- fields and headers */

static const char *endpoint_of(const struct provider *p, enum catalog_route route)
{
    return route == CATALOG_CHAT        ? p->chat_endpoint
           : route == CATALOG_CHAT_ALSO ? p->also.chat_endpoint
                                        : p->text_endpoint;
}

struct gathering {
    json_t *fields;
    const char *endpoint;
};

static bool gather_field(const struct claim *c, void *ud)
{
    struct gathering *g = ud;
    char field[64];
    size_t len = c->wire ? strspn(c->wire, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                           "0123456789")
                         : 0;
    if (g->endpoint && !strstr(c->endpoint, g->endpoint)) {
        return true;
    }
    if (len > 0 && len < sizeof field && c->support != CLAIM_ABSENT) {
        (void)snprintf(field, sizeof field, "%.*s", (int)len, c->wire);
        (void)json_object_set_new(g->fields, field, json_true());
    }
    return true;
}

static bool load_schema(const char *folder, const char *name, struct mock_schema **out)
{
    char path[512], why[200];
    (void)snprintf(path, sizeof path, "%s/%s-request.schema.json", folder, name);
    if (access(path, R_OK) != 0) {
        return false;
    }
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    *out = json ? mock_schema_new(json, why, sizeof why) : NULL;
    if (!*out) {
        (void)fprintf(stderr, "isotherm-mock: %s: %s; bodies are not held against it\n", path,
                      json ? why : "no JSON");
    }
    json_decref(json);
    return true;
}

/* One provider may have several: chat by its newest endpoint, raw text, the second route. */
static void find_schema(const struct mock_check *c, struct known *k)
{
    static const char *const endings[ROUTES][4] = {
        [CATALOG_CHAT] = {"-message", "-v1", "-agent", ""},
        [CATALOG_TEXT] = {"-completions", "-generate"},
    };
    char name[160];
    const struct provider *p = k->provider;
    if (!c->schemas) {
        return;
    }
    if (k->route == CATALOG_CHAT_ALSO) {
        (void)snprintf(name, sizeof name, "%s-%s", p->id, p->also.dialect);
        (void)load_schema(c->schemas, name, &k->schema);
        return;
    }
    for (size_t i = 0; i < 4 && endings[k->route][i]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", p->id, endings[k->route][i]);
        if (load_schema(c->schemas, name, &k->schema)) {
            return;
        }
    }
    /* Where chat has one with an ending, the plain one is that of text. */
    (void)snprintf(name, sizeof name, "%s/%s-message-request.schema.json", c->schemas, p->id);
    if (access(name, R_OK) == 0) {
        (void)load_schema(c->schemas, p->id, &k->schema);
    }
}

static struct known *known_of(struct mock_check *c, const struct mock_request *r)
{
    enum catalog_route route = r->is_also   ? CATALOG_CHAT_ALSO
                               : r->is_text ? CATALOG_TEXT
                                            : CATALOG_CHAT;
    struct known *k = c->known;
    while (k && (k->provider != r->provider || k->route != route)) {
        k = k->next;
    }
    if (k) {
        return k;
    }
    k = calloc(1, sizeof *k);
    if (!k) {
        return NULL;
    }
    k->provider = r->provider;
    k->route = route;
    k->fields = json_object();
    struct gathering g = {k->fields, endpoint_of(r->provider, route)};
    snapshot_each(c->snapshot, r->provider->id, NULL, NULL, gather_field, &g);
    find_schema(c, k);
    k->next = c->known;
    c->known = k;
    return k;
}

static bool is_listed(const struct mock_dialect *d, const char *name)
{
    for (size_t i = 0; d->fields && d->fields[i]; i++) {
        if (strcmp(d->fields[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* A field of the dialect, but none that a claim says this model's API lacks. */
static bool is_field(const struct look *l, const struct mock_dialect *d, const char *name)
{
    enum param p = sampling_find(name);
    const struct claim *c = p != PARAM_COUNT ? rules_claim(&l->rules, p, &l->asked) : NULL;
    if (d->knows && d->knows(l->r->provider, name)) {
        return true;
    }
    return is_listed(d, name) && (!c || c->support != CLAIM_ABSENT);
}

static bool check_fields(struct look *l, const struct mock_dialect *d, const struct known *k)
{
    static const char *const contents[] = {"messages", "contents", "input",
                                           "inputs",   "prompt",   "instances"};
    const struct claim *c = l->rules.behaviour[BEHAVIOUR_UNKNOWN_FIELD];
    const char *key, *missing = NULL;
    json_t *v;
    bool has_content = false;
    json_object_foreach ((json_t *)l->r->body, key, v) {
        if (c && c->support == CLAIM_REJECTED && !is_field(l, d, key) &&
            !json_object_get(k->fields, key)) {
            return fault(l->e, MOCK_FAULT_UNKNOWN, key, v, "%s", "");
        }
    }
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        has_content = has_content || mock_get(l->r->body, contents[i]);
        missing = missing ? missing : is_listed(d, contents[i]) ? contents[i] : NULL;
    }
    return has_content || !missing || fault(l->e, MOCK_FAULT_MISSING, missing, NULL, "%s", "");
}

static bool check_headers(const struct mock_request *r, struct mock_error *e)
{
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)r->provider->headers, name, v) {
        if (!r->header(r->ud, name)) {
            return fault(e, MOCK_FAULT_HEADER, name, NULL, "%s", "");
        }
    }
    return true;
}

static bool check_schema(const struct known *k, const json_t *body, struct mock_error *e)
{
    struct mock_schema_fault f;
    if (!k->schema || mock_schema_check(k->schema, body, &f)) {
        return true;
    }
    return fault(e, MOCK_FAULT_SCHEMA, f.path, NULL, "%s", f.text);
}

/* ---- all of it */

static bool look_at(struct mock_check *c, const struct mock_request *r, const char *day,
                    struct look *l)
{
    enum catalog_route route = r->is_also   ? CATALOG_CHAT_ALSO
                               : r->is_text ? CATALOG_TEXT
                                            : CATALOG_CHAT;
    struct catalog_error err = {.code = CATALOG_OK};
    *l = (struct look){.r = r};
    if (!snapshot_rules(c->snapshot, r->provider->id, r->model, route, day, &l->rules, &err)) {
        return false;
    }
    find_params(l);
    return true;
}

bool mock_check_body(struct mock_check *c, const struct mock_request *r,
                     const struct mock_dialect *d, const struct mock_wish *w, const char *day,
                     struct mock_error *e)
{
    struct look l;
    struct known *k = known_of(c, r);
    if (!check_headers(r, e)) {
        return false;
    }
    if (!k || !look_at(c, r, day, &l)) {
        return true; /* nobody says anything */
    }
    l.w = w;
    l.d = d;
    l.e = e;
    if (!check_behaviours(&l) || !check_fields(&l, d, k)) {
        return false;
    }
    for (int p = 0; p < PARAM_COUNT; p++) {
        if (!check_param(&l, (enum param)p)) {
            return false;
        }
    }
    return check_schema(k, r->body, e);
}

const json_t *mock_check_find(struct mock_check *c, const struct mock_request *r, const char *day,
                              const char *name)
{
    struct look l;
    enum param p = sampling_find(name);
    const json_t *v = value_at(r->body, name);
    return v || p == PARAM_COUNT || !look_at(c, r, day, &l) ? v : l.value[p];
}

struct mock_check *mock_check_new(const struct snapshot *s, const char *schemas, char *why,
                                  size_t cap)
{
    struct mock_check *c = calloc(1, sizeof *c);
    if (!c || (schemas && access(schemas, R_OK | X_OK) != 0)) {
        (void)snprintf(why, cap, "cannot read the folder '%s'", schemas ? schemas : "");
        free(c);
        return NULL;
    }
    c->snapshot = s;
    c->schemas = schemas;
    return c;
}

void mock_check_free(struct mock_check *c)
{
    while (c && c->known) {
        struct known *k = c->known;
        c->known = k->next;
        json_decref(k->fields);
        mock_schema_free(k->schema);
        free(k);
    }
    free(c);
}
