/* test_kvpool.c - blocks of keys and values: random sessions against what each sequence must hold,
 * and the promises, the index and the memory one by one. No model: keys and values are a number
 * made of the tokens up to their position. */
#include "local-engine/kvcache.h"
#include "local-engine/model_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXT = 160, HEAD = 3, N_MAX = 24 };

static struct model model = {
    .shape = {.n_layers = 2, .n_kv_heads = 2, .head_dim = HEAD, .context = CONTEXT}};

static struct kvpool *new_pool(size_t n)
{
    struct kvpool *p;
    assert_true(kvpool_new(&p, kvcache_block_bytes(&model, KERNELS_F32), n, NULL));
    return p;
}

static uint64_t next(uint64_t *x)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *x >> 33;
}

/* ---- a sequence */

struct sequence {
    struct kvcache *cache;
    int32_t tokens[CONTEXT];
    size_t n;
};

/* What stands at the last of n tokens. */
static float number(const int32_t *tokens, size_t n)
{
    uint32_t h = 1;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint32_t)tokens[i]) * 16777619u;
    }
    return (float)(h >> 8);
}

static void append(struct sequence *s, int32_t token)
{
    assert_true(kvcache_prepare(s->cache, 1, NULL));
    s->tokens[s->n] = token;
    s->cache->table[s->n / KVPOOL_TOKENS]->tokens[s->n % KVPOOL_TOKENS] = token;
    float x = number(s->tokens, s->n + 1), keys[2 * HEAD], values[2 * HEAD];
    for (int i = 0; i < 2 * HEAD; i++) {
        keys[i] = x + (float)i;
        values[i] = x - (float)i;
    }
    for (size_t layer = 0; layer < 2; layer++) {
        kvcache_put(s->cache, layer, (int32_t)s->n, keys, values);
    }
    s->n++;
    s->cache->n_tokens++;
}

static void check(const struct sequence *s)
{
    assert_int_equal(kvcache_len(s->cache), s->n);
    for (size_t p = 0; p < s->n; p++) {
        size_t block = p / KVPOOL_TOKENS, t = p % KVPOOL_TOKENS;
        float x = number(s->tokens, p + 1);
        assert_int_equal(s->cache->table[block]->tokens[t], s->tokens[p]);
        for (size_t i = 0; i < 2 * HEAD; i++) {
            const float *k = kvcache_keys(s->cache, block, p % 2, i / HEAD);
            const float *v = kvcache_values(s->cache, block, p % 2, i / HEAD);
            assert_true(k[i % HEAD * KVPOOL_TOKENS + t] == x + (float)i);
            assert_true(v[t * s->cache->ldv + i % HEAD] == x - (float)i);
        }
    }
}

/* ---- random sessions */

enum { SESSIONS = 5, CHOICES = 4 };
struct fake_session {
    struct kvaccount account;
    struct sequence choices[CHOICES];
    size_t n_choices, n_prompt, n_max; /* tokens of a choice */
    int32_t prompt[CONTEXT];
    bool is_open, is_begun;
};

static size_t n_needed(const struct fake_session *s)
{
    size_t whole = s->n_prompt / KVPOOL_TOKENS;
    return whole + s->n_choices * (kvcache_n_blocks((int64_t)s->n_max) - whole);
}

static bool open_session(struct fake_session *s, struct kvpool *p, uint64_t *x)
{
    *s = (struct fake_session){.account = {p, 0}};
    s->n_choices = 1 + next(x) % CHOICES;
    s->n_prompt = 1 + next(x) % (CONTEXT - 40);
    s->n_max = s->n_prompt + 1 + next(x) % 40;
    size_t part = next(x) % s->n_prompt; /* where it leaves the prompt that many begin with */
    for (size_t i = 0; i < s->n_prompt; i++) {
        s->prompt[i] = (int32_t)(i < part ? i * i % 7 : next(x) % 3);
    }
    for (size_t i = 0; i < s->n_choices; i++) {
        struct sequence *c = &s->choices[i];
        assert_true(
            kvcache_new_of(&c->cache, &model, KERNELS_F32, &s->account, (int32_t)s->n_max, NULL));
        memcpy(c->tokens, s->prompt, sizeof s->prompt);
    }
    size_t n_hits = kvcache_attach(s->choices[0].cache, s->prompt, s->n_prompt);
    s->choices[0].n = n_hits * KVPOOL_TOKENS;
    assert_true(s->choices[0].n < s->n_prompt);
    check(&s->choices[0]);
    s->is_open = kvpool_promise(&s->account, n_needed(s) - n_hits);
    return s->is_open;
}

static void close_session(struct fake_session *s)
{
    for (size_t i = 0; i < s->n_choices; i++) {
        kvcache_free(s->choices[i].cache);
    }
    kvpool_forgo(&s->account, s->account.n_promised);
    s->is_open = false;
}

static void prefill(struct fake_session *s, uint64_t *x)
{
    struct sequence *c = &s->choices[0];
    kvpool_forgo(&s->account, kvcache_attach(c->cache, s->prompt, s->n_prompt));
    c->n = (size_t)kvcache_len(c->cache);
    for (size_t n = next(x) % 50; n > 0 && c->n < s->n_prompt; n--) {
        append(c, s->prompt[c->n]);
    }
    kvcache_publish(c->cache);
    s->is_begun = c->n == s->n_prompt;
    for (size_t i = 1; s->is_begun && i < s->n_choices; i++) {
        kvcache_share(s->choices[i].cache, c->cache, (int32_t)s->n_prompt);
        s->choices[i].n = s->n_prompt;
    }
}

/* Choices go on, are cut back to the prompt at most, or take over each other's tokens. */
static void go_on(struct fake_session *s, uint64_t *x)
{
    for (size_t i = 0; i < s->n_choices; i++) {
        struct sequence *c = &s->choices[i], *from = &s->choices[next(x) % s->n_choices];
        switch (next(x) % 8) {
        case 0:
            c->n -= next(x) % (c->n - s->n_prompt + 1);
            kvcache_truncate(c->cache, (int32_t)c->n);
            break;
        case 1:
            if (from != c) {
                kvcache_share(c->cache, from->cache, (int32_t)from->n);
                memcpy(c->tokens, from->tokens, sizeof c->tokens);
                c->n = from->n;
            }
            break;
        default:
            for (size_t n = next(x) % 9; n > 0 && c->n < s->n_max; n--) {
                append(c, (int32_t)(next(x) % 3));
            }
        }
    }
}

static void check_counts(const struct kvpool *p, const struct fake_session *all)
{
    const struct kvblock *held[SESSIONS * CHOICES * N_MAX];
    size_t n = 0, n_promised = 0;
    for (size_t i = 0; i < SESSIONS; i++) {
        n_promised += all[i].is_open ? all[i].account.n_promised : 0;
        for (size_t j = 0; all[i].is_open && j < all[i].n_choices; j++) {
            const struct kvcache *c = all[i].choices[j].cache;
            check(&all[i].choices[j]);
            for (size_t b = 0; b < c->n_blocks; b++) {
                size_t k = 0;
                while (k < n && held[k] != c->table[b]) {
                    k++;
                }
                held[k] = c->table[b];
                n = k == n ? n + 1 : n;
            }
        }
    }
    assert_int_equal(kvpool_n_used(p), n);
    assert_int_equal(kvpool_n_free(p), kvpool_n_max(p) - n - n_promised);
    assert_true(kvpool_n_stored(p) <= kvpool_n_max(p));
}

static void random_sessions_hold_what_they_should(void **state)
{
    (void)state;
    static struct fake_session all[SESSIONS];
    uint64_t x = 1, n_hits = 0, n_refused = 0;
    struct kvpool *p = new_pool(N_MAX);
    for (int step = 0; step < 3000; step++) {
        struct fake_session *s = &all[next(&x) % SESSIONS];
        if (!s->is_open && !open_session(s, p, &x)) {
            n_refused++;
            close_session(s);
        } else if (!s->is_begun) {
            n_hits += s->choices[0].n > 0;
            prefill(s, &x);
        } else if (next(&x) % 8 == 0) {
            close_session(s);
        } else {
            go_on(s, &x);
        }
        if (next(&x) % 200 == 0) {
            kvpool_trim(p, next(&x) % 2 == 0);
        }
        check_counts(p, all);
    }
    assert_true(n_hits > 50 && n_refused > 50); /* both do happen */
    for (size_t i = 0; i < SESSIONS; i++) {
        if (all[i].is_open) {
            close_session(&all[i]);
        }
    }
    assert_int_equal(kvpool_n_free(p), N_MAX);
    kvpool_trim(p, true);
    assert_int_equal(kvpool_n_stored(p), 0);
    kvpool_free(p);
}

/* ---- one by one */

static struct sequence start(struct kvaccount *a, const int32_t *tokens, size_t n)
{
    struct sequence s = {0};
    assert_true(kvcache_new_of(&s.cache, &model, KERNELS_F32, a, CONTEXT, NULL));
    s.n = kvcache_attach(s.cache, tokens, n) * KVPOOL_TOKENS;
    memcpy(s.tokens, tokens, n * sizeof *tokens);
    while (s.n < n) {
        append(&s, tokens[s.n]);
    }
    check(&s);
    return s;
}

static void the_last_token_of_a_prompt_is_evaluated(void **state)
{
    (void)state;
    int32_t tokens[3 * KVPOOL_TOKENS] = {5};
    struct kvaccount a = {new_pool(8), 0};
    assert_true(kvpool_promise(&a, 8));
    kvcache_free(start(&a, tokens, (size_t)2 * KVPOOL_TOKENS).cache);
    assert_int_equal(kvpool_n_kept(a.pool), 2);
    struct kvcache *c;
    assert_true(kvcache_new_of(&c, &model, KERNELS_F32, &a, CONTEXT, NULL));
    assert_int_equal(kvcache_attach(c, tokens, KVPOOL_TOKENS), 0);
    assert_int_equal(kvcache_attach(c, tokens, KVPOOL_TOKENS + 1), 1);
    assert_int_equal(kvcache_attach(c, tokens, (size_t)2 * KVPOOL_TOKENS), 0);
    assert_int_equal(kvcache_attach(c, tokens, (size_t)3 * KVPOOL_TOKENS), 1);
    assert_int_equal(kvcache_len(c), 2 * KVPOOL_TOKENS);
    kvcache_free(c);
    kvpool_forgo(&a, a.n_promised);
    kvpool_free(a.pool);
}

/* Equal tokens after other ones are another block. */
static void blocks_are_found_after_their_beginning_alone(void **state)
{
    (void)state;
    int32_t tokens[3 * KVPOOL_TOKENS] = {0};
    struct kvaccount a = {new_pool(8), 0};
    assert_true(kvpool_promise(&a, 8));
    struct sequence s = start(&a, tokens, (size_t)2 * KVPOOL_TOKENS);
    kvcache_publish(s.cache);
    const struct kvblock *first = s.cache->table[0], *second = s.cache->table[1];
    assert_true(first->serial != second->serial);
    assert_ptr_equal(kvpool_find(a.pool, 0, tokens), first);
    assert_ptr_equal(kvpool_find(a.pool, first->serial, tokens), second);
    for (uint64_t serial = second->serial; serial < 1000; serial++) { /* more than buckets */
        assert_null(kvpool_find(a.pool, serial, tokens));
    }
    tokens[0] = 1;
    assert_null(kvpool_find(a.pool, 0, tokens));
    struct sequence other = start(&a, tokens, (size_t)2 * KVPOOL_TOKENS);
    assert_int_equal(kvpool_n_used(a.pool), 4);
    kvcache_free(other.cache);
    kvcache_free(s.cache);
    kvpool_forgo(&a, a.n_promised);
    kvpool_free(a.pool);
}

/* Two that evaluated the same beside each other keep one of it. */
static void equal_blocks_become_one(void **state)
{
    (void)state;
    int32_t tokens[3 * KVPOOL_TOKENS] = {3, 4};
    struct kvaccount a = {new_pool(8), 0}, b = {a.pool, 0};
    assert_true(kvpool_promise(&a, 4) && kvpool_promise(&b, 4));
    struct sequence s = start(&a, tokens, (size_t)2 * KVPOOL_TOKENS + 3);
    struct sequence t = start(&b, tokens, (size_t)2 * KVPOOL_TOKENS + 9);
    assert_int_equal(kvpool_n_used(a.pool), 6);
    kvcache_publish(s.cache);
    kvcache_publish(t.cache);
    assert_int_equal(kvpool_n_used(a.pool), 4);
    assert_int_equal(b.n_promised, 1); /* what it needs no more is free for others */
    check(&s);
    check(&t);
    kvcache_free(s.cache);
    check(&t);
    kvcache_free(t.cache);
    kvpool_forgo(&a, a.n_promised);
    kvpool_forgo(&b, b.n_promised);
    assert_int_equal(kvpool_n_free(a.pool), 8);
    kvpool_free(a.pool);
}

/* The longest unused goes first, from its end. */
static void the_oldest_are_given_up(void **state)
{
    (void)state;
    int32_t one[KVPOOL_TOKENS * 2] = {1}, two[KVPOOL_TOKENS * 2] = {2};
    struct kvaccount a = {new_pool(4), 0};
    assert_true(kvpool_promise(&a, 4));
    kvcache_free(start(&a, one, sizeof one / sizeof *one).cache);
    kvcache_free(start(&a, two, sizeof two / sizeof *two).cache);
    assert_int_equal(kvpool_n_kept(a.pool), 4);
    struct kvblock *b = kvpool_take(&a);
    const struct kvblock *first = kvpool_find(a.pool, 0, one);
    assert_non_null(first);
    assert_null(kvpool_find(a.pool, first->serial, one + KVPOOL_TOKENS));
    struct kvblock *c = kvpool_take(&a);
    assert_null(kvpool_find(a.pool, 0, one));
    assert_non_null(kvpool_find(a.pool, 0, two));
    assert_int_equal(kvpool_n_stored(a.pool), 4);
    kvpool_drop(&a, b);
    kvpool_drop(&a, c);
    kvpool_forgo(&a, a.n_promised);
    kvpool_free(a.pool);
}

static void memory_is_given_back(void **state)
{
    (void)state;
    int32_t tokens[KVPOOL_TOKENS + 2] = {1};
    struct kvaccount a = {new_pool(4), 0};
    assert_int_equal(kvpool_n_stored(a.pool), 0); /* nothing before it is used */
    assert_true(kvpool_promise(&a, 4));
    assert_false(kvpool_promise(&a, 1));
    kvcache_free(start(&a, tokens, KVPOOL_TOKENS + 2).cache);
    assert_int_equal(kvpool_n_stored(a.pool), 2);
    kvpool_trim(a.pool, false);
    assert_int_equal(kvpool_n_stored(a.pool), 1);
    assert_non_null(kvpool_find(a.pool, 0, tokens));
    kvpool_trim(a.pool, true);
    assert_int_equal(kvpool_n_stored(a.pool), 0);
    assert_null(kvpool_find(a.pool, 0, tokens));
    kvpool_forgo(&a, a.n_promised);
    kvpool_free(a.pool);
}

/* More published blocks than the index began with. */
static void the_index_grows(void **state)
{
    (void)state;
    enum { N = 500 };
    struct kvaccount a = {new_pool(N), 0};
    struct kvblock *blocks[N];
    assert_true(kvpool_promise(&a, N));
    for (int32_t i = 0; i < N; i++) {
        blocks[i] = kvpool_take(&a);
        assert_non_null(blocks[i]);
        for (int32_t j = 0; j < KVPOOL_TOKENS; j++) {
            blocks[i]->tokens[j] = i;
        }
        kvpool_publish(a.pool, blocks[i], i % 3 ? blocks[i - 1]->serial : 0);
    }
    for (int32_t i = 0; i < N; i++) {
        uint64_t parent = i % 3 ? blocks[i - 1]->serial : 0;
        assert_ptr_equal(kvpool_find(a.pool, parent, blocks[i]->tokens), blocks[i]);
    }
    for (int32_t i = 0; i < N; i++) {
        kvpool_drop(&a, blocks[i]);
    }
    kvpool_forgo(&a, N);
    kvpool_free(a.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sessions_hold_what_they_should),
        cmocka_unit_test(the_last_token_of_a_prompt_is_evaluated),
        cmocka_unit_test(blocks_are_found_after_their_beginning_alone),
        cmocka_unit_test(equal_blocks_become_one),
        cmocka_unit_test(the_oldest_are_given_up),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(the_index_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
