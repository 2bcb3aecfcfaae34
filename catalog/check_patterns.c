/* check_patterns.c - whether two expressions take one and the same model id: check_common_model().
 *
 * Trying samples would miss what only the two together force ("-preview$" and "^gemini"). So both
 * expressions become automata, and a breadth-first walk over pairs of their states looks for a
 * string that leads both to their end: exact, and the size of the walk is known beforehand. What
 * comes out is handed to regexec() with both expressions, so a difference between this reading of
 * an expression and libc's can hide an overlap but never invent one.
 *
 * The automata are Thompson's: a state takes one character of a set, or goes on without one to one
 * or two others. An expression may match anywhere in the id: a loop over any character stands
 * before its start and behind its end. "^" can be passed only before the first character; "$" only
 * when no character follows, so it is not walked but counts in `can_end`. A counted repetition
 * reads its piece again for each copy.
 */
#include "check.h"
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

#define STATES_MAX 1024       /* an expression of 256 characters has some 600 */
#define PAIRS_MAX  (1u << 20) /* 10 MB while it runs */
#define DEPTH_MAX  32         /* nested groups */
#define REPEAT_MAX 255        /* RE_DUP_MAX of POSIX */
#define MODEL_MAX  255
#define NONE       (-1)

/* ---- sets of characters: what a model id is written with, 0x21 to 0x7e */

struct set {
    uint64_t bits[2];
};

static void set_add(struct set *s, unsigned char c)
{
    if (c > 0x20 && c < 0x7f) {
        s->bits[c / 64] |= UINT64_C(1) << (c % 64);
    }
}

static bool set_has(const struct set *s, unsigned char c)
{
    return c < 128 && (s->bits[c / 64] >> (c % 64)) & 1;
}

static struct set set_any(void)
{
    struct set s = {{0, 0}};
    for (unsigned char c = 0x21; c < 0x7f; c++) {
        set_add(&s, c);
    }
    return s;
}

static void set_negate(struct set *s)
{
    struct set any = set_any();
    s->bits[0] = any.bits[0] & ~s->bits[0];
    s->bits[1] = any.bits[1] & ~s->bits[1];
}

/* A character that both have, plain ones first; 0: none. */
static char set_common(const struct set *a, const struct set *b)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-./:_";
    struct set both = {{a->bits[0] & b->bits[0], a->bits[1] & b->bits[1]}};
    for (const char *c = plain; *c; c++) {
        if (set_has(&both, (unsigned char)*c)) {
            return *c;
        }
    }
    for (unsigned char c = 0x21; c < 0x7f; c++) {
        if (set_has(&both, c)) {
            return (char)c;
        }
    }
    return 0;
}

/* ---- automata */

enum state_kind {
    STATE_FREE,  /* goes on without a character: to `a`, to `b` */
    STATE_CHAR,  /* takes one of `set`, then `a` */
    STATE_BEGIN, /* ^ */
    STATE_END,   /* $ */
    STATE_FOUND
};
struct state {
    enum state_kind kind;
    struct set set;
    int a, b; /* NONE: nowhere */
};

struct machine {
    struct state states[STATES_MAX];
    bool can_end[STATES_MAX]; /* the id may end here */
    int n, start;
};

/* A piece of an automaton: comes in at `first`, leaves at `last`, whose `a` is free. */
struct piece {
    int first, last;
};

struct reading {
    struct machine *m;
    const char *at; /* the rest of the expression */
    int depth;
    bool has_failed; /* too large, or a construct that is not read here */
};

static int add_state(struct reading *r, enum state_kind kind, int a, int b)
{
    struct machine *m = r->m;
    if (m->n == STATES_MAX) {
        r->has_failed = true;
        return 0;
    }
    m->states[m->n] = (struct state){.kind = kind, .a = a, .b = b};
    return m->n++;
}

static struct piece single(struct reading *r, enum state_kind kind)
{
    int s = add_state(r, kind, NONE, NONE);
    return (struct piece){s, s};
}

static struct piece of_set(struct reading *r, struct set set)
{
    struct piece p = single(r, STATE_CHAR);
    r->m->states[p.first].set = set;
    return p;
}

static struct piece joined(struct reading *r, struct piece left, struct piece right)
{
    r->m->states[left.last].a = right.first;
    return (struct piece){left.first, right.last};
}

/* The piece, or a way around it; is_repeated: and a way back. */
static struct piece looped(struct reading *r, struct piece p, bool is_optional, bool is_repeated)
{
    int out = add_state(r, STATE_FREE, NONE, NONE);
    int in = add_state(r, STATE_FREE, p.first, is_optional ? out : NONE);
    int back = add_state(r, STATE_FREE, out, is_repeated ? p.first : NONE);
    r->m->states[p.last].a = back;
    return (struct piece){in, out};
}

/* ---- reading an expression */

static bool read_class(struct reading *r, struct set *s)
{
    static const struct {
        const char *name;
        const char *members;
    } classes[] = {
        {"[:digit:]", "0123456789"},
        {"[:lower:]", "abcdefghijklmnopqrstuvwxyz"},
        {"[:upper:]", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
        {"[:alpha:]", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"},
        {"[:alnum:]", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"},
        {"[:xdigit:]", "0123456789abcdefABCDEF"},
        {"[:punct:]", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
        {"[:space:]", ""},
        {"[:blank:]", ""},
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        size_t n = strlen(classes[i].name);
        if (strncmp(r->at, classes[i].name, n) == 0) {
            for (const char *c = classes[i].members; *c; c++) {
                set_add(s, (unsigned char)*c);
            }
            r->at += n;
            return true;
        }
    }
    return false;
}

/* One character, range or class of a bracket. */
static void read_member(struct reading *r, struct set *s)
{
    if (r->at[0] == '[' && r->at[1] && strchr(":.=", r->at[1])) {
        r->has_failed = r->has_failed || !read_class(r, s);
        return;
    }
    unsigned char lo = (unsigned char)*r->at++, hi = lo;
    if (r->at[0] == '-' && r->at[1] && r->at[1] != ']') {
        hi = (unsigned char)r->at[1];
        r->has_failed = r->has_failed || hi == '['; /* may begin a name: not read here */
        r->at += 2;
    }
    for (unsigned c = lo; c <= hi; c++) {
        set_add(s, (unsigned char)c);
    }
}

/* Behind "[". A "]" that comes first is a member. */
static struct piece read_bracket(struct reading *r)
{
    struct set s = {{0, 0}};
    bool is_negated = *r->at == '^', is_first = true;
    r->at += is_negated;
    for (; !r->has_failed && *r->at && (*r->at != ']' || is_first); is_first = false) {
        read_member(r, &s);
    }
    r->has_failed = r->has_failed || *r->at != ']';
    r->at += *r->at == ']';
    if (is_negated) {
        set_negate(&s);
    }
    return of_set(r, s);
}

/* Behind "\\". */
static struct piece read_escape(struct reading *r)
{
    struct set s = {{0, 0}};
    char c = *r->at;
    if (c == 'w' || c == 'W') {
        const char *word = "[:alnum:]";
        struct reading name = {.m = r->m, .at = word};
        (void)read_class(&name, &s); /* a name of its table */
        set_add(&s, '_');
    } else if (c == '\0' || strchr("bB<>`'sS0123456789", c)) {
        r->has_failed = true; /* libc's own, and back references */
        return single(r, STATE_FREE);
    } else {
        set_add(&s, (unsigned char)c);
    }
    if (c == 'W') {
        set_negate(&s);
    }
    r->at++;
    return of_set(r, s);
}

static struct piece read_alternatives(struct reading *r);

static struct piece read_atom(struct reading *r)
{
    struct set s = {{0, 0}};
    char c = *r->at++;
    switch (c) {
    case '(': {
        struct piece p = read_alternatives(r);
        r->has_failed = r->has_failed || *r->at != ')';
        r->at += *r->at == ')';
        return p;
    }
    case '[':
        return read_bracket(r);
    case '\\':
        return read_escape(r);
    case '.':
        return of_set(r, set_any());
    case '^':
    case '$':
        r->has_failed = r->has_failed || (*r->at && strchr("*+?{", *r->at));
        return single(r, c == '^' ? STATE_BEGIN : STATE_END);
    case '*':
    case '+':
    case '?':
    case '{': /* nothing to repeat: libc refuses it too */
        r->has_failed = true;
        return single(r, STATE_FREE);
    default:
        set_add(&s, (unsigned char)c);
        return of_set(r, s);
    }
}

/* The number here; NONE: there is none. */
static int read_count(struct reading *r)
{
    int n = NONE;
    for (; *r->at >= '0' && *r->at <= '9' && n <= REPEAT_MAX; r->at++) {
        n = (n == NONE ? 0 : n * 10) + (*r->at - '0');
    }
    return n;
}

/* Behind "{": the numbers, and past "}". max NONE: no limit. */
static bool read_counts(struct reading *r, int *min, int *max)
{
    *min = *max = read_count(r);
    if (*r->at == ',') {
        r->at++;
        *max = read_count(r);
        *min = *min == NONE ? 0 : *min; /* {,n} */
    }
    bool ok = *r->at == '}' && *min != NONE && *min <= REPEAT_MAX && *max <= REPEAT_MAX &&
              (*max == NONE || *min <= *max);
    r->at += *r->at == '}';
    return ok;
}

static struct piece read_repeated(struct reading *r, const char *end);

/* At "{": the piece from `from` to here as often as counted; its first copy is `p`. */
static struct piece read_counted(struct reading *r, const char *from, struct piece p)
{
    const char *end = r->at++;
    int min, max;
    if (!read_counts(r, &min, &max)) {
        r->has_failed = true;
        return p;
    }
    const char *behind = r->at;
    struct piece all = single(r, STATE_FREE);
    for (int i = 0; (i < min || i < max || (i == min && max == NONE)) && !r->has_failed; i++) {
        r->at = from;
        struct piece copy = i == 0 ? p : read_repeated(r, end);
        if (i >= min) {
            copy = looped(r, copy, true, max == NONE);
        }
        all = joined(r, all, copy);
    }
    r->at = behind;
    return all;
}

/* An atom and what repeats it, up to `end`; NULL: all of that. A copy has a state at least, so
 * STATES_MAX ends what counts of counts would multiply to. */
static struct piece read_repeated(struct reading *r, const char *end)
{
    const char *from = r->at;
    struct piece p = read_atom(r);
    while (!r->has_failed && r->at != end && *r->at && strchr("*+?{", *r->at)) {
        if (*r->at == '{') {
            p = read_counted(r, from, p);
        } else {
            p = looped(r, p, *r->at != '+', *r->at != '?');
            r->at++;
        }
    }
    return p;
}

static struct piece read_sequence(struct reading *r)
{
    struct piece all = single(r, STATE_FREE);
    while (!r->has_failed && *r->at && *r->at != '|' && (*r->at != ')' || r->depth == 1)) {
        all = joined(r, all, read_repeated(r, NULL)); /* a ")" that closes nothing is a character */
    }
    return all;
}

static struct piece read_alternatives(struct reading *r)
{
    if (++r->depth > DEPTH_MAX) {
        r->has_failed = true;
        r->depth--;
        return single(r, STATE_FREE);
    }
    struct piece all = read_sequence(r);
    while (!r->has_failed && *r->at == '|') {
        r->at++;
        struct piece other = read_sequence(r);
        int out = add_state(r, STATE_FREE, NONE, NONE);
        int in = add_state(r, STATE_FREE, all.first, other.first);
        r->m->states[all.last].a = out;
        r->m->states[other.last].a = out;
        all = (struct piece){in, out};
    }
    r->depth--;
    return all;
}

/* Marks from which states the id may end: those from which FOUND is reached without a character. */
static void mark_ends(struct machine *m)
{
    bool has_changed = true;
    while (has_changed) { /* at most once for each state; in practice a few times */
        has_changed = false;
        for (int i = m->n; i-- > 0;) { /* ends have high numbers */
            const struct state *s = &m->states[i];
            bool is_open = s->kind == STATE_FREE || s->kind == STATE_END;
            bool ends = s->kind == STATE_FOUND || (is_open && ((s->a != NONE && m->can_end[s->a]) ||
                                                               (s->b != NONE && m->can_end[s->b])));
            has_changed = has_changed || (ends && !m->can_end[i]);
            m->can_end[i] = ends;
        }
    }
}

static bool read_expression(struct machine *m, const char *text)
{
    struct reading r = {.m = m, .at = strcmp(text, "*") == 0 ? "" : text};
    *m = (struct machine){.n = 0};
    struct piece before = of_set(&r, set_any()), behind = of_set(&r, set_any());
    struct piece body = read_alternatives(&r);
    int found = add_state(&r, STATE_FOUND, NONE, NONE);
    int tail = add_state(&r, STATE_FREE, found, behind.first);
    m->start = add_state(&r, STATE_FREE, body.first, before.first);
    m->states[before.last].a = m->start;
    m->states[behind.last].a = tail;
    m->states[body.last].a = tail;
    if (r.has_failed || *r.at) {
        return false;
    }
    mark_ends(m);
    return true;
}

/* ---- the walk over pairs */

struct walk {
    const struct machine *a, *b;
    int *from;   /* of each place, where it was reached from, + 1; 0: not reached */
    char *taken; /* the character on the way; 0: none */
    int *queue;
    int n_queued;
};

/* A place is a pair of states, and whether a character was taken already. */
static int place_of(const struct walk *w, int a, int b, bool is_inside)
{
    return (a * w->b->n + b) * 2 + is_inside;
}

static void reach(struct walk *w, int from, int a, int b, bool is_inside, char taken)
{
    if (a == NONE || b == NONE) {
        return;
    }
    int place = place_of(w, a, b, is_inside);
    if (!w->from[place]) {
        w->from[place] = from + 1;
        w->taken[place] = taken;
        w->queue[w->n_queued++] = place;
    }
}

/* Whether a state can be left without a character. */
static bool is_passable(const struct state *s, bool is_inside)
{
    return s->kind == STATE_FREE || (s->kind == STATE_BEGIN && !is_inside);
}

static void step(struct walk *w, int place)
{
    bool is_inside = place % 2;
    int a = place / 2 / w->b->n, b = place / 2 % w->b->n;
    const struct state *x = &w->a->states[a], *y = &w->b->states[b];
    if (is_passable(x, is_inside)) {
        reach(w, place, x->a, b, is_inside, 0);
        reach(w, place, x->b, b, is_inside, 0);
    }
    if (is_passable(y, is_inside)) {
        reach(w, place, a, y->a, is_inside, 0);
        reach(w, place, a, y->b, is_inside, 0);
    }
    if (x->kind == STATE_CHAR && y->kind == STATE_CHAR) {
        char c = set_common(&x->set, &y->set);
        if (c) {
            reach(w, place, x->a, y->a, true, c);
        }
    }
}

/* The characters on the way to `place`. */
static bool spell(const struct walk *w, int place, char *out, size_t cap)
{
    size_t n = 0;
    for (int at = place; w->from[at] - 1 != at; at = w->from[at] - 1) {
        n += w->taken[at] != 0;
    }
    if (n >= cap || n > MODEL_MAX) {
        return false;
    }
    out[n] = '\0';
    for (int at = place; w->from[at] - 1 != at; at = w->from[at] - 1) {
        if (w->taken[at]) {
            out[--n] = w->taken[at];
        }
    }
    return true;
}

static bool run_walk(struct walk *w, char *out, size_t cap)
{
    int start = place_of(w, w->a->start, w->b->start, false);
    reach(w, start, w->a->start, w->b->start, false, 0); /* its own predecessor: here a way ends */
    for (int i = 0; i < w->n_queued; i++) {
        int place = w->queue[i], pair = place / 2;
        if (place % 2 && w->a->can_end[pair / w->b->n] && w->b->can_end[pair % w->b->n]) {
            return spell(w, place, out, cap);
        }
        step(w, place);
    }
    return false;
}

static bool find_common(const struct machine *a, const struct machine *b, char *out, size_t cap)
{
    size_t n = (size_t)a->n * (size_t)b->n * 2;
    if (n > PAIRS_MAX) {
        return false;
    }
    struct walk w = {.a = a, .b = b};
    w.from = calloc(n, sizeof *w.from);
    w.queue = malloc(n * sizeof *w.queue);
    w.taken = malloc(n);
    bool ok = w.from && w.queue && w.taken && run_walk(&w, out, cap);
    free(w.from);
    free(w.queue);
    free(w.taken);
    return ok;
}

/* ---- what libc says */

static bool takes(const char *expression, const char *model)
{
    bool is_taken = false;
    return pattern_ask(expression, model, &is_taken, NULL) && is_taken;
}

bool check_common_model(const char *a, const char *b, char *out, size_t cap)
{
    struct machine *machines = malloc(2 * sizeof *machines);
    char model[MODEL_MAX + 1];
    bool ok = machines && read_expression(&machines[0], a) && read_expression(&machines[1], b) &&
              find_common(&machines[0], &machines[1], model, sizeof model) && takes(a, model) &&
              takes(b, model) && strlen(model) < cap;
    free(machines);
    if (ok) {
        memcpy(out, model, strlen(model) + 1);
    }
    return ok;
}
