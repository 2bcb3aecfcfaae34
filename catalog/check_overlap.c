/* check_overlap.c - two claims that hold for one model and say different things.
 *
 * The later source (then the more confident one) is planned with: a dispute, to be listed. Equally
 * strong ones overlap: which of them a plan follows was decided by nobody.
 *
 * Claims are sorted by what they speak of, so only neighbours are compared; the cheap questions
 * come first (validity, content), the walk over two expressions last, and its answer is kept for
 * each pair of expressions: some thirty expressions of a provider meet in each of its parameters.
 *
 * "*" against an expression is no overlap: the expression is the stronger. Neither are derived
 * claims (they follow from another row), local ones (they are there to win), and two where one
 * ends on the day the other begins.
 */
#include "check_inside.h"

#include <stdlib.h>
#include <string.h>

#define PATTERNS_KEPT 512        /* expressions whose pairs are remembered: 2 MB of pointers */
#define PAIRS_MAX     (4u << 20) /* pairs of claims looked at: below a second */
#define WALKS_MAX     20000      /* pairs of expressions walked: today 300 */
#define MODEL_CAP     256

/* ---- what two claims say */

static bool same_json(const json_t *a, const json_t *b)
{
    return a == b || (a && b && json_equal(a, b));
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The first field in which they differ; NULL: none. What is said about the row itself (source,
 * date, note) is left out. */
static const char *difference(const struct claim *a, const struct claim *b)
{
    const struct {
        const char *field;
        bool is_same;
    } fields[] = {
        {"support", a->support == b->support},
        {"wire", same_text(a->wire, b->wire)},
        {"required", a->is_required == b->is_required},
        {"min", a->has_min == b->has_min && (!a->has_min || a->min == b->min) &&
                    a->min_exclusive == b->min_exclusive},
        {"max", a->has_max == b->has_max && (!a->has_max || a->max == b->max) &&
                    a->max_exclusive == b->max_exclusive},
        {"integer", a->is_integer == b->is_integer},
        {"values", same_json(a->values, b->values)},
        {"default", value_equal(a->fallback, b->fallback)},
        {"items_max", a->items_max == b->items_max},
        {"len_max", a->len_max == b->len_max},
        {"len_min", a->len_min == b->len_min},
        {"no_blank", a->no_blank == b->no_blank},
        {"conflicts", same_json(a->conflicts, b->conflicts)},
        {"needs", same_json(a->needs, b->needs)},
        {"adds", same_json(a->adds, b->adds)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!fields[i].is_same) {
            return fields[i].field;
        }
    }
    return NULL;
}

static int compare_subject(const struct claim *a, const struct claim *b)
{
    int order = strcmp(a->provider, b->provider);
    order = order ? order : strcmp(a->param, b->param);
    return order ? order : strcmp(a->endpoint, b->endpoint);
}

static bool same_condition(const struct claim *a, const struct claim *b)
{
    const struct claim_condition *v = &a->when, *w = &b->when;
    return same_text(v->param, w->param) &&
           (!v->param || (v->is_negated == w->is_negated && same_json(v->values, w->values)));
}

/* Whether the second begins after the first has ended, or on its last day. */
static bool follows(const struct claim *first, const struct claim *second)
{
    return first->valid_to && second->valid_from &&
           strncmp(second->valid_from, first->valid_to, strlen(first->valid_to)) >= 0;
}

static bool is_star(const struct claim *c)
{
    return strcmp(c->models, "*") == 0 || strcmp(c->models, ".*") == 0;
}

/* ---- pairs of expressions */

struct entry {
    const struct claim *claim;
    size_t place;   /* in the order of the sources */
    size_t pattern; /* equal expressions have one number */
};

struct pairs {
    struct checker *k;
    enum check_kind kind;  /* disputed or overlapping */
    struct entry *entries; /* by subject, then place */
    size_t n;
    size_t *at;  /* of each place, its index in entries; SIZE_MAX: not compared */
    char **kept; /* [n_patterns][n_patterns], the smaller number first: a model, or `none` */
    size_t n_patterns, n_walks, n_pairs, n_unseen;
    bool has_memory;
};

static char none[] = "";

static bool walk(struct pairs *o, const struct entry *a, const struct entry *b,
                 char model[MODEL_CAP])
{
    if (o->n_walks == WALKS_MAX) {
        o->n_unseen++;
        return false;
    }
    o->n_walks++;
    return check_common_model(a->claim->models, b->claim->models, model, MODEL_CAP);
}

/* A model that both take; false: none is known. */
static bool common_model(struct pairs *o, const struct entry *a, const struct entry *b,
                         char model[MODEL_CAP])
{
    if (!o->kept) {
        return walk(o, a, b, model);
    }
    size_t lo = a->pattern < b->pattern ? a->pattern : b->pattern;
    size_t hi = a->pattern < b->pattern ? b->pattern : a->pattern;
    char **kept = &o->kept[lo * o->n_patterns + hi];
    if (!*kept) {
        *kept = walk(o, a, b, model) ? strdup(model) : none;
        o->has_memory = o->has_memory && *kept;
    }
    if (!*kept || *kept == none) {
        return false;
    }
    memcpy(model, *kept, strlen(*kept) + 1);
    return true;
}

static int confidence_rank(const struct claim *c)
{
    return c->confidence[0] == 'h' ? 2 : c->confidence[0] == 'm' ? 1 : 0;
}

/* Above 0: `a` is planned with before `b`; 0: they are equally strong. Of two
 * expressions, or of two "*". */
static int compare_strength(const struct claim *a, const struct claim *b)
{
    int date = strcmp(a->as_of, b->as_of);
    return date ? date : confidence_rank(a) - confidence_rank(b);
}

static void say_dispute(struct pairs *o, const struct claim *x, const struct claim *y,
                        const char *model, const char *field)
{
    bool is_x = compare_strength(x, y) > 0;
    const struct claim *planned = is_x ? x : y, *other = is_x ? y : x;
    char ours[100], theirs[100];
    check_belief_text(planned, ours, sizeof ours);
    check_belief_text(other, theirs, sizeof theirs);
    checker_say(o->k, CHECK_DISPUTED, other, planned,
                "'%s' of '%.60s': its source says %.60s (as of %s), claim %lld says %.60s (as of "
                "%s) and is planned with: probe it",
                field, is_star(x) ? "*" : model, theirs, other->as_of, (long long)planned->id, ours,
                planned->as_of);
}

static void compare(struct pairs *o, const struct entry *a, const struct entry *b)
{
    const struct claim *x = a->claim, *y = b->claim;
    char model[MODEL_CAP];
    bool is_same_pattern = a->pattern == b->pattern, is_dispute = compare_strength(x, y) != 0;
    if (is_dispute != (o->kind == CHECK_DISPUTED) || !same_condition(x, y) || follows(x, y) ||
        follows(y, x) || (!is_same_pattern && (is_star(x) || is_star(y)))) {
        return;
    }
    const char *field = difference(x, y);
    if (!field || !common_model(o, a, b, model)) {
        return;
    }
    if (is_dispute) {
        say_dispute(o, x, y, model, field);
    } else {
        checker_say(o->k, CHECK_OVERLAPPING, x, y,
                    "model '%.80s' is taken by this and by claim %lld (%.90s), and they differ in "
                    "'%s': narrow one of the patterns, or let the older claim end",
                    model, (long long)y->id, is_same_pattern ? "the same pattern" : y->models,
                    field);
    }
}

/* ---- sorting */

static int by_pattern(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->claim->models == y->claim->models ? 0 : strcmp(x->claim->models, y->claim->models);
}

static int by_subject(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = compare_subject(x->claim, y->claim);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

static bool is_compared(const struct claim *c)
{
    return (c->variant == CLAIM_CURRENT || c->variant == CLAIM_CONDITIONAL) && !c->is_derived &&
           !c->is_local;
}

static bool prepare(struct pairs *o)
{
    const struct checker *k = o->k;
    o->entries = malloc((k->n_claims + 1) * sizeof *o->entries);
    o->at = malloc((k->n_claims + 1) * sizeof *o->at);
    if (!o->entries || !o->at) {
        return false;
    }
    for (size_t i = 0; i < k->n_claims; i++) {
        o->at[i] = SIZE_MAX;
        if (is_compared(k->claims[i])) {
            o->entries[o->n++] = (struct entry){k->claims[i], i, 0};
        }
    }
    qsort(o->entries, o->n, sizeof *o->entries, by_pattern);
    for (size_t i = 1; i < o->n; i++) {
        bool is_new = by_pattern(&o->entries[i - 1], &o->entries[i]) != 0;
        o->entries[i].pattern = o->entries[i - 1].pattern + is_new;
    }
    o->n_patterns = o->n ? o->entries[o->n - 1].pattern + 1 : 0;
    qsort(o->entries, o->n, sizeof *o->entries, by_subject);
    for (size_t i = 0; i < o->n; i++) {
        o->at[o->entries[i].place] = i;
    }
    if (o->n_patterns > PATTERNS_KEPT) {
        return true; /* no catalog of ours: walked each time, up to WALKS_MAX */
    }
    o->kept = calloc(o->n_patterns * o->n_patterns + 1, sizeof *o->kept);
    return o->kept != NULL;
}

static void release(struct pairs *o)
{
    for (size_t i = 0; o->kept && i < o->n_patterns * o->n_patterns; i++) {
        if (o->kept[i] != none) {
            free(o->kept[i]);
        }
    }
    free(o->kept);
    free(o->entries);
    free(o->at);
}

bool check_pairs(struct checker *k, enum check_kind kind, check_claim_fn *one)
{
    struct pairs o = {.k = k, .kind = kind, .has_memory = true};
    bool ok = prepare(&o);
    for (size_t place = 0; ok && place < k->n_claims && !k->is_over; place++) {
        size_t i = o.at[place];
        if (one) {
            one(k, k->claims[place]);
        }
        for (size_t j = i == SIZE_MAX ? o.n : i + 1;
             j < o.n && compare_subject(o.entries[i].claim, o.entries[j].claim) == 0; j++) {
            if (++o.n_pairs > PAIRS_MAX) {
                o.n_unseen++;
                break;
            }
            compare(&o, &o.entries[i], &o.entries[j]);
        }
    }
    if (ok && o.n_unseen) {
        checker_say(k, kind, NULL, NULL,
                    "too many claims or patterns to compare them all: check one provider at a "
                    "time");
    }
    ok = ok && o.has_memory;
    release(&o);
    return ok || catalog_fail(k->err, CATALOG_NOMEM, "out of memory");
}
