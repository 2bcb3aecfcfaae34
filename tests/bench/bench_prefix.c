/* bench_prefix.c - the first token of a prompt whose beginning another request has evaluated, and
 * how much a long prompt slows a stream beside it.
 *
 * usage: bench_prefix [MODEL [TOKENS]]     (without a MODEL or with "": one of 988 MB, made for it
 * in $TMPDIR or /tmp; TOKENS of the first prompt, of which 95 in 100 are shared, 2000; the long one
 * has twice as many)
 */
#include "local-engine/engine.h"
#include "tests/bench/bench_model.h"

#include <time.h>

enum { STREAM = 40, GAPS_MAX = 4096, PROMPT_MAX = 16384 };

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct stream {
    struct session *s;
    double last_ms, gaps[GAPS_MAX];
    size_t n_gaps, n_tokens;
};

static void on_event(const struct session_event *ev, void *ud)
{
    struct stream *r = ud;
    if (ev->kind == SESSION_TEXT && ev->n_tokens > 0) {
        double now = now_ms();
        if (r->n_tokens++ > 0 && r->n_gaps < GAPS_MAX) {
            r->gaps[r->n_gaps++] = now - r->last_ms;
        }
        r->last_ms = now;
    }
}

/* n tokens, of which the first n_same are those of every such prompt. */
static bool start(struct engine *e, struct stream *r, size_t n_same, size_t n, int64_t max_tokens)
{
    static int32_t ids[PROMPT_MAX];
    static int32_t own = 0;
    struct sampler_config c;
    struct engine_error err = {.code = ENGINE_OK};
    int32_t n_vocab = engine_shape(e)->n_vocab;
    sampler_config_init(&c);
    c.temperature = 0;
    c.ignore_eos = true;
    own++;
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)(i + (i < n_same ? 0 : (size_t)own * 77)) % (n_vocab / 2);
    }
    struct session_request ask = {.prompt = ids,
                                  .n_prompt = n,
                                  .sampling = &c,
                                  .max_tokens = max_tokens,
                                  .n = 1,
                                  .best_of = 1,
                                  .logprobs = true};
    *r = (struct stream){.s = NULL};
    if (!session_start(e, &ask, on_event, r, &r->s, &err)) {
        (void)fprintf(stderr, "bench_prefix: %s\n", err.text);
        sampler_config_release(&c);
        return false;
    }
    return true;
}

static double first_token_ms(struct engine *e, size_t n_same, size_t n)
{
    static struct stream r;
    double began = now_ms();
    if (!start(e, &r, n_same, n, 1)) {
        exit(1);
    }
    while (engine_step(e)) {
    }
    session_free(r.s);
    return now_ms() - began;
}

static void measure_prefix(struct engine *e, size_t n)
{
    double cold = first_token_ms(e, n * 95 / 100, n);
    double warm = first_token_ms(e, n * 95 / 100, n);
    (void)printf("first token of %zu: %.0f ms; where %zu are known: %.0f ms (%.1f %%)\n", n, cold,
                 n * 95 / 100, warm, 100 * warm / cold);
}

/* Median and largest of the last n gaps. */
static double median(struct stream *r, size_t n, double *largest)
{
    double *gaps = r->gaps + r->n_gaps - n;
    qsort(gaps, n, sizeof *gaps, by_value);
    *largest = gaps[n - 1];
    return gaps[n / 2];
}

static void measure_gaps(struct engine *e, size_t n)
{
    static struct stream talk, prompt;
    double largest, most;
    (void)engine_rest(e);
    if (!start(e, &talk, 0, 16, GAPS_MAX)) {
        exit(1);
    }
    while (talk.n_gaps < STREAM && engine_step(e)) {
    }
    double alone = median(&talk, talk.n_gaps, &largest);
    size_t before = talk.n_gaps;
    if (!start(e, &prompt, 0, n, 1)) {
        exit(1);
    }
    double began = now_ms();
    while (!session_is_done(prompt.s) && engine_step(e)) {
    }
    double beside = median(&talk, talk.n_gaps - before, &most);
    (void)printf("stream alone: a token in %.1f ms, at most %.1f; beside a prompt of %zu tokens "
                 "(%.0f ms): %.1f ms, at most %.1f; %.2f times the one alone, the largest %.2f "
                 "times the median\n",
                 alone, largest, n, now_ms() - began, beside, most, beside / alone, most / beside);
    session_free(prompt.s);
    session_free(talk.s);
}

static bool bench(const char *path, size_t n)
{
    struct engine *e;
    struct engine_error err = {.code = ENGINE_OK};
    if (!engine_open(&e, path, NULL, &err)) {
        (void)fprintf(stderr, "bench_prefix: %s\n", err.text);
        return false;
    }
    measure_prefix(e, n);
    measure_gaps(e, 2 * n);
    engine_close(e);
    return true;
}

int main(int argc, char **argv)
{
    const char *dir = getenv("TMPDIR");
    char folder[512], path[600];
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
    if (n < 100 || 2 * n > PROMPT_MAX) {
        (void)fprintf(stderr, "bench_prefix: 100 to %d tokens\n", PROMPT_MAX / 2);
        return 2;
    }
    if (argc > 1 && *argv[1]) {
        return bench(argv[1], n) ? 0 : 1;
    }
    (void)snprintf(folder, sizeof folder, "%s/bench_prefix_XXXXXX", dir && *dir ? dir : "/tmp");
    bool done = mkdtemp(folder) && bench_model_make(folder) && bench(folder, n);
    static const char *const names[] = {"tokenizer.json", "config.json", "model.safetensors",
                                        "model.gguf", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    return done ? 0 : 1;
}
