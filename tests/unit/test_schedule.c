/* test_schedule.c - isotherm-engine without the program around it: schedule_run() in a thread, the
 * test is the daemon. */
#include "local-engine/link.h"
#include "local-engine/schedule.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "tests/vectors/stories260k"
#define OTHER "local-engine/default-model"

static struct {
    struct schedule *s;
    pthread_t thread;
    int fd;
    struct link_reader reader;
    bool is_good;
    struct engine_error err;
} peer;

static void *serve(void *ud)
{
    (void)ud;
    peer.is_good = schedule_run(peer.s, &peer.err);
    return NULL;
}

/* The next frame, also one about a model's state; yours. NULL: the other side has closed. */
static json_t *receive_any(void)
{
    for (;;) {
        const char *frame;
        size_t len;
        int rc = link_reader_next(&peer.reader, &frame, &len);
        assert_true(rc >= 0);
        if (rc == 1) {
            json_t *o = json_loadb(frame, len, JSON_ALLOW_NUL, NULL);
            assert_non_null(o);
            return o;
        }
        struct pollfd p = {.fd = peer.fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 20000), 1);
        char bytes[65536];
        ssize_t n = read(peer.fd, bytes, sizeof bytes);
        if (n <= 0) {
            return NULL;
        }
        assert_true(link_reader_feed(&peer.reader, bytes, (size_t)n, NULL));
    }
}

static const char *string_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int64_t int_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* The next one of a call, or ready. */
static json_t *receive(void)
{
    json_t *o = receive_any();
    while (o && strcmp(string_of(o, "op"), "state") == 0) {
        json_decref(o);
        o = receive_any();
    }
    return o;
}

static void expect_state(const char *model, const char *state)
{
    json_t *o = receive_any();
    assert_string_equal(string_of(o, "op"), "state");
    assert_string_equal(string_of(o, "model"), model);
    assert_string_equal(string_of(o, "state"), state);
    json_decref(o);
}

static void say(const char *fmt, ...)
{
    char text[8192];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len;
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    char *frame = link_frame(o, &len);
    for (size_t i = 0; i < len;) {
        ssize_t n = write(peer.fd, frame + i, len - i < 7 ? len - i : 7); /* in bits and pieces */
        assert_true(n > 0);
        i += (size_t)n;
    }
    free(frame);
    json_decref(o);
}

static void generate_on(const char *model, int id, const char *prompt, const char *params)
{
    say("{\"op\":\"generate\",\"id\":%d,\"model\":\"%s\",%s,\"params\":%s}", id, model, prompt,
        params);
}

static void generate(int id, const char *prompt, const char *params)
{
    generate_on("tales", id, prompt, params);
}

/* Three blocks of 32 tokens in float16. */
#define SMALL "?kv_type=f16?kv_memory=61440"
#define ONCE  "\"prompt\":\"Once upon a time\""

/* All text of an id until its end, which must be of that op; yours. */
static json_t *answer_of(int id, const char *op, char text[4096])
{
    text[0] = '\0';
    for (;;) {
        json_t *o = receive();
        assert_non_null(o);
        if (int_of(o, "id") == id) {
            const char *what = string_of(o, "op");
            if (strcmp(what, "done") == 0 || strcmp(what, "error") == 0) {
                assert_string_equal(what, op);
                return o;
            }
            (void)strncat(text, string_of(o, "text"), 4095 - strlen(text));
        }
        json_decref(o);
    }
}

static int setup_with(int64_t memory_max)
{
    int fds[2];
    struct models_options o = {.engine.n_threads = 1, .memory_max = memory_max};
    memset(&peer, 0, sizeof peer);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    peer.fd = fds[0];
    link_reader_init(&peer.reader);
    assert_true(schedule_new(&peer.s, fds[1], &o, NULL));
    assert_true(schedule_add_model(peer.s, "tales=" MODEL, NULL));
    assert_true(schedule_add_model(peer.s, "plain=" MODEL "?template=plain", NULL));
    assert_true(schedule_add_model(peer.s, "none=tests/nothing-here", NULL));
    assert_true(schedule_add_model(peer.s, "markers=" MODEL "?template=chatml", NULL));
    assert_true(schedule_add_model(peer.s, "drafted=" MODEL "?template=plain?draft=" MODEL, NULL));
    assert_true(schedule_add_model(peer.s, "other=" MODEL "?draft=" OTHER, NULL));
    assert_true(schedule_add_model(peer.s, "small=" MODEL SMALL, NULL));
    assert_true(schedule_add_model(peer.s, "odd=" MODEL "?kv_type=f64", NULL));
    assert_false(schedule_add_model(peer.s, "tales=" MODEL, NULL));
    assert_false(schedule_add_model(peer.s, "no-equals-sign", NULL));
    assert_int_equal(pthread_create(&peer.thread, NULL, serve, NULL), 0);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with(0);
}

/* Room for one model. */
static int setup_narrow(void **state)
{
    (void)state;
    struct engine *e;
    assert_true(engine_map(&e, MODEL, NULL, NULL));
    int64_t bytes = engine_loaded_bytes(e);
    engine_close(e);
    return setup_with(bytes);
}

static int teardown(void **state)
{
    (void)state;
    (void)shutdown(peer.fd, SHUT_RDWR);
    (void)pthread_join(peer.thread, NULL);
    schedule_free(peer.s);
    (void)close(peer.fd);
    link_reader_release(&peer.reader);
    return 0;
}

static void take_ready(void)
{
    json_t *o = receive();
    assert_string_equal(string_of(o, "op"), "ready");
    json_decref(o);
}

static void test_ready(void **state)
{
    (void)state;
    json_t *o = receive();
    const json_t *models = json_object_get(o, "models"), *refused = json_object_get(o, "refused");
    assert_string_equal(string_of(o, "op"), "ready");
    assert_int_equal(json_array_size(models), 6);
    assert_int_equal(json_array_size(refused), 2);
    assert_int_equal(int_of(json_array_get(models, 5), "context"), 96);
    assert_string_equal(string_of(json_array_get(refused, 1), "error"),
                        "'f64': a type of keys and values is f32 or f16");
    assert_string_equal(string_of(json_array_get(models, 0), "id"), "tales");
    assert_int_equal(int_of(json_array_get(models, 0), "context"), 512);
    assert_int_equal(int_of(json_array_get(models, 0), "params"), 260032);
    assert_string_equal(string_of(json_array_get(models, 1), "state"), "unloaded");
    assert_string_equal(string_of(json_array_get(refused, 0), "id"), "none");
    json_decref(o);
    expect_state("tales", "loading"); /* the first one, before anybody asks */
    expect_state("tales", "loaded");
}

/* What cannot be known before it is loaded fails those who wait for it, and nobody else. */
static void test_on_demand(void **state)
{
    (void)state;
    char text[4096];
    take_ready();
    expect_state("tales", "loading");
    expect_state("tales", "loaded");
    say("{\"op\":\"tokenize\",\"id\":1,\"model\":\"plain\",\"text\":\"Once\"}");
    expect_state("plain", "loading");
    expect_state("plain", "loaded");
    json_decref(answer_of(1, "done", text));
    static const struct {
        const char *model, *code, *word;
    } bad[] = {{"markers", "invalid_model", "chatml"}, {"other", "invalid_model", "vocabular"}};
    for (int i = 0; i < 4; i++) {
        const char *model = bad[i / 2].model;
        say("{\"op\":\"tokenize\",\"id\":%d,\"model\":\"%s\",\"text\":\"Once\"}", 2 + i, model);
        if (i % 2 == 0) {
            expect_state(model, "loading");
            expect_state(model, "failed");
        }
        json_t *o = answer_of(2 + i, "error", text);
        assert_string_equal(string_of(o, "code"), bad[i / 2].code);
        assert_non_null(strstr(string_of(o, "text"), bad[i / 2].word));
        json_decref(o);
    }
    say("{\"op\":\"tokenize\",\"id\":6,\"model\":\"drafted\",\"text\":\"Once\"}");
    expect_state("drafted", "loading");
    expect_state("drafted", "loaded");
    json_decref(answer_of(6, "done", text));
    generate(7, ONCE, "{\"seed\":1,\"temperature\":0,\"max_tokens\":3}");
    json_decref(answer_of(7, "done", text));
    assert_string_equal(text, ", there was");
}

/* Requests that come before their model is there wait in order, can be cancelled, and their ids
 * are taken. */
static void test_requests_wait_for_their_model(void **state)
{
    (void)state;
    char text[4096];
    take_ready();
    for (int id = 1; id <= 3; id++) {
        say("{\"op\":\"generate\",\"id\":%d,\"model\":\"plain\",\"prompt\":\"Once\",\"params\":{"
            "\"seed\":1,\"temperature\":0,\"max_tokens\":2}}",
            id);
    }
    say("{\"op\":\"cancel\",\"id\":2}");
    say("{\"op\":\"tokenize\",\"id\":4,\"model\":\"plain\",\"text\":\"Once\"}");
    for (int n_done = 0; n_done < 3;) {
        json_t *o = receive();
        n_done += strcmp(string_of(o, "op"), "done") == 0;
        json_decref(o);
    }
    say("{\"op\":\"tokenize\",\"id\":2,\"model\":\"plain\",\"text\":\"Once\"}");
    json_decref(answer_of(2, "done", text)); /* nothing came of the one that was cancelled */
}

static void test_text(void **state)
{
    (void)state;
    char text[4096];
    take_ready();
    generate(7, ONCE, "{\"seed\":1,\"temperature\":0,\"max_tokens\":12}");
    json_t *o = answer_of(7, "done", text);
    assert_string_equal(text, ", there was a little girl named Lily. She");
    assert_int_equal(int_of(o, "prompt_tokens"), 5);
    assert_int_equal(int_of(o, "completion_tokens"), 12);
    assert_non_null(strstr(string_of(o, "fingerprint"), "weights:"));
    json_decref(o);
    generate(8, "\"prompt\":[1,403,407,261,378]",
             "{\"seed\":1,\"temperature\":0,\"max_tokens\":3,\"echo\":true}");
    json_decref(answer_of(8, "done", text));
    assert_string_equal(text, "Once upon a time, there was");
    generate(9,
             "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Once "
             "\"},{\"type\":\"text\",\"text\":\"upon a time\"}]}]",
             "{\"seed\":1,\"temperature\":0,\"max_tokens\":3}");
    json_decref(answer_of(9, "done", text));
    assert_string_equal(text, ", there was");
    say("{\"op\":\"detokenize\",\"id\":10,\"model\":\"tales\",\"ids\":[1,403,407,261,378]}");
    json_decref(answer_of(10, "done", text));
    assert_string_equal(text, "Once upon a time");
}

static void test_tokens(void **state)
{
    (void)state;
    char text[4096];
    take_ready();
    say("{\"op\":\"tokenize\",\"id\":3,\"model\":\"tales\",\"text\":\"Once upon a time\"}");
    json_t *o = receive();
    assert_string_equal(string_of(o, "op"), "tokens");
    assert_int_equal(json_array_size(json_object_get(o, "ids")), 4);
    assert_string_equal(json_string_value(json_array_get(json_object_get(o, "pieces"), 0)), "Once");
    json_decref(o);
    json_decref(answer_of(3, "done", text));
    /* 0xC3 is half a character: its text is U+FFFD, its byte is 195, and nothing is shown before
     * the other half, or the end. */
    generate(4, ONCE,
             "{\"seed\":1,\"max_tokens\":1,\"logprobs\":true,\"top_logprobs\":2,\"logit_bias\":{"
             "\"198\":100}}");
    json_decref(receive()); /* begin */
    o = receive();
    const json_t *token = json_array_get(json_object_get(o, "tokens"), 0);
    assert_string_equal(string_of(o, "text"), "");
    assert_string_equal(string_of(token, "token"), "\xef\xbf\xbd");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(token, "bytes"), 0)), 195);
    assert_int_equal(json_array_size(json_object_get(token, "top")), 2);
    json_decref(o);
    json_decref(answer_of(4, "done", text));
    assert_string_equal(text, "\xef\xbf\xbd");
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *prompt, *params, *code, *param;
    } cases[] = {
        {ONCE, "{}", "invalid_parameter", "seed"},
        {ONCE, "{\"seed\":1,\"what\":1}", "invalid_parameter", "what"},
        {ONCE, "{\"seed\":1,\"logit_bias\":{\"512\":5}}", "invalid_parameter", "logit_bias"},
        {ONCE, "{\"seed\":1,\"stop_token_ids\":[512]}", "invalid_parameter", "stop_token_ids"},
        {ONCE ",\"messages\":[]", "{\"seed\":1}", "invalid_parameter", "prompt"},
        {"\"prompt\":null", "{\"seed\":1}", "invalid_parameter", "prompt"},
        {"\"prompt\":[512]", "{\"seed\":1}", "invalid_parameter", "prompt"},
        {"\"prompt\":[\"a\",\"b\"]", "{\"seed\":1}", "invalid_parameter", "prompt"},
        {"\"prompt\":[]", "{\"seed\":1}", "invalid_parameter", "prompt"},
        {"\"messages\":[]", "{\"seed\":1}", "invalid_parameter", "messages"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]",
         "{\"seed\":1}", "invalid_parameter", "messages"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]", "{\"seed\":1,\"echo\":true}",
         "invalid_parameter", "echo"},
    };
    char text[4096];
    take_ready();
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        generate(i, cases[i].prompt, cases[i].params);
        json_t *o = answer_of(i, "error", text);
        assert_string_equal(string_of(o, "code"), cases[i].code);
        assert_string_equal(string_of(o, "param"), cases[i].param);
        json_decref(o);
    }
    (void)memset(text, 'a', 4000);
    text[4000] = '\0';
    say("{\"op\":\"generate\",\"id\":90,\"model\":\"tales\",\"messages\":[{\"role\":\"user\","
        "\"content\":\"%s\"}],\"params\":{\"seed\":1}}",
        text);
    json_t *o = answer_of(90, "error", text);
    assert_string_equal(string_of(o, "code"), "context_length_exceeded");
    assert_string_equal(string_of(o, "param"), "messages");
    json_decref(o);
    say("{\"op\":\"generate\",\"id\":91,\"model\":\"absent\",\"prompt\":\"x\",\"params\":{\"seed\":"
        "1}}");
    json_decref(answer_of(91, "error", text));
    say("{\"op\":\"generate\",\"id\":92,\"model\":\"none\",\"prompt\":\"x\",\"params\":{\"seed\":1}"
        "}");
    json_decref(answer_of(92, "error", text));
}

/* More than there are sessions, some of them cancelled while they run or wait. */
static void test_queue_and_cancel(void **state)
{
    (void)state;
    enum { N = 40 };
    int n_done = 0;
    bool is_done[N] = {false};
    take_ready();
    for (int i = 0; i < N; i++) {
        generate(i, ONCE, "{\"seed\":3,\"max_tokens\":150,\"ignore_eos\":true}");
    }
    say("{\"op\":\"cancel\",\"id\":2}");
    say("{\"op\":\"cancel\",\"id\":39}");
    say("{\"op\":\"cancel\",\"id\":2}"); /* again, and one that never was */
    say("{\"op\":\"cancel\",\"id\":1234}");
    while (n_done < N - 2) {
        json_t *o = receive();
        if (strcmp(string_of(o, "op"), "done") == 0) {
            assert_int_equal(int_of(o, "completion_tokens"), 150);
            assert_false(is_done[int_of(o, "id")]);
            is_done[int_of(o, "id")] = true;
            n_done++;
        }
        json_decref(o);
    }
    assert_false(is_done[2] || is_done[39]);
}

/* A cancel and a request that come together: no token of the one that was left is computed in the
 * steps of the other. */
/* Each of them may come to all three blocks that there are. */
static void test_queue_for_memory(void **state)
{
    (void)state;
    char text[4096], first[4096] = "";
    take_ready();
    say("{\"op\":\"generate\",\"id\":4,\"model\":\"small\"," ONCE
        ",\"params\":{\"seed\":3,\"max_tokens\":70,\"n\":2}}");
    json_t *o = answer_of(4, "error", text); /* at once: it can never have so many */
    assert_non_null(strstr(string_of(o, "text"), "'kv_memory' of the model has room for 96"));
    json_decref(o);
    for (int i = 1; i <= 3; i++) {
        say("{\"op\":\"generate\",\"id\":%d,\"model\":\"small\"," ONCE
            ",\"params\":{\"seed\":3,\"max_tokens\":70}}",
            i);
    }
    for (int i = 1; i <= 3; i++) {
        json_decref(answer_of(i, "done", text));
        assert_true(text[0] && (i == 1 || strcmp(text, first) == 0));
        memcpy(first, text, sizeof first);
    }
}

static void test_a_cancel_is_obeyed_before_the_next_step(void **state)
{
    (void)state;
    take_ready();
    for (int id = 1; id < 40; id += 2) {
        generate(id, ONCE, "{\"seed\":3,\"max_tokens\":400,\"ignore_eos\":true}");
        for (int n = 0; n < 3; n++) {
            json_t *o = receive();
            assert_int_equal(int_of(o, "id"), id);
            json_decref(o);
        }
        char both[600];
        size_t len = 0;
        json_t *frames[] = {json_pack("{s:s,s:i}", "op", "cancel", "id", id),
                            json_pack("{s:s,s:i,s:s,s:s,s:{s:i,s:i}}", "op", "generate", "id",
                                      id + 1, "model", "tales", "prompt", "Once", "params", "seed",
                                      3, "max_tokens", 5)};
        for (int i = 0; i < 2; i++) {
            size_t n;
            char *frame = link_frame(frames[i], &n);
            assert_true(frame && len + n <= sizeof both);
            memcpy(both + len, frame, n);
            len += n;
            free(frame);
            json_decref(frames[i]);
        }
        assert_int_equal(write(peer.fd, both, len), (ssize_t)len); /* seen at once */
        bool is_begun = false, is_done = false;
        while (!is_done) {
            json_t *o = receive();
            is_begun = is_begun || int_of(o, "id") == id + 1;
            assert_int_equal(int_of(o, "id"), is_begun ? id + 1 : id);
            is_done = strcmp(string_of(o, "op"), "done") == 0;
            assert_true(!is_done || is_begun);
            json_decref(o);
        }
    }
}

#define ONE_TOKEN "{\"seed\":3,\"max_tokens\":1,\"ignore_eos\":true}"
/* Some 60 MB: it cannot end unless all of them are read. */
#define ENDLESS                                                                                    \
    "{\"seed\":3,\"max_tokens\":500,\"ignore_eos\":true,\"n\":60,\"logprobs\":true,"               \
    "\"top_logprobs\":20}"

/* The next begin, done or error. */
static void expect(const char *op, int id)
{
    for (;;) {
        json_t *o = receive();
        const char *what = string_of(o, "op");
        bool is_it = strcmp(what, "text") != 0 && strcmp(what, "finish") != 0;
        if (is_it) {
            assert_string_equal(what, op);
            assert_int_equal(int_of(o, "id"), id);
        }
        json_decref(o);
        if (is_it) {
            return;
        }
    }
}

static void cancel(int id)
{
    say("{\"op\":\"cancel\",\"id\":%d}", id);
}

/* What was said before has been seen, and what follows from it is decided. */
static void settle(void)
{
    generate_on("absent", 99, ONCE, ONE_TOKEN);
    expect("error", 99);
}

/* Two models in turn where there is room for one: none is taken from under a job, none waits for
 * ever. */
static void test_turns_of_two_models(void **state)
{
    (void)state;
    take_ready();
    generate(1, ONCE, ENDLESS);
    expect("begin", 1);
    generate_on("plain", 2, ONCE, ENDLESS);
    settle();
    generate(3, ONCE, ENDLESS); /* came later */
    settle();
    cancel(1);
    expect("begin", 2);
    settle();
    generate(4, ONCE, ONE_TOKEN);
    generate_on("plain", 5, ONCE, ONE_TOKEN);
    settle();
    cancel(2);
    expect("begin", 3);
    expect("begin", 4);
    expect("done", 4);
    generate(6, ONCE, ONE_TOKEN);
    settle();
    cancel(5); /* then the model at hand need not leave */
    expect("begin", 6);
    expect("done", 6);
}

static void test_waiting_is_bounded(void **state)
{
    (void)state;
    take_ready();
    generate(0, ONCE, ENDLESS);
    expect("begin", 0);
    for (int i = 1; i <= 1024; i++) {
        generate_on("plain", i, ONCE, ONE_TOKEN);
    }
    generate_on("plain", 1025, ONCE, ONE_TOKEN);
    char text[4096];
    json_t *o = answer_of(1025, "error", text);
    assert_string_equal(string_of(o, "code"), "engine_busy");
    json_decref(o);
    for (int i = 1; i <= 1024; i++) {
        cancel(i);
    }
    generate(1026, ONCE, ONE_TOKEN);
    json_decref(answer_of(1026, "done", text));
}

/* A daemon that reads nothing: the buffer stays bounded, and cancels are still heard. */
static void test_daemon_that_does_not_read(void **state)
{
    (void)state;
    char text[4096];
    take_ready();
    generate(1, ONCE,
             "{\"seed\":3,\"max_tokens\":500,\"ignore_eos\":true,\"n\":60,\"logprobs\":true,\"top_"
             "logprobs\":20}");
    struct timespec t = {.tv_sec = 1};
    (void)nanosleep(&t, NULL); /* the answer would have some 60 MB */
    say("{\"op\":\"cancel\",\"id\":1}");
    generate(2, ONCE, "{\"seed\":3,\"max_tokens\":1}");
    int64_t n = 0;
    for (;;) {
        json_t *o = receive();
        bool is_last = strcmp(string_of(o, "op"), "done") == 0;
        n += int_of(o, "id") == 1;
        json_decref(o);
        if (is_last) {
            break;
        }
    }
    assert_in_range(n, 1, 1000); /* of 30,000: 1 MiB and the socket's buffer */
    generate(3, ONCE, "{\"seed\":3,\"max_tokens\":1}");
    json_decref(answer_of(3, "done", text));
}

static void test_nonsense_ends_it(void **state)
{
    (void)state;
    take_ready();
    assert_int_equal(write(peer.fd, "\x02\0\0\0[]", 6), 6);
    (void)pthread_join(peer.thread, NULL);
    assert_false(peer.is_good);
    assert_int_equal(peer.err.code, ENGINE_IO);
    assert_int_equal(pthread_create(&peer.thread, NULL, serve, NULL), 0); /* for the teardown */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
    const struct CMUnitTest tests[] = {
        TEST(test_ready),
        TEST(test_on_demand),
        TEST(test_requests_wait_for_their_model),
        TEST(test_text),
        TEST(test_tokens),
        TEST(test_errors),
        TEST(test_queue_and_cancel),
        TEST(test_queue_for_memory),
        TEST(test_a_cancel_is_obeyed_before_the_next_step),
        cmocka_unit_test_setup_teardown(test_turns_of_two_models, setup_narrow, teardown),
        cmocka_unit_test_setup_teardown(test_waiting_is_bounded, setup_narrow, teardown),
        TEST(test_daemon_that_does_not_read),
        TEST(test_nonsense_ends_it),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
