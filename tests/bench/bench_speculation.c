/* bench_speculation.c - answers with guessed tokens against the same ones without, in turn: medians
 * of pairs, in time of the processor on one thread. bench_speculation [MODEL]
 *
 * Repetitive: a list that goes on, without chance. Ordinary: what chance goes into, with
 * the temperatures that people use; that is what guesses must not slow. BENCH_CHECK=1: fails where
 * they slow it by more than 2 %, or do not speed the other up.
 */
#include "local-engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MODEL         "local-engine/default-model"
#define ORDINARY_MIN  0.98
#define REPEATING_MIN 1.2

enum { PAIRS = 9, SEEDS = 6, IDS_MAX = 400 };
enum { OFF, ON };

struct work {
    const char *name, *prompt;
    double temperature, least; /* of the ratio */
    int64_t n_tokens;
};

static const struct work works[] = {
    {"a list that repeats, greedy",
     "One apple, two apples, one apple, two apples, one apple, two apples, one apple,", 0,
     REPEATING_MIN, 300},
    {"a list that repeats, temperature 0.5",
     "One apple, two apples, one apple, two apples, one apple, two apples, one apple,", 0.5,
     ORDINARY_MIN, 300},
    {"a story, greedy", "Once upon a time there was a king who", 0, ORDINARY_MIN, 200},
    {"a story, temperature 0.8", "Once upon a time there was a king who", 0.8, ORDINARY_MIN, 200},
    {"a story, temperature 1", "Once upon a time there was a king who", 1, ORDINARY_MIN, 200},
};

struct outcome {
    int64_t n_tokens, n_guessed, n_right;
};

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void stop(const struct engine_error *err)
{
    (void)fprintf(stderr, "bench_speculation: %s\n", err->text);
    exit(1);
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct outcome *o = ud;
    if (ev->kind == SESSION_ERROR) {
        stop(ev->error);
    }
    if (ev->kind == SESSION_FINISH) {
        o->n_tokens += ev->n_generated;
        o->n_guessed += ev->n_guessed;
        o->n_right += ev->n_guessed_right;
    }
}

static void answer(struct engine *e, const struct work *w, int64_t seed, struct outcome *out)
{
    int32_t *ids, prompt[IDS_MAX];
    size_t n;
    struct sampler_config sampling;
    struct session *s;
    struct engine_error err = {.code = ENGINE_OK};
    if (!tokenizer_encode(engine_tokenizer(e), w->prompt, strlen(w->prompt), true, &ids, &n,
                          &err)) {
        stop(&err);
    }
    n = n < IDS_MAX ? n : IDS_MAX;
    memcpy(prompt, ids, n * sizeof *ids);
    free(ids);
    sampler_config_init(&sampling);
    sampling.temperature = w->temperature;
    sampling.ignore_eos = true;
    struct session_request r = {.prompt = prompt,
                                .n_prompt = n,
                                .sampling = &sampling,
                                .max_tokens = w->n_tokens,
                                .n = 1,
                                .best_of = 1,
                                .seed = seed};
    if (!session_start(e, &r, on_event, out, &s, &err)) {
        stop(&err);
    }
    while (engine_step(e)) {
    }
    session_free(s);
}

/* The answers of all seeds, each by both in turn: what else runs on the machine hits both. */
static void time_pair(struct engine *const *engines, const struct work *w, int first, double ms[2],
                      struct outcome out[2])
{
    for (int64_t seed = 1; seed <= SEEDS; seed++) {
        for (int k = 0; k < 2; k++) {
            int which = (int)(first + k + seed) % 2;
            double began = now_ms();
            answer(engines[which], w, seed, &out[which]);
            ms[which] += now_ms() - began;
        }
    }
}

/* Whether the ratio is what it must be. */
static bool compare(struct engine *const *engines, const struct work *w)
{
    double ratio[PAIRS], on_ms = 0;
    struct outcome out[2], *on = &out[ON];
    for (int i = 0; i < PAIRS; i++) {
        double ms[2] = {0};
        out[OFF] = out[ON] = (struct outcome){0};
        time_pair(engines, w, i, ms, out);
        ratio[i] = ms[OFF] / ms[ON];
        on_ms = ms[ON];
    }
    qsort(ratio, PAIRS, sizeof *ratio, by_value);
    double median = ratio[PAIRS / 2];
    bool is_fast_enough = median >= w->least;
    (void)printf("%-38s %5.2f times as fast (%.2f to %.2f), %.0f tokens/s; of %lld tokens %lld "
                 "were guessed, %lld right%s\n",
                 w->name, median, ratio[0], ratio[PAIRS - 1], 1e3 * (double)on->n_tokens / on_ms,
                 (long long)on->n_tokens, (long long)on->n_guessed, (long long)on->n_right,
                 is_fast_enough ? "" : "  BELOW ITS TARGET");
    return is_fast_enough;
}

int main(int argc, char **argv)
{
    struct engine *engines[2];
    struct engine_error err = {.code = ENGINE_OK};
    const char *path = argc > 1 ? argv[1] : MODEL;
    static const enum engine_speculation how[2] = {ENGINE_SPECULATION_OFF,
                                                   ENGINE_SPECULATION_LOOKUP};
    for (int i = 0; i < 2; i++) {
        struct engine_options o = {.n_threads = 1, .speculation = how[i]};
        if (!engine_open(&engines[i], path, &o, &err)) {
            stop(&err);
        }
    }
    bool ok = true;
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        ok = compare(engines, &works[i]) && ok;
    }
    engine_close(engines[OFF]);
    engine_close(engines[ON]);
    return ok || !getenv("BENCH_CHECK") ? 0 : 1;
}
