/* tokenizer_unigram.c - Unigram's vocabulary in tokenizer.json: a list of [spelling, score], whose
 * ids are their places.
 */
#include "tokenizer_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reading, so that a list of scores grows with the list of tokens. */
struct reader {
    struct tokenizer *t;
    size_t scores_cap;
};

static bool keep_score(struct reader *r, size_t id, double score)
{
    if (id >= r->scores_cap) {
        size_t cap = r->scores_cap ? 2 * r->scores_cap : 4096;
        double *p = realloc(r->t->scores, cap * sizeof *p);
        if (!p) {
            return false;
        }
        r->t->scores = p;
        r->scores_cap = cap;
    }
    r->t->scores[id] = score;
    r->t->n_scores = id + 1;
    return true;
}

/* "spelling", score] */
static bool read_pair(struct reader *r, struct jsonscan *s, size_t id, struct engine_error *err)
{
    struct jsonscan_span text;
    double score = 0;
    size_t n = 0;
    enum vocab_result result = VOCAB_DONE;
    if (!jsonscan_open(s, '[')) {
        return false;
    }
    while (jsonscan_next(s, ']', &n)) {
        if (n == 1 && jsonscan_string(s, &text)) {
            result = vocab_add(&r->t->vocab, text.at, text.len, (int64_t)id);
        } else if (n != 2 || !jsonscan_real(s, &score)) {
            return jsonscan_fail(s, "a token is not a pair of a text and a number");
        }
        if (result != VOCAB_DONE) {
            return engine_fail(err, result == VOCAB_NOMEM ? ENGINE_NOMEM : ENGINE_BAD_FILE, "",
                               "tokenizer.json: model.vocab[%zu]: %s", id,
                               vocab_result_text(result));
        }
    }
    if (s->problem || n != 2) {
        return jsonscan_fail(s, "a token is not a pair of a text and a number");
    }
    return keep_score(r, id, score) || jsonscan_fail(s, "out of memory");
}

bool tokenizer_unigram_vocab(struct tokenizer *t, const struct tokenizer_parts *p,
                             struct engine_error *err)
{
    struct reader r = {.t = t};
    struct jsonscan s;
    size_t n = 0;
    jsonscan_init(&s, p->vocab.at, p->vocab.len);
    bool done = jsonscan_open(&s, '[');
    while (done && jsonscan_next(&s, ']', &n)) {
        done = read_pair(&r, &s, n - 1, err);
    }
    done = done && !s.problem;
    if (!done && s.problem) {
        engine_fail(err, strcmp(s.problem, "out of memory") == 0 ? ENGINE_NOMEM : ENGINE_BAD_FILE,
                    "", "tokenizer.json: model.vocab: at its byte %zu: %s", s.problem_at,
                    s.problem);
    }
    jsonscan_release(&s);
    return done &&
           (n > 0 || engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: model.vocab is empty"));
}

bool tokenizer_unigram_make(struct tokenizer *t, const char *label, struct engine_error *err)
{
    /* tokens that only added_tokens has are behind the list, and have no score */
    for (size_t id = 0; id < t->n_scores; id++) {
        size_t len = 0;
        const char *s = vocab_spelling(&t->vocab, (int64_t)id, &len);
        if (!s || len == 0 || (t->flags[id] & TOKENIZER_SPECIAL) || (int32_t)id == t->unk) {
            continue;
        }
        if (len > UNIGRAM_TOKEN_MAX || !isfinite(t->scores[id])) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "%s[%zu]: longer than %d bytes, or the score is not finite", label,
                               id, UNIGRAM_TOKEN_MAX);
        }
        if (!unigram_add(&t->unigram, s, len, (int32_t)id, t->scores[id])) {
            return engine_fail(err, ENGINE_NOMEM, "", "%s: no memory for its tokens", label);
        }
    }
    free(t->scores);
    t->scores = NULL;
    return true;
}
