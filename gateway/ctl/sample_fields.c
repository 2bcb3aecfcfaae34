/* sample_fields.c - one reader for each shape of field; what is not of that shape is refused by the
 * field's name. */
#include "gateway/ctl/sample_fields.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

void *sample_refuse(struct engine_error *err, const char *field, const char *must)
{
    (void)engine_fail(err, ENGINE_BAD_PARAM, field, "'%s' must be %s", field, must);
    return NULL;
}

void *sample_no_memory(struct engine_error *err)
{
    (void)engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    return NULL;
}

/* A number, or one of the words that JSON has no number for. */
bool sample_number_of(const json_t *v, double *out)
{
    if (json_is_number(v)) {
        *out = json_number_value(v);
        return true;
    }
    const char *s = json_string_value(v);
    if (s && strcmp(s, "-inf") == 0) {
        *out = -INFINITY;
    } else if (s && strcmp(s, "inf") == 0) {
        *out = INFINITY;
    } else if (s && strcmp(s, "nan") == 0) {
        *out = NAN;
    } else {
        return false;
    }
    return true;
}

json_t *sample_json_of(double d)
{
    if (isnan(d)) {
        return json_string("nan");
    }
    if (isinf(d)) {
        return json_string(d < 0 ? "-inf" : "inf");
    }
    return json_real(d);
}

/* Absent or null leaves *out. */
bool sample_get_number(const json_t *in, const char *name, double *out, struct engine_error *err)
{
    const json_t *v = json_object_get(in, name);
    if (v && !json_is_null(v) && !sample_number_of(v, out)) {
        sample_refuse(err, name, "a number");
        return false;
    }
    return true;
}

bool sample_get_int(const json_t *in, const char *name, int64_t *out, struct engine_error *err)
{
    const json_t *v = json_object_get(in, name);
    if (v && !json_is_null(v)) {
        if (!json_is_integer(v)) {
            sample_refuse(err, name, "an integer");
            return false;
        }
        *out = json_integer_value(v);
    }
    return true;
}

/* A seed is an integer, or its decimal digits in a string, as many JSON readers lose digits beyond
 * 2^53. */
bool sample_get_seed(const json_t *in, const char *name, int64_t *out, struct engine_error *err)
{
    const char *s = json_string_value(json_object_get(in, name));
    if (!s) {
        return sample_get_int(in, name, out, err);
    }
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno != 0 || end == s || *end != '\0') {
        sample_refuse(err, name, "an integer of 64 bits");
        return false;
    }
    *out = v;
    return true;
}

const json_t *sample_get_array(const json_t *in, const char *name, size_t n_max,
                               struct engine_error *err)
{
    const json_t *v = json_object_get(in, name);
    if (!json_is_array(v) || json_array_size(v) > n_max) {
        return sample_refuse(err, name, "a list of a possible length");
    }
    return v;
}

/* A list of numbers; yours to free. */
double *sample_numbers_of(const json_t *list, const char *name, struct engine_error *err)
{
    size_t n = json_array_size(list);
    double *d = calloc(n + 1, sizeof *d);
    for (size_t i = 0; d && i < n; i++) {
        if (!sample_number_of(json_array_get(list, i), &d[i])) {
            free(d);
            return sample_refuse(err, name, "a list of numbers");
        }
    }
    return d ? d : sample_no_memory(err);
}

/* A list of ids in 0 .. n_vocab - 1; yours to free. A list that is absent is empty. */
int32_t *sample_get_ids(const json_t *in, const char *name, int32_t n_vocab, size_t *n,
                        struct engine_error *err)
{
    const json_t *list = json_object_get(in, name);
    if (list && !json_is_array(list)) {
        return sample_refuse(err, name, "a list of token ids");
    }
    *n = json_array_size(list);
    int32_t *ids = calloc(*n + 1, sizeof *ids);
    for (size_t i = 0; ids && i < *n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= n_vocab) {
            free(ids);
            return sample_refuse(err, name, "a list of token ids of the vocabulary");
        }
        ids[i] = (int32_t)id;
    }
    return ids ? ids : sample_no_memory(err);
}

/* ---- parameters ---- */

static bool read_bias(const json_t *bias, struct sampler_config *c, struct engine_error *err)
{
    if (!bias) {
        return true;
    }
    c->bias = calloc(json_object_size(bias) + 1, sizeof *c->bias);
    if (!c->bias) {
        sample_no_memory(err);
        return false;
    }
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)bias, key, v) {
        char *end;
        long id = strtol(key, &end, 10);
        if (end == key || *end != '\0' || id < 0 || id > INT32_MAX || !json_is_number(v)) {
            sample_refuse(err, "logit_bias", "an object of token id -> number");
            return false;
        }
        c->bias[c->n_bias++] = (struct sampler_bias){(int32_t)id, json_number_value(v)};
    }
    return true;
}

static bool read_scope(const json_t *in, struct sampler_config *c, struct engine_error *err)
{
    const json_t *v = json_object_get(in, "penalty_scope");
    const char *scope = v ? json_string_value(v) : "generated";
    c->penalty_counts_prompt = scope && strcmp(scope, "all") == 0;
    if (!scope || (!c->penalty_counts_prompt && strcmp(scope, "generated") != 0)) {
        sample_refuse(err, "penalty_scope", "\"generated\" or \"all\"");
        return false;
    }
    return true;
}

/* penalty_scope and sampler_order. */
static bool read_words(const json_t *in, struct sampler_config *c, struct engine_error *err)
{
    const json_t *v = json_object_get(in, "sampler_order");
    const char *word = json_string_value(v);
    if (!read_scope(in, c, err)) {
        return false;
    }
    if (v && !(word && sampler_order_parse(word, &c->order))) {
        sample_refuse(err, "sampler_order", "isotherm, hf, vllm, llama.cpp or sglang");
        return false;
    }
    return true;
}

/* The canonical parameters among the fields of `in`, checked against the vocabulary. Release the
 * configuration in any case. */
bool sample_get_config(const json_t *in, int32_t n_vocab, struct sampler_config *c,
                       struct engine_error *err)
{
    sampler_config_init(c);
    c->ignore_eos = json_is_true(json_object_get(in, "ignore_eos"));
    const char *bias = json_object_get(in, "logit_bias") ? "logit_bias" : "bias";
    if (!sample_get_number(in, "temperature", &c->temperature, err) ||
        !sample_get_int(in, "top_k", &c->top_k, err) ||
        !sample_get_number(in, "top_p", &c->top_p, err) ||
        !sample_get_number(in, "min_p", &c->min_p, err) ||
        !sample_get_number(in, "typical_p", &c->typical_p, err) ||
        !sample_get_number(in, "repetition_penalty", &c->repetition_penalty, err) ||
        !sample_get_number(in, "frequency_penalty", &c->frequency_penalty, err) ||
        !sample_get_number(in, "presence_penalty", &c->presence_penalty, err) ||
        !sample_get_int(in, "no_repeat_ngram_size", &c->no_repeat_ngram_size, err) ||
        !sample_get_int(in, "min_tokens", &c->min_tokens, err) || !read_words(in, c, err) ||
        !read_bias(json_object_get(in, bias), c, err)) {
        return false;
    }
    c->stop_ids = sample_get_ids(in, "stop_ids", n_vocab, &c->n_stop_ids, err);
    return c->stop_ids && sampler_config_check(c, n_vocab, err);
}
