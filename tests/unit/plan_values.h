/* plan_values.h - for one parameter the values at and around what its claim says: neutral, inside,
 * at the bounds, just outside, far outside; listed and unlisted words; lists at and above their
 * limits. Only what a request may ask for at all. */
#ifndef ISOTHERM_TEST_PLAN_VALUES_H
#define ISOTHERM_TEST_PLAN_VALUES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "catalog/catalog.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 40

struct values {
    struct value v[VALUES_MAX];
    json_t *made[VALUES_MAX]; /* owned */
    char *text[VALUES_MAX];   /* owned */
    size_t n, n_made, n_text;
};

static inline void values_release(struct values *vs)
{
    for (size_t i = 0; i < vs->n_made; i++) {
        json_decref(vs->made[i]);
    }
    for (size_t i = 0; i < vs->n_text; i++) {
        free(vs->text[i]);
    }
}

/* Only what a request may ask for reaches the planner. */
static void add(struct values *vs, enum param p, struct value v)
{
    struct sampling one = {0};
    sampling_set(&one, p, v);
    if (p == PARAM_TOP_LOGPROBS) {
        sampling_set(&one, PARAM_LOGPROBS, (struct value){.type = VALUE_BOOL, .b = true});
    } else if (p == PARAM_BEST_OF || p == PARAM_MIN_TOKENS) {
        sampling_set(&one, PARAM_N, (struct value){.type = VALUE_INT, .i = 1});
    }
    if (vs->n < VALUES_MAX && sampling_check(&one, true, NULL)) {
        vs->v[vs->n++] = v;
    }
}

static void add_number(struct values *vs, enum param p, double x)
{
    if (sampling_table[p].type == VALUE_INT) {
        int64_t i = x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
        add(vs, p, (struct value){.type = VALUE_INT, .i = i});
    } else {
        add(vs, p, (struct value){.type = VALUE_NUMBER, .d = x});
    }
}

static void add_numbers(struct values *vs, enum param p, const struct claim *c)
{
    const struct param_info *t = &sampling_table[p];
    double low = c && c->has_min ? c->min : t->lo, high = c && c->has_max ? c->max : t->hi;
    high = isfinite(high) ? high : 4;
    double step = t->type == VALUE_INT ? 1 : 1e-6 * fmax(1, fabs(high));
    static const double neutral[] = {1, 0, -1};
    for (size_t i = 0; i < 3; i++) {
        add_number(vs, p, neutral[i]);
    }
    add_number(vs, p, low + (high - low) / 2);
    add_number(vs, p, low + (high - low) * 0.3);
    add_number(vs, p, low);
    add_number(vs, p, high);
    add_number(vs, p, low - step);
    add_number(vs, p, high + step);
    add_number(vs, p, t->lo);
    add_number(vs, p, isfinite(t->hi) ? t->hi : 1e9);
    for (size_t i = 0; c && i < json_array_size(c->values); i++) {
        if (json_is_number(json_array_get(c->values, i))) {
            add_number(vs, p, json_number_value(json_array_get(c->values, i)));
        }
    }
}

static void add_json(struct values *vs, enum param p, json_t *j)
{
    assert_non_null(j);
    assert_true(vs->n_made < VALUES_MAX);
    vs->made[vs->n_made++] = j;
    add(vs, p, (struct value){.type = VALUE_JSON, .j = j});
}

static json_t *list_of(size_t n, const char *text)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_sprintf("%s%zu", text, i));
    }
    return list;
}

static json_t *bias_of(size_t n, double x)
{
    json_t *o = json_object();
    for (size_t i = 0; i < n; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%zu", i);
        json_object_set_new(o, key, json_real(x));
    }
    return o;
}

static json_t *text_of(size_t len)
{
    char *text = calloc(1, len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    json_t *j = json_string(text);
    free(text);
    return j;
}

static json_t *labels_of(size_t n, size_t len)
{
    json_t *o = json_object();
    for (size_t i = 0; i < n; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "k%zu", i);
        json_object_set_new(o, key, text_of(len));
    }
    return o;
}

static void add_lists(struct values *vs, enum param p, const struct claim *c)
{
    size_t most = c && c->items_max > 0 ? (size_t)c->items_max : 4;
    size_t len = c && c->len_max > 0 ? (size_t)c->len_max : 40;
    if (p == PARAM_STOP) {
        add_json(vs, p, json_array());
        add_json(vs, p, list_of(1, "END"));
        add_json(vs, p, list_of(most, "s"));
        add_json(vs, p, list_of(most + 1, "s"));
        add_json(vs, p, json_pack("[s, s, s]", "\n", "a", " "));
        add_json(vs, p, json_pack("[o]", text_of(len)));
        add_json(vs, p, json_pack("[o, s]", text_of(len + 1), "b"));
        add_json(vs, p, list_of(SAMPLING_STOP_MAX, "s"));
    } else if (p == PARAM_LOGIT_BIAS) {
        add_json(vs, p, json_object());
        add_json(vs, p, bias_of(1, c && c->has_max ? c->max : 5));
        add_json(vs, p, bias_of(1, c && c->has_min ? c->min : -5));
        add_json(vs, p, bias_of(2, 1.5));
        add_json(vs, p, bias_of(1, 100));
        add_json(vs, p, bias_of(most + 1, 1));
        add_json(vs, p, bias_of(SAMPLING_BIAS_MAX, 1));
    } else if (p == PARAM_METADATA) {
        add_json(vs, p, json_object());
        add_json(vs, p, labels_of(1, len));
        add_json(vs, p, labels_of(most + 1, 2));
        add_json(vs, p, labels_of(1, len + 1));
    } else if (p == PARAM_STOP_TOKEN_IDS) {
        add_json(vs, p, json_array());
        add_json(vs, p, json_pack("[i, i]", 1, 2));
    }
}

static void add_objects(struct values *vs, enum param p, const struct claim *c)
{
    static const char *const choices[] = {"auto", "none", "required"};
    size_t len = c && c->len_max > 0 ? (size_t)c->len_max : 40;
    if (p == PARAM_TOOLS) {
        size_t most = c && c->items_max > 0 ? (size_t)c->items_max : 4;
        add_json(vs, p, json_array());
        add_json(vs, p, json_pack("[{s:s, s:{s:s}}]", "type", "function", "function", "name", "f"));
        json_t *many = json_array();
        for (size_t i = 0; i <= most; i++) {
            json_array_append_new(many, json_object());
        }
        add_json(vs, p, many);
    } else if (p == PARAM_TOOL_CHOICE) {
        for (size_t i = 0; i < 3; i++) {
            add_json(vs, p, json_string(choices[i]));
        }
        add_json(vs, p, json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", "f"));
    } else if (p == PARAM_RESPONSE_FORMAT_JSON_OBJECT) {
        add_json(vs, p, json_pack("{s:s}", "type", "json_object"));
    } else if (p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        for (size_t more = 0; more < 2; more++) {
            add_json(vs, p,
                     json_pack("{s:s, s:{s:o, s:{}}}", "type", "json_schema", "json_schema", "name",
                               text_of(len + more), "schema"));
        }
    } else if (p == PARAM_STRUCTURED_OUTPUTS) {
        add_json(vs, p, json_pack("{s:s}", "regex", "a"));
        add_json(vs, p, json_pack("{s:[s,s]}", "choice", "a", "b"));
    } else if (p == PARAM_PREDICTION) {
        add_json(vs, p, json_pack("{s:s, s:s}", "type", "content", "content", "x"));
    }
}

static void add_text(struct values *vs, enum param p, const char *text)
{
    assert_true(vs->n_text < VALUES_MAX);
    char *copy = vs->text[vs->n_text++] = strdup(text);
    assert_non_null(copy);
    add(vs, p, (struct value){.type = VALUE_STRING, .s = copy});
}

static void add_words(struct values *vs, enum param p, const struct claim *c)
{
    static const char *const words[] = {"none", "low",       "high",     "auto", "generated", "all",
                                        "raw",  "processed", "isotherm", "hf",   "zzz"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        add_text(vs, p, words[i]);
    }
    for (size_t i = 0; c && i < json_array_size(c->values) && i < 20; i++) {
        const char *word = json_string_value(json_array_get(c->values, i));
        if (word) {
            add_text(vs, p, word);
        }
    }
    for (int more = 0; c && c->len_max > 0 && more < 2; more++) {
        json_t *j = text_of((size_t)c->len_max + (size_t)more);
        add_text(vs, p, json_string_value(j));
        json_decref(j);
    }
}

static inline void values_init(struct values *vs, const struct rules *r, enum param p)
{
    static const struct sampling empty;
    const struct claim *c = rules_claim(r, p, &empty);
    memset(vs, 0, sizeof *vs);
    switch (sampling_table[p].type) {
    case VALUE_BOOL:
        add(vs, p, (struct value){.type = VALUE_BOOL, .b = false});
        add(vs, p, (struct value){.type = VALUE_BOOL, .b = true});
        break;
    case VALUE_INT:
    case VALUE_NUMBER:
        add_numbers(vs, p, c);
        break;
    case VALUE_STRING:
        add_words(vs, p, c);
        break;
    default:
        add_lists(vs, p, c);
        add_objects(vs, p, c);
    }
    assert_true(vs->n > 0);
}

#endif
