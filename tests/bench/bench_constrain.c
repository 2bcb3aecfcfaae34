/* bench_constrain.c - masks over a made vocabulary of 151,936 tokens, and how long schemas take to
 * compile: medians, in time of the processor. BENCH_CHECK=1: fails where a figure is above its
 * target.
 */
#include "local-engine/constrain.h"
#include "tests/lib/tokenizer_recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_VOCAB = 151936, RUNS = 21, TOKENS_MAX = 200000, TEXT_MAX = 8 << 20 };
#define MASK_US    100.0
#define COMPILE_MS 50.0

static int n_above;
static uint64_t random_state = 88172645463325252u;

static uint32_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

static void stop(const struct engine_error *err)
{
    (void)fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void report(const char *what, double got, const char *unit, double target)
{
    bool is_above = target > 0 && got > target;
    n_above += is_above;
    (void)printf("%-52s %9.2f %s%s\n", what, got, unit, is_above ? "  ABOVE ITS TARGET" : "");
}

/* ---- a vocabulary: bytes, then pieces as real ones have them: words with a space before, runs of
 * spaces, brackets and quotes together, numbers, two-byte letters */

static size_t put_word(char *out, size_t max)
{
    static const char letters[] = "etaoinshrdlucmfwypvbgkjqxz";
    size_t n = 0, len = 2 + random_next() % max;
    for (; n < len; n++) {
        uint32_t r = random_next() % 26, q = random_next() % 26;
        out[n] = letters[r < q ? r : q];
    }
    return n;
}

static size_t put_piece(char *out)
{
    static const char marks[] = "\"{}[]:,.\\/()<>=;_-'0123456789\n";
    uint32_t kind = random_next() % 10;
    size_t n = 0;
    if (kind == 0) {
        for (uint32_t i = 0, len = 2 + random_next() % 4; i < len; i++) {
            out[n++] = marks[random_next() % (sizeof marks - 1)];
        }
        return n;
    }
    if (kind == 1) {
        for (uint32_t i = 0, len = 1 + random_next() % 4; i < len; i++) {
            out[n++] = (char)(0xC3 + random_next() % 8);
            out[n++] = (char)(0x80 + random_next() % 64);
        }
        return n;
    }
    if (kind < 7) {
        out[n++] = ' ';
    }
    n += put_word(out + n, 9);
    if (random_next() % 40 == 0) {
        out[n++] = marks[random_next() % 7];
    }
    return n;
}

/* Tokens that were made, so that none comes twice: 64-bit hashes, a power of two. */
static uint64_t made[1 << 19];

static bool is_new(const char *bytes, size_t n)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)bytes[i]) * 1099511628211u;
    }
    size_t at = (h >> 20) % (sizeof made / sizeof made[0]);
    while (made[at] != 0 && made[at] != h) {
        at = (at + 1) % (sizeof made / sizeof made[0]);
    }
    bool was = made[at] == h;
    made[at] = h;
    return !was;
}

static struct tokenizer *make_tokenizer(void)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t;
    char *text = NULL, piece[64];
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f) {
        exit(1);
    }
    (void)fprintf(f, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                     "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                     "\"merges\":[],\"vocab\":{");
    for (unsigned id = 0; id < N_VOCAB;) {
        size_t n = id < 256 ? 1 : put_piece(piece);
        piece[0] = id < 256 ? (char)id : piece[0];
        if (!is_new(piece, n)) {
            continue;
        }
        (void)fputs(id ? ",\"" : "\"", f);
        for (size_t i = 0; i < n; i++) {
            put_byte_char(f, (unsigned char)piece[i]);
        }
        (void)fprintf(f, "\":%u", id++);
    }
    (void)fputs("}}}", f);
    (void)fclose(f);
    if (!tokenizer_parse(&t, text, len, NULL, 0, &err)) {
        stop(&err);
    }
    free(text);
    return t;
}

/* ---- schemas */

static const char record[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":80},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},"
    "\"kind\":{\"enum\":[\"person\",\"place\",\"thing\"]},"
    "\"born\":{\"type\":\"string\",\"format\":\"date\"},"
    "\"code\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-[0-9]{4,6}$\"},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":5},"
    "\"next\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}},"
    "\"required\":[\"name\",\"age\",\"kind\",\"born\",\"code\",\"tags\",\"next\"]}";

/* About n bytes: objects in objects, each with properties of every kind. */
static char *large_schema(size_t n)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f) {
        exit(1);
    }
    (void)fprintf(f, "{\"type\":\"object\",\"properties\":{");
    for (unsigned i = 0; len < n; i++) {
        (void)fprintf(f, "%s\"part_%u\":%s", i ? "," : "", i, record);
        (void)fflush(f);
    }
    (void)fputs("},\"additionalProperties\":{\"type\":\"string\",\"format\":\"email\"}}", f);
    (void)fclose(f);
    return text;
}

static json_t *read_schema(const char *text)
{
    json_t *schema = json_loads(text, 0, NULL);
    if (!schema) {
        (void)fprintf(stderr, "a schema of the bench is no JSON\n");
        exit(1);
    }
    return schema;
}

static void bench_compile(const char *what, const char *text)
{
    double runs[RUNS];
    json_t *schema = read_schema(text);
    for (int i = 0; i < RUNS; i++) {
        struct engine_error err = {.code = ENGINE_OK};
        struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, schema, "response_format"};
        struct constrain *c;
        double start = now_us();
        if (!constrain_new(&c, &spec, &err)) {
            stop(&err);
        }
        runs[i] = (now_us() - start) / 1e3;
        constrain_free(c);
    }
    json_decref(schema);
    report(what, median(runs, RUNS), "ms", COMPILE_MS);
}

/* ---- masks */

/* A token among those allowed: one of a few, so that texts are about as long as real ones. */
static int32_t choose(const uint8_t *mask)
{
    int32_t from = (int32_t)(random_next() % N_VOCAB);
    if (random_next() % 4 == 0) { /* a single byte: quotes, brackets */
        from = (int32_t)(random_next() % 128);
    }
    for (int32_t i = 0; i < N_VOCAB; i++) {
        int32_t id = (from + i) % N_VOCAB;
        if (mask[id]) {
            return id;
        }
    }
    return -1;
}

/* One document; times of masks from times[*n] on. */
static void write_document(struct constrain *c, const struct constrain_cache *k,
                           const struct tokenizer *t, double *times, size_t *n, size_t n_max)
{
    static uint8_t mask[N_VOCAB];
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    if (!constrain_state_new(&s, c, constrain_cache_trie(k), &err)) {
        stop(&err);
    }
    for (size_t i = 0; i < n_max && !constrain_is_final(s); i++) {
        double start = now_us();
        if (!constrain_mask(s, mask, &err)) {
            stop(&err);
        }
        times[(*n)++] = now_us() - start;
        int32_t id = choose(mask);
        if (id < 0) {
            break;
        }
        size_t len;
        const char *bytes = tokenizer_piece(t, id, false, &len);
        if (!constrain_advance(s, bytes, len, &err)) {
            stop(&err);
        }
    }
    constrain_state_free(s);
}

static void bench_masks(const char *name, struct constrain_cache *k, const struct tokenizer *t,
                        const struct constrain_spec *spec)
{
    static double times[TOKENS_MAX];
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain *c;
    char what[96];
    size_t n = 0, n_first;
    if (!constrain_cache_get(k, spec, &c, &err)) {
        stop(&err);
    }
    write_document(c, k, t, times, &n, 400);
    n_first = n;
    (void)snprintf(what, sizeof what, "%s: mask, first document", name);
    report(what, median(times, n), "us", 0);
    (void)snprintf(what, sizeof what, "%s: the slowest of them", name);
    report(what, times[n - 1], "us", 0);
    for (n = 0; n + 400 < TOKENS_MAX && n < 20 * n_first;) {
        write_document(c, k, t, times, &n, 400);
    }
    (void)snprintf(what, sizeof what, "%s: mask, later documents", name);
    report(what, median(times, n), "us", MASK_US);
    (void)snprintf(what, sizeof what, "%s: mask, 99 of 100", name);
    report(what, times[n * 99 / 100], "us", 0);
    constrain_free(c);
}

int main(void)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t = make_tokenizer();
    struct constrain_cache *k;
    char *large = large_schema(10000);
    json_t *schema = read_schema(record), *long_text, *pattern = json_string("[a-z]+( [a-z]+)*\\.");
    bench_compile("a schema of 0.6 KB compiled", record);
    bench_compile("a schema of 10 KB compiled", large);
    if (!constrain_cache_new(&k, t, N_VOCAB, &err)) {
        stop(&err);
    }
    double start = now_us();
    struct constrain *c;
    struct constrain_spec spec = {CONSTRAIN_JSON_OBJECT, NULL, "response_format"};
    if (!constrain_cache_get(k, &spec, &c, &err)) {
        stop(&err);
    }
    report("the vocabulary's trie, once", (now_us() - start) / 1e3, "ms", 0);
    constrain_free(c);
    bench_masks("any object", k, t, &spec);
    spec = (struct constrain_spec){CONSTRAIN_JSON_SCHEMA, schema, "response_format"};
    bench_masks("a record", k, t, &spec);
    long_text = read_schema("{\"type\":\"string\",\"maxLength\":2000}");
    spec.value = long_text;
    bench_masks("a text of at most 2000", k, t, &spec);
    spec = (struct constrain_spec){CONSTRAIN_REGEX, pattern, "structured_outputs"};
    bench_masks("a pattern", k, t, &spec);
    constrain_cache_free(k);
    tokenizer_close(t);
    json_decref(schema);
    json_decref(long_text);
    json_decref(pattern);
    free(large);
    return n_above && getenv("BENCH_CHECK") ? 1 : 0;
}
