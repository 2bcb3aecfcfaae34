/* test_constrain_masks.c - masks against every token tried on its own, the vocabulary's trie, and
 * what is kept and forgotten.
 */
#include "tests/lib/constrain_texts.h"

static struct tokenizer *open_default(void)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {.code = ENGINE_OK};
    if (!tokenizer_open(&t, BYTES_FOLDER, &err)) {
        fail_msg("%s", err.text);
    }
    return t;
}

static uint32_t random_next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 32);
}

struct walk {
    struct constrain *c;
    const struct tokenizer *t;
    const struct token_trie *trie;
    char text[1 << 16];
    size_t n;
};

/* Each token tried on its own, on a state that read the same text. */
static void check_mask(struct walk *w, const uint8_t *mask)
{
    for (int32_t id = 0; id < w->trie->n_vocab; id++) {
        struct engine_error err = {.code = ENGINE_OK};
        struct constrain_state *s;
        size_t len;
        const char *bytes = tokenizer_piece(w->t, id, false, &len);
        assert_true(constrain_state_new(&s, w->c, w->trie, &err));
        assert_true(constrain_advance(s, w->text, w->n, &err));
        bool is_allowed =
            len > 0 && !tokenizer_is_special(w->t, id) && constrain_advance(s, bytes, len, NULL);
        constrain_state_free(s);
        if (is_allowed != mask[id]) {
            fail_msg("'%.*s' and token %d: %d, the mask says %d", (int)w->n, w->text, id,
                     is_allowed, mask[id]);
        }
    }
}

/* Random tokens: every prefix goes on or is whole. Some masks are checked token by token. */
static void write_one(struct walk *w, uint64_t *seed, bool checks)
{
    static uint8_t mask[1 << 16];
    static int32_t ids[1 << 16];
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    assert_true(constrain_state_new(&s, w->c, w->trie, &err));
    w->n = 0;
    for (int i = 0; i < 60; i++) {
        size_t n_ids = 0, len;
        assert_true(constrain_mask(s, mask, &err));
        if (checks && i % 6 == 3) {
            check_mask(w, mask);
        }
        for (int32_t id = 0; id < w->trie->n_vocab; id++) {
            if (mask[id]) {
                ids[n_ids++] = id;
            }
        }
        assert_true(n_ids > 0 || constrain_is_complete(s));
        assert_int_equal(n_ids == 0, constrain_is_final(s));
        if (n_ids == 0) {
            break;
        }
        int32_t id = ids[random_next(seed) % n_ids];
        const char *bytes = tokenizer_piece(w->t, id, false, &len);
        assert_true(constrain_advance(s, bytes, len, &err));
        memcpy(w->text + w->n, bytes, len);
        w->n += len;
    }
    constrain_state_free(s);
}

static const char *const walked[] = {
    "{\"type\":\"object\"}",
    "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"array\"},\"maxItems\":"
    "2}}",
    "{\"anyOf\":[{\"properties\":{\"a\":{\"$ref\":\"#\"}}},{\"properties\":{\"a\":{\"$ref\":\"#\"},"
    "\"b\":{\"type\":\"integer\"}}}]}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":9}",
    "{\"type\":\"string\",\"minLength\":12,\"maxLength\":2000}",
    "{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":8}",
    "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},"
    "\"minItems\":1}]}",
    "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"ab\",1]},\"minItems\":3,\"maxItems\":30}",
    "{\"properties\":{\"x\":{\"format\":\"date-time\"},\"y\":{\"type\":\"number\",\"minimum\":0.5}}"
    ","
    "\"required\":[\"x\",\"y\"],\"additionalProperties\":{\"type\":\"boolean\"}}",
};

static void check_masks(const struct tokenizer *t, int n_runs)
{
    static struct walk w;
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_cache *k;
    uint64_t seed = 88172645463325252u;
    assert_true(constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err));
    for (size_t i = 0; i < sizeof walked / sizeof walked[0]; i++) {
        json_t *v = parse(walked[i]);
        struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, v, "response_format"};
        w.t = t;
        if (!constrain_cache_get(k, &spec, &w.c, &err)) {
            fail_msg("%s: %s", walked[i], err.text);
        }
        json_decref(v);
        w.trie = constrain_cache_trie(k);
        for (int run = 0; run < n_runs; run++) {
            write_one(&w, &seed, run % 12 == 0);
        }
        constrain_free(w.c);
    }
    constrain_cache_free(k);
}

static void test_masks(void **state)
{
    (void)state;
    struct tokenizer *t = open_default();
    check_masks(t, 12);
    tokenizer_close(t);
}

/* Tokens that end one thing and begin another, several levels at once, as large vocabularies have
 * them. */
static void test_masks_across_levels(void **state)
{
    (void)state;
    static const struct recipe r = {
        .vocab = "\"\\\"}\":256,\"\\\"}}\":257,\"}}}\":258,\"]]\":259,\"]]]]]]\":260,\"],[\":261,"
                 "\"{\\\"\":262,\"\\\":\":263,\"\\\",\\\"\":264,\"}]\":265,\"]}\":266,\"[[[\":267,"
                 "\"aaaa\":268,"
                 "\"aaa\\\"\":269,\"1,1,1\":270,\":{\\\"\":271,\"{\\\"a\\\":{\\\"a\\\":\":272,\"]]]"
                 ",\":273"};
    struct tokenizer *t = make(make_bytes_json, &r);
    check_masks(t, 120);
    tokenizer_close(t);
}

/* Counts the tokens of a trie, and those that have the bytes of another. */
static size_t count_tokens(const struct token_trie *t, size_t *n_shared)
{
    size_t n = 0;
    *n_shared = 0;
    for (size_t i = 0; i < t->n_nodes; i++) {
        size_t before = n;
        for (int32_t id = t->nodes[i].token; id >= 0; id = t->next[id]) {
            n++;
            assert_in_range(id, 0, t->n_vocab - 1);
        }
        assert_int_equal(t->nodes[i].has_others, n > before + 1);
        *n_shared += n > before + 1 ? n - before : 0;
        assert_in_range(t->nodes[i].skip, i + 1, t->n_nodes);
    }
    return n;
}

/* The trie of a vocabulary that has more ids than the model. */
static void test_trie(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    const struct recipe r = {.vocab = "\"aa\":256,\"aab\":257,\"b\\u0120\":258"};
    struct tokenizer *t = make(make_bytes_json, &r);
    struct token_trie trie;
    size_t n_shared;
    assert_true(token_trie_init(&trie, t, 258, &err));
    assert_int_equal(count_tokens(&trie, &n_shared), 258);
    assert_int_equal(n_shared, 0);
    assert_int_equal(trie.n_nodes, 258); /* "aa" and "aab" share their beginnings */
    assert_int_equal(trie.depth, 3);
    token_trie_release(&trie);
    tokenizer_close(t);
}

/* Characters that are tokens and come once more as bytes: both are in the trie and in masks. */
static void test_same_bytes(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t;
    struct token_trie trie;
    size_t n = 0, n_shared, len;
    assert_true(tokenizer_open(&t, SPACES_FOLDER, &err));
    for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) {
        n += !tokenizer_is_special(t, id) && tokenizer_piece(t, id, false, &len) && len > 0;
    }
    assert_true(token_trie_init(&trie, t, tokenizer_n_vocab(t), &err));
    assert_int_equal(count_tokens(&trie, &n_shared), n);
    assert_true(n_shared >= 100);
    token_trie_release(&trie);
    check_masks(t, 12);
    tokenizer_close(t);
}

/* The same schema again is the same object; another order of its keys is another. */
static void test_cache(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t = open_default();
    struct constrain_cache *k;
    struct constrain *a, *b, *c;
    json_t *v = parse("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}"),
           *w = parse("{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}");
    struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, v, "response_format"};
    assert_true(constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err));
    assert_true(constrain_cache_get(k, &spec, &a, &err));
    assert_true(constrain_cache_get(k, &spec, &b, &err));
    assert_ptr_equal(a, b);
    spec.value = w;
    assert_true(constrain_cache_get(k, &spec, &c, &err));
    assert_ptr_not_equal(a, c);
    assert_true(allows(c, "{\"b\":1,\"a\":2}"));
    assert_false(allows(a, "{\"b\":1,\"a\":2}"));
    /* one that was pushed out lives as long as it has an owner */
    for (int i = 0; i < 40; i++) {
        json_t *x = json_pack("{s:i}", "const", i);
        struct constrain *other;
        spec.value = x;
        assert_true(constrain_cache_get(k, &spec, &other, &err));
        constrain_free(other);
        json_decref(x);
    }
    assert_true(allows(a, "{\"a\":1,\"b\":2}"));
    constrain_free(a);
    constrain_free(b);
    constrain_free(c);
    json_decref(v);
    json_decref(w);
    constrain_cache_free(k);
    tokenizer_close(t);
}

/* Each bracket is a state of its own: they are forgotten on the way, and the place is found again.
 */
static void test_forgets(void **state)
{
    (void)state;
    enum { DEPTH = 150000 };
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain *c = compile(CONSTRAIN_JSON_SCHEMA, "{\"type\":\"array\"}");
    struct constrain_state *s;
    assert_true(constrain_state_new(&s, c, NULL, &err));
    for (int i = 0; i < 2 * DEPTH; i++) {
        if (!constrain_advance(s, i < DEPTH ? "[" : "]", 1, &err)) {
            fail_msg("bracket %d: %s", i, err.text);
        }
        assert_int_equal(constrain_is_complete(s), i == 2 * DEPTH - 1);
    }
    assert_true(constrain_is_final(s));
    constrain_state_free(s);
    constrain_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks), cmocka_unit_test(test_masks_across_levels),
        cmocka_unit_test(test_trie),  cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_cache), cmocka_unit_test(test_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
