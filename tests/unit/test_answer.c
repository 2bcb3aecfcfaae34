/* test_answer.c - what is normalised for every backend: stop strings over every split of the text,
 * log-probabilities past a cut, calls, limits, and when an answer counts as complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/answer.h"

/* What the client would see. */
struct client {
    char text[4][4096];
    size_t len[4];
    unsigned n_items[4], n_finish[4], n_end, n_usage, n_after_finish;
    enum finish finish[4];
    bool refuses;
};

static bool receive(const struct delta *d, void *ud)
{
    struct client *c = ud;
    if (c->refuses) {
        return false;
    }
    assert_true(d->choice < 4);
    c->n_end += d->kind == DELTA_END;
    c->n_usage += d->kind == DELTA_USAGE;
    if (d->kind == DELTA_FINISH) {
        c->n_finish[d->choice]++;
        c->finish[d->choice] = d->finish;
    } else if (d->kind == DELTA_TEXT) {
        c->n_after_finish += c->n_finish[d->choice] > 0;
        assert_true(c->len[d->choice] + d->text.len < sizeof c->text[0]);
        memcpy(c->text[d->choice] + c->len[d->choice], d->text.p, d->text.len);
        c->len[d->choice] += d->text.len;
        c->n_items[d->choice] += (unsigned)json_array_size(d->json);
    }
    return true;
}

static bool give_text(struct answer *a, unsigned choice, const char *p, size_t n)
{
    return answer_take(&(struct delta){.kind = DELTA_TEXT, .choice = choice, .text = {p, n}}, a);
}

static bool give_finish(struct answer *a, unsigned choice, enum finish finish, const char *native)
{
    return answer_take(
        &(struct delta){
            .kind = DELTA_FINISH, .choice = choice, .finish = finish, .text = slice_str(native)},
        a);
}

static bool give_end(struct answer *a)
{
    return answer_take(&(struct delta){.kind = DELTA_END}, a);
}

static void begin(struct answer *a, struct client *c, unsigned n, const char *stops)
{
    struct failure f = {.status = 0};
    json_t *list = stops ? json_loads(stops, 0, NULL) : NULL;
    memset(c, 0, sizeof *c);
    assert_true(answer_init(a, n, list, true, receive, c, &f));
    json_decref(list); /* the answer needs it no longer */
}

/* Feeds `text` cut after the bytes whose bits are set in `cuts`, then the end; the client sees
 * `want`, the reason is `finish`. */
static void check_split(const char *stops, const char *text, unsigned cuts, const char *want,
                        enum finish finish)
{
    struct answer a;
    struct client c;
    struct failure f = {.status = 0};
    begin(&a, &c, 1, stops);
    size_t from = 0, len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        if (((cuts >> i) & 1) || i + 1 == len) {
            assert_true(give_text(&a, 0, text + from, i + 1 - from));
            from = i + 1;
        }
    }
    assert_int_equal(answer_has_enough(&a), finish == FINISH_STOP);
    assert_true(give_finish(&a, 0, FINISH_LENGTH, "length"));
    assert_true(give_end(&a));
    assert_true(answer_finish(&a, &f));
    assert_string_equal(c.text[0], want);
    assert_int_equal(a.choice[0].text.len, strlen(want));
    assert_int_equal(a.text_bytes, strlen(want));
    assert_memory_equal(a.choice[0].text.p ? a.choice[0].text.p : "", want, strlen(want));
    assert_int_equal(c.finish[0], finish);
    assert_int_equal(c.n_finish[0], 1);
    assert_int_equal(c.n_after_finish, 0);
    answer_release(&a);
}

static void test_stop_over_every_split(void **state)
{
    (void)state;
    const char *text = "Hi\nUser: more";
    for (unsigned cuts = 0; cuts < 1u << (strlen(text) - 1); cuts++) {
        check_split("[\"\\nUser:\"]", text, cuts, "Hi", FINISH_STOP);
    }
}

static void test_partial_stop_is_released(void **state)
{
    (void)state;
    const char *text = "Hi\nUsers!";
    for (unsigned cuts = 0; cuts < 1u << (strlen(text) - 1); cuts++) {
        check_split("[\"\\nUser:\"]", text, cuts, "Hi\nUsers!", FINISH_LENGTH);
        check_split("[\"s!?\"]", text, cuts, "Hi\nUsers!",
                    FINISH_LENGTH); /* held back until the very end */
    }
}

static void test_blank_stop(void **state)
{
    (void)state;
    const char *text = "a\n\nb END";
    for (unsigned cuts = 0; cuts < 1u << (strlen(text) - 1); cuts++) {
        check_split("[\"\\n\\n\",\"END\"]", text, cuts, "a", FINISH_STOP);
    }
}

static void test_many_stops(void **state)
{
    (void)state;
    const char *text = "keep<9>out<3>";
    const char *stops = "[\"<1>\",\"<2>\",\"<3>\",\"<4>\",\"<5>\",\"<6>\",\"<7>\",\"<8>\",\"<9>\","
                        "\"<10>\",\"<11>\",\"<12>\"]";
    for (unsigned cuts = 0; cuts < 1u << (strlen(text) - 1); cuts++) {
        check_split(stops, text, cuts, "keep", FINISH_STOP);
    }
}

static void test_bad_stops(void **state)
{
    (void)state;
    static const char *const bad[] = {"[\"\"]", "[1]"};
    for (size_t i = 0; i < 2; i++) {
        struct answer a;
        struct failure f = {.status = 0};
        json_t *stops = json_loads(bad[i], 0, NULL);
        assert_false(answer_init(&a, 3, stops, true, NULL, NULL, &f));
        assert_int_equal(f.status, 400);
        assert_string_equal(f.param, "stop");
        answer_release(&a);
        json_decref(stops);
    }
}

/* One choice is cut, the other goes on; the call may end when both have. */
static void test_cut_of_one_choice(void **state)
{
    (void)state;
    struct answer a;
    struct client c;
    struct failure f = {.status = 0};
    begin(&a, &c, 2, "[\"X\"]");
    assert_true(give_text(&a, 0, "aX", 2));
    assert_false(answer_has_enough(&a)); /* the other choice has not even begun */
    assert_true(give_text(&a, 1, "b", 1));
    assert_true(give_text(&a, 0, "never", 5));
    assert_false(answer_has_enough(&a));
    assert_false(answer_finish(&a, &f));
    assert_string_equal(f.code, "stream_incomplete");
    assert_true(give_finish(&a, 1, FINISH_LENGTH, "length"));
    assert_true(answer_has_enough(&a));
    memset(&f, 0, sizeof f);
    assert_true(answer_finish(&a, &f)); /* without the backend's end: it was not needed */
    assert_string_equal(c.text[0], "a");
    assert_string_equal(c.text[1], "b");
    assert_int_equal(a.choice[0].n_deltas, 1);
    answer_release(&a);
}

static void test_usage_after_a_cut(void **state)
{
    (void)state;
    struct answer a;
    struct client c;
    struct failure f = {.status = 0};
    begin(&a, &c, 1, "[\"X\"]");
    assert_true(give_text(&a, 0, "aXb", 3));
    assert_true(give_finish(&a, 0, FINISH_LENGTH, "max_tokens"));
    struct usage u = {.is_known = true, .prompt_tokens = 5, .completion_tokens = 9};
    assert_true(answer_take(&(struct delta){.kind = DELTA_USAGE, .usage = u}, &a));
    assert_true(give_end(&a));
    assert_true(answer_finish(&a, &f));
    assert_int_equal(a.usage.completion_tokens, 9);
    assert_int_equal(c.finish[0], FINISH_STOP);
    assert_string_equal(a.choice[0].native_finish, "max_tokens");
    assert_int_equal(c.n_usage + c.n_end, 2);
    answer_release(&a);
}

static json_t *items(const char *const *tokens, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_pack("{s:s,s:f,s:n,s:[]}", "token", tokens[i], "logprob",
                                              -1.0, "bytes", "top_logprobs"));
    }
    return list;
}

/* Tokens `a`, `b`, `\n`, `Us`, `er`, `:`, `x`: the cut at "\nUs" keeps two items, in whichever
 * pieces they come. */
static void test_logprobs_past_a_cut(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "\n", "Us", "er", ":", "x"};
    for (unsigned cuts = 0; cuts < 64; cuts++) {
        struct answer a;
        struct client c;
        begin(&a, &c, 1, "[\"\\nUs\"]");
        size_t from = 0;
        for (size_t i = 0; i < 7; i++) {
            if (((cuts >> i) & 1) || i == 6) {
                char text[32] = "";
                for (size_t k = from; k <= i; k++) {
                    strncat(text, tokens[k], sizeof text - strlen(text) - 1);
                }
                json_t *list = items(tokens + from, i + 1 - from);
                assert_true(answer_take(
                    &(struct delta){.kind = DELTA_TEXT, .text = slice_str(text), .json = list},
                    &a));
                json_decref(list);
                from = i + 1;
            }
        }
        assert_string_equal(c.text[0], "ab");
        assert_int_equal(c.n_items[0], 2);
        assert_int_equal(json_array_size(a.choice[0].logprobs), 2);
        answer_release(&a);
    }
}

static void test_logprobs_without_a_cut(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "\n", "U", "<end>"};
    struct answer a;
    struct client c;
    begin(&a, &c, 1, "[\"\\nUs\"]");
    for (size_t i = 0; i < 4; i++) {
        json_t *list = items(tokens + i, 1);
        struct slice text =
            i < 3 ? slice_str(tokens[i]) : (struct slice){NULL, 0}; /* an end mark has no text */
        assert_true(
            answer_take(&(struct delta){.kind = DELTA_TEXT, .text = text, .json = list}, &a));
        json_decref(list);
    }
    assert_int_equal(c.n_items[0], 1); /* the rest waits with its text */
    assert_true(give_finish(&a, 0, FINISH_LENGTH, "length"));
    assert_int_equal(c.n_items[0], 4);
    assert_string_equal(c.text[0], "a\nU");
    answer_release(&a);
}

static void test_incomplete(void **state)
{
    (void)state;
    struct answer a;
    struct client c;
    struct failure f = {.status = 0};
    begin(&a, &c, 1, NULL);
    assert_false(answer_finish(&a, &f)); /* nothing came at all */
    memset(&f, 0, sizeof f);
    assert_true(give_text(&a, 0, "a", 1));
    assert_true(give_finish(&a, 0, FINISH_STOP, "stop"));
    assert_false(answer_finish(&a, &f)); /* the end is missing */
    assert_int_equal(f.status, 502);
    assert_string_equal(f.type, "upstream_error");
    assert_string_equal(f.code, "stream_incomplete");
    memset(&f, 0, sizeof f);
    assert_true(give_end(&a));
    assert_true(answer_finish(&a, &f));
    assert_int_equal(f.status, 0);
    answer_release(&a);

    begin(&a, &c, 2, NULL);
    assert_true(give_text(&a, 1, "b", 1)); /* choice 0 never came */
    assert_true(give_finish(&a, 1, FINISH_STOP, "stop"));
    assert_true(give_end(&a));
    assert_false(answer_finish(&a, &f));
    answer_release(&a);
}

static void test_choice_that_was_not_asked_for(void **state)
{
    (void)state;
    struct answer a;
    struct client c;
    struct failure f = {.status = 0};
    begin(&a, &c, 1, NULL);
    assert_null(answer_failure(&a));
    assert_false(give_text(&a, 1, "b", 1));
    assert_int_equal(answer_failure(&a)->status, 502);
    assert_false(give_text(&a, 0, "a", 1)); /* the first failure stays */
    assert_false(answer_finish(&a, &f));
    assert_string_equal(f.code, "upstream_malformed");
    answer_release(&a);
    assert_false(answer_init(&a, 0, NULL, true, NULL, NULL, NULL));
    assert_false(answer_init(&a, ANSWER_CHOICES_MAX + 1, NULL, true, NULL, NULL, NULL));
}

static bool give_tool(struct answer *a, const char *json)
{
    json_t *j = json_loads(json, 0, NULL);
    assert_non_null(j);
    bool ok = answer_take(&(struct delta){.kind = DELTA_TOOL, .json = j}, a);
    json_decref(j);
    return ok;
}

static void test_arguments_in_small_pieces_are_joined(void **state)
{
    (void)state;
    enum { PIECES = 65536 };
    struct answer a;
    struct client c;
    struct failure f = {.status = 0};
    begin(&a, &c, 1, NULL);
    json_t *piece = json_loads(
        "{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"x\"}}", 0, NULL);
    for (int i = 0; i < PIECES; i++) {
        assert_true(answer_take(&(struct delta){.kind = DELTA_TOOL, .json = piece}, &a));
    }
    assert_true(give_finish(&a, 0, FINISH_TOOL_CALLS, "tool_calls"));
    assert_true(give_end(&a));
    assert_true(answer_finish(&a, &f));
    const json_t *function = json_object_get(json_array_get(a.choice[0].tools, 0), "function");
    assert_int_equal(json_string_length(json_object_get(function, "arguments")), PIECES);
    assert_int_equal(json_array_size(a.choice[0].tools), 1);
    json_decref(piece);
    answer_release(&a);
}

static void test_tools_are_joined(void **state)
{
    (void)state;
    struct answer a;
    struct client c;
    struct failure f = {.status = 0};
    begin(&a, &c, 1, NULL);
    assert_true(give_tool(&a, "{\"index\":1,\"id\":\"call_1\",\"type\":\"function\",\"function\":{"
                              "\"name\":\"f\",\"arguments\":\"\"}}"));
    assert_true(give_tool(&a, "{\"index\":1,\"function\":{\"arguments\":\"{\\\"a\\\":\"}}"));
    assert_true(give_tool(&a, "{\"index\":1,\"function\":{\"arguments\":\"1}\"}}"));
    assert_true(give_tool(&a, "{\"index\":2,\"id\":\"call_2\",\"function\":{\"name\":\"g\"}}"));
    assert_true(give_finish(&a, 0, FINISH_TOOL_CALLS, "tool_calls"));
    assert_true(give_end(&a));
    assert_true(answer_finish(&a, &f));
    json_t *want = json_loads("[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":"
                              "\"f\",\"arguments\":\"{\\\"a\\\":1}\"}},"
                              "{\"id\":\"call_2\",\"type\":\"function\",\"function\":{\"name\":"
                              "\"g\",\"arguments\":\"\"}}]",
                              0, NULL);
    assert_true(
        json_equal(want, a.choice[0].tools)); /* index 0, of which nobody spoke, is no call */
    json_decref(want);
    assert_true(give_tool(&a, "{\"index\":0,\"id\":\"late\"}")); /* after the finish: passed over */
    assert_int_equal(a.choice[0].n_deltas, 4);
    answer_release(&a);
    begin(&a, &c, 1, NULL);
    assert_false(give_tool(&a, "{\"index\":99999,\"id\":\"x\"}"));
    assert_false(answer_failure(&a) == NULL);
    answer_release(&a);
}

static void test_meta(void **state)
{
    (void)state;
    struct answer a;
    struct client c;
    char longer[400];
    memset(longer, 'x', sizeof longer);
    memcpy(longer + 126, "\xe4\xb8\x96", 3); /* a character across the limit */
    longer[399] = '\0';
    begin(&a, &c, 1, NULL);
    struct delta_meta m = {.id = "id1", .model = longer, .seed = 7, .has_seed = true};
    assert_true(answer_take(&(struct delta){.kind = DELTA_META, .meta = m}, &a));
    assert_true(
        answer_take(&(struct delta){.kind = DELTA_META, .meta = {.fingerprint = "fp"}}, &a));
    assert_string_equal(a.provider_id, "id1");
    assert_string_equal(a.provider_fingerprint, "fp");
    assert_int_equal(strlen(a.provider_model), 126);
    assert_int_equal(a.provider_seed, 7);
    answer_release(&a);
}

static void test_receiver_refuses(void **state)
{
    (void)state;
    struct answer a;
    struct client c;
    begin(&a, &c, 1, NULL);
    c.refuses = true;
    assert_false(give_text(&a, 0, "a", 1));
    assert_null(answer_failure(&a));
    answer_release(&a);
}

static void test_names(void **state)
{
    (void)state;
    assert_null(finish_name(FINISH_NONE));
    assert_string_equal(finish_name(FINISH_STOP), "stop");
    assert_string_equal(finish_name(FINISH_LENGTH), "length");
    assert_string_equal(finish_name(FINISH_TOOL_CALLS), "tool_calls");
    assert_string_equal(finish_name(FINISH_CONTENT_FILTER), "content_filter");
    answer_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_over_every_split),
        cmocka_unit_test(test_partial_stop_is_released),
        cmocka_unit_test(test_blank_stop),
        cmocka_unit_test(test_many_stops),
        cmocka_unit_test(test_bad_stops),
        cmocka_unit_test(test_cut_of_one_choice),
        cmocka_unit_test(test_usage_after_a_cut),
        cmocka_unit_test(test_logprobs_past_a_cut),
        cmocka_unit_test(test_logprobs_without_a_cut),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_choice_that_was_not_asked_for),
        cmocka_unit_test(test_tools_are_joined),
        cmocka_unit_test(test_arguments_in_small_pieces_are_joined),
        cmocka_unit_test(test_meta),
        cmocka_unit_test(test_receiver_refuses),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
