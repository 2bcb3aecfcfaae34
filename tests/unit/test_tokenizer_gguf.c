/* test_tokenizer_gguf.c - tokenizers from the metadata of a .gguf file: the same ids as those of
 * the tokenizer.json with the same vocabulary, and a refusal for everything that contradicts
 * itself.
 */
#include "local-engine/tokenizer_gguf.h"
#include "tests/lib/gguf_bytes.h"
#include "tests/lib/tokenizer_recipe.h"

#include <jansson.h>

#define KEY "tokenizer.ggml."

static struct tokenizer *from_bytes(struct gguf_bytes *b, struct engine_error *err)
{
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    gguf_bytes_end(b);
    bool done = gguf_parse(&g, (const unsigned char *)b->p, b->len, "made.gguf", err) &&
                tokenizer_from_gguf(&t, g, err);
    gguf_close(g);
    free(b->p);
    assert_true(done == (t != NULL));
    return t;
}

/* ---- the shipped vocabularies as metadata */

static json_t *read_model(const char *folder)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    json_t *file = json_load_file(path, 0, NULL);
    assert_non_null(file);
    return file;
}

/* Of a merge written "a b" or ["a", "b"]. */
static void merge_halves(const json_t *m, const char *half[2], size_t len[2])
{
    const char *s = json_string_value(m), *space = s ? strchr(s, ' ') : NULL;
    for (size_t i = 0; i < 2; i++) {
        half[i] = s ? (i ? space + 1 : s) : json_string_value(json_array_get(m, i));
        len[i] = s && i == 0 ? (size_t)(space - s) : strlen(half[i]);
    }
}

static void put_tokens(struct gguf_bytes *b, const struct tokenizer *t)
{
    int32_t n = tokenizer_n_vocab(t);
    gguf_bytes_list(b, KEY "tokens", GGUF_BYTES_STRING, (uint64_t)n);
    for (int32_t id = 0; id < n; id++) {
        const char *s = tokenizer_spelling(t, id);
        gguf_bytes_text(b, s, strlen(s));
    }
    gguf_bytes_list(b, KEY "token_type", GGUF_BYTES_I32, (uint64_t)n);
    for (int32_t id = 0; id < n; id++) {
        const char *s = tokenizer_spelling(t, id);
        bool is_byte = strlen(s) == 6 && memcmp(s, "<0x", 3) == 0;
        gguf_bytes_u32(b, tokenizer_is_special(t, id) ? 3 : is_byte ? 6 : 1);
    }
}

static void put_merges(struct gguf_bytes *b, const json_t *merges)
{
    const json_t *m;
    size_t i;
    gguf_bytes_list(b, KEY "merges", GGUF_BYTES_STRING, json_array_size(merges));
    json_array_foreach (merges, i, m) {
        const char *half[2];
        size_t len[2];
        char text[512];
        merge_halves(m, half, len);
        int n =
            snprintf(text, sizeof text, "%.*s %.*s", (int)len[0], half[0], (int)len[1], half[1]);
        gguf_bytes_text(b, text, (size_t)n);
    }
}

/* Minus the place of the first merge that makes the token. */
static void put_scores(struct gguf_bytes *b, const struct tokenizer *t, const json_t *merges)
{
    int32_t n = tokenizer_n_vocab(t);
    gguf_bytes_list(b, KEY "scores", GGUF_BYTES_F32, (uint64_t)n);
    for (int32_t id = 0; id < n; id++) {
        const json_t *m;
        size_t i;
        float score = -1e6F;
        json_array_foreach (merges, i, m) {
            const char *half[2], *s = tokenizer_spelling(t, id);
            size_t len[2];
            merge_halves(m, half, len);
            if (strlen(s) == len[0] + len[1] && memcmp(s, half[0], len[0]) == 0 &&
                memcmp(s + len[0], half[1], len[1]) == 0) {
                score = -(float)i;
                break;
            }
        }
        gguf_bytes_raw(b, &score, sizeof score);
    }
}

static char *text_of(const json_t *line, size_t *len)
{
    const char *hex = json_string_value(json_object_get(line, "hex"));
    size_t n = strlen(hex) / 2, times = (size_t)json_integer_value(json_object_get(line, "times"));
    char *text = malloc(n * times + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n * times; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * (i % n), "%2x", &byte), 1);
        text[i] = (char)byte;
    }
    *len = n * times;
    return text;
}

static void check_line(const struct tokenizer *t, const json_t *line)
{
    const json_t *want = json_object_get(line, "ids");
    size_t len = 0, n = 0;
    int32_t *ids = NULL;
    struct engine_error err = {0};
    char *text = text_of(line, &len);
    assert_true(tokenizer_encode(t, text, len, true, &ids, &n, &err));
    assert_int_equal(n, json_array_size(want));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ids[i], json_integer_value(json_array_get(want, i)));
    }
    free(ids);
    free(text);
}

static void check_vectors(const struct tokenizer *t, const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t cap = 0, n = 0;
    assert_non_null(f);
    for (; getline(&text, &cap, f) > 0; n++) {
        json_t *line = json_loads(text, 0, NULL);
        check_line(t, line);
        json_decref(line);
    }
    assert_true(n >= 80);
    free(text);
    fclose(f);
}

static void test_same_ids(void **state)
{
    (void)state;
    for (int is_bytes = 0; is_bytes < 2; is_bytes++) {
        const char *folder = is_bytes ? BYTES_FOLDER : SPACES_FOLDER;
        struct tokenizer *t = NULL, *of_gguf;
        struct engine_error err = {0};
        struct gguf_bytes b;
        json_t *file = read_model(folder);
        const json_t *merges = json_object_get(json_object_get(file, "model"), "merges");
        size_t n_eos = 0;
        assert_true(tokenizer_open(&t, folder, &err));
        gguf_bytes_begin(&b);
        put_tokens(&b, t);
        gguf_bytes_put_text(&b, KEY "model", is_bytes ? "gpt2" : "llama");
        gguf_bytes_put_text(&b, KEY "pre", is_bytes ? "gpt-2" : "default");
        gguf_bytes_put_int(&b, KEY "bos_token_id", (uint32_t)tokenizer_bos(t));
        gguf_bytes_put_int(&b, KEY "eos_token_id", (uint32_t)tokenizer_eos(t, &n_eos)[0]);
        if (is_bytes) {
            put_merges(&b, merges);
            gguf_bytes_put_bool(&b, KEY "add_bos_token", 1);
        } else {
            gguf_bytes_put_int(&b, KEY "unknown_token_id", 0);
            put_scores(&b, t, merges);
        }
        of_gguf = from_bytes(&b, &err);
        if (!of_gguf) {
            fail_msg("%s", err.text);
        }
        assert_int_equal(tokenizer_n_vocab(of_gguf), tokenizer_n_vocab(t));
        assert_int_equal(tokenizer_bos(of_gguf), tokenizer_bos(t));
        assert_true(tokenizer_adds_bos(of_gguf) && tokenizer_adds_bos(t));
        assert_int_equal(tokenizer_eos(of_gguf, &n_eos)[0], tokenizer_eos(t, &n_eos)[0]);
        assert_int_equal(tokenizer_spaces_after_special(of_gguf),
                         tokenizer_spaces_after_special(t));
        for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) {
            for (int is_first = 0; is_first < 2; is_first++) {
                size_t k = 0, k_gguf = 0;
                const char *s = tokenizer_piece(t, id, is_first, &k),
                           *s_gguf = tokenizer_piece(of_gguf, id, is_first, &k_gguf);
                assert_int_equal(k, k_gguf);
                assert_memory_equal(s, s_gguf, k);
            }
        }
        check_vectors(of_gguf, is_bytes ? "tests/vectors/tokenizer-bytes.jsonl"
                                        : "tests/vectors/tokenizer-spaces.jsonl");
        tokenizer_close(of_gguf);
        tokenizer_close(t);
        json_decref(file);
    }
}

/* ---- small ones */

/* What a small file says. Tokens and merges are separated by '|', types and scores are digits (a
 * score is minus its digit). Numbers are one more than what the file says, 0: it says nothing. */
struct small {
    const char *model, *pre, *tokens, *types, *merges, *scores;
    int bos, eos, eot, unk, adds_bos, adds_prefix;
};

static void put_texts(struct gguf_bytes *b, const char *key, const char *texts)
{
    size_t n = texts[0] != '\0';
    for (const char *p = texts; *p; p++) {
        n += *p == '|';
    }
    gguf_bytes_list(b, key, GGUF_BYTES_STRING, n);
    for (const char *p = texts; n > 0; n--) {
        size_t len = strcspn(p, "|");
        gguf_bytes_text(b, p, len);
        p += len + 1;
    }
}

static void put_numbers(struct gguf_bytes *b, const struct small *s)
{
    if (s->types) {
        gguf_bytes_list(b, KEY "token_type", GGUF_BYTES_I32, strlen(s->types));
        for (const char *p = s->types; *p; p++) {
            gguf_bytes_u32(b, (uint32_t)(*p - '0'));
        }
    }
    if (s->scores) {
        gguf_bytes_list(b, KEY "scores", GGUF_BYTES_F32, strlen(s->scores));
        for (const char *p = s->scores; *p; p++) {
            float score = *p == 'n' ? 0.0F / 0.0F : -(float)(*p - '0');
            gguf_bytes_raw(b, &score, sizeof score);
        }
    }
}

static struct tokenizer *make_small(const struct small *s, struct engine_error *err)
{
    const struct {
        const char *key;
        int value;
    } ids[] = {{KEY "bos_token_id", s->bos},
               {KEY "eos_token_id", s->eos},
               {KEY "eot_token_id", s->eot},
               {KEY "unknown_token_id", s->unk}};
    struct gguf_bytes b;
    gguf_bytes_begin(&b);
    if (s->model) {
        gguf_bytes_put_text(&b, KEY "model", s->model);
    }
    if (s->pre) {
        gguf_bytes_put_text(&b, KEY "pre", s->pre);
    }
    if (s->tokens) {
        put_texts(&b, KEY "tokens", s->tokens);
    }
    if (s->merges) {
        put_texts(&b, KEY "merges", s->merges);
    }
    put_numbers(&b, s);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        if (ids[i].value > 0) {
            gguf_bytes_put_int(&b, ids[i].key, (uint32_t)ids[i].value - 1);
        }
    }
    if (s->adds_bos > 0) {
        gguf_bytes_put_bool(&b, KEY "add_bos_token", (char)(s->adds_bos - 1));
    }
    if (s->adds_prefix > 0) {
        gguf_bytes_put_bool(&b, KEY "add_space_prefix", (char)(s->adds_prefix - 1));
    }
    return from_bytes(&b, err);
}

static void expect(const struct small *s, const char *text, const char *want)
{
    char got[256] = "";
    size_t n = 0, at = 0;
    int32_t *ids = NULL;
    struct engine_error err = {0};
    struct tokenizer *t = make_small(s, &err);
    if (!t || !tokenizer_encode(t, text, strlen(text), true, &ids, &n, &err)) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%d", i ? " " : "", (int)ids[i]);
    }
    free(ids);
    tokenizer_close(t);
    assert_string_equal(got, want);
}

static void test_scores_decide(void **state)
{
    (void)state;
    struct small s = {
        .model = "llama", .adds_prefix = 1, .tokens = "a|b|c|ab|bc", .scores = "99921"};
    expect(&s, "abc", "0 4"); /* bc has the better score */
    s.scores = "99912";
    expect(&s, "abc", "3 2");
    s.scores = "99911"; /* of equals the lower id */
    expect(&s, "abc", "3 2");
}

static void test_user_defined(void **state)
{
    (void)state;
    const struct small s = {.model = "llama",
                            .adds_prefix = 1,
                            .tokens = "<s>|a|b|ab|[ab]",
                            .types = "31114",
                            .scores = "99919",
                            .bos = 1};
    struct engine_error err = {0};
    expect(&s, "ab[ab]ab", "3 4 3");
    struct tokenizer *t = make_small(&s, &err);
    assert_true(tokenizer_is_special(t, 0) && !tokenizer_is_special(t, 4));
    assert_true(tokenizer_adds_bos(t) && tokenizer_bos(t) == 0);
    tokenizer_close(t);
}

/* A user-defined token is found in text, but not one that opens a turn. */
static void test_turn_marks(void **state)
{
    (void)state;
    const struct small s = {.model = "llama",
                            .adds_prefix = 1,
                            .tokens = "[|I|N|S|T|]|[INST]|[X]|X",
                            .types = "111111441",
                            .scores = "999999999"};
    struct engine_error err = {0};
    struct tokenizer *t = make_small(&s, &err);
    assert_true(tokenizer_find_special(t, "[INST]") == 6 && !tokenizer_is_special(t, 7));
    tokenizer_close(t);
    expect(&s, "[INST][X]", "0 1 2 3 4 5 7");
}

static void test_a_token_need_not_be_utf8(void **state)
{
    (void)state;
    const struct small s = {
        .model = "gpt2", .pre = "gpt-2", .tokens = "a|b|ab|+\xa0|\xff", .merges = "a b"};
    struct engine_error err = {0};
    size_t len = 0;
    struct tokenizer *t = make_small(&s, &err);
    assert_non_null(t);
    assert_memory_equal(tokenizer_piece(t, 3, false, &len), "+\xa0", 2);
    assert_int_equal(len, 2);
    assert_memory_equal(tokenizer_piece(t, 4, false, &len), "\xff", 1);
    assert_int_equal(len, 1);
    tokenizer_close(t);
}

static void test_unigram(void **state)
{
    (void)state;
    const struct small s = {.model = "t5",
                            .adds_prefix = 1,
                            .unk = 1,
                            .tokens = "<unk>|a|b|ab|abb|" SP,
                            .types = "211111",
                            .scores = "044295"};
    expect(&s, "ab", "3");
    expect(&s, "abb", "3 2"); /* 2 + 4 < 9 */
    expect(&s, "a zz b", "1 5 0 5 2");
}

static void test_ends_of_turns(void **state)
{
    (void)state;
    const struct small s = {.model = "llama",
                            .tokens = "a|</s>|<end_of_turn>|<eos>|<x>",
                            .types = "13333",
                            .scores = "00000",
                            .eos = 2,
                            .eot = 5};
    struct engine_error err = {0};
    size_t n = 0;
    struct tokenizer *t = make_small(&s, &err);
    assert_non_null(t);
    const int32_t *eos = tokenizer_eos(t, &n);
    assert_int_equal(n, 3);
    assert_true(eos[0] == 1 && eos[1] == 4 && eos[2] == 2);
    tokenizer_close(t);
}

/* ---- refused */

static const struct {
    struct small s;
    const char *want;
} refused[] = {
    {{.tokens = "a"}, "model: 'nothing' is not supported"},
    {{.model = "bert", .tokens = "a"}, "model: 'bert' is not supported"},
    {{.model = "gpt2"}, "tokens: missing"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|a"}, "tokens[1]: 'a': the token is there"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b", .types = "1"}, "token_type: not as many"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b", .types = "17"}, "not 1 to 6"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b"}, "merges: missing"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b", .merges = "a b"},
     "merges[0]: 'ab' is not in the vocabulary"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b", .merges = "ab"}, "merges[0]: not two"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b", .merges = "a "}, "merges[0]: not two"},
    {{.model = "gpt2", .tokens = "a|b", .merges = "a b"}, "pre: 'nothing' is not known"},
    {{.model = "gpt2", .pre = "mine", .tokens = "a|b"}, "pre: 'mine' is not known"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b", .merges = "a b", .adds_bos = 2},
     "add_bos_token: true, but"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = "a|b", .bos = 3}, "bos_token_id"},
    {{.model = "llama", .tokens = "a|b", .eos = 70001}, "eos_token_id"},
    {{.model = "llama", .tokens = "a|b"}, "scores: missing"},
    {{.model = "llama", .tokens = "a|b", .scores = "1"}, "scores: missing, or not as many"},
    {{.model = "llama", .tokens = "a|b", .scores = "1n"}, "scores"},
    {{.model = "t5", .tokens = "a|b"}, "scores: missing"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct engine_error err = {0};
        assert_null(make_small(&refused[i].s, &err));
        if (err.code != ENGINE_BAD_FILE || !strstr(err.text, refused[i].want) ||
            strchr(err.text, '\n')) {
            fail_msg("row %zu: %s", i, err.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_ids),      cmocka_unit_test(test_scores_decide),
        cmocka_unit_test(test_user_defined),  cmocka_unit_test(test_turn_marks),
        cmocka_unit_test(test_unigram),       cmocka_unit_test(test_a_token_need_not_be_utf8),
        cmocka_unit_test(test_ends_of_turns), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("tokenizer_gguf", tests, NULL, NULL);
}
