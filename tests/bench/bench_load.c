/* bench_load.c - how long it takes until a model can answer, and how much memory it takes beside
 * its file: the parts of opening it, the first token of a short prompt, then a prompt that fills
 * 1024 positions. The files are in the page cache. Each pass is a process of its own, so that
 * nothing that was allocated before is used again; medians.
 *
 * usage: bench_load [MODEL [PASSES]]     (without arguments: a model of 988 MB, made for it in
 * $TMPDIR or /tmp, as a folder and as a .gguf file)
 */
#include "local-engine/chat.h"
#include "local-engine/chat_source.h"
#include "local-engine/engine.h"
#include "local-engine/tokenizer_source.h"
#include "local-engine/weights.h"
#include "tests/bench/bench_model.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

enum { PASSES = 7, PASSES_MAX = 99, POSITIONS = 1024, ANSWER = 24 };

enum figure { WEIGHTS, VOCABULARY, CHAT, OPEN, FIRST, ANON, FILE_PAGES, KEYS, N_FIGURES };

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

/* A line of /proc/self/status, in MB. */
static double status_mb(const char *name)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = strtod(line + strlen(name), NULL);
        }
    }
    if (f) {
        (void)fclose(f); /* was only read */
    }
    return kib * 1024 / 1e6;
}

/* ---- one pass */

static bool time_parts(const char *path, double *figure, struct engine_error *err)
{
    struct model *m = NULL;
    struct tokenizer *t = NULL;
    struct chat *c = NULL;
    char *text = NULL;
    size_t len = 0;
    double began = now_ms();
    bool done = model_open(&m, path, err);
    figure[WEIGHTS] = now_ms() - began;
    began = now_ms();
    done = done && tokenizer_source_tokenizer(&t, model_weights(m), err);
    figure[VOCABULARY] = now_ms() - began;
    began = now_ms();
    done = done && chat_source_read(model_weights(m), &text, &len, err);
    (void)(done &&
           chat_open(&c, t, NULL, text, len, NULL)); /* one that is not known took as long */
    figure[CHAT] = now_ms() - began;
    chat_close(c);
    free(text);
    tokenizer_close(t);
    model_close(m);
    return done;
}

struct seen {
    size_t n_tokens;
    double anon_mb;
};

/* With log-probabilities asked each token is an event, and all that it needed is there still. */
static void on_event(const struct session_event *ev, void *ud)
{
    struct seen *seen = ud;
    if (ev->kind == SESSION_TEXT) {
        seen->n_tokens++;
        seen->anon_mb = status_mb("RssAnon:");
    }
}

/* Runs a prompt of n times the same token, to its first token or to its end; *anon_mb is taken
 * while all that it needed is there. */
static bool run_session(struct engine *e, size_t n, int64_t n_answer, double *anon_mb,
                        struct engine_error *err)
{
    static int32_t prompt[POSITIONS];
    struct sampler_config sampling;
    struct session *s = NULL;
    struct seen seen = {0};
    sampler_config_init(&sampling);
    sampling.ignore_eos = true;
    struct session_request r = {.prompt = prompt,
                                .n_prompt = n,
                                .sampling = &sampling,
                                .max_tokens = n_answer,
                                .n = 1,
                                .best_of = 1,
                                .seed = 1,
                                .logprobs = true};
    if (!session_start(e, &r, on_event, &seen, &s, err)) {
        sampler_config_release(&sampling);
        return false;
    }
    while (engine_step(e)) {
    }
    session_free(s);
    *anon_mb = seen.anon_mb;
    return seen.n_tokens > 0 || engine_fail(err, ENGINE_INTERNAL, "", "no token came");
}

static bool time_engine(const char *path, double *figure, struct engine_error *err)
{
    struct engine *e = NULL;
    double began = now_ms();
    bool done = engine_open(&e, path, NULL, err);
    figure[OPEN] = now_ms() - began;
    done = done && run_session(e, 5, 1, &figure[ANON], err);
    figure[FIRST] = now_ms() - began;
    figure[FILE_PAGES] = status_mb("RssFile:");
    engine_close(e);
    return done;
}

static bool measure_context(const char *path, double *figure, struct engine_error *err)
{
    struct engine *e = NULL;
    bool done = engine_open(&e, path, NULL, err) &&
                run_session(e, POSITIONS - ANSWER, ANSWER, &figure[ANON], err);
    const struct model_shape *s = done ? engine_shape(e) : NULL;
    figure[KEYS] = s ? 2.0 * s->n_layers * s->n_kv_heads * s->head_dim * 4 * POSITIONS / 1e6 : 0;
    engine_close(e);
    return done;
}

/* ---- passes */

typedef bool pass_fn(const char *path, double *figure, struct engine_error *err);

/* In a child; its figures come through a pipe. */
static bool run_child(pass_fn *fn, const char *path, double figure[N_FIGURES])
{
    int ends[2], status = 0;
    if (pipe(ends) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        struct engine_error err = {.code = ENGINE_OK};
        bool done = fn(path, figure, &err);
        done = write(ends[1], figure, N_FIGURES * sizeof *figure) > 0 && done;
        if (!done) {
            (void)fprintf(stderr, "bench_load: %s\n", err.text);
        }
        _exit(done ? 0 : 1);
    }
    (void)close(ends[1]);
    ssize_t n = read(ends[0], figure, N_FIGURES * sizeof *figure);
    (void)close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 &&
           n == (ssize_t)(N_FIGURES * sizeof *figure);
}

static bool bench(const char *path, size_t n_passes)
{
    static double all[N_FIGURES][PASSES_MAX];
    double figure[N_FIGURES] = {0};
    bool done = run_child(time_engine, path, figure); /* now all of it is in the page cache */
    for (size_t i = 0; done && i < n_passes; i++) {
        done = run_child(time_parts, path, figure) && run_child(time_engine, path, figure);
        for (size_t k = 0; k < N_FIGURES; k++) {
            all[k][i] = figure[k];
        }
    }
    for (size_t k = 0; done && k < N_FIGURES; k++) {
        qsort(all[k], n_passes, sizeof all[k][0], by_value);
        figure[k] = all[k][n_passes / 2];
    }
    if (!done) {
        return false;
    }
    printf("%s\n  weights %.1f ms, vocabulary %.1f ms, chat template %.1f ms; engine_open %.1f ms, "
           "first token after %.1f ms; then %.1f MB beside %.0f MB of the file\n",
           path, figure[WEIGHTS], figure[VOCABULARY], figure[CHAT], figure[OPEN], figure[FIRST],
           figure[ANON], figure[FILE_PAGES]);
    if (!run_child(measure_context, path, figure)) {
        return false;
    }
    printf("  with %d positions computed: %.1f MB, of which %.1f MB are keys and values\n",
           POSITIONS, figure[ANON], figure[KEYS]);
    return true;
}

/* ---- the model that is made */

static void remove_model(const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "config.json", "model.safetensors",
                                        "model.gguf"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static bool bench_made(void)
{
    char folder[2048], gguf[4096];
    const char *temp = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/isotherm-bench-XXXXXX",
                   temp && *temp ? temp : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        return false;
    }
    (void)snprintf(gguf, sizeof gguf, "%s/model.gguf", folder);
    bool done = bench_model_make(folder);
    if (!done) {
        (void)fprintf(stderr, "bench_load: '%s': the model cannot be written\n", folder);
    }
    done = done && bench(folder, PASSES) && bench(gguf, PASSES);
    remove_model(folder);
    return done;
}

int main(int argc, char **argv)
{
    long n = argc > 2 ? strtol(argv[2], NULL, 10) : PASSES;
    if (n < 1 || n > PASSES_MAX) {
        (void)fprintf(stderr, "usage: bench_load [MODEL [PASSES]]\n");
        return 1;
    }
    return (argc > 1 ? bench(argv[1], (size_t)n) : bench_made()) ? 0 : 1;
}
