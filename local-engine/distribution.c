/* distribution.c - watches one step of the sampler and keeps the probabilities after every stage
 * that changed something; a stage that is off shares those of the one before.
 *
 * Until temperature there are logits, whose softmax is what would be drawn from if nothing came
 * after; from top_k on there is the list of survivors.
 */
#include "distribution.h"
#include "fmath.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct watching {
    struct distribution *d;
    double temperature;
    size_t n_vocab;
    double *z;                               /* [n_vocab]: logits after the last stage */
    double *p[DISTRIBUTION_STAGES_MAX];      /* [n_vocab] after each stage */
    bool is_shared[DISTRIBUTION_STAGES_MAX]; /* with the stage before */
    const char *pending;                     /* the stage whose probabilities are still to come */
    const char **cut_by;                     /* [n_vocab] */
    bool has_failed;
};

static double *add_stage(struct watching *w, const char *name, bool has_changed)
{
    struct distribution *d = w->d;
    size_t i = d->n_stages;
    assert(i < DISTRIBUTION_STAGES_MAX);
    if (has_changed) {
        w->p[i] = calloc(w->n_vocab, sizeof(double));
    } else {
        w->p[i] = w->p[i - 1];
        w->is_shared[i] = true;
    }
    if (!w->p[i]) {
        w->has_failed = true;
        return NULL;
    }
    d->stages[i].name = name;
    d->stages[i].has_changed = has_changed && i > 0;
    d->n_stages++;
    return w->p[i];
}

/* p = softmax((z - max) / temperature), summed in id order. */
static void softmax(const double *z, double *p, size_t n, double temperature)
{
    double max = -INFINITY, sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        max = z[i] > max ? z[i] : max;
    }
    for (size_t i = 0; i < n && max > -INFINITY; i++) {
        p[i] = (z[i] - max) / temperature;
    }
    fmath_exp_all(p, n);
    for (size_t i = 0; i < n; i++) {
        sum += p[i];
    }
    for (size_t i = 0; i < n; i++) {
        p[i] /= sum;
    }
}

static void on_logits(struct watching *w, const struct sampler_view *v)
{
    bool is_first = w->d->n_stages == 0;
    bool is_temperature = strcmp(v->stage, "temperature") == 0;
    double temperature = is_temperature ? w->temperature : 1.0;
    bool has_changed =
        is_first || temperature != 1.0 || memcmp(w->z, v->z, w->n_vocab * sizeof *w->z) != 0;
    double *p = add_stage(w, v->stage, has_changed);
    if (!p || !has_changed) {
        return;
    }
    for (size_t i = 0; i < w->n_vocab; i++) {
        if (v->z[i] == -INFINITY && !w->cut_by[i]) {
            w->cut_by[i] = v->stage;
        }
    }
    memcpy(w->z, v->z, w->n_vocab * sizeof *w->z);
    softmax(v->z, p, w->n_vocab, temperature);
}

static void cut_others(struct watching *w, const struct sampler_view *v)
{
    size_t next = 0;
    for (size_t i = 0; i < w->n_vocab; i++) {
        if (next < v->n && v->ids[next] == (int32_t)i) {
            next++;
        } else if (!w->cut_by[i]) {
            w->cut_by[i] = v->stage;
        }
    }
}

static void on_list(struct watching *w, const struct sampler_view *v)
{
    bool is_softmax = strcmp(v->stage, "softmax") == 0;
    bool is_temperature = strcmp(v->stage, "temperature") == 0; /* after the filters */
    const struct distribution *d = w->d;
    const double *before = w->p[d->n_stages - 1];
    bool has_changed = false;
    cut_others(w, v);
    if (v->has_logits) {
        w->pending = v->stage; /* its probabilities come next, as `softmax` */
        return;
    }
    if (is_softmax && !w->pending) {
        return; /* the list with everything: as before it */
    }
    const char *name = is_softmax ? w->pending : v->stage;
    size_t n_before = 0;
    for (size_t i = 0; i < w->n_vocab; i++) {
        n_before += before[i] > 0;
    }
    has_changed = v->n != n_before;
    has_changed = has_changed || (is_temperature && w->temperature != 1.0);
    double *p = add_stage(w, name, has_changed);
    for (size_t i = 0; p && has_changed && i < v->n; i++) {
        p[v->ids[i]] = v->value[i];
    }
}

static void on_view(const struct sampler_view *v, void *ud)
{
    struct watching *w = ud;
    if (w->has_failed || strcmp(v->stage, "draw") == 0) {
        return;
    }
    if (v->ids && v->z) { /* temperature 0: one is left */
        cut_others(w, v);
        double *p = add_stage(w, v->stage, true);
        if (p) {
            p[v->ids[0]] = 1.0;
        }
    } else if (v->z) {
        on_logits(w, v);
    } else {
        on_list(w, v);
    }
}

/* ---- what is told of it */

static void measure(const struct watching *w, size_t at)
{
    struct distribution_stage *st = &w->d->stages[at];
    const double *p = w->p[at], *before = at ? w->p[at - 1] : p;
    double kept = 0.0;
    if (w->is_shared[at]) {
        bool has_changed = st->has_changed;
        const char *name = st->name;
        *st = w->d->stages[at - 1];
        st->name = name;
        st->has_changed = has_changed;
        st->kept = 1.0;
        return;
    }
    for (size_t i = 0; i < w->n_vocab; i++) {
        if (p[i] > 0) {
            st->n_tokens++;
            st->entropy -= p[i] * fmath_log(p[i]);
            kept += before[i];
        }
    }
    st->entropy = st->entropy > 0 ? st->entropy : 0.0; /* a single one has -0 or a rounding */
    double x = -st->entropy;
    fmath_exp_all(&x, 1);
    st->n_effective = 1.0 / x;
    st->kept = st->n_tokens == w->d->stages[at ? at - 1 : 0].n_tokens ? 1.0 : kept;
}

static double rank_of(const struct watching *w, size_t i)
{
    double first = w->p[0][i], last = w->p[w->d->n_stages - 1][i];
    return first > last ? first : last;
}

/* The n_top of the greatest rank, by insertion: n_top is small. */
static size_t choose(const struct watching *w, int32_t *ids, size_t n_top)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_vocab; i++) {
        double rank = rank_of(w, i);
        if (n == n_top && !(rank > rank_of(w, (size_t)ids[n_top - 1]))) {
            continue;
        }
        size_t j = n < n_top ? n++ : n_top - 1;
        for (; j > 0 && rank > rank_of(w, (size_t)ids[j - 1]); j--) {
            ids[j] = ids[j - 1];
        }
        ids[j] = (int32_t)i;
    }
    return n;
}

static void fill(const struct watching *w, const float *logits, size_t n_top)
{
    int32_t ids[DISTRIBUTION_TOP_MAX];
    struct distribution *d = w->d;
    d->n_tokens = choose(w, ids, n_top);
    for (size_t k = 0; k < d->n_tokens; k++) {
        struct distribution_token *t = &d->tokens[k];
        t->id = ids[k];
        t->logit = (double)logits[t->id];
        t->cut_by = w->cut_by[t->id];
        for (size_t s = 0; s < d->n_stages; s++) {
            t->p[s] = w->p[s][t->id];
        }
    }
}

static void watching_release(struct watching *w)
{
    for (size_t i = 0; i < DISTRIBUTION_STAGES_MAX; i++) {
        if (!w->is_shared[i]) {
            free(w->p[i]);
        }
    }
    free(w->z);
    free(w->cut_by);
}

static bool run(struct watching *w, struct sampler *s, const float *logits, const uint8_t *mask,
                size_t n_top, struct engine_error *err)
{
    int32_t id;
    sampler_watch(s, on_view, w);
    bool ok = sampler_next(s, logits, mask, &id, err);
    sampler_watch(s, NULL, NULL);
    if (!ok) {
        return false;
    }
    if (w->has_failed) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a distribution");
    }
    for (size_t i = 0; i < w->d->n_stages; i++) {
        measure(w, i);
    }
    fill(w, logits, n_top);
    return true;
}

bool distribution_new(struct distribution **out, struct sampler *s,
                      const struct sampler_config *config, const float *logits, const uint8_t *mask,
                      int32_t n_vocab, size_t n_top, struct engine_error *err)
{
    assert(n_vocab > 0 && n_top >= 1 && n_top <= DISTRIBUTION_TOP_MAX);
    struct watching w = {.temperature = sampler_temperature(config), .n_vocab = (size_t)n_vocab};
    w.d = calloc(1, sizeof *w.d);
    w.z = malloc(w.n_vocab * sizeof *w.z);
    w.cut_by = calloc(w.n_vocab, sizeof(*w.cut_by));
    if (w.d) {
        w.d->tokens = calloc(n_top, sizeof *w.d->tokens);
    }
    bool ok = w.d && w.z && w.cut_by && w.d->tokens;
    ok = ok ? run(&w, s, logits, mask, n_top, err)
            : engine_fail(err, ENGINE_NOMEM, "", "out of memory for a distribution");
    watching_release(&w);
    if (!ok) {
        distribution_free(w.d);
        return false;
    }
    *out = w.d;
    return true;
}

void distribution_free(struct distribution *d)
{
    if (d) {
        free(d->tokens);
        free(d);
    }
}
