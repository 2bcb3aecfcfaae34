/* test_engine_child.c - the daemon's side of the engine against a child that does what each test
 * needs: this program itself, started again with --fd. What the prompt of a call says, the child
 * does. The last test uses the real program, where it is built already.
 */
#include "gateway/base/log.h"
#include "gateway/io/engine_child.h"
#include "local-engine/link.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define KNOWN "tests/no-such-folder/weights.known" /* the child of these tests has none */

/* ---------------------------------------------------------------- the child */

static unsigned child_cancels;

static void child_write(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(3, p, n);
        if (k <= 0) {
            struct pollfd f = {.fd = 3, .events = POLLOUT};
            (void)poll(&f, 1, 1000);
            continue;
        }
        p += k;
        n -= (size_t)k;
    }
}

/* is_split: byte by byte. */
static void child_send(json_t *frame, bool is_split)
{
    size_t n;
    char *p = link_frame(frame, &n);
    for (size_t i = 0; p && i < n; i += is_split ? 1 : n) {
        child_write(p + i, is_split ? 1 : n);
    }
    free(p);
    json_decref(frame);
}

static void child_text(json_int_t id, const char *text, bool is_split)
{
    child_send(json_pack("{s:s, s:I, s:i, s:s}", "op", "text", "id", id, "choice", 0, "text", text),
               is_split);
}

static void child_done(json_int_t id, bool is_split)
{
    child_send(json_pack("{s:s, s:I, s:i, s:i}", "op", "done", "id", id, "prompt_tokens", 1,
                         "completion_tokens", 2),
               is_split);
}

/* What a process should not have, as text: environment, descriptors, core files, terminal's
 * session. */
static void child_report(json_int_t id)
{
    extern char **environ;
    char text[128];
    struct rlimit core = {1, 1};
    int n_open = 0;
    for (int fd = 4; fd < 256; fd++) {
        n_open += fcntl(fd, F_GETFD) >= 0;
    }
    (void)getrlimit(RLIMIT_CORE, &core);
    (void)snprintf(text, sizeof text, "env %d open %d core %d leader %d", environ && *environ,
                   n_open, (int)core.rlim_max, getsid(0) == getpid());
    child_text(id, text, false);
}

static void child_do(const char *what, json_int_t id)
{
    bool is_split = strcmp(what, "split") == 0;
    if (strcmp(what, "crash") == 0) {
        child_text(id, "so far", false);
        (void)raise(SIGKILL);
    } else if (strcmp(what, "garbage") == 0) {
        child_write("\xff\xff\xff\xff....", 8);
    } else if (strcmp(what, "hang") == 0) {
        child_text(id, "hanging", false);
        return;
    } else if (strcmp(what, "error") == 0) {
        child_send(json_pack("{s:s, s:I, s:s, s:s, s:s}", "op", "error", "id", id, "code",
                             "context_length_exceeded", "param", "prompt", "text",
                             "prompt has 300 tokens"),
                   false);
        return;
    } else if (strcmp(what, "cancels") == 0) {
        char text[24];
        (void)snprintf(text, sizeof text, "%u", child_cancels);
        child_text(id, text, false);
    } else if (strcmp(what, "report") == 0) {
        child_report(id);
    } else if (strcmp(what, "state") == 0) {
        child_send(json_pack("{s:s, s:s, s:s, s:s}", "op", "state", "model", "fake=/folder",
                             "state", "failed", "error", "model.safetensors: it is damaged"),
                   false);
    } else {
        int n = strcmp(what, "flood") == 0 ? 3000 : 1;
        for (int i = 0; i < n; i++) {
            child_text(id, "hello", is_split);
        }
    }
    child_done(id, is_split);
    if (strcmp(what, "last words") == 0) {
        (void)raise(SIGKILL);
    }
}

static void child_frame(const char *p, size_t len)
{
    json_t *frame = json_loadb(p, len, 0, NULL);
    const char *op = json_string_value(json_object_get(frame, "op")),
               *prompt = json_string_value(json_object_get(frame, "prompt"));
    if (op && strcmp(op, "cancel") == 0) {
        child_cancels++;
    } else if (prompt) {
        child_do(prompt, json_integer_value(json_object_get(frame, "id")));
    }
    json_decref(frame);
}

/* argv: program --fd 3 --threads N --memory-max N --known FILE NAME=FOLDER... The name "dies" makes
 * a child that never gets ready. */
static int child_main(int argc, char **argv)
{
    struct link_reader r;
    link_reader_init(&r);
    if (argc > 9 && strncmp(argv[9], "dies=", 5) == 0) {
        return 3;
    }
    child_send(json_pack("{s:s, s:s, s:[{s:s, s:s}], s:[{s:s, s:s}]}", "op", "ready", "engine", "0",
                         "models", "id", argc > 9 ? argv[9] : "", "state", "unloaded", "refused",
                         "id", "broken", "error", "it is damaged"),
               false);
    char bytes[4096];
    for (;;) {
        struct pollfd f = {.fd = 3, .events = POLLIN};
        (void)poll(&f, 1, -1);
        ssize_t n = read(3, bytes, sizeof bytes);
        if (n == 0) {
            return 0;
        }
        const char *frame;
        size_t len;
        if (n > 0 && !link_reader_feed(&r, bytes, (size_t)n, NULL)) {
            return 1;
        }
        while (link_reader_next(&r, &frame, &len) == 1) {
            child_frame(frame, len);
        }
    }
}

/* ---------------------------------------------------------------- the tests' world */

struct call {
    struct engine_call *c;
    char text[512];
    size_t n_texts, n_frames;
    unsigned n_ends;
    struct failure f;
    bool cancels_at_first; /* in on_frame */
};

struct world {
    struct loop *loop;
    struct engine_child *e;
    struct loop_timer poll;
    int64_t until_ms;
    bool (*is_met)(struct world *w, void *ud);
    void *ud;
    bool was_met;
};

static void on_frame(const json_t *frame, void *ud)
{
    struct call *c = ud;
    const char *text = json_string_value(json_object_get(frame, "text"));
    assert_int_equal(c->n_ends, 0);
    c->n_frames++;
    if (text) {
        c->n_texts++;
        (void)snprintf(c->text, sizeof c->text, "%s", text);
    }
    if (c->cancels_at_first) {
        assert_int_equal(c->n_frames, 1); /* none after a cancel */
        engine_call_cancel(c->c);
        c->c = NULL;
    }
}

static void on_end(const struct failure *f, void *ud)
{
    struct call *c = ud;
    assert_false(c->cancels_at_first);
    c->n_ends++;
    if (f) {
        c->f = *f;
    }
}

static const struct engine_events events = {on_frame, on_end};

static void on_poll(void *ud)
{
    struct world *w = ud;
    w->was_met = w->is_met(w, w->ud);
    if (w->was_met || loop_now_ms(w->loop) > w->until_ms) {
        loop_stop(w->loop);
        return;
    }
    assert_true(loop_timer_arm(w->loop, &w->poll, 1, on_poll, w));
}

/* Runs the loop until the condition holds; fails after `ms`. */
static void wait_for(struct world *w, bool (*is_met)(struct world *, void *), void *ud, int64_t ms)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    w->until_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + ms;
    w->is_met = is_met;
    w->ud = ud;
    assert_true(loop_timer_arm(w->loop, &w->poll, 0, on_poll, w));
    loop_run(w->loop);
    assert_true(w->was_met);
}

static bool is_ready(struct world *w, void *ud)
{
    (void)ud;
    return engine_child_is_ready(w->e);
}

static bool has_ended(struct world *w, void *ud)
{
    (void)w;
    return ((const struct call *)ud)->n_ends > 0;
}

static bool has_frames(struct world *w, void *ud)
{
    (void)w;
    return ((const struct call *)ud)->n_frames > 0;
}

static void world_open(struct world *w, const char *program, const char *model, unsigned queue_max)
{
    memset(w, 0, sizeof *w);
    assert_true(loop_new(&w->loop));
    struct engine_child_options o = {.program = program,
                                     .models = &model,
                                     .n_models = 1,
                                     .threads = 1,
                                     .known = KNOWN,
                                     .queue_max = queue_max,
                                     .loop = w->loop};
    struct failure f = {.status = 0};
    if (!engine_child_start(&w->e, &o, &f)) {
        fail_msg("%s", f.message);
    }
}

static void world_start(struct world *w, unsigned queue_max)
{
    world_open(w, "/proc/self/exe", "fake=/folder", queue_max);
    wait_for(w, is_ready, NULL, 20000);
}

static void world_stop(struct world *w)
{
    engine_child_stop(w->e);
    loop_free(w->loop);
}

static bool try_call(struct world *w, struct call *c, const char *what, struct failure *f)
{
    json_t *frame = json_pack("{s:s, s:s, s:s}", "op", "generate", "model", "fake", "prompt", what);
    bool ok = engine_call_start(w->e, w->loop, frame, &events, c, &c->c, f);
    json_decref(frame);
    return ok;
}

static void start_call(struct world *w, struct call *c, const char *what)
{
    struct failure f = {.status = 0};
    memset(c, 0, sizeof *c);
    if (!try_call(w, c, what, &f)) {
        fail_msg("%s", f.message);
    }
}

static void call(struct world *w, struct call *c, const char *what)
{
    start_call(w, c, what);
    wait_for(w, has_ended, c, 20000);
}

/* ---------------------------------------------------------------- tests */

static void test_answer(void **state)
{
    (void)state;
    struct world w;
    struct call c;
    world_start(&w, 8);
    call(&w, &c, "hi");
    assert_int_equal(c.n_ends, 1);
    assert_int_equal(c.f.status, 0);
    assert_int_equal(c.n_frames, 2); /* text and done */
    assert_string_equal(c.text, "hello");
    world_stop(&w);
}

static void expect_model(struct world *w, const char *name, const char *state, const char *error)
{
    json_t *m = engine_child_model(w->e, name),
           *wanted = json_pack("{s:s?, s:n, s:n, s:s?}", "state", state, "bytes", "memory", "error",
                               error);
    assert_true(json_equal(m, wanted));
    json_decref(m);
    json_decref(wanted);
}

static void test_states_of_models(void **state)
{
    (void)state;
    struct world w;
    struct call c;
    world_start(&w, 8);
    expect_model(&w, "fake=/folder", "unloaded", NULL);
    expect_model(&w, "broken", "failed", "it is damaged");
    expect_model(&w, "unknown", NULL, NULL);
    call(&w, &c, "state");
    assert_int_equal(c.f.status, 0);
    expect_model(&w, "fake=/folder", "failed", "model.safetensors: it is damaged");
    world_stop(&w);
}

static void test_split_frames(void **state)
{
    (void)state;
    struct world w;
    struct call c;
    world_start(&w, 8);
    call(&w, &c, "split");
    assert_int_equal(c.f.status, 0);
    assert_string_equal(c.text, "hello");
    call(&w, &c, "flood");
    assert_int_equal(c.n_texts, 3000);
    world_stop(&w);
}

static void test_child_is_bare(void **state)
{
    (void)state;
    struct world w;
    struct call c;
    int leak = dup(2); /* not close-on-exec */
    world_start(&w, 8);
    call(&w, &c, "report");
    assert_string_equal(c.text, "env 0 open 0 core 0 leader 1");
    (void)close(leak);
    world_stop(&w);
}

static void test_error_frame(void **state)
{
    (void)state;
    struct world w;
    struct call c;
    world_start(&w, 8);
    call(&w, &c, "error");
    assert_int_equal(c.f.status, 400);
    assert_string_equal(c.f.code, "context_length_exceeded");
    assert_string_equal(c.f.param, "prompt");
    assert_int_equal(c.n_frames, 0);
    world_stop(&w);
}

static void test_not_ready_and_busy(void **state)
{
    (void)state;
    struct world w;
    struct call c = {.c = NULL}, a, b;
    struct failure f = {.status = 0};
    world_open(&w, "/proc/self/exe", "fake=/folder", 2);
    assert_false(try_call(&w, &c, "hi", &f));
    assert_int_equal(f.status, 503);
    assert_string_equal(f.code, "engine_restarting");
    assert_int_equal(f.retry_after_s, 1);
    wait_for(&w, is_ready, NULL, 20000);
    start_call(&w, &a, "hang");
    start_call(&w, &b, "hang");
    memset(&f, 0, sizeof f);
    assert_false(try_call(&w, &c, "hi", &f));
    assert_string_equal(f.code, "engine_busy");
    engine_call_cancel(a.c); /* its place is free at once */
    call(&w, &c, "hi");
    assert_int_equal(c.f.status, 0);
    engine_call_cancel(b.c);
    world_stop(&w);
}

static void test_cancel(void **state)
{
    (void)state;
    struct world w;
    struct call c, d;
    world_start(&w, 8);
    start_call(&w, &c, "flood");
    c.cancels_at_first = true;
    wait_for(&w, has_frames, &c, 20000);
    start_call(&w, &d, "hang");
    engine_call_cancel(d.c); /* before anything was sent */
    engine_call_cancel(NULL);
    call(&w, &d, "cancels");
    assert_string_equal(d.text, "2");
    assert_int_equal(c.n_frames, 1);
    assert_int_equal(c.n_ends, 0);
    world_stop(&w);
}

static void test_kill(void **state)
{
    (void)state;
    struct world w;
    struct call a, b, c;
    world_start(&w, 8);
    int pid = engine_child_pid(w.e);
    start_call(&w, &a, "hang");
    start_call(&w, &b, "hang");
    wait_for(&w, has_frames, &b, 20000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    wait_for(&w, has_ended, &a, 2000);
    wait_for(&w, has_ended, &b, 2000);
    assert_int_equal(a.f.status, 503);
    assert_string_equal(a.f.code, "engine_restarting");
    assert_int_equal(b.f.status, 503);
    wait_for(&w, is_ready, NULL, 2000);
    assert_int_not_equal(engine_child_pid(w.e), pid);
    call(&w, &c, "hi");
    assert_int_equal(c.f.status, 0);
    world_stop(&w);
}

/* It dies by itself: what it said before arrives first, and a finished answer is a finished
 * answer. */
static void test_crash(void **state)
{
    (void)state;
    struct world w;
    struct call c;
    world_start(&w, 8);
    call(&w, &c, "crash");
    assert_string_equal(c.text, "so far");
    assert_int_equal(c.f.status, 503);
    wait_for(&w, is_ready, NULL, 20000);
    call(&w, &c, "last words");
    assert_int_equal(c.f.status, 0);
    wait_for(&w, is_ready, NULL, 20000);
    world_stop(&w);
}

static void test_garbage(void **state)
{
    (void)state;
    struct world w;
    struct call c;
    world_start(&w, 8);
    call(&w, &c, "garbage");
    assert_int_equal(c.f.status, 503);
    wait_for(&w, is_ready, NULL, 20000);
    call(&w, &c, "hi");
    assert_int_equal(c.f.status, 0);
    world_stop(&w);
}

struct deaths {
    int64_t until;
    int last, n_seen;
};

static bool has_waited(struct world *w, void *ud)
{
    struct deaths *d = ud;
    int pid = engine_child_pid(w->e);
    if (pid > 0 && pid != d->last) {
        d->last = pid;
        d->n_seen++;
    }
    return loop_now_ms(w->loop) > d->until;
}

/* A child that never gets ready is not started in a tight circle: at 0, 0, 100, 300, 700 ms ... */
static void test_delay_grows(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "/proc/self/exe", "dies=1", 8);
    struct deaths d = {.until = loop_now_ms(w.loop) + 500};
    wait_for(&w, has_waited, &d, 20000);
    assert_false(engine_child_is_ready(w.e));
    assert_in_range(d.n_seen, 2, 5);
    world_stop(&w);
}

static void test_missing_program(void **state)
{
    (void)state;
    struct engine_child *e;
    struct failure f = {.status = 0};
    struct loop *loop;
    assert_true(loop_new(&loop));
    struct engine_child_options o = {
        .program = "tests/no-such-program", .queue_max = 1, .loop = loop};
    assert_false(engine_child_start(&e, &o, &f));
    assert_int_equal(f.status, 500);
    loop_free(loop);
}

/* Calls from several loops, some cancelled, while the child is killed now and then: each call that
 * was not cancelled ends once. */
enum { WORKERS = 3, CALLS = 60 };

struct worker {
    struct world *w;
    struct loop *loop;
    pthread_t thread;
    struct loop_timer timer;
    struct call calls[CALLS];
    unsigned n_started, n_over, n_refused;
};

static atomic_uint n_workers_left;

static void worker_next(void *ud);

static void worker_on_end(const struct failure *f, void *ud)
{
    struct call *c = ud;
    c->n_ends++;
    c->c = NULL;
    (void)f;
}

static void worker_on_frame(const json_t *frame, void *ud)
{
    struct call *c = ud;
    (void)frame;
    c->n_frames++;
    if (c->cancels_at_first && c->c) {
        engine_call_cancel(c->c);
        c->c = NULL;
    }
}

static void worker_next(void *ud)
{
    struct worker *k = ud;
    static const struct engine_events worker_events = {worker_on_frame, worker_on_end};
    bool is_over = k->n_started == CALLS;
    for (unsigned i = 0; is_over && i < CALLS; i++) {
        is_over = !k->calls[i].c;
    }
    if (is_over) {
        atomic_fetch_sub(&n_workers_left, 1);
        loop_stop(k->loop);
        return;
    }
    if (k->n_started < CALLS) {
        struct call *c = &k->calls[k->n_started++];
        c->cancels_at_first = k->n_started % 3 == 0;
        json_t *frame = json_pack("{s:s, s:s, s:s}", "op", "generate", "model", "fake", "prompt",
                                  k->n_started % 2 ? "flood" : "hi");
        if (!engine_call_start(k->w->e, k->loop, frame, &worker_events, c, &c->c, NULL)) {
            c->c = NULL;
            k->n_refused++;
        } else if (k->n_started % 7 == 0) {
            engine_call_cancel(c->c);
            c->c = NULL;
        }
        json_decref(frame);
    }
    (void)loop_timer_arm(k->loop, &k->timer, 3, worker_next, k);
}

static void *worker_run(void *ud)
{
    struct worker *k = ud;
    (void)loop_timer_arm(k->loop, &k->timer, 0, worker_next, k);
    loop_run(k->loop);
    return NULL;
}

static bool workers_are_over(struct world *w, void *ud)
{
    static int n; /* turns: some of them kill */
    int *n_kills = ud;
    if (++n % 80 == 0 && *n_kills < 3 && engine_child_is_ready(w->e)) {
        (void)kill(engine_child_pid(w->e), SIGKILL);
        ++*n_kills;
    }
    return atomic_load(&n_workers_left) == 0;
}

static void test_many_loops(void **state)
{
    (void)state;
    struct world w;
    static struct worker workers[WORKERS];
    int n_kills = 0;
    unsigned n_good = 0;
    world_start(&w, 64);
    atomic_store(&n_workers_left, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].w = &w;
        assert_true(loop_new(&workers[i].loop));
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    }
    wait_for(&w, workers_are_over, &n_kills, 60000);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        for (int j = 0; j < CALLS; j++) {
            assert_true(workers[i].calls[j].n_ends <= 1);
            n_good += workers[i].calls[j].n_ends;
        }
    }
    assert_true(n_good > 0);
    engine_child_stop(w.e);
    for (int i = 0; i < WORKERS; i++) {
        loop_free(workers[i].loop);
    }
    loop_free(w.loop);
}

static bool is_another(struct world *w, void *pid)
{
    return engine_child_is_ready(w->e) && engine_child_pid(w->e) != *(const int *)pid;
}

static void test_real_engine(void **state)
{
    (void)state;
    char program[256];
    const char *build = getenv("BUILD");
    (void)snprintf(program, sizeof program, "%s/isotherm-engine", build ? build : "build");
    if (access(program, X_OK) != 0) {
        skip();
    }
    struct world w;
    struct call c = {.c = NULL};
    struct failure f = {.status = 0};
    world_open(&w, program, "tales=tests/vectors/stories260k", 8);
    int pid = -1;
    for (int i = 0; i < 2; i++) {
        wait_for(&w, is_another, &pid, 20000);
        pid = engine_child_pid(w.e);
        memset(&c, 0, sizeof c);
        json_t *frame = json_pack("{s:s, s:s, s:s, s:{s:i, s:i, s:i}}", "op", "generate", "model",
                                  "tales", "prompt", "Once upon a time", "params", "seed", 1,
                                  "temperature", 0, "max_tokens", 3);
        assert_true(engine_call_start(w.e, w.loop, frame, &events, &c, &c.c, &f));
        json_decref(frame);
        wait_for(&w, has_ended, &c, 20000);
        assert_int_equal(c.f.status, 0);
        assert_string_equal(c.text, " was");
        assert_int_equal(kill(pid, SIGKILL), 0);
    }
    world_stop(&w);
}

/* Without any model the program still says ready, from behind its filter. */
static void test_real_engine_without_models(void **state)
{
    (void)state;
    char program[256];
    const char *build = getenv("BUILD");
    (void)snprintf(program, sizeof program, "%s/isotherm-engine", build ? build : "build");
    if (access(program, X_OK) != 0) {
        skip();
    }
    struct world w = {.loop = NULL};
    struct failure f = {.status = 0};
    assert_true(loop_new(&w.loop));
    struct engine_child_options o = {
        .program = program, .known = KNOWN, .queue_max = 8, .loop = w.loop};
    assert_true(engine_child_start(&w.e, &o, &f));
    int pid = engine_child_pid(w.e);
    wait_for(&w, is_ready, NULL, 20000);
    assert_int_equal(engine_child_pid(w.e), pid); /* the first one, not its successor */
    world_stop(&w);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--fd") == 0) {
        return child_main(argc, argv);
    }
    log_init(LOG_ERROR - 1); /* the deaths are meant */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_states_of_models),
        cmocka_unit_test(test_split_frames),
        cmocka_unit_test(test_child_is_bare),
        cmocka_unit_test(test_error_frame),
        cmocka_unit_test(test_not_ready_and_busy),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_delay_grows),
        cmocka_unit_test(test_missing_program),
        cmocka_unit_test(test_many_loops),
        cmocka_unit_test(test_real_engine),
        cmocka_unit_test(test_real_engine_without_models),
    };
    return cmocka_run_group_tests_name("engine_child", tests, NULL, NULL);
}
