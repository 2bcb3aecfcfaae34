/* bench_tokenizer.c - megabytes of text a second and milliseconds to load, by processor time: the
 * median of several passes.
 *
 * usage: bench_tokenizer FOLDER TEXT [PASSES]     (without arguments: the default model on its own
 * text, which is too small a vocabulary to mean much)
 */
#include "local-engine/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PASSES_MAX = 100, TEXT_MAX = 64 << 20 };

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static char *read_text(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(TEXT_MAX) : NULL;
    *len = text ? fread(text, 1, TEXT_MAX, f) : 0;
    if (f) {
        (void)fclose(f); /* was only read */
    }
    return text;
}

static bool bench(const char *folder, const char *text, size_t len, size_t n_passes)
{
    double load[PASSES_MAX], encode[PASSES_MAX];
    struct engine_error err = {0};
    size_t n = 0;
    int32_t n_vocab = 0;
    for (size_t i = 0; i < n_passes; i++) {
        struct tokenizer *t = NULL;
        int32_t *ids = NULL;
        double began = now_ms();
        if (!tokenizer_open(&t, folder, &err)) {
            break;
        }
        load[i] = now_ms() - began;
        began = now_ms();
        bool done = tokenizer_encode(t, text, len, true, &ids, &n, &err);
        encode[i] = now_ms() - began;
        n_vocab = tokenizer_n_vocab(t);
        free(ids);
        tokenizer_close(t);
        if (!done) {
            break;
        }
    }
    if (err.text[0]) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    double ms = median(encode, n_passes);
    printf("%d tokens: loaded in %.1f ms; %zu bytes, %zu ids in %.1f ms: %.1f MB/s\n", n_vocab,
           median(load, n_passes), len, n, ms, (double)len / ms / 1e3);
    return true;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 2 ? argv[1] : "local-engine/default-model";
    const char *path = argc > 2 ? argv[2] : "local-engine/default-model/tokenizer.json";
    long n_passes = argc > 3 ? strtol(argv[3], NULL, 10) : 5;
    size_t len = 0;
    char *text = read_text(path, &len);
    if (!text || n_passes < 1 || n_passes > PASSES_MAX) {
        fprintf(stderr, "usage: bench_tokenizer FOLDER TEXT [PASSES]\n");
        return 1;
    }
    bool done = bench(folder, text, len, (size_t)n_passes);
    free(text);
    return done ? 0 : 1;
}
