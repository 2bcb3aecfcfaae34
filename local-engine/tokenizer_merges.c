/* tokenizer_merges.c - looks up the tokens of a block of merges together.
 *
 * In most files merges and their tokens stand in the same order, so the ids behind the last result
 * are compared first; only what is not there is looked up.
 */
#include "tokenizer_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = TOKENIZER_MERGES_BLOCK };
static_assert(3 * BLOCK <= VOCAB_FIND_MAX, "two halves and a result each");

/* One merge of the block: its text is both halves. */
struct merge {
    const char *s;
    size_t left_len, len;
    int32_t left, right, result;
};

static bool has_spelling(const struct tokenizer *t, int64_t id, const char *s, size_t len)
{
    size_t n = 0;
    const char *spelling = vocab_spelling(&t->vocab, id, &n);
    return spelling && n == len && memcmp(spelling, s, len) == 0;
}

static size_t cut_block(const struct tokenizer_merges *m, struct merge *merges)
{
    const char *s = m->text;
    for (size_t i = 0; i < m->n_halves / 2; i++) {
        size_t left = m->half_len[2 * i], right = m->half_len[2 * i + 1];
        merges[i] = (struct merge){s, left, left + right, -1, -1, -1};
        s += left + right;
    }
    return m->n_halves / 2;
}

static void find_ids(const struct tokenizer *t, struct merge *merges, size_t n)
{
    struct vocab_query q[VOCAB_FIND_MAX];
    int32_t *results[BLOCK];
    size_t n_results = 0;
    int64_t guess = t->bpe.n_merges > 0 ? t->bpe.merges[t->bpe.n_merges - 1].result + 1 : 0;
    for (size_t i = 0; i < n; i++, guess++) {
        struct merge *m = &merges[i];
        q[2 * i] = (struct vocab_query){m->s, m->left_len, -1};
        q[2 * i + 1] = (struct vocab_query){m->s + m->left_len, m->len - m->left_len, -1};
        if (has_spelling(t, guess, m->s, m->len)) {
            m->result = (int32_t)guess;
        } else {
            q[2 * n + n_results] = (struct vocab_query){m->s, m->len, -1};
            results[n_results++] = &m->result;
        }
    }
    vocab_find_many(&t->vocab, q, 2 * n + n_results);
    for (size_t i = 0; i < n; i++) {
        merges[i].left = q[2 * i].id;
        merges[i].right = q[2 * i + 1].id;
    }
    for (size_t i = 0; i < n_results; i++) {
        *results[i] = q[2 * n + i].id;
    }
}

static bool fail_token(const struct tokenizer_merges *m, size_t index, const char *s, size_t len,
                       struct engine_error *err)
{
    return engine_fail(err, ENGINE_BAD_FILE, "", "%s[%zu]: '%s' is not in the vocabulary", m->field,
                       index, tokenizer_quote(s, len).s);
}

static bool add_merge(const struct tokenizer_merges *m, const struct merge *one, size_t index,
                      struct engine_error *err)
{
    if (one->left < 0) {
        return fail_token(m, index, one->s, one->left_len, err);
    }
    if (one->right < 0) {
        return fail_token(m, index, one->s + one->left_len, one->len - one->left_len, err);
    }
    if (one->result < 0) {
        return fail_token(m, index, one->s, one->len, err);
    }
    /* a merge that spells a special token would let text make one */
    if (m->t->flags[one->result] & TOKENIZER_SPECIAL) {
        return true;
    }
    return bpe_add(&m->t->bpe, one->left, one->right, one->result) ||
           engine_fail(err, ENGINE_BAD_FILE, "", "%s[%zu]: no memory, or more than %d merges",
                       m->field, index, BPE_MERGES_MAX);
}

static bool add_block(struct tokenizer_merges *m, struct engine_error *err)
{
    struct merge merges[BLOCK];
    size_t n = cut_block(m, merges);
    find_ids(m->t, merges, n);
    for (size_t i = 0; i < n; i++) {
        if (!add_merge(m, &merges[i], m->n_before + i, err)) {
            return false;
        }
    }
    m->n_before += n;
    m->n_halves = m->text_len = 0;
    return true;
}

bool tokenizer_merges_put(struct tokenizer_merges *m, const char *s, size_t len,
                          struct engine_error *err)
{
    if (m->n_halves == 2 * BLOCK && !add_block(m, err)) {
        return false;
    }
    if (len > m->text_cap - m->text_len) {
        size_t cap = 2 * (m->text_len + len);
        char *p = realloc(m->text, cap);
        if (!p) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
        }
        m->text = p;
        m->text_cap = cap;
    }
    memcpy(m->text + m->text_len, s, len);
    m->text_len += len;
    m->half_len[m->n_halves++] = len;
    return true;
}

bool tokenizer_merges_end(struct tokenizer_merges *m, struct engine_error *err)
{
    assert(m->n_halves % 2 == 0);
    return add_block(m, err) && (bpe_index(&m->t->bpe) ||
                                 engine_fail(err, ENGINE_BAD_FILE, "",
                                             "%s: no memory, or pairs made to collide", m->field));
}

void tokenizer_merges_release(struct tokenizer_merges *m)
{
    free(m->text);
    *m = (struct tokenizer_merges){0};
}
