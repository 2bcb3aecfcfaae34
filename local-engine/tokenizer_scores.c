/* tokenizer_scores.c - .gguf files of SentencePiece's kind have a score for each token, no merges.
 * SentencePiece joins the two neighbours whose text together has the highest score; the same comes
 * of a list of merges by falling score, which is how Hugging Face converts such files: of equal
 * scores the lower id first, and of one token the cuts by the ids of their halves.
 */
#include "tokenizer_private.h"

#include <stdlib.h>

struct cut {
    double score;
    int32_t left, right, result;
};
struct cuts {
    struct cut *list;
    size_t n, cap;
};

static int compare(const void *x, const void *y)
{
    const struct cut *a = x, *b = y;
    if (a->score < b->score || a->score > b->score) {
        return a->score > b->score ? -1 : 1;
    }
    int d = (a->result > b->result) - (a->result < b->result);
    d = d ? d : (a->left > b->left) - (a->left < b->left);
    return d ? d : (a->right > b->right) - (a->right < b->right);
}

static bool add(struct cuts *c, struct cut cut)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 4096;
        struct cut *p = realloc(c->list, cap * sizeof *p);
        if (!p) {
            return false;
        }
        c->list = p;
        c->cap = cap;
    }
    c->list[c->n++] = cut;
    return true;
}

static bool is_ordinary(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && !(t->flags[id] & TOKENIZER_SPECIAL);
}

/* Where the next character begins; a byte that belongs to none is one. */
static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static bool add_cuts(const struct tokenizer *t, struct cuts *c, int32_t id)
{
    size_t len = 0;
    const char *s = vocab_spelling(&t->vocab, id, &len);
    for (size_t at = 1; s && at < len; at++) {
        if (is_inside(s[at])) {
            continue;
        }
        int32_t left = vocab_find(&t->vocab, s, at);
        int32_t right = is_ordinary(t, left) ? vocab_find(&t->vocab, s + at, len - at) : -1;
        if (is_ordinary(t, right) && !add(c, (struct cut){t->scores[id], left, right, id})) {
            return false;
        }
    }
    return true;
}

bool tokenizer_scores_merges(struct tokenizer *t, struct engine_error *err)
{
    struct cuts c = {0};
    bool done = true;
    for (size_t id = 0; done && id < t->n_scores; id++) {
        done = !is_ordinary(t, (int32_t)id) || add_cuts(t, &c, (int32_t)id);
    }
    if (done && c.n > 0) {
        qsort(c.list, c.n, sizeof *c.list, compare);
        done = bpe_reserve(&t->bpe, c.n);
    }
    for (size_t i = 0; done && i < c.n; i++) {
        done = bpe_add(&t->bpe, c.list[i].left, c.list[i].right, c.list[i].result);
    }
    done = done && bpe_index(&t->bpe);
    free(c.list);
    return done || engine_fail(err, ENGINE_NOMEM, "",
                               "the scores give no memory for merges, or more than %d of them",
                               BPE_MERGES_MAX);
}
