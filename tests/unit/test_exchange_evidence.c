/* test_exchange_evidence.c - what may be kept of a refusal's text, and what it says. */
#include "gateway/exchange_evidence.h"

#include "gateway/backend/refusal.h"
#include "gateway/backend/refusal_param.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool is_content(const char *text, const char *body)
{
    json_t *b = json_loads(body, 0, NULL);
    assert_non_null(b);
    bool is = exchange_evidence_is_content(text, b);
    json_decref(b);
    return is;
}

static void test_content(void **state)
{
    (void)state;
    static const char body[] =
        "{\"model\": \"unsupported-parameter-model-of-long-name\", \"reasoning_effort\": "
        "\"minimal\","
        " \"user\": \"some-one-77\", \"stop\": [\"halting here\"], \"messages\": ["
        "{\"role\": \"developer\", \"content\": \"abcdefghijklmnopqrstuvwxyz0123456789\"},"
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"the pin: 4711\"}]},"
        "{\"role\": \"user\", \"content\": \"hi\"}]}";
    static const struct {
        const char *text;
        bool is;
    } cases[] = {
        {"Unsupported parameter: 'top_k' is not supported with this model.", false},
        {"'minimal' is no effort of unsupported-parameter-model-of-long-name", false},
        {"hi, developer", false},
        {"", false},
        {"you said abcdefghijklmnopqrstuvwx", true},               /* the first 24 */
        {"you said abcdefghijklmnopqrstuvw", false},               /* 23 of a longer text */
        {"you said defghijklmnopqrstuvwxyz01 ...", true},          /* from its middle */
        {"A B C D E F G H I J K L M N O P Q R S T U V W X", true}, /* written otherwise */
        {"nopqrstuvwxyz0123456789", false},
        {"mnopqrstuvwxyz0123456789", true},    /* the last 24 */
        {"about \"THE PIN:\\n4711\"?", false}, /* an n more: not the same letters */
        {"about THE PIN 4711?", true},
        {"ended by 'halting here'", true},
        {"user some-one-77 may not", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (is_content(cases[i].text, body) != cases[i].is) {
            fail_msg("'%s' is taken %sfor content", cases[i].text, cases[i].is ? "not " : "");
        }
    }
    assert_false(is_content("anything at all", "{}"));
}

static void test_refused_as_such(void **state)
{
    (void)state;
    assert_true(refusal_is_of_parameter("unsupported_parameter", ""));
    assert_true(refusal_is_of_parameter("", "Unknown parameter: 'top_k'."));
    assert_true(refusal_is_of_parameter("", "seed: Extra inputs are not permitted"));
    assert_true(refusal_is_of_parameter(
        "", "Unsupported parameter: 'seed' is not supported with this model."));
    assert_false(refusal_is_of_parameter("unsupported_value",
                                         "Unsupported value: 'temperature' does not support 0.2 "
                                         "with this model. Only the default (1) value is "
                                         "supported."));
    assert_false(
        refusal_is_of_parameter("", "Invalid 'temperature': decimal above maximum value."));
    assert_false(refusal_is_of_parameter("", "top_p must be in the range (0, 1]"));
    assert_false(refusal_is_of_parameter("", ""));
}

/* Providers name what they refuse by its path, its last part, or that in their other spelling. */
static void test_names(void **state)
{
    (void)state;
    static struct exchange x;
    struct plan *plan = &x.prep.plan;
    static const struct {
        enum param p;
        const char *wire;
    } sent[] = {{PARAM_MAX_TOKENS, "generationConfig.maxOutputTokens"},
                {PARAM_TOP_K, "generationConfig.topK"},
                {PARAM_TOP_P, "options.top_p"},
                {PARAM_STOP, "stop_sequences"},
                {PARAM_SEED, "k"}};
    static const struct {
        const char *name;
        enum param p;
    } cases[] = {
        {"max_tokens", PARAM_MAX_TOKENS},
        {"generationConfig.maxOutputTokens", PARAM_MAX_TOKENS},
        {"generation_config.max_output_tokens", PARAM_MAX_TOKENS},
        {"maxOutputTokens", PARAM_MAX_TOKENS},
        {"max_output_tokens", PARAM_MAX_TOKENS},
        {"topP", PARAM_TOP_P},
        {"top_k", PARAM_TOP_K},
        {"stopSequences", PARAM_STOP},
        {"k", PARAM_SEED},
        {"messages.0.topK", PARAM_COUNT},
        {"stop_sequences[0]", PARAM_COUNT},
        {"generation_config.unknown", PARAM_COUNT},
        {"output_tokens", PARAM_COUNT},
        {"temperature", PARAM_COUNT},
        {"", PARAM_COUNT},
        {"a_name_that_is_longer_than_any_that_a_parameter_of_ours_could_ever_have", PARAM_COUNT}};
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        sampling_set(&plan->send, sent[i].p, (struct value){.type = VALUE_INT, .i = 1});
        plan->wire[sent[i].p] = sent[i].wire;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (exchange_evidence_param(&x, cases[i].name) != cases[i].p) {
            fail_msg("'%s' is taken for another parameter", cases[i].name);
        }
    }
    static const struct {
        const char *name;
        enum param p;
        bool is_inside;
    } within[] = {{"stop_sequences[0]", PARAM_STOP, true},
                  {"options.topP.value", PARAM_TOP_P, true},
                  {"topK", PARAM_TOP_K, false},
                  {"generation_config.unknown", PARAM_COUNT, false},
                  {"stop_sequences_too", PARAM_COUNT, false}};
    for (size_t i = 0; i < sizeof within / sizeof *within; i++) {
        bool is_inside;
        assert_int_equal(refusal_param(within[i].name, &plan->send, plan->wire, &is_inside),
                         within[i].p);
        assert_int_equal(is_inside, within[i].is_inside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
