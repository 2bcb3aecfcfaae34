/* sampling.c - the table of parameters, what asks for nothing, and what is meaningless whatever
 * backend answers.
 *
 * Everything that is one line a parameter is a line in a table here: ranges come from sampling.h,
 * neutral values from `neutral`. Only lists, words and combinations have code of their own.
 */
#include "sampling.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct param_info sampling_table[PARAM_COUNT] = {
#define X(id, name, type, lo, hi, lo_open, kind, text)                                             \
    [PARAM_##id] = {name, VALUE_##type, lo, hi, lo_open, PARAM_##kind, text},
    SAMPLING_PARAMS(X)
#undef X
};

void sampling_set(struct sampling *s, enum param p, struct value v)
{
    s->has |= PARAM_BIT(p);
    s->v[p] = v;
}

void sampling_clear(struct sampling *s, enum param p)
{
    s->has &= ~PARAM_BIT(p);
    s->v[p] = (struct value){.type = VALUE_NONE};
}

enum param sampling_find(const char *name)
{
    for (int p = 0; p < PARAM_COUNT; p++) {
        if (strcmp(sampling_table[p].name, name) == 0) {
            return (enum param)p;
        }
    }
    return PARAM_COUNT;
}

/* ---- values */

static bool value_number(struct value v, double *out)
{
    if (v.type == VALUE_INT) {
        *out = (double)v.i;
    } else if (v.type == VALUE_NUMBER) {
        *out = v.d;
    } else {
        return false;
    }
    return true;
}

json_t *value_json(struct value v)
{
    switch (v.type) {
    case VALUE_BOOL:
        return json_boolean(v.b);
    case VALUE_INT:
        return json_integer(v.i);
    case VALUE_NUMBER:
        return json_real(v.d);
    case VALUE_STRING:
        return json_string(v.s);
    case VALUE_JSON:
        return json_incref((json_t *)v.j); /* jansson counts without const */
    case VALUE_NONE:
        break;
    }
    return json_null();
}

struct value value_from_json(const json_t *j)
{
    switch (j ? json_typeof(j) : JSON_NULL) {
    case JSON_STRING:
        return (struct value){.type = VALUE_STRING, .s = json_string_value(j)};
    case JSON_INTEGER:
        return (struct value){.type = VALUE_INT, .i = json_integer_value(j)};
    case JSON_REAL:
        return (struct value){.type = VALUE_NUMBER, .d = json_real_value(j)};
    case JSON_TRUE:
    case JSON_FALSE:
        return (struct value){.type = VALUE_BOOL, .b = json_is_true(j)};
    case JSON_ARRAY:
    case JSON_OBJECT:
        return (struct value){.type = VALUE_JSON, .j = j};
    case JSON_NULL:
        break;
    }
    return (struct value){.type = VALUE_NONE};
}

bool value_equal(struct value a, struct value b)
{
    double x, y;
    if (a.type == VALUE_INT && b.type == VALUE_INT) {
        return a.i == b.i; /* as doubles, two seeds above 2^53 would be equal */
    }
    if (value_number(a, &x) && value_number(b, &y)) {
        return x == y;
    }
    if (a.type != b.type) {
        return false;
    }
    switch (a.type) {
    case VALUE_NONE:
        return true;
    case VALUE_BOOL:
        return a.b == b.b;
    case VALUE_STRING:
        return strcmp(a.s, b.s) == 0;
    case VALUE_JSON:
        return json_equal(a.j, b.j) == 1;
    case VALUE_INT:
    case VALUE_NUMBER:
        break;
    }
    return false;
}

/* ---- neutral values. A parameter without a line here always asks for something. */

enum neutral_kind { NEUTRAL_NEVER, NEUTRAL_NUMBER, NEUTRAL_BOOL, NEUTRAL_EMPTY, NEUTRAL_WORD };

static const struct {
    enum neutral_kind kind;
    double number; /* or 0 and 1 for booleans */
    const char *word;
} neutral[PARAM_COUNT] = {
    [PARAM_TEMPERATURE] = {NEUTRAL_NUMBER, 1, NULL},
    [PARAM_TOP_P] = {NEUTRAL_NUMBER, 1, NULL},
    [PARAM_TOP_K] = {NEUTRAL_NUMBER, 0, NULL}, /* and -1 */
    [PARAM_MIN_P] = {NEUTRAL_NUMBER, 0, NULL},
    [PARAM_TYPICAL_P] = {NEUTRAL_NUMBER, 1, NULL},
    [PARAM_SEED] = {NEUTRAL_NUMBER, -1, NULL},
    [PARAM_STOP] = {NEUTRAL_EMPTY, 0, NULL},
    [PARAM_STOP_TOKEN_IDS] = {NEUTRAL_EMPTY, 0, NULL},
    [PARAM_MIN_TOKENS] = {NEUTRAL_NUMBER, 0, NULL},
    [PARAM_IGNORE_EOS] = {NEUTRAL_BOOL, 0, NULL},
    [PARAM_N] = {NEUTRAL_NUMBER, 1, NULL},
    [PARAM_BEST_OF] = {NEUTRAL_NUMBER, 1, NULL},
    [PARAM_PRESENCE_PENALTY] = {NEUTRAL_NUMBER, 0, NULL},
    [PARAM_FREQUENCY_PENALTY] = {NEUTRAL_NUMBER, 0, NULL},
    [PARAM_REPETITION_PENALTY] = {NEUTRAL_NUMBER, 1, NULL},
    [PARAM_NO_REPEAT_NGRAM_SIZE] = {NEUTRAL_NUMBER, 0, NULL},
    [PARAM_LOGIT_BIAS] = {NEUTRAL_EMPTY, 0, NULL},
    [PARAM_LOGPROBS] = {NEUTRAL_BOOL, 0, NULL},
    [PARAM_TOP_LOGPROBS] = {NEUTRAL_NUMBER, 0, NULL},
    [PARAM_USE_BEAM_SEARCH] = {NEUTRAL_BOOL, 0, NULL},
    [PARAM_NUM_BEAMS] = {NEUTRAL_NUMBER, 1, NULL},
    [PARAM_LENGTH_PENALTY] = {NEUTRAL_NUMBER, 1,
                              NULL}, /* divides by the length once, as without it */
    [PARAM_PENALTY_SCOPE] = {NEUTRAL_WORD, 0, "generated"},
    [PARAM_SAMPLER_ORDER] = {NEUTRAL_WORD, 0, "isotherm"},
    [PARAM_LOGPROBS_MODE] = {NEUTRAL_WORD, 0, "raw"},
    [PARAM_ECHO] = {NEUTRAL_BOOL, 0, NULL},
    [PARAM_TOOLS] = {NEUTRAL_EMPTY, 0, NULL},
    [PARAM_TOOL_CHOICE] = {NEUTRAL_WORD, 0, "auto"},
    [PARAM_PARALLEL_TOOL_CALLS] = {NEUTRAL_BOOL, 1, NULL},
    [PARAM_SERVICE_TIER] = {NEUTRAL_WORD, 0, "auto"},
    [PARAM_METADATA] = {NEUTRAL_EMPTY, 0, NULL},
    [PARAM_STORE] = {NEUTRAL_BOOL, 0, NULL},
};

static bool is_empty_json(struct value v)
{
    return v.type == VALUE_JSON && (json_is_array(v.j) || json_is_object(v.j)) &&
           json_array_size(v.j) + json_object_size(v.j) == 0;
}

/* The text of a string, also where it travels as JSON (tool_choice may be a word or an object). */
static const char *value_word(struct value v)
{
    if (v.type == VALUE_STRING) {
        return v.s;
    }
    return v.type == VALUE_JSON ? json_string_value(v.j) : NULL;
}

bool sampling_is_neutral(enum param p, struct value v)
{
    double x;
    const char *word;
    switch (neutral[p].kind) {
    case NEUTRAL_NUMBER:
        return value_number(v, &x) && (x == neutral[p].number || (p == PARAM_TOP_K && x == -1));
    case NEUTRAL_BOOL:
        return v.type == VALUE_BOOL && v.b == (neutral[p].number != 0);
    case NEUTRAL_EMPTY:
        return is_empty_json(v);
    case NEUTRAL_WORD:
        word = value_word(v);
        return word && strcmp(word, neutral[p].word) == 0;
    case NEUTRAL_NEVER:
        break;
    }
    return false;
}

/* ---- what is meaningless */

static bool fault_set(struct sampling_fault *f, enum param p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool fault_set(struct sampling_fault *f, enum param p, const char *fmt, ...)
{
    if (f) {
        va_list ap;
        va_start(ap, fmt);
        f->param = p;
        (void)vsnprintf(f->text, sizeof f->text, fmt, ap);
        va_end(ap);
    }
    return false;
}

static bool check_type(enum param p, struct value v, struct sampling_fault *f)
{
    static const char *const wanted[] = {
        [VALUE_NONE] = "nothing",    [VALUE_BOOL] = "true or false",
        [VALUE_INT] = "an integer",  [VALUE_NUMBER] = "a number",
        [VALUE_STRING] = "a string", [VALUE_JSON] = "a list or an object",
    };
    enum value_type want = sampling_table[p].type;
    if (v.type == want || (want == VALUE_NUMBER && v.type == VALUE_INT)) {
        return true;
    }
    return fault_set(f, p, "'%s' must be %s", sampling_table[p].name, wanted[want]);
}

static bool check_number(enum param p, struct value v, struct sampling_fault *f)
{
    const struct param_info *t = &sampling_table[p];
    double x;
    if (!value_number(v, &x)) {
        return true;
    }
    if (!isfinite(x)) {
        return fault_set(f, p, "'%s' must be a finite number", t->name);
    }
    if (x < t->lo || (t->lo_open && x <= t->lo)) {
        return fault_set(f, p, "'%s' must be %s %.10g", t->name, t->lo_open ? "above" : "at least",
                         t->lo);
    }
    if (x > t->hi) {
        return fault_set(f, p, "'%s' must be at most %.10g", t->name, t->hi);
    }
    return true;
}

static bool check_stop(struct value v, struct sampling_fault *f)
{
    size_t n = json_array_size(v.j);
    if (!json_is_array(v.j)) {
        return fault_set(f, PARAM_STOP, "'stop' must be a list of strings");
    }
    if (n > SAMPLING_STOP_MAX) {
        return fault_set(f, PARAM_STOP, "'stop' has %zu strings, at most %d are taken", n,
                         SAMPLING_STOP_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(v.j, i);
        if (!json_is_string(s) || json_string_length(s) == 0) {
            return fault_set(f, PARAM_STOP, "'stop[%zu]' must be a string that is not empty", i);
        }
    }
    return true;
}

static bool check_stop_ids(struct value v, struct sampling_fault *f)
{
    size_t n = json_array_size(v.j);
    if (!json_is_array(v.j)) {
        return fault_set(f, PARAM_STOP_TOKEN_IDS, "'stop_token_ids' must be a list of token ids");
    }
    if (n > SAMPLING_STOP_IDS_MAX) {
        return fault_set(f, PARAM_STOP_TOKEN_IDS,
                         "'stop_token_ids' has %zu entries, at most %d are taken", n,
                         SAMPLING_STOP_IDS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(v.j, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX) {
            return fault_set(f, PARAM_STOP_TOKEN_IDS,
                             "'stop_token_ids[%zu]' must be a token id, 0 or more", i);
        }
    }
    return true;
}

/* A token id in decimal, as JSON keys carry it: no sign, no leading zero, no blank. */
static bool is_token_id(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > 10 || strspn(s, "0123456789") != n || (n > 1 && s[0] == '0')) {
        return false;
    }
    return n < 10 || strcmp(s, "2147483647") <= 0;
}

static bool check_logit_bias(struct value v, struct sampling_fault *f)
{
    const struct param_info *t = &sampling_table[PARAM_LOGIT_BIAS];
    if (!json_is_object(v.j)) {
        return fault_set(f, PARAM_LOGIT_BIAS,
                         "'logit_bias' must be an object of token id -> number");
    }
    if (json_object_size(v.j) > SAMPLING_BIAS_MAX) {
        return fault_set(f, PARAM_LOGIT_BIAS, "'logit_bias' has %zu entries, at most %d are taken",
                         json_object_size(v.j), SAMPLING_BIAS_MAX);
    }
    json_t *object = (json_t *)v.j; /* jansson's iterators lack const; nothing is changed */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *bias = json_object_iter_value(it);
        if (!is_token_id(key)) {
            return fault_set(f, PARAM_LOGIT_BIAS, "'logit_bias' key '%.20s' is not a token id",
                             key);
        }
        double x = json_number_value(bias);
        if (!json_is_number(bias) || !(x >= t->lo && x <= t->hi)) {
            return fault_set(f, PARAM_LOGIT_BIAS, "'logit_bias' of token %s must be from %g to %g",
                             key, t->lo, t->hi);
        }
    }
    return true;
}

static bool check_words(enum param p, struct value v, const char *a, const char *b,
                        struct sampling_fault *f)
{
    if (strcmp(v.s, a) == 0 || strcmp(v.s, b) == 0) {
        return true;
    }
    return fault_set(f, p, "'%s' must be \"%s\" or \"%s\"", sampling_table[p].name, a, b);
}

static bool check_order(struct value v, struct sampling_fault *f)
{
    static const char *const words[] = {"isotherm", "hf", "vllm", "llama.cpp", "sglang"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(v.s, words[i]) == 0) {
            return true;
        }
    }
    return fault_set(f, PARAM_SAMPLER_ORDER,
                     "'sampler_order' must be isotherm, hf, vllm, llama.cpp or sglang");
}

static bool check_json(enum param p, struct value v, struct sampling_fault *f)
{
    switch (p) {
    case PARAM_STOP:
        return check_stop(v, f);
    case PARAM_STOP_TOKEN_IDS:
        return check_stop_ids(v, f);
    case PARAM_LOGIT_BIAS:
        return check_logit_bias(v, f);
    case PARAM_TOOLS:
        return json_is_array(v.j) || fault_set(f, p, "'tools' must be a list");
    case PARAM_TOOL_CHOICE:
        return json_is_string(v.j) || json_is_object(v.j) ||
               fault_set(f, p, "'tool_choice' must be a word or an object that names a function");
    default:
        return json_is_object(v.j) ||
               fault_set(f, p, "'%s' must be an object", sampling_table[p].name);
    }
}

static bool check_one(enum param p, struct value v, struct sampling_fault *f)
{
    /* tool_choice may come as a plain word. */
    if (p == PARAM_TOOL_CHOICE && v.type == VALUE_STRING) {
        return true;
    }
    if (!check_type(p, v, f) || !check_number(p, v, f)) {
        return false;
    }
    if (v.type == VALUE_JSON) {
        return check_json(p, v, f);
    }
    if (p == PARAM_PENALTY_SCOPE) {
        return check_words(p, v, "generated", "all", f);
    }
    if (p == PARAM_SAMPLER_ORDER) {
        return check_order(v, f);
    }
    return p != PARAM_LOGPROBS_MODE || check_words(p, v, "raw", "processed", f);
}

static int64_t int_or(const struct sampling *s, enum param p, int64_t absent)
{
    return sampling_has(s, p) ? s->v[p].i : absent;
}

bool sampling_is_search(const struct sampling *s)
{
    bool is_asked = sampling_has(s, PARAM_USE_BEAM_SEARCH) && s->v[PARAM_USE_BEAM_SEARCH].b;
    return is_asked || int_or(s, PARAM_NUM_BEAMS, 1) > 1;
}

static int rank_of(enum param p)
{
    switch (p) {
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
    case PARAM_STRUCTURED_OUTPUTS:
        return -2; /* what the answer must be outlasts how it is found */
    case PARAM_USE_BEAM_SEARCH:
    case PARAM_NUM_BEAMS:
        return -1;
    default:
        return (int)p;
    }
}

bool sampling_is_before(enum param a, enum param b)
{
    return rank_of(a) < rank_of(b);
}

static bool check_search(const struct sampling *s, struct sampling_fault *f)
{
    int64_t widest = (int64_t)sampling_table[PARAM_NUM_BEAMS].hi;
    if (sampling_is_search(s) && int_or(s, PARAM_N, 1) > int_or(s, PARAM_NUM_BEAMS, widest)) {
        return fault_set(f, PARAM_N,
                         "'n' must not be above 'num_beams', which is at most %d, with beam search",
                         (int)widest);
    }
    return true;
}

/* One word on what the answer must be. */
static bool check_form(const struct sampling *s, struct sampling_fault *f)
{
    bool is_object = sampling_has(s, PARAM_RESPONSE_FORMAT_JSON_OBJECT),
         is_schema = sampling_has(s, PARAM_RESPONSE_FORMAT_JSON_SCHEMA),
         is_structured = sampling_has(s, PARAM_STRUCTURED_OUTPUTS);
    if (is_object && is_schema) {
        return fault_set(f, PARAM_RESPONSE_FORMAT_JSON_SCHEMA, "'response_format' has two types");
    }
    if (is_structured && (is_object || is_schema)) {
        return fault_set(f, PARAM_STRUCTURED_OUTPUTS,
                         "'structured_outputs' and 'response_format' both say what the answer must "
                         "be: give one of them");
    }
    return true;
}

static bool check_together(const struct sampling *s, bool is_local, struct sampling_fault *f)
{
    struct value t = s->v[PARAM_TEMPERATURE];
    double temperature;
    if (!is_local && sampling_has(s, PARAM_TEMPERATURE) && value_number(t, &temperature) &&
        temperature > 2) {
        return fault_set(f, PARAM_TEMPERATURE,
                         "'temperature' must be at most 2; only local models take more");
    }
    if (int_or(s, PARAM_TOP_LOGPROBS, 0) > 0 &&
        !(sampling_has(s, PARAM_LOGPROBS) && s->v[PARAM_LOGPROBS].b)) {
        return fault_set(f, PARAM_TOP_LOGPROBS, "'top_logprobs' needs 'logprobs' true");
    }
    if (int_or(s, PARAM_MAX_TOKENS, 1) < 1 &&
        !(sampling_has(s, PARAM_ECHO) && s->v[PARAM_ECHO].b)) {
        return fault_set(f, PARAM_MAX_TOKENS,
                         "'max_tokens' must be an integer from 1 to 2147483647, or 0 with 'echo'");
    }
    if (int_or(s, PARAM_MIN_TOKENS, 0) > int_or(s, PARAM_MAX_TOKENS, INT64_MAX)) {
        return fault_set(f, PARAM_MIN_TOKENS, "'min_tokens' must not be above 'max_tokens'");
    }
    if (sampling_has(s, PARAM_BEST_OF) && s->v[PARAM_BEST_OF].i < int_or(s, PARAM_N, 1)) {
        return fault_set(f, PARAM_BEST_OF, "'best_of' must not be below 'n'");
    }
    return check_search(s, f) && check_form(s, f);
}

bool sampling_check(const struct sampling *s, bool is_local, struct sampling_fault *fault)
{
    for (int p = 0; p < PARAM_COUNT; p++) {
        if (sampling_has(s, (enum param)p) && !check_one((enum param)p, s->v[p], fault)) {
            return false;
        }
    }
    return check_together(s, is_local, fault);
}
