/* constrain_number.c - numbers, with bounds as an automaton over decimal digits.
 *
 * A bound is read as the decimal that it is written with (of a double the shortest that gives it
 * back). Digits are compared from the left with those of both bounds at once; as soon as one
 * differs that bound is out of question. A bounded number has at most DIGITS digits, so that no two
 * of them are one double, and no exponent; more digits only where they are the bound's own.
 * multipleOf, of small integers, is the remainder of the digits so far.
 */
#include "constrain_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 15, WHOLE_MAX = 19, PART_MAX = 40 };
#define SAFE_INTEGER  9007199254740991.0 /* 2^53 - 1: what every reader of JSON has */
#define BOUND_LARGEST 1e18

/* A decimal without sign: whole part without leading zeros ("0" is "0"), fraction without trailing
 * ones. */
struct decimal {
    char whole[PART_MAX], fraction[PART_MAX * 10];
    size_t n_whole, n_fraction;
};
/* Of the numbers of one sign, by their size. */
struct interval {
    struct decimal lo, hi;
    bool has_hi, lo_excluded, hi_excluded;
};

/* ---- bounds */

void constrain_bounds(const struct constrain_parts *parts, struct constrain_bound *lo,
                      struct constrain_bound *hi)
{
    static const struct {
        const char *name;
        bool is_lo, is_exclusive;
    } names[] = {{"minimum", true, false},
                 {"exclusiveMinimum", true, true},
                 {"maximum", false, false},
                 {"exclusiveMaximum", false, true}};
    *lo = *hi = (struct constrain_bound){.value = NULL};
    for (size_t i = 0; i < parts->n; i++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            const json_t *v = json_object_get(parts->p[i].schema, names[k].name);
            struct constrain_bound *b = names[k].is_lo ? lo : hi;
            int order = v && b->value ? constrain_compare(v, b->value) : 0;
            bool is_stricter = !b->value || (names[k].is_lo ? order > 0 : order < 0) ||
                               (order == 0 && names[k].is_exclusive);
            if (v && is_stricter) {
                *b = (struct constrain_bound){v, names[k].is_exclusive, parts->p[i].path,
                                              names[k].name};
            }
        }
    }
}

/* The shortest text of a size that gives the double back. */
static void print_size(double d, char out[64])
{
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(out, 64, "%.*e", precision - 1, d);
        if (strtod(out, NULL) == d) {
            return;
        }
    }
}

/* From "d.ddde+XX"; sizes below 1e-300 are taken for 0. */
static struct decimal decimal_of(double size)
{
    struct decimal x = {.n_whole = 0};
    char text[64], digits[64];
    size_t n = 0;
    long point = 1;
    if (size < 1e-300) {
        x.whole[x.n_whole++] = '0';
        return x;
    }
    print_size(size, text);
    for (const char *s = text; *s; s++) {
        if (*s >= '0' && *s <= '9') {
            digits[n++] = *s;
        } else if (*s == 'e') {
            point += strtol(s + 1, NULL, 10);
            break;
        }
    }
    while (n > 1 && digits[n - 1] == '0') {
        n--;
    }
    for (long i = 0; i < point && x.n_whole < PART_MAX; i++) {
        x.whole[x.n_whole++] = (size_t)i < n ? digits[i] : '0';
    }
    for (long i = point; i < (long)n && x.n_fraction < sizeof x.fraction; i++) {
        x.fraction[x.n_fraction++] = i < 0 ? '0' : digits[i];
    }
    if (x.n_whole == 0) {
        x.whole[x.n_whole++] = '0';
    }
    return x;
}

static struct decimal decimal_of_integer(uint64_t i)
{
    struct decimal x = {.n_whole = 0};
    x.n_whole = (size_t)snprintf(x.whole, sizeof x.whole, "%llu", (unsigned long long)i);
    return x;
}

/* ---- the automaton */

/* What the digits so far are: still those of a bound or already inside of it. */
struct tight {
    bool lo, hi;
};
struct writer {
    struct constrain_compiler *c;
    const struct interval *in;
    bool is_integer;
    unsigned step; /* of multipleOf */
    uint32_t rule, to;
};

static int digit_at(const char *digits, size_t n, size_t i)
{
    return i < n ? digits[i] - '0' : 0;
}

/* The nodes of one place: by what is tight, and by the remainder of the digits so far. */
struct nodes {
    uint32_t at[4 * CONSTRAIN_STEP_MAX]; /* 0: none */
};

/* None yet; of as many remainders as there are. */
static void nodes_clear(const struct writer *w, struct nodes *n)
{
    memset(n->at, 0, 4 * w->step * sizeof *n->at);
}

static struct tight tight_of(size_t i)
{
    return (struct tight){i & 2, i & 1};
}

static uint32_t node_for(struct writer *w, struct nodes *n, struct tight t, unsigned remainder)
{
    size_t i = (size_t)remainder * 4 + (size_t)t.lo * 2 + t.hi;
    if (!n->at[i]) {
        n->at[i] = grammar_node(w->c->g, w->rule);
    }
    return n->at[i];
}

/* Edges of one digit from node i of `now`: at least `least`, and only digits that stay at a bound
 * where no others have room. */
static void write_digit(struct writer *w, const struct nodes *now, size_t i, int least, int lo,
                        int hi, bool must_stay, struct nodes *next)
{
    struct tight t = tight_of(i);
    for (int d = least; now->at[i] && d <= 9; d++) {
        if ((t.lo && d < lo) || (t.hi && d > hi)) {
            continue;
        }
        struct tight after = {t.lo && d == lo, t.hi && d == hi};
        if (!must_stay || after.lo || after.hi) {
            uint8_t byte = (uint8_t)('0' + d);
            unsigned remainder = ((unsigned)(i / 4) * 10 + (unsigned)d) % w->step;
            grammar_byte(w->c->g, now->at[i], byte, byte, node_for(w, next, after, remainder));
        }
    }
}

/* Whether the number may end after k digits of the fraction. */
static bool may_end(const struct writer *w, struct tight t, size_t k)
{
    const struct interval *in = w->in;
    bool at_lo = t.lo && k >= in->lo.n_fraction, below_lo = t.lo && k < in->lo.n_fraction,
         at_hi = t.hi && k >= in->hi.n_fraction;
    return !below_lo && !(at_lo && in->lo_excluded) && !(at_hi && in->hi_excluded);
}

/* Ends behind k digits of the fraction, where that is allowed. */
static void write_ends(struct writer *w, const struct nodes *now, size_t k)
{
    for (size_t i = 0; i < 4; i++) { /* the remainder is 0 */
        if (now->at[i] && may_end(w, tight_of(i), k)) {
            grammar_nothing(w->c->g, now->at[i], w->to);
        }
    }
}

static void swap(struct nodes **a, struct nodes **b)
{
    struct nodes *was = *a;
    *a = *b;
    *b = was;
}

/* Of those of whole numbers, which are not written in steps. */
static void write_fraction(struct writer *w, const struct nodes *whole, size_t n_whole)
{
    const struct interval *in = w->in;
    struct nodes places[2], *now = &places[0], *next = &places[1];
    size_t room = n_whole < DIGITS ? DIGITS - n_whole : 0, longest = room;
    longest = in->lo.n_fraction > longest ? in->lo.n_fraction : longest;
    longest = in->has_hi && in->hi.n_fraction > longest ? in->hi.n_fraction : longest;
    nodes_clear(w, now);
    for (size_t i = 0; i < 4; i++) {
        if (whole->at[i]) {
            grammar_byte(w->c->g, whole->at[i], '.', '.', node_for(w, now, tight_of(i), 0));
        }
    }
    for (size_t k = 0; k < longest; k++) {
        nodes_clear(w, next);
        for (size_t i = 0; i < 4; i++) {
            write_digit(w, now, i, 0, digit_at(in->lo.fraction, in->lo.n_fraction, k),
                        digit_at(in->hi.fraction, in->hi.n_fraction, k), k >= room, next);
        }
        swap(&now, &next);
        write_ends(w, now, k + 1);
    }
}

/* Numbers whose whole part has n digits. */
static void write_length(struct writer *w, uint32_t from, size_t n)
{
    const struct interval *in = w->in;
    struct nodes places[2], *now = &places[0], *next = &places[1];
    struct tight t = {n == in->lo.n_whole, in->has_hi && n == in->hi.n_whole};
    nodes_clear(w, now);
    grammar_nothing(w->c->g, from, node_for(w, now, t, 0));
    for (size_t k = 0; k < n; k++) {
        nodes_clear(w, next);
        for (size_t i = 0; i < 4 * (size_t)w->step; i++) {
            write_digit(w, now, i, k == 0 && n > 1, digit_at(in->lo.whole, in->lo.n_whole, k),
                        digit_at(in->hi.whole, in->hi.n_whole, k), false, next);
        }
        swap(&now, &next);
    }
    write_ends(w, now, 0);
    if (!w->is_integer) {
        write_fraction(w, now, n);
    }
}

static void write_interval(struct writer *w, uint32_t from)
{
    const struct interval *in = w->in;
    size_t longest = in->has_hi ? in->hi.n_whole : DIGITS;
    longest = !in->has_hi && in->lo.n_whole > longest ? in->lo.n_whole : longest;
    for (size_t n = in->lo.n_whole; n <= longest; n++) {
        write_length(w, from, n);
    }
}

/* ---- the two signs */

/* From -hi to -lo by size, or from lo to hi. Bounds beyond 0 are none. */
static bool interval_of(double lo, bool has_lo, bool lo_excluded, double hi, bool has_hi,
                        bool hi_excluded, struct interval *out)
{
    if (has_hi && hi < 0) {
        return false;
    }
    bool from_zero = !has_lo || lo < 0;
    *out = (struct interval){.lo = decimal_of(from_zero ? 0 : lo),
                             .has_hi = has_hi,
                             .lo_excluded = !from_zero && lo_excluded,
                             .hi_excluded = hi_excluded};
    if (has_hi) {
        out->hi = decimal_of(hi);
    }
    return true;
}

static void write_bounded(struct constrain_compiler *c, double lo, bool lo_excluded, bool has_lo,
                          double hi, bool hi_excluded, bool has_hi, uint32_t rule)
{
    struct interval in;
    struct writer w = {.c = c, .in = &in, .step = 1, .rule = rule, .to = grammar_end(c->g, rule)};
    if (interval_of(lo, has_lo, lo_excluded, hi, has_hi, hi_excluded, &in)) {
        write_interval(&w, grammar_start(c->g, rule));
    }
    if (interval_of(-hi, has_hi, hi_excluded, -lo, has_lo, lo_excluded, &in)) {
        uint32_t minus = grammar_node(c->g, rule);
        in.lo_excluded = in.lo_excluded || !has_hi || hi >= 0; /* no -0 */
        grammar_byte(c->g, grammar_start(c->g, rule), '-', '-', minus);
        write_interval(&w, minus);
    }
}

/* The sizes from lo to hi, which are not negative. */
static void write_integers(struct constrain_compiler *c, uint64_t lo, uint64_t hi, unsigned step,
                           uint32_t from, uint32_t rule)
{
    struct interval in = {
        .lo = decimal_of_integer(lo), .hi = decimal_of_integer(hi), .has_hi = true};
    struct writer w = {.c = c,
                       .in = &in,
                       .is_integer = true,
                       .step = step,
                       .rule = rule,
                       .to = grammar_end(c->g, rule)};
    if (lo <= hi) {
        write_interval(&w, from);
    }
}

/* The integer at a bound or next to it inside. */
static int64_t integer_at(const struct constrain_bound *b, bool is_lo)
{
    int step = is_lo ? 1 : -1;
    if (json_is_integer(b->value)) {
        return json_integer_value(b->value) + (b->is_exclusive ? step : 0);
    }
    double d = json_real_value(b->value), inside = is_lo ? ceil(d) : floor(d);
    return (int64_t)inside + (b->is_exclusive && inside == d ? step : 0);
}

static void write_integer(struct constrain_compiler *c, const struct constrain_bound *lo_bound,
                          const struct constrain_bound *hi_bound, unsigned step, uint32_t rule)
{
    int64_t safe = (int64_t)SAFE_INTEGER, far = (int64_t)BOUND_LARGEST;
    int64_t lo = lo_bound->value ? integer_at(lo_bound, true) : -safe;
    int64_t hi = hi_bound->value ? integer_at(hi_bound, false) : safe;
    /* one bound beyond what is safe: the other is open, too */
    hi = !hi_bound->value && lo > safe ? far : hi;
    lo = !lo_bound->value && hi < -safe ? -far : lo;
    if (hi >= 0) {
        write_integers(c, lo > 0 ? (uint64_t)lo : 0, (uint64_t)hi, step, grammar_start(c->g, rule),
                       rule);
    }
    if (lo < 0) {
        uint32_t minus = grammar_node(c->g, rule);
        grammar_byte(c->g, grammar_start(c->g, rule), '-', '-', minus);
        write_integers(c, hi < 0 ? (uint64_t)-hi : 1, (uint64_t)-lo, step, minus, rule);
    }
}

/* ---- without bounds */

/* From one to n digits, each but the last perhaps the last. */
static void write_digits(struct constrain_compiler *c, uint32_t rule, uint32_t from, int n,
                         uint32_t to)
{
    for (int i = 0; i < n; i++) {
        uint32_t next = grammar_node(c->g, rule);
        grammar_byte(c->g, from, '0', '9', next);
        grammar_nothing(c->g, next, to);
        from = next;
    }
}

static void write_free(struct constrain_compiler *c, uint32_t rule)
{
    struct grammar *g = c->g;
    uint32_t whole = grammar_node(g, rule), more = grammar_node(g, rule),
             behind = grammar_node(g, rule), point = grammar_node(g, rule),
             fraction = grammar_node(g, rule), e = grammar_node(g, rule),
             sign = grammar_node(g, rule), end = grammar_end(g, rule);
    grammar_byte(g, grammar_start(g, rule), '-', '-', whole);
    grammar_nothing(g, grammar_start(g, rule), whole);
    grammar_byte(g, whole, '0', '0', behind);
    grammar_byte(g, whole, '1', '9', more);
    grammar_nothing(g, more, behind);
    write_digits(c, rule, more, DIGITS - 1, behind);
    grammar_nothing(g, behind, fraction);
    grammar_byte(g, behind, '.', '.', point);
    write_digits(c, rule, point, DIGITS, fraction);
    grammar_nothing(g, fraction, end);
    grammar_byte(g, fraction, 'E', 'E', e);
    grammar_byte(g, fraction, 'e', 'e', e);
    grammar_nothing(g, e, sign);
    grammar_byte(g, e, '+', '+', sign);
    grammar_byte(g, e, '-', '-', sign);
    write_digits(c, rule, sign, 2, end);
}

static bool check_bound(struct constrain_compiler *c, const struct constrain_bound *b)
{
    return !b->value || fabs(json_number_value(b->value)) <= BOUND_LARGEST ||
           constrain_bad(c, b->path, b->name, "bounds beyond 1e18 are not supported");
}

static bool check_bounds(struct constrain_compiler *c, const struct constrain_bound *lo,
                         const struct constrain_bound *hi)
{
    if (!check_bound(c, lo) || !check_bound(c, hi)) {
        return false;
    }
    return !lo->value || !hi->value || lo->path != hi->path ||
           constrain_compare(lo->value, hi->value) <= 0 ||
           constrain_bad(c, lo->path, lo->name, "it is above '%s'", hi->name);
}

/* The least number of which all of multipleOf are divisors; 1 without any. */
static bool find_step(struct constrain_compiler *c, const struct constrain_parts *parts,
                      unsigned *step)
{
    *step = 1;
    for (size_t i = 0; i < parts->n; i++) {
        const json_t *v = json_object_get(parts->p[i].schema, "multipleOf");
        unsigned new = v ? (unsigned)json_number_value(v) : 1, old = *step;
        while (*step % new != 0) {
            *step += old;
        }
        if (*step > CONSTRAIN_STEP_MAX) {
            return constrain_bad(c, parts->p[i].path, "multipleOf",
                                 "with that of others it is more than %d", (int)CONSTRAIN_STEP_MAX);
        }
    }
    return true;
}

bool constrain_number(struct constrain_compiler *c, const struct constrain_parts *parts,
                      bool is_integer, uint32_t rule)
{
    struct constrain_bound lo, hi;
    unsigned step;
    constrain_bounds(parts, &lo, &hi);
    if (!check_bounds(c, &lo, &hi) || !find_step(c, parts, &step)) {
        return false;
    }
    for (size_t i = 0; i < parts->n; i++) { /* of an integer: an integer */
        is_integer = is_integer || json_object_get(parts->p[i].schema, "multipleOf");
    }
    if (is_integer) {
        write_integer(c, &lo, &hi, step, rule);
    } else if (!lo.value && !hi.value) {
        write_free(c, rule);
    } else {
        write_bounded(c, json_number_value(lo.value), lo.is_exclusive, lo.value != NULL,
                      json_number_value(hi.value), hi.is_exclusive, hi.value != NULL, rule);
    }
    return true;
}
