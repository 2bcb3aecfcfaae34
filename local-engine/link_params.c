/* link_params.c - one table, a line for each parameter: its kind, its range, where its value goes.
 * Lists and words have functions. */
#include "link_params.h"
#include "beam.h"
#include "link.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_NUMBER, KIND_INT, KIND_BOOL, KIND_OTHER };

struct rule {
    const char *name;
    enum kind kind;
    size_t at; /* of the double, int64_t or bool in struct link_params */
    double lo, hi;
    bool (*take)(const json_t *v, struct link_params *out, struct engine_error *err);
};

static bool bad(struct engine_error *err, const char *name, const char *right)
{
    return engine_fail(err, ENGINE_BAD_PARAM, name, "'%s' must be %s", name, right);
}

/* ---- lists and words */

static bool take_stop(const json_t *v, struct link_params *out, struct engine_error *err)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > LINK_STOPS_MAX) {
        return bad(err, "stop", "a list of at most 64 strings");
    }
    out->stops = calloc(n + 1, sizeof *out->stops);
    if (!out->stops) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the stop strings");
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(v, i);
        if (!json_is_string(s) || json_string_length(s) == 0 ||
            strlen(json_string_value(s)) != json_string_length(s)) {
            return bad(err, "stop", "a list of strings, none empty and none with a NUL in it");
        }
        out->stops[out->n_stops++] = json_string_value(s);
    }
    return true;
}

static bool take_stop_ids(const json_t *v, struct link_params *out, struct engine_error *err)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > LINK_STOP_IDS_MAX) {
        return bad(err, "stop_token_ids", "a list of at most 128 token ids");
    }
    out->sampling.stop_ids = calloc(n + 1, sizeof *out->sampling.stop_ids);
    if (!out->sampling.stop_ids) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the stop token ids");
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(v, i);
        json_int_t x = json_integer_value(id);
        if (!json_is_integer(id) || x < 0 || x > INT32_MAX) {
            return bad(err, "stop_token_ids", "a list of token ids");
        }
        out->sampling.stop_ids[out->sampling.n_stop_ids++] = (int32_t)x;
    }
    return true;
}

/* A token id in decimal without sign, blank or leading zero; -1 for anything else. */
static int32_t token_id(const char *key)
{
    size_t n = strlen(key);
    if (n == 0 || n > 10 || strspn(key, "0123456789") != n || (n > 1 && key[0] == '0')) {
        return -1;
    }
    long long x = strtoll(key, NULL, 10);
    return x <= INT32_MAX ? (int32_t)x : -1;
}

static bool take_bias(const json_t *v, struct link_params *out, struct engine_error *err)
{
    size_t n = json_object_size(v);
    if (!json_is_object(v) || n > LINK_BIAS_MAX) {
        return bad(err, "logit_bias", "an object of at most 1024 token ids and numbers");
    }
    out->sampling.bias = calloc(n + 1, sizeof *out->sampling.bias);
    if (!out->sampling.bias) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the biases");
    }
    json_t *object = (json_t *)v; /* jansson's iterators lack const; nothing is changed */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        int32_t id = token_id(json_object_iter_key(it));
        const json_t *b = json_object_iter_value(it);
        if (id < 0) {
            return engine_fail(err, ENGINE_BAD_PARAM, "logit_bias",
                               "'logit_bias' key '%.20s' is not a token id",
                               json_object_iter_key(it));
        }
        if (!json_is_number(b) || !(fabs(json_number_value(b)) <= 100)) {
            return engine_fail(err, ENGINE_BAD_PARAM, "logit_bias",
                               "'logit_bias' of token %d must be a number from -100 to 100", id);
        }
        out->sampling.bias[out->sampling.n_bias++] =
            (struct sampler_bias){id, json_number_value(b)};
    }
    return true;
}

static bool take_scope(const json_t *v, struct link_params *out, struct engine_error *err)
{
    const char *word = json_string_value(v);
    bool is_all = word && strcmp(word, "all") == 0;
    if (!is_all && (!word || strcmp(word, "generated") != 0)) {
        return bad(err, "penalty_scope", "\"generated\" or \"all\"");
    }
    out->sampling.penalty_counts_prompt = is_all;
    return true;
}

static bool take_order(const json_t *v, struct link_params *out, struct engine_error *err)
{
    const char *word = json_string_value(v);
    return (word && sampler_order_parse(word, &out->sampling.order)) ||
           bad(err, "sampler_order", "isotherm, hf, vllm, llama.cpp or sglang");
}

static bool take_mode(const json_t *v, struct link_params *out, struct engine_error *err)
{
    const char *word = json_string_value(v);
    bool is_processed = word && strcmp(word, "processed") == 0;
    if (!is_processed && (!word || strcmp(word, "raw") != 0)) {
        return bad(err, "logprobs_mode", "\"raw\" or \"processed\"");
    }
    out->logprobs_processed = is_processed;
    return true;
}

/* ---- constraints. The request has one field response_format for two of the names, so errors of a
 * schema name that. */

static bool set_constraint(struct link_params *out, const char *name, enum constrain_kind kind,
                           const json_t *value, const char *param, struct engine_error *err)
{
    if (out->constraint.kind != CONSTRAIN_NOTHING) {
        return engine_fail(err, ENGINE_BAD_PARAM, name,
                           "'%s' and '%s' both say what the answer must be: give one of them",
                           out->constraint.param, param);
    }
    out->constraint = (struct constrain_spec){kind, value, param};
    return true;
}

static const char FORMAT[] = "response_format";

/* A member that nobody would look at is an error, for it was meant to say what the answer must be:
 * a schema beside json_object, "Schema". NULL ends `known`. */
static bool only_has(const json_t *v, const char *what, const char *const *known,
                     struct engine_error *err)
{
    json_t *object = (json_t *)v; /* jansson's iterators lack const; nothing is changed */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const char *key = json_object_iter_key(it);
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) {
            i++;
        }
        if (!known[i] && !json_is_null(json_object_iter_value(it))) {
            return engine_fail(err, ENGINE_BAD_PARAM, FORMAT,
                               "'%s': '%.40s' is no member of %s: a schema stands in "
                               "json_schema.schema, with the type json_schema",
                               FORMAT, key, what);
        }
    }
    return true;
}

static bool take_json_object(const json_t *v, struct link_params *out, struct engine_error *err)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!type || strcmp(type, "json_object") != 0) {
        return bad(err, FORMAT, "an object with the type \"json_object\"");
    }
    if (!only_has(v, "type json_object", (const char *const[]){"type", NULL}, err)) {
        return false;
    }
    return set_constraint(out, FORMAT, CONSTRAIN_JSON_OBJECT, NULL, FORMAT, err);
}

static bool take_json_schema(const json_t *v, struct link_params *out, struct engine_error *err)
{
    const json_t *inner = json_object_get(v, "json_schema"),
                 *schema = json_object_get(inner, "schema");
    if (!json_is_object(inner)) {
        return bad(err, FORMAT, "an object with json_schema");
    }
    static const char *const outer[] = {"type", "json_schema", NULL}, *const members[] = {
                                                                          "name", "description",
                                                                          "schema", "strict", NULL};
    if (!only_has(v, "type json_schema", outer, err) ||
        !only_has(inner, "json_schema", members, err)) {
        return false;
    }
    const json_t *strict = json_object_get(inner, "strict");
    if (strict && !json_is_boolean(strict) && !json_is_null(strict)) {
        return engine_fail(err, ENGINE_BAD_PARAM, FORMAT,
                           "'%s': json_schema.strict must be true or false", FORMAT);
    }
    if (!schema) { /* OpenAI's schema is optional: any object then */
        return set_constraint(out, FORMAT, CONSTRAIN_JSON_OBJECT, NULL, FORMAT, err);
    }
    out->is_strict = json_is_true(strict);
    return set_constraint(out, FORMAT, CONSTRAIN_JSON_SCHEMA, schema, FORMAT, err);
}

/* Clients that write every member of a form give null for those that are not meant. */
static size_t n_given(const json_t *v)
{
    json_t *object = (json_t *)v; /* as above */
    size_t n = 0;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        n += !json_is_null(json_object_iter_value(it));
    }
    return n;
}

static bool take_structured(const json_t *v, struct link_params *out, struct engine_error *err)
{
    static const char name[] = "structured_outputs",
                      right[] = "an object with one of json, regex, choice and json_object";
    static const struct {
        const char *key;
        enum constrain_kind kind;
    } kinds[] = {{"json", CONSTRAIN_JSON_SCHEMA},
                 {"regex", CONSTRAIN_REGEX},
                 {"choice", CONSTRAIN_CHOICE},
                 {"json_object", CONSTRAIN_JSON_OBJECT}};
    if (n_given(v) != 1) {
        return bad(err, name, right);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const json_t *value = json_object_get(v, kinds[i].key);
        bool is_flag = kinds[i].kind == CONSTRAIN_JSON_OBJECT;
        if (value && !json_is_null(value) && !(is_flag && !json_is_true(value))) {
            return set_constraint(out, name, kinds[i].kind, is_flag ? NULL : value, name, err);
        }
    }
    return bad(err, name, right);
}

/* ---- the table */

#define AT(field) offsetof(struct link_params, field)
#define SAMPLING(field)                                                                            \
    (offsetof(struct link_params, sampling) + offsetof(struct sampler_config, field))
#define INT_MAX_D  2147483647.0
#define NUMBER_MIN 5e-324 /* the least double: "above 0" */

static const struct rule rules[] = {
    {"temperature", KIND_NUMBER, SAMPLING(temperature), 0, HUGE_VAL, NULL},
    {"top_p", KIND_NUMBER, SAMPLING(top_p), 0, 1, NULL},
    {"top_k", KIND_INT, SAMPLING(top_k), -1, HUGE_VAL, NULL},
    {"min_p", KIND_NUMBER, SAMPLING(min_p), 0, 1, NULL},
    {"typical_p", KIND_NUMBER, SAMPLING(typical_p), 0, 1, NULL},
    {"seed", KIND_INT, AT(seed), -HUGE_VAL, HUGE_VAL, NULL},
    {"stop", KIND_OTHER, 0, 0, 0, take_stop},
    {"stop_token_ids", KIND_OTHER, 0, 0, 0, take_stop_ids},
    {"max_tokens", KIND_INT, AT(max_tokens), 0, INT_MAX_D, NULL},
    {"min_tokens", KIND_INT, SAMPLING(min_tokens), 0, INT_MAX_D, NULL},
    {"ignore_eos", KIND_BOOL, SAMPLING(ignore_eos), 0, 0, NULL},
    {"use_beam_search", KIND_BOOL, AT(use_beam_search), 0, 0, NULL},
    {"num_beams", KIND_INT, AT(num_beams), 1, BEAM_WIDTH_MAX, NULL},
    {"length_penalty", KIND_NUMBER, AT(length_penalty), -100, 100, NULL},
    {"n", KIND_INT, AT(n), 1, ENGINE_CHOICES_MAX, NULL},
    {"best_of", KIND_INT, AT(best_of), 1, ENGINE_CHOICES_MAX, NULL},
    {"presence_penalty", KIND_NUMBER, SAMPLING(presence_penalty), -100, 100, NULL},
    {"frequency_penalty", KIND_NUMBER, SAMPLING(frequency_penalty), -100, 100, NULL},
    {"repetition_penalty", KIND_NUMBER, SAMPLING(repetition_penalty), NUMBER_MIN, 1e6, NULL},
    {"no_repeat_ngram_size", KIND_INT, SAMPLING(no_repeat_ngram_size), 0, INT_MAX_D, NULL},
    {"logit_bias", KIND_OTHER, 0, 0, 0, take_bias},
    {"logprobs", KIND_BOOL, AT(logprobs), 0, 0, NULL},
    {"top_logprobs", KIND_INT, AT(n_top_logprobs), 0, LINK_TOP_LOGPROBS_MAX, NULL},
    {"penalty_scope", KIND_OTHER, 0, 0, 0, take_scope},
    {"sampler_order", KIND_OTHER, 0, 0, 0, take_order},
    {"logprobs_mode", KIND_OTHER, 0, 0, 0, take_mode},
    {"echo", KIND_BOOL, AT(echo), 0, 0, NULL},
    {"response_format_json_object", KIND_OTHER, 0, 0, 0, take_json_object},
    {"response_format_json_schema", KIND_OTHER, 0, 0, 0, take_json_schema},
    {"structured_outputs", KIND_OTHER, 0, 0, 0, take_structured},
};

static const struct rule *find_rule(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].name, name) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

static bool bad_range(const struct rule *r, const char *what, struct engine_error *err)
{
    if (isinf(r->lo) || isinf(r->hi)) {
        return engine_fail(err, ENGINE_BAD_PARAM, r->name, "'%s' must be %s%s", r->name, what,
                           isinf(r->lo) ? ""
                           : r->lo < 0  ? ", -1 or more"
                                        : ", 0 or more");
    }
    if (r->lo == NUMBER_MIN) {
        return engine_fail(err, ENGINE_BAD_PARAM, r->name, "'%s' must be %s above 0 and at most %g",
                           r->name, what, r->hi);
    }
    return engine_fail(err, ENGINE_BAD_PARAM, r->name, "'%s' must be %s from %.10g to %.10g",
                       r->name, what, r->lo, r->hi);
}

static bool take_value(const struct rule *r, const json_t *v, struct link_params *out,
                       struct engine_error *err)
{
    char *at = (char *)out + r->at;
    double d = json_number_value(v);
    switch (r->kind) {
    case KIND_NUMBER:
        if (!json_is_number(v) || !(d >= r->lo && d <= r->hi)) {
            return bad_range(r, "a number", err);
        }
        memcpy(at, &d, sizeof d);
        return true;
    case KIND_INT:
        if (!json_is_integer(v) || !(d >= r->lo && d <= r->hi)) {
            return bad_range(r, "an integer", err);
        }
        int64_t i = json_integer_value(v);
        memcpy(at, &i, sizeof i);
        return true;
    case KIND_BOOL:
        if (!json_is_boolean(v)) {
            return bad(err, r->name, "true or false");
        }
        *(bool *)at = json_is_true(v);
        return true;
    case KIND_OTHER:
        break;
    }
    return r->take(v, out, err);
}

uint32_t link_params_beams(const struct link_params *p)
{
    if (!p->use_beam_search && p->num_beams <= 1) {
        return 0;
    }
    if (p->num_beams) {
        return (uint32_t)p->num_beams;
    }
    return p->n > 1 ? (uint32_t)p->n : LINK_BEAMS_DEFAULT;
}

/* What only one of sampling and beam search has. */
static bool check_search(const struct link_params *p, struct engine_error *err)
{
    const struct sampler_config *c = &p->sampling;
    uint32_t n_beams = link_params_beams(p);
    if (!n_beams) {
        return p->length_penalty == 1.0 ||
               engine_fail(err, ENGINE_BAD_PARAM, "length_penalty",
                           "'length_penalty' needs beam search: set 'use_beam_search'");
    }
    const char *name = c->temperature != 1.0 ? "temperature"
                       : c->top_p < 1.0      ? "top_p"
                       : c->top_k > 0        ? "top_k"
                       : c->min_p > 0        ? "min_p"
                       : c->typical_p < 1.0  ? "typical_p"
                       : p->best_of > p->n   ? "best_of"
                                             : NULL;
    if (name) {
        return engine_fail(err, ENGINE_BAD_PARAM, name,
                           "'%s' means nothing to a beam search: leave it out", name);
    }
    if (p->constraint.kind != CONSTRAIN_NOTHING) {
        return engine_fail(err, ENGINE_BAD_PARAM, "use_beam_search",
                           "a beam search takes no 'response_format' and no 'structured_outputs': "
                           "leave one of them out");
    }
    if (p->logprobs_processed) {
        return engine_fail(err, ENGINE_BAD_PARAM, "logprobs_mode",
                           "'logprobs_mode' must be \"raw\" with beam search");
    }
    return (uint32_t)p->n <= n_beams ||
           engine_fail(err, ENGINE_BAD_PARAM, "n", "'n' must not be above 'num_beams'");
}

static bool check_together(const struct link_params *p, struct engine_error *err)
{
    if (p->max_tokens == 0 && !p->echo) {
        return engine_fail(
            err, ENGINE_BAD_PARAM, "max_tokens",
            "'max_tokens' must be an integer from 1 to 2147483647, or 0 with 'echo'");
    }
    if (p->max_tokens >= 0 && p->sampling.min_tokens > p->max_tokens) {
        return engine_fail(err, ENGINE_BAD_PARAM, "min_tokens",
                           "'min_tokens' must not be above 'max_tokens'");
    }
    if (p->best_of < p->n) {
        return engine_fail(err, ENGINE_BAD_PARAM, "best_of", "'best_of' must not be below 'n'");
    }
    if (p->n_top_logprobs > 0 && !p->logprobs) {
        return engine_fail(err, ENGINE_BAD_PARAM, "top_logprobs",
                           "'top_logprobs' needs 'logprobs' true");
    }
    if (p->is_strict && p->n_stops > 0) {
        return engine_fail(err, ENGINE_BAD_PARAM, "stop",
                           "'stop' may cut the document that 'response_format' wants whole: leave "
                           "one of them out, or set json_schema.strict to false");
    }
    return check_search(p, err);
}

static bool parse(const json_t *params, struct link_params *out, struct engine_error *err)
{
    json_t *object = (json_t *)params; /* see take_bias() */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const char *name = json_object_iter_key(it);
        const struct rule *r = find_rule(name);
        if (!r) {
            return engine_fail(err, ENGINE_BAD_PARAM, name, "the engine has no parameter '%.64s'",
                               name);
        }
        if (!json_is_null(json_object_iter_value(it)) &&
            !take_value(r, json_object_iter_value(it), out, err)) {
            return false;
        }
    }
    if (!json_is_integer(json_object_get(params, "seed"))) {
        return engine_fail(err, ENGINE_BAD_PARAM, "seed", "'seed' must be given");
    }
    if (!out->best_of) {
        out->best_of = out->n;
    }
    return check_together(out, err);
}

bool link_params_parse(const json_t *params, struct link_params *out, struct engine_error *err)
{
    struct link_params p = {.max_tokens = -1, .n = 1, .length_penalty = 1.0};
    sampler_config_init(&p.sampling);
    if (params && !json_is_object(params)) {
        return engine_fail(err, ENGINE_BAD_PARAM, "params", "'params' must be an object");
    }
    if (!parse(params, &p, err)) {
        link_params_release(&p);
        return false;
    }
    *out = p;
    return true;
}

void link_params_release(struct link_params *p)
{
    if (p) {
        sampler_config_release(&p->sampling);
        free(p->stops);
        p->stops = NULL;
        p->n_stops = 0;
    }
}

struct session_request link_params_request(struct link_params *p, const int32_t *prompt,
                                           size_t n_prompt)
{
    assert(p->n >= 1 && p->best_of >= p->n);
    return (struct session_request){
        .prompt = prompt,
        .n_prompt = n_prompt,
        .sampling = &p->sampling,
        .max_tokens = p->max_tokens,
        .generates_nothing = p->max_tokens == 0,
        .echo = p->echo,
        .n = (uint32_t)p->n,
        .best_of = (uint32_t)p->best_of,
        .n_beams = link_params_beams(p),
        .length_penalty = p->length_penalty,
        .seed = p->seed,
        .stops = (const char *const *)p->stops,
        .n_stops = p->n_stops,
        .logprobs = p->logprobs,
        .n_top_logprobs = (uint32_t)p->n_top_logprobs,
        .logprobs_processed = p->logprobs_processed,
        .constraint = p->constraint,
    };
}
