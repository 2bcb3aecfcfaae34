/* The bytes that a client reads: whole bodies, streams, failures. */
#include "gateway/reply.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct reply make_reply(bool is_chat, bool include_usage)
{
    struct reply r = {.is_chat = is_chat,
                      .include_usage = include_usage,
                      .id = "chatcmpl-1",
                      .created_s = 1790000000,
                      .model = "m",
                      .system_fingerprint = "iso_0"};
    return r;
}

static struct delta text_delta(unsigned choice, const char *text, json_t *items)
{
    struct delta d = {.kind = DELTA_TEXT, .choice = choice, .text = slice_str(text), .json = items};
    return d;
}

static void take(struct answer *a, struct delta d)
{
    assert_true(answer_take(&d, a));
}

/* Two choices, the second cut by the limit. */
static void fill(struct answer *a, bool keeps_text)
{
    struct failure f = {.status = 0};
    assert_true(answer_init(a, 2, NULL, keeps_text, NULL, NULL, &f));
    take(a, text_delta(0, "Once", NULL));
    take(a, text_delta(0, " more", NULL));
    take(a, text_delta(1, "Tw\"o", NULL));
    take(a, (struct delta){.kind = DELTA_FINISH, .choice = 0, .finish = FINISH_STOP});
    take(a, (struct delta){.kind = DELTA_FINISH, .choice = 1, .finish = FINISH_LENGTH});
    take(a,
         (struct delta){.kind = DELTA_USAGE,
                        .usage = {.is_known = true, .prompt_tokens = 3, .completion_tokens = 4}});
    take(a, (struct delta){.kind = DELTA_END});
    assert_true(answer_finish(a, &f));
}

static void expect(struct buf *out, const char *want)
{
    assert_false(out->is_failed);
    assert_string_equal(out->p, want);
    buf_release(out);
}

#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7,"                   \
    "\"prompt_tokens_details\":{\"cached_tokens\":0},"                                             \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0}}"
#define HEAD(object)                                                                               \
    "{\"id\":\"chatcmpl-1\",\"object\":\"" object                                                  \
    "\",\"created\":1790000000,\"model\":\"m\",\"system_fingerprint\":\"iso_0\",\"choices\":"

static void test_a_whole_chat_answer(void **state)
{
    (void)state;
    struct answer a;
    struct buf out;
    struct reply r = make_reply(true, false);
    json_t *isotherm = json_pack("{s:n}", "fallback");
    fill(&a, true);
    buf_init(&out, 1u << 16);
    assert_true(reply_whole(&r, &a, isotherm, &out));
    expect(&out, HEAD("chat.completion") "[{\"index\":0,\"message\":{\"role\":\"assistant\","
                                         "\"content\":\"Once more\",\"refusal\":null},"
                                         "\"logprobs\":null,\"finish_reason\":\"stop\"},"
                                         "{\"index\":1,\"message\":{\"role\":\"assistant\","
                                         "\"content\":\"Tw\\\"o\",\"refusal\":null},"
                                         "\"logprobs\":null,\"finish_reason\":\"length\"}]," USAGE
                                         ",\"isotherm\":{\"fallback\":null}}");
    json_decref(isotherm);
    answer_release(&a);
}

/* Without text the content is null where that has another reason than that nothing was said. */
static void test_content_that_is_not_there(void **state)
{
    (void)state;
    static const struct {
        enum finish finish;
        const char *text, *refusal, *want;
    } cases[] = {{FINISH_STOP, "", "", "\"content\":\"\",\"refusal\":null}"},
                 {FINISH_CONTENT_FILTER, "", "", "\"content\":null,\"refusal\":null}"},
                 {FINISH_CONTENT_FILTER, "x", "", "\"content\":\"x\",\"refusal\":null}"},
                 {FINISH_STOP, "", "no", "\"content\":null,\"refusal\":\"no\"}"},
                 {FINISH_STOP, "x", "no", "\"content\":\"x\",\"refusal\":\"no\"}"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        struct buf out;
        struct failure f = {.status = 0};
        struct reply r = make_reply(true, false);
        json_t *isotherm = json_object();
        assert_true(answer_init(&a, 1, NULL, true, NULL, NULL, &f));
        take(&a, text_delta(0, cases[i].text, NULL));
        take(&a, (struct delta){.kind = DELTA_REFUSAL, .text = slice_str(cases[i].refusal)});
        take(&a, (struct delta){.kind = DELTA_FINISH, .finish = cases[i].finish});
        take(&a, (struct delta){.kind = DELTA_END});
        assert_true(answer_finish(&a, &f));
        buf_init(&out, 1u << 16);
        assert_true(reply_whole(&r, &a, isotherm, &out));
        assert_non_null(strstr(out.p, cases[i].want));
        buf_release(&out);
        json_decref(isotherm);
        answer_release(&a);
    }
}

static void test_a_stream_of_two_choices(void **state)
{
    (void)state;
    struct answer a;
    struct buf out;
    struct reply r = make_reply(true, true);
    json_t *isotherm = json_pack("{s:n}", "fallback");
    struct delta d = text_delta(0, "Once", NULL);
    fill(&a, false);
    buf_init(&out, 1u << 16);
    assert_true(reply_delta(&r, &d, isotherm, &out));
    expect(&out,
           "data: " HEAD("chat.completion.chunk") "[{\"index\":0,\"delta\":{\"role\":\"assistant\","
                                                  "\"content\":\"Once\"},\"logprobs\":null,"
                                                  "\"finish_reason\":null}],\"usage\":null,"
                                                  "\"isotherm\":{\"fallback\":null}}\n\n");
    buf_init(&out, 1u << 16);
    d = text_delta(0, " more", NULL);
    assert_true(reply_delta(&r, &d, NULL, &out));
    expect(&out,
           "data: " HEAD("chat.completion.chunk") "[{\"index\":0,\"delta\":{\"content\":\" "
                                                  "more\"},\"logprobs\":null,"
                                                  "\"finish_reason\":null}],\"usage\":null}\n\n");
    buf_init(&out, 1u << 16);
    assert_true(
        reply_end(&r, &a, NULL,
                  &out)); /* the second choice never spoke: its last chunk says who would have */
    expect(
        &out,
        "data: " HEAD(
            "chat.completion.chunk") "[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_"
                                     "reason\":\"stop\"}],\"usage\":null}\n\n"
                                     "data: " HEAD(
                                         "chat.completion.chunk") "[{\"index\":1,\"delta\":{"
                                                                  "\"role\":\"assistant\","
                                                                  "\"content\":\"\"},\"logprobs\":"
                                                                  "null,"
                                                                  "\"finish_reason\":\"length\"}],"
                                                                  "\"usage\":null}\n\n"
                                                                  "data: " HEAD("chat.completion."
                                                                                "chunk") "[]," USAGE
                                                                                         "}\n\n"
                                                                                         "data: "
                                                                                         "[DONE]"
                                                                                         "\n\n");
    json_decref(isotherm);
    answer_release(&a);
}

static json_t *items(void)
{
    return json_pack("[{s:s,s:f,s:[i,i,i,i],s:[{s:s,s:f}]}]", "token", "Once", "logprob", -0.5,
                     "bytes", 'O', 'n', 'c', 'e', "top_logprobs", "token", "Twice", "logprob",
                     -1.5);
}

static void test_completions_have_the_legacy_logprobs_with_offsets(void **state)
{
    (void)state;
    struct buf out;
    struct reply r = make_reply(false, false);
    json_t *lp = items();
    struct delta d = text_delta(0, "Once", lp);
    for (int i = 0; i < 2; i++) {
        char want[512];
        buf_init(&out, 1u << 16);
        assert_true(reply_delta(&r, &d, NULL, &out));
        (void)snprintf(
            want, sizeof want,
            "data: " HEAD(
                "text_completion") "[{\"text\":\"Once\",\"index\":0,\"logprobs\":{\"tokens\":["
                                   "\"Once\"],"
                                   "\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"Twice\":-1.5}],"
                                   "\"text_offset\":[%d]},\"finish_reason\":null}]}\n\n",
            4 * i);
        expect(&out, want);
    }
    json_decref(lp);
}

/* A special token has no text, half a character begins one, and the first token of a prompt has no
 * log-probability: offsets are places in the text, from 0. */
static void test_an_echoed_prompt_has_tokens_from_the_first_on(void **state)
{
    (void)state;
    struct answer a;
    struct buf out;
    struct failure f = {.status = 0};
    struct reply r = make_reply(false, false);
    r.echo = true;
    json_t *lp = json_pack("[{s:s,s:n,s:[],s:[]},{s:s,s:f,s:[i],s:[]},{s:s,s:f,s:[i],s:[]},"
                           "{s:s,s:f,s:[i,i],s:[]}]",
                           "token", "<bos>", "logprob", "bytes", "top_logprobs", /* */
                           "token", "\xef\xbf\xbd", "logprob", -1.0, "bytes", 0xc3, "top_logprobs",
                           "token", "\xef\xbf\xbd", "logprob", -2.0, "bytes", 0xa9, "top_logprobs",
                           "token", "no", "logprob", -3.0, "bytes", 'n', 'o', "top_logprobs");
    assert_non_null(lp);
    assert_true(answer_init(&a, 1, NULL, true, NULL, NULL, &f));
    take(&a, text_delta(0, "\xc3\xa9no", lp));
    json_t *more = items();
    take(&a, text_delta(0, "Once", more));
    take(&a, (struct delta){.kind = DELTA_FINISH, .finish = FINISH_STOP});
    take(&a, (struct delta){.kind = DELTA_END});
    assert_true(answer_finish(&a, &f));
    json_t *isotherm = json_object();
    buf_init(&out, 1u << 16);
    assert_true(reply_whole(&r, &a, isotherm, &out));
    assert_non_null(strstr(out.p, "\"token_logprobs\":[null,-1,-2,-3,-0.5],"
                                  "\"top_logprobs\":[null,{},{},{},{\"Twice\":-1.5}],"
                                  "\"text_offset\":[0,0,1,1,3]"));
    buf_release(&out);
    json_decref(isotherm);
    json_decref(lp);
    json_decref(more);
    answer_release(&a);
}

static void test_failures(void **state)
{
    (void)state;
    struct failure f = {.status = 0};
    struct buf out;
    (void)failure_set(&f, 400, "invalid_value", "top_p", "'top_p' is wrong");
    buf_init(&out, 1u << 12);
    assert_true(reply_failure(&f, NULL, false, &out));
    expect(&out, "{\"error\":{\"message\":\"'top_p' is wrong\",\"type\":\"invalid_request_error\","
                 "\"param\":\"top_p\",\"code\":\"invalid_value\"}}");
    json_t *isotherm = json_pack("{s:[]}", "attempts");
    buf_init(&out, 1u << 12);
    assert_true(reply_failure(&f, isotherm, false, &out));
    assert_non_null(strstr(out.p, "\"code\":\"invalid_value\"},\"isotherm\":{\"attempts\":[]}}"));
    buf_release(&out);
    json_decref(isotherm);
    memset(&f, 0, sizeof f);
    (void)failure_set(&f, 502, "", NULL, "bad \xff byte");
    buf_init(&out, 1u << 12);
    assert_true(reply_failure(&f, NULL, true, &out));
    assert_non_null(strstr(out.p, "\"type\":\"upstream_error\",\"param\":null,\"code\":null"));
    assert_int_equal(strncmp(out.p, "data: {", 7), 0);
    buf_release(&out);
}

static void test_a_limit_is_an_error(void **state)
{
    (void)state;
    struct answer a;
    struct buf out;
    struct reply r = make_reply(true, false);
    json_t *isotherm = json_object();
    fill(&a, true);
    buf_init(&out, 100);
    assert_false(reply_whole(&r, &a, isotherm, &out));
    buf_release(&out);
    json_decref(isotherm);
    answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_chat_answer),
        cmocka_unit_test(test_content_that_is_not_there),
        cmocka_unit_test(test_a_stream_of_two_choices),
        cmocka_unit_test(test_completions_have_the_legacy_logprobs_with_offsets),
        cmocka_unit_test(test_an_echoed_prompt_has_tokens_from_the_first_on),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_a_limit_is_an_error),
    };
    return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
