/* test_damaged_models.c - a small whole model as a .gguf file, changed in every way in which one
 * may lie: it is refused soon, in one line that names the field, with little memory; or it loads
 * and runs.
 */
#include "gguf_builder.h"
#include "local-engine/engine.h"
#include "small_tokenizer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

#define ok(call)                                                                                   \
    do {                                                                                           \
        struct engine_error err = {.code = ENGINE_OK};                                             \
        if (!(call)) {                                                                             \
            print_error("%s\n", err.text);                                                         \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

enum { N_TOKENS = SMALL_TOKENS, BOS = SMALL_BOS };
enum { N_OTHERS = SMALL_KEYS + 2 }; /* keys that are no whole number */

/* An empty file with that ending, whose name the caller removes. */
static void temporary(char path[64])
{
    (void)snprintf(path, 64, "/tmp/isotherm-test-XXXXXX.gguf");
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    (void)close(fd);
}

/* ---------------------------------------------------------------- metadata */

/* A small llama whose one key or tensor is wrong. */
struct change {
    const char *key; /* NULL: none */
    const char *text;
    uint32_t value;    /* in place of the right one */
    bool is_left_out;  /* instead */
    const char *extra; /* one more tensor of 32 zeros */
};

static const struct {
    const char *key;
    uint32_t value;
} KEYS[] = {{"llama.embedding_length", 32},
            {"llama.feed_forward_length", 32},
            {"llama.block_count", 1},
            {"llama.attention.head_count", 2},
            {"llama.attention.head_count_kv", 1},
            {"llama.context_length", 64},
            {"llama.rope.dimension_count", 16},
            {"llama.vocab_size", N_TOKENS},
            {"general.alignment", 32},
            {"tokenizer.ggml.bos_token_id", BOS},
            {"tokenizer.ggml.eos_token_id", BOS + 1}};
enum { N_KEYS = 11 };

static const struct {
    const char *name;
    uint64_t rows;
} TENSORS[] = {
    {"token_embd.weight", N_TOKENS},  {"output_norm.weight", 1},    {"blk.0.attn_norm.weight", 1},
    {"blk.0.attn_q.weight", 32},      {"blk.0.attn_k.weight", 16},  {"blk.0.attn_v.weight", 16},
    {"blk.0.attn_output.weight", 32}, {"blk.0.ffn_norm.weight", 1}, {"blk.0.ffn_gate.weight", 32},
    {"blk.0.ffn_up.weight", 32},      {"blk.0.ffn_down.weight", 32}};
enum { N_TENSORS = 11 };

static bool is_changed(const struct change *c, const char *key)
{
    return c->key && strcmp(c->key, key) == 0;
}

static bool is_tensor(const struct change *c)
{
    return c->key && strstr(c->key, ".weight") != NULL;
}

/* A key that the right file does not have. */
static bool is_more(const struct change *c)
{
    bool is_known = !c->key || is_tensor(c) || strcmp(c->key, "tokens") == 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        is_known = is_known || is_changed(c, KEYS[i].key);
    }
    return !is_known;
}

static void put_keys(struct gguf_bytes *b, const struct change *c)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        bool is = is_changed(c, KEYS[i].key);
        if (!is || !c->is_left_out) {
            gguf_put_u32(b, KEYS[i].key, is ? c->value : KEYS[i].value);
        }
    }
    if (is_more(c)) {
        gguf_put_u32(b, c->key, c->value);
    }
}

/* Returns the bytes of data that they need. */
static uint64_t put_tensors(struct gguf_bytes *b, const struct change *c)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < N_TENSORS; i++) {
        bool is = is_changed(c, TENSORS[i].name);
        uint64_t rows = is ? c->value : TENSORS[i].rows;
        if (!is || !c->is_left_out) {
            gguf_put_tensor(b, TENSORS[i].name, rows, 32, 0, offset);
            offset += rows * 128;
        }
    }
    if (c->extra) {
        gguf_put_tensor(b, c->extra, 1, 32, 0, offset);
        offset += 128;
    }
    return offset;
}

static struct gguf_bytes small_llama(const struct change *c)
{
    struct gguf_bytes b = {0};
    uint64_t n_less = c->is_left_out;
    gguf_put_head(&b, N_TENSORS + (c->extra ? 1 : 0) - (is_tensor(c) ? n_less : 0),
                  N_KEYS + N_OTHERS + (is_more(c) ? 1 : 0) - (is_tensor(c) ? 0 : n_less));
    gguf_put_string(&b, "general.architecture", "llama");
    gguf_put_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_small_tokenizer(&b, is_changed(c, "tokens") ? c->value : N_TOKENS);
    put_keys(&b, c);
    uint64_t n_data = put_tensors(&b, c);
    gguf_pad(&b, 32);
    for (uint64_t i = 0; i < n_data; i++) {
        gguf_put(&b, "", 1);
    }
    return b;
}

static void write_file(const char *path, const struct gguf_bytes *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->p, 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
}

static void metadata_that_contradict_the_tensors_are_refused(void **state)
{
    (void)state;
    static const struct change changes[] = {
        {"llama.embedding_length", "key 'llama.embedding_length' is missing", 0, true, NULL},
        {"llama.embedding_length", "'hidden_size' is 0, 1 to 65536 expected", 0, false, NULL},
        {"llama.embedding_length", "'partial_rotary_factor' is 0.5", 64, false, NULL},
        {"llama.embedding_length", "key 'llama.embedding_length' is 4294967295", UINT32_MAX, false,
         NULL},
        {"llama.block_count", "tensor 'model.layers.1.", 2, false, NULL},
        {"llama.block_count", "'num_hidden_layers' is 2147483647, 1 to 1024 expected", INT32_MAX,
         false, NULL},
        {"llama.attention.head_count", "'num_attention_heads' is 0", 0, false, NULL},
        {"llama.attention.head_count", "does not divide 'hidden_size' 32", 3, false, NULL},
        {"llama.attention.head_count_kv", "'num_key_value_heads' is 5, 1 to 2 expected", 5, false,
         NULL},
        {"llama.feed_forward_length", "has shape [32, 32], [48, 32] expected", 48, false, NULL},
        {"llama.context_length", "'max_position_embeddings' is 0", 0, false, NULL},
        {"llama.vocab_size", "key 'llama.vocab_size' speaks of 5 tokens", 5, false, NULL},
        {"tokens", "key 'tokenizer.ggml.tokens' speaks of 3 tokens", 3, false, NULL},
        {"llama.rope.dimension_count", "'partial_rotary_factor' is 0.5", 8, false, NULL},
        {"llama.expert_count", "key 'llama.expert_count' is 8, which is not supported", 8, false,
         NULL},
        {"llama.rope.scaling.attn_factor",
         "key 'llama.rope.scaling.attn_factor' is 2, which is not supported", 2, false, NULL},
        {"blk.0.attn_q.weight", "tensor 'model.layers.0.self_attn.q_proj.weight' is missing", 0,
         true, NULL},
        {"blk.0.attn_k.weight", "has shape [32, 32], [16, 32] expected", 32, false, NULL},
        {"token_embd.weight", "tensor 'token_embd.weight' of 2 dimensions is missing", 0, true,
         NULL},
        {NULL, "tensor 'blk.1.attn_q.weight.x' is no part", 0, false, "blk.1.attn_q.weight.x"},
        {NULL, "tensor 'rope_freqs.weight' holds a factor that is not above 0", 0, false,
         "rope_freqs.weight"},
        {NULL, "tensor 'model.layers.1.self_attn.q_proj.weight' is no part", 0, false,
         "blk.1.attn_q.weight"},
        {NULL, "tensor 'blk.00.attn_q.weight' is no part", 0, false, "blk.00.attn_q.weight"},
        {NULL, "tensor 'model.norm.weight' is there twice", 0, false, "model.norm.weight"},
    };
    char path[64];
    temporary(path);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct model *m = NULL;
        struct engine_error err = {0};
        struct gguf_bytes b = small_llama(&changes[i]);
        write_file(path, &b);
        bool opened = model_open(&m, path, &err);
        if (opened || !strstr(err.text, changes[i].text) || strchr(err.text, '\n')) {
            print_error("got '%s', '%s' expected\n", opened ? "a model" : err.text,
                        changes[i].text);
            fail();
        }
        free(b.p);
    }
    struct gguf_bytes right = small_llama(&(struct change){0});
    struct model *m = NULL;
    write_file(path, &right);
    ok(model_open(&m, path, &err));
    model_close(m);
    free(right.p);
    (void)unlink(path);
}

/* As much of a gemma2 as is read before its keys are judged, and one more key. */
static void write_gemma2(const char *path, const char *key, uint32_t value)
{
    static const char *const keys[] = {"embedding_length",     "feed_forward_length",
                                       "block_count",          "context_length",
                                       "attention.head_count", "attention.key_length"};
    struct gguf_bytes b = {0};
    gguf_put_head(&b, 1, 9);
    gguf_put_string(&b, "general.architecture", "gemma2");
    gguf_put_f32(&b, "gemma2.attention.layer_norm_rms_epsilon", 1e-6f);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char full[64];
        (void)snprintf(full, sizeof full, "gemma2.%s", keys[i]);
        gguf_put_u32(&b, full, 32);
    }
    gguf_put_u32(&b, key, value);
    gguf_put_tensor(&b, "token_embd.weight", 4, 32, 0, 0);
    gguf_pad(&b, 32);
    for (size_t i = 0; i < (size_t)4 * 32 * 4; i++) {
        gguf_put(&b, "", 1);
    }
    write_file(path, &b);
    free(b.p);
}

/* Its local layers are every second one, with the positions of the others. */
static void keys_that_would_change_a_familys_layers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text;
        uint32_t value;
    } keys[] = {
        {"gemma2.rope.freq_base_swa", "key 'gemma2.rope.freq_base_swa' is 500, which is not", 500},
        {"gemma2.rope.freq_base_swa", "tensor 'model.norm.weight' is missing", 10000},
        {"gemma2.attention.sliding_window_pattern",
         "key 'gemma2.attention.sliding_window_pattern' is 3, which is not", 3},
        {"gemma2.attention.sliding_window_pattern", "tensor 'model.norm.weight' is missing", 2},
        {"gemma2.rope.scaling.attn_factor",
         "key 'gemma2.rope.scaling.attn_factor' is 3, which is not", 3},
    };
    char path[64];
    temporary(path);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct model *m = NULL;
        struct engine_error err = {.code = ENGINE_OK};
        write_gemma2(path, keys[i].key, keys[i].value);
        assert_false(model_open(&m, path, &err));
        if (!strstr(err.text, keys[i].text)) {
            fail_msg("%s %u: '%s'", keys[i].key, keys[i].value, err.text);
        }
    }
    (void)unlink(path);
}

/* ---------------------------------------------------------------- damage */

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long peak_kib(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static void on_event(const struct session_event *ev, void *ud)
{
    int *n_ends = ud;
    *n_ends += ev->kind != SESSION_TEXT;
}

/* Encodes, and says a few tokens: an answer or an error, but an end. */
static void use(struct engine *e)
{
    struct sampler_config sampling;
    struct session *s = NULL;
    int32_t *ids = NULL;
    int n_ends = 0;
    sampler_config_init(&sampling);
    struct session_request r = {
        .sampling = &sampling, .max_tokens = 4, .n = 1, .best_of = 1, .seed = 1};
    if (tokenizer_encode(engine_tokenizer(e), "abc, ab <s>", 11, true, &ids, &r.n_prompt, NULL)) {
        r.prompt = ids;
        if (session_start(e, &r, on_event, &n_ends, &s, NULL)) {
            while (engine_step(e)) {
            }
            assert_int_equal(n_ends, 1);
            session_free(s);
        }
    }
    free(ids);
}

/* Refused with one line, or it runs; soon, and in little memory. `said`: why it was refused, ""
 * when it was not. */
static void try_file(const char *path, char said[384])
{
    static const struct engine_options one = {.n_threads = 1};
    struct engine *e = NULL;
    struct engine_error err = {.code = ENGINE_OK};
    long before = peak_kib();
    double from = now_ms();
    bool is_open = engine_open(&e, path, &one, &err);
    assert_true(now_ms() - from < (IS_SANITIZED ? 10000.0 : 1000.0));
    assert_true(IS_SANITIZED || peak_kib() - before < 16 * 1024);
    if (is_open) {
        use(e);
    } else {
        assert_true(err.text[0] != '\0' && !strpbrk(err.text, "\n\r"));
    }
    (void)snprintf(said, 384, "%s", is_open ? "" : err.text);
    engine_close(e);
}

/* Where a text stands in the file. */
static size_t place_of(const struct gguf_bytes *b, const char *text)
{
    const unsigned char *at = memmem(b->p, b->n, text, strlen(text));
    assert_non_null(at);
    return (size_t)(at - b->p);
}

struct patch {
    const char *behind; /* the text behind which is written; NULL: from the file's beginning */
    int more;           /* bytes later */
    int size;           /* of value[0]; the second has 8 */
    uint64_t value[2];  /* the second is not written where it is 0 */
    const char *text;   /* of the refusal */
};

#define TENSOR "blk.0.attn_k.weight" /* n_dims, two dims, type, offset follow */
static const struct patch patches[] = {
    {NULL, 0, 4, {0x46554746, 0}, "does not begin with 'GGUF'"},
    {NULL, 4, 4, {99, 0}, "has version 99"},
    {NULL, 8, 8, {(uint64_t)1 << 60, 0}, "the tensor count is 1152921504606846976"},
    {NULL, 16, 8, {(uint64_t)1 << 60, 0}, "the metadata count is 1152921504606846976"},
    {NULL, 24, 8, {(uint64_t)1 << 63, 0}, "a metadata key has 9223372036854775808 bytes"},
    {NULL, 24, 8, {0, 0}, "a metadata key has 0 bytes"},
    {"general.architecture", 4, 8, {(uint64_t)1 << 63, 0}, "the string of general.architecture"},
    {"tokenizer.ggml.merges", 4, 4, {9, 0}, "key 'tokenizer.ggml.merges' is an array of arrays"},
    {"tokenizer.ggml.merges", 8, 8, {(uint64_t)1 << 62, 0}, "key 'tokenizer.ggml.merges' is an"},
    {"tokenizer.ggml.tokens", 8, 8, {(uint64_t)1 << 62, 0}, "key 'tokenizer.ggml.tokens' is an"},
    {"general.alignment", 0, 4, {77, 0}, "key 'general.alignment' has the unknown type 77"},
    {"general.alignment", 4, 4, {0, 0}, "key 'general.alignment' is 0"},
    {"general.alignment", 4, 4, {3, 0}, "key 'general.alignment' is 3"},
    {"general.alignment", 4, 4, {(uint64_t)1 << 31, 0}, "key 'general.alignment' is 2147483648"},
    {TENSOR, 0, 4, {5, 0}, "tensor '" TENSOR "' has n_dims 5"},
    {TENSOR, 4, 8, {((uint64_t)1 << 42) + 1, 1 << 22}, "dimensions whose product is too large"},
    {TENSOR, 20, 4, {99, 0}, "tensor '" TENSOR "' has the unknown type 99"},
    {TENSOR, 24, 8, {(uint64_t)1 << 40, 0}, "tensor '" TENSOR "' has offset 1099511627776"},
    {TENSOR, 24, 8, {33, 0}, "tensor '" TENSOR "' has offset 33, no multiple"},
    {TENSOR, -8, 1, {'q', 0}, "tensor 'blk.0.attn_q.weight' is there twice"},
    {"ab c", -1, 1, {'z', 0}, "tokenizer.ggml.merges[1]: 'abz' is not in the vocabulary"},
};

static void what_people_reported_is_refused_by_field(void **state)
{
    (void)state;
    struct gguf_bytes b = small_llama(&(struct change){0});
    char path[64], said[384];
    temporary(path);
    write_file(path, &b);
    try_file(path, said);
    assert_string_equal(said, "");
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        const struct patch *p = &patches[i];
        struct gguf_bytes changed = {0};
        gguf_put(&changed, b.p, b.n);
        size_t at = p->behind ? place_of(&b, p->behind) + strlen(p->behind) : 0;
        at = (size_t)((long)at + p->more);
        memcpy(changed.p + at, &p->value[0], (size_t)p->size);
        if (p->value[1]) {
            memcpy(changed.p + at + 8, &p->value[1], 8);
        }
        write_file(path, &changed);
        try_file(path, said);
        if (!strstr(said, p->text) || !strstr(said, ".gguf: ")) {
            fail_msg("patch %zu: got '%s', '%s' expected", i, said, p->text);
        }
        free(changed.p);
    }
    (void)unlink(path);
    free(b.p);
}

/* What of the file is no number of a weight. */
static size_t header_len(const struct gguf_bytes *b)
{
    return b->n - 128 * (N_TOKENS + 3 + 32 + 16 + 16 + 32 + 32 + 32 + 32);
}

static void ten_thousand_changes_of_one_byte_do_no_harm(void **state)
{
    (void)state;
    struct gguf_bytes b = small_llama(&(struct change){0});
    char path[64], said[384];
    uint32_t random = 3;
    size_t n_refused = 0;
    temporary(path);
    write_file(path, &b);
    int fd = open(path, O_RDWR);
    for (int i = 0; i < 10000; i++) {
        random = random * 1664525u + 1013904223u;
        size_t at = (random >> 8) % (i % 8 == 0 ? b.n : header_len(&b));
        unsigned char byte = (unsigned char)(random >> 24);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        try_file(path, said);
        n_refused += said[0] != '\0';
        assert_int_equal(pwrite(fd, b.p + at, 1, (off_t)at), 1);
    }
    assert_true(n_refused > 1000 && n_refused < 9900);
    (void)close(fd);
    (void)unlink(path);
    free(b.p);
}

static void a_file_cut_at_any_byte_of_its_header_is_refused(void **state)
{
    (void)state;
    struct gguf_bytes b = small_llama(&(struct change){0});
    char path[64], said[384];
    temporary(path);
    write_file(path, &b);
    for (size_t n = b.n - 1;; n -= n > header_len(&b) + 97 ? 97 : 1) {
        assert_int_equal(truncate(path, (off_t)n), 0);
        try_file(path, said);
        assert_string_not_equal(said, "");
        if (n == 0) {
            break;
        }
    }
    (void)unlink(path);
    free(b.p);
}

/* ---------------------------------------------------------------- a folder */

#define MODEL "tests/vectors/stories260k"
static const char *const files[] = {"model.safetensors", "tokenizer.json", "config.json",
                                    "tokenizer_config.json"};
enum { N_FILES = 4, HEADER_BYTES = 5000 }; /* of the first, about as many are no weights */

static unsigned char *read_whole(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *p = malloc(*n);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    (void)fclose(f);
    return p;
}

/* Copies of the files in a folder of their own, which the caller removes. */
static void copy_model(char folder[64], char paths[N_FILES][96], struct gguf_bytes b[N_FILES])
{
    (void)snprintf(folder, 64, "/tmp/isotherm-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < N_FILES; i++) {
        char from[96];
        (void)snprintf(from, sizeof from, MODEL "/%s", files[i]);
        (void)snprintf(paths[i], 96, "%s/%s", folder, files[i]);
        b[i].p = read_whole(from, &b[i].n);
        write_file(paths[i], &b[i]);
    }
}

static void changes_of_one_byte_in_a_folder_do_no_harm(void **state)
{
    (void)state;
    char folder[64], paths[N_FILES][96], said[384];
    struct gguf_bytes b[N_FILES] = {{0}};
    uint32_t random = 7;
    copy_model(folder, paths, b);
    try_file(folder, said);
    assert_string_equal(said, "");
    for (size_t i = 0; i < N_FILES; i++) {
        size_t n_refused = 0;
        int fd = open(paths[i], O_RDWR);
        for (int k = 0; k < 1000; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 8) % (i == 0 ? HEADER_BYTES : b[i].n);
            unsigned char byte = (unsigned char)(random >> 24);
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
            try_file(folder, said);
            n_refused += said[0] != '\0';
            assert_int_equal(pwrite(fd, b[i].p + at, 1, (off_t)at), 1);
        }
        assert_true(n_refused > 50 && n_refused < 1000);
        (void)close(fd);
        (void)unlink(paths[i]);
        write_file(paths[i], &b[i]);
    }
    for (size_t i = 0; i < N_FILES; i++) {
        (void)unlink(paths[i]);
        free(b[i].p);
    }
    (void)rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_that_contradict_the_tensors_are_refused),
        cmocka_unit_test(keys_that_would_change_a_familys_layers_are_refused),
        cmocka_unit_test(what_people_reported_is_refused_by_field),
        cmocka_unit_test(ten_thousand_changes_of_one_byte_do_no_harm),
        cmocka_unit_test(a_file_cut_at_any_byte_of_its_header_is_refused),
        cmocka_unit_test(changes_of_one_byte_in_a_folder_do_no_harm),
    };
    return cmocka_run_group_tests_name("damaged_models", tests, NULL, NULL);
}
