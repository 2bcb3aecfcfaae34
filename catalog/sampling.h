/* sampling.h - the one sampling schema: every parameter that a request may ask for.
 *
 * The table below is the only place where canonical parameters are listed. Names are those of the
 * HTTP contract. Presence is a bit of its own: absent is not the same as default, and an explicit
 * zero is a value like another.
 *
 * Ranges here are what is mathematically meaningful at all: outside of them a request is wrong
 * whatever backend answers. What one provider takes is a claim in the catalog (claim.h), never a
 * line here.
 *
 * Kinds:
 *  - SHAPES changes the distribution or the shape of the answer: a backend without it is a reason
 *    to fall back;
 *  - HINT: wishes that no other backend would honour better (user, metadata, reasoning effort ...):
 *    left out with an adjustment, never a reason to fall back.
 */
#ifndef ISOTHERM_CATALOG_SAMPLING_H
#define ISOTHERM_CATALOG_SAMPLING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value, by value. Strings and JSON are borrowed from the parsed body or the snapshot they were
 * read from. */
enum value_type { VALUE_NONE, VALUE_BOOL, VALUE_INT, VALUE_NUMBER, VALUE_STRING, VALUE_JSON };
struct value {
    enum value_type type;
    union {
        bool b;
        int64_t i;
        double d;
        const char *s;
        const json_t *j;
    };
};

enum param_kind { PARAM_SHAPES, PARAM_HINT };

/* Longest lists that mean anything: more is a 400, never a silent cut. Editors send a dozen stop
 * strings; a bias list is a few hundred entries where providers limit it. */
#define SAMPLING_STOP_MAX     64
#define SAMPLING_STOP_IDS_MAX 128
#define SAMPLING_BIAS_MAX     1024

/* id, name, type, lowest, highest, lowest is excluded, kind, what it means.
 * temperature: above 2 only the local engine takes it, see sampling_check(). */
#define SAMPLING_PARAMS(X)                                                                         \
    X(TEMPERATURE, "temperature", NUMBER, 0, HUGE_VAL, false, SHAPES,                              \
      "softmax temperature; 0 is greedy")                                                          \
    X(TOP_P, "top_p", NUMBER, 0, 1, false, SHAPES, "nucleus mass; 1 is off")                       \
    X(TOP_K, "top_k", INT, -1, 9.3e18, false, SHAPES, "most likely tokens kept; 0 and -1 are off") \
    X(MIN_P, "min_p", NUMBER, 0, 1, false, SHAPES,                                                 \
      "least probability relative to the best; 0 is off")                                          \
    X(TYPICAL_P, "typical_p", NUMBER, 0, 1, false, SHAPES, "locally typical mass; 1 is off")       \
    X(SEED, "seed", INT, -9.3e18, 9.3e18, false, SHAPES, "seed; -1 is none")                       \
    X(STOP, "stop", JSON, 0, 0, false, SHAPES, "list of stop strings, none empty")                 \
    X(STOP_TOKEN_IDS, "stop_token_ids", JSON, 0, 0, false, SHAPES,                                 \
      "list of token ids that end the answer")                                                     \
    X(MAX_TOKENS, "max_tokens", INT, 0, 2147483647, false, SHAPES,                                 \
      "longest answer in tokens; also max_completion_tokens; 0 with echo only")                    \
    X(MIN_TOKENS, "min_tokens", INT, 0, 2147483647, false, SHAPES, "shortest answer in tokens")    \
    X(IGNORE_EOS, "ignore_eos", BOOL, 0, 1, false, SHAPES, "never end at the end token")           \
    X(N, "n", INT, 1, 128, false, SHAPES, "number of choices")                                     \
    X(BEST_OF, "best_of", INT, 1, 128, false, SHAPES, "candidates from which n are taken")         \
    X(PRESENCE_PENALTY, "presence_penalty", NUMBER, -100, 100, false, SHAPES,                      \
      "subtracted once from a generated token")                                                    \
    X(FREQUENCY_PENALTY, "frequency_penalty", NUMBER, -100, 100, false, SHAPES,                    \
      "subtracted for each occurrence")                                                            \
    X(REPETITION_PENALTY, "repetition_penalty", NUMBER, 0, 1e6, true, SHAPES,                      \
      "divides positive logits of generated tokens")                                               \
    X(NO_REPEAT_NGRAM_SIZE, "no_repeat_ngram_size", INT, 0, 2147483647, false, SHAPES,             \
      "no n-gram twice; 0 is off")                                                                 \
    X(LOGIT_BIAS, "logit_bias", JSON, -100, 100, false, SHAPES,                                    \
      "object of token id -> number added to the logit")                                           \
    X(LOGPROBS, "logprobs", BOOL, 0, 1, false, SHAPES,                                             \
      "log-probabilities of the tokens in the answer")                                             \
    X(TOP_LOGPROBS, "top_logprobs", INT, 0, 20, false, SHAPES, "alternatives at each position")    \
    X(USE_BEAM_SEARCH, "use_beam_search", BOOL, 0, 1, false, SHAPES,                               \
      "beam search in place of sampling")                                                          \
    X(NUM_BEAMS, "num_beams", INT, 1, 64, false, SHAPES, "beam width")                             \
    X(LENGTH_PENALTY, "length_penalty", NUMBER, -100, 100, false, SHAPES,                          \
      "exponent of the length in a beam's score")                                                  \
    X(PENALTY_SCOPE, "penalty_scope", STRING, 0, 0, false, SHAPES,                                 \
      "\"generated\" or \"all\": what repetition_penalty counts")                                  \
    X(SAMPLER_ORDER, "sampler_order", STRING, 0, 0, false, SHAPES,                                 \
      "whose order of stages and boundary rules: isotherm, hf, vllm, llama.cpp or sglang")         \
    X(LOGPROBS_MODE, "logprobs_mode", STRING, 0, 0, false, SHAPES, "\"raw\" or \"processed\"")     \
    X(ECHO, "echo", BOOL, 0, 1, false, SHAPES, "the prompt comes back before the answer")          \
    X(RESPONSE_FORMAT_JSON_OBJECT, "response_format_json_object", JSON, 0, 0, false, SHAPES,       \
      "response_format of type json_object")                                                       \
    X(RESPONSE_FORMAT_JSON_SCHEMA, "response_format_json_schema", JSON, 0, 0, false, SHAPES,       \
      "response_format of type json_schema")                                                       \
    X(STRUCTURED_OUTPUTS, "structured_outputs", JSON, 0, 0, false, SHAPES,                         \
      "object with one of json, regex, choice: what the answer must be")                           \
    X(TOOLS, "tools", JSON, 0, 0, false, SHAPES, "functions that the model may call")              \
    X(TOOL_CHOICE, "tool_choice", JSON, 0, 0, false, SHAPES,                                       \
      "none, auto, required or one function")                                                      \
    X(PARALLEL_TOOL_CALLS, "parallel_tool_calls", BOOL, 0, 1, false, SHAPES,                       \
      "false: at most one call")                                                                   \
    X(REASONING_EFFORT, "reasoning_effort", STRING, 0, 0, false, HINT,                             \
      "how long the model may think")                                                              \
    X(VERBOSITY, "verbosity", STRING, 0, 0, false, HINT, "length of the answer as a wish")         \
    X(PREDICTION, "prediction", JSON, 0, 0, false, HINT, "expected text, to be faster")            \
    X(SERVICE_TIER, "service_tier", STRING, 0, 0, false, HINT, "price and speed class")            \
    X(USER, "user", STRING, 0, 0, false, HINT, "opaque id of the end user")                        \
    X(METADATA, "metadata", JSON, 0, 0, false, HINT, "labels kept by the provider")                \
    X(STORE, "store", BOOL, 0, 1, false, HINT, "keep the answer at the provider")                  \
    X(PROMPT_CACHE_KEY, "prompt_cache_key", STRING, 0, 0, false, HINT,                             \
      "groups requests for the provider's prompt cache")                                           \
    X(SAFETY_IDENTIFIER, "safety_identifier", STRING, 0, 0, false, HINT,                           \
      "opaque id for abuse reports")

enum param {
#define X(id, name, type, lo, hi, lo_open, kind, text) PARAM_##id,
    SAMPLING_PARAMS(X)
#undef X
        PARAM_COUNT
};
_Static_assert(PARAM_COUNT <= 64, "one presence bit for each parameter");
#define PARAM_BIT(p) (UINT64_C(1) << (p))

struct param_info {
    const char *name;
    enum value_type type;
    double lo, hi;
    bool lo_open;
    enum param_kind kind;
    const char *text;
};
extern const struct param_info sampling_table[PARAM_COUNT];

/* What was asked, or what is sent: values with presence bits. */
struct sampling {
    uint64_t has;
    struct value v[PARAM_COUNT];
};

static inline bool sampling_has(const struct sampling *s, enum param p)
{
    return (s->has >> p) & 1;
}
void sampling_set(struct sampling *s, enum param p, struct value v);
void sampling_clear(struct sampling *s, enum param p);

/* The parameter of that canonical name, or PARAM_COUNT. */
enum param sampling_find(const char *name);

/* Whether `v` asks for nothing: temperature 1, top_p 1, top_k 0 or -1, min_p 0, penalties 0,
 * repetition_penalty 1, n 1, best_of 1, logprobs false, top_logprobs 0, empty stop list, empty
 * logit_bias, seed -1, tool_choice "auto", parallel_tool_calls true ... */
bool sampling_is_neutral(enum param p, struct value v);

/* Whether beam search is asked for: by use_beam_search, or by num_beams above 1. */
bool sampling_is_search(const struct sampling *s);

/* Which of two that may not travel together is kept, if both ask for something: the order of the
 * table, but the form of the answer comes first, and a search second. They are asked for, where a
 * temperature is often sent by habit. */
bool sampling_is_before(enum param a, enum param b);

/* Equal in type and value (JSON by json_equal; an int and a number of the same value are equal). */
bool value_equal(struct value a, struct value b);

/* As JSON, null for VALUE_NONE; a new reference (of VALUE_JSON: to the same value, which is only
 * read from then on). */
json_t *value_json(struct value v);
/* The other way round; null and NULL are VALUE_NONE, lists and objects VALUE_JSON. Borrows from
 * `j`. */
struct value value_from_json(const json_t *j);

/* Why a set of values is meaningless whatever backend answers. */
struct sampling_fault {
    enum param param;
    char text[160]; /* what is wrong and what would be right */
};

/* Checks types, ranges and combinations: temperature above 2 unless `is_local`, top_logprobs
 * without logprobs, min_tokens above max_tokens, best_of below n, n above num_beams, empty stop
 * strings, lists that are too long, logit_bias keys and values, words that are not one of the two,
 * NaN. true: all meaningful; `fault` untouched. */
bool sampling_check(const struct sampling *s, bool is_local, struct sampling_fault *fault);

#endif
