/* bench_sampler.c - microseconds of processor time a token of the sampler alone, V = 151,936: the
 * median and the lowest of many steps. Processor time, so that a busy machine does not count what
 * others had; one that shares a core still slows it.
 *
 * usage: bench_sampler [STEPS]
 */
#include "local-engine/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define VOCAB 151936

struct bench {
    const char *name;
    bool is_flat;
    struct sampler_config config;
    bool logprobs, mask;
};

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Logits as of a model (a bell of width 3 with a few tokens above it), or nearly equal ones. */
static void make_logits(struct rng *r, float *logits, bool is_flat)
{
    for (int i = 0; i < VOCAB; i++) {
        double u = rng_double(r), v = rng_double(r);
        double bell = sqrt(-2 * log(u + 1e-300)) * cos(6.283185307179586 * v);
        logits[i] = (float)(is_flat ? 0.1 * bell : 3.0 * bell);
    }
    for (int i = 0; !is_flat && i < 10; i++) {
        logits[rng_next(r) % VOCAB] = (float)(14.0 + 4.0 * rng_double(r));
    }
}

static void run(const struct bench *b, size_t n_steps)
{
    static float logits[4][VOCAB];
    static uint8_t mask[VOCAB];
    static const int32_t eos[] = {2};
    struct engine_error err = {0};
    struct rng r;
    rng_init(&r, 1, 0);
    for (size_t i = 0; i < 4; i++) {
        make_logits(&r, logits[i], b->is_flat);
    }
    for (size_t i = 0; i < VOCAB; i++) {
        mask[i] = i % 3 != 0;
    }
    struct sampler *s;
    double *us = calloc(n_steps, sizeof *us);
    if (!us || !sampler_new(&s, &b->config, VOCAB, eos, 1, NULL, 0, 7, 0, &err)) {
        fprintf(stderr, "bench_sampler: %s\n", err.text);
        exit(1);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < n_steps; i++) {
        int32_t id = 0;
        double start = now_us();
        bool is_done = sampler_next(s, logits[i % 4], b->mask ? mask : NULL, &id, &err);
        if (b->logprobs) {
            struct sampler_top top[5];
            double logprob;
            sampler_logprobs(NULL, logits[i % 4], VOCAB, id, 5, &logprob, top);
        }
        us[i] = now_us() - start;
        if (!is_done) {
            fprintf(stderr, "bench_sampler: %s\n", err.text);
            exit(1);
        }
        sum = sum * 31 + (uint64_t)id;
    }
    qsort(us, n_steps, sizeof *us, by_value);
    printf("%-34s median %8.1f us   lowest %8.1f us   ids %016llx\n", b->name, us[n_steps / 2],
           us[0], (unsigned long long)sum);
    free(us);
    sampler_free(s);
}

#define OFF .temperature = 1.0, .top_p = 1.0, .typical_p = 1.0, .repetition_penalty = 1.0
#define PENALTIES                                                                                  \
    .temperature = 0.8, .top_k = 40, .top_p = 0.95, .typical_p = 1.0, .repetition_penalty = 1.1,   \
    .frequency_penalty = 0.2, .presence_penalty = 0.1

int main(int argc, char **argv)
{
    size_t n_steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    static const struct bench benches[] = {
        {"greedy",
         false,
         {.top_p = 1.0, .typical_p = 1.0, .repetition_penalty = 1.0},
         false,
         false},
        {"temperature alone", false, {OFF}, false, false},
        {"T 0.8, top_k 40, top_p 0.95",
         false,
         {.temperature = 0.8,
          .top_k = 40,
          .top_p = 0.95,
          .typical_p = 1.0,
          .repetition_penalty = 1.0},
         false,
         false},
        {"the same, flat",
         true,
         {.temperature = 0.8,
          .top_k = 40,
          .top_p = 0.95,
          .typical_p = 1.0,
          .repetition_penalty = 1.0},
         false,
         false},
        {"the same, penalties, ngram 3",
         false,
         {PENALTIES, .no_repeat_ngram_size = 3},
         false,
         false},
        {"the same, mask", false, {PENALTIES}, false, true},
        {"T 0.8, top_k 5000, top_p 0.95",
         false,
         {.temperature = 0.8,
          .top_k = 5000,
          .top_p = 0.95,
          .typical_p = 1.0,
          .repetition_penalty = 1.0},
         false,
         false},
        {"top_p 0.9",
         false,
         {.temperature = 1.0, .top_p = 0.9, .typical_p = 1.0, .repetition_penalty = 1.0},
         false,
         false},
        {"top_p 0.9, flat",
         true,
         {.temperature = 1.0, .top_p = 0.9, .typical_p = 1.0, .repetition_penalty = 1.0},
         false,
         false},
        {"min_p 0.05",
         false,
         {.temperature = 1.0,
          .min_p = 0.05,
          .top_p = 1.0,
          .typical_p = 1.0,
          .repetition_penalty = 1.0},
         false,
         false},
        {"typical_p 0.9, flat",
         true,
         {.temperature = 1.0, .top_p = 1.0, .typical_p = 0.9, .repetition_penalty = 1.0},
         false,
         false},
        {"greedy and 5 logprobs",
         false,
         {.top_p = 1.0, .typical_p = 1.0, .repetition_penalty = 1.0},
         true,
         false},
    };
    for (size_t i = 0; n_steps > 0 && i < sizeof benches / sizeof *benches; i++) {
        run(&benches[i], n_steps);
    }
    return 0;
}
