/* regex.c - patterns -> nodes (Thompson's construction), without a tree between: what was read last
 * is a piece of consecutive nodes with one way in and one way out, so repeating it is copying it.
 * Open groups lie on a stack of our own.
 */
#include "regex.h"
#include "regex_class.h"
#include "room.h"

#include <stdlib.h>
#include <string.h>

/* Nodes from `begin` on; `in` and `out` are node + 1, the `a` of `out` is not set yet. */
struct piece {
    uint32_t begin, in, out;
};
struct group {
    struct piece whole; /* of the group: its nodes began before it was read */
    uint32_t branch;    /* the split of the present alternative */
    uint32_t last;      /* what the next piece is linked to */
};
struct reader {
    struct regex_set *s;
    const char *text;
    size_t len, at;
    struct group groups[REGEX_GROUPS_MAX + 1];
    size_t n_groups;
    struct engine_error *err;
    struct regex_class class;
};

void regex_set_release(struct regex_set *s)
{
    if (s) {
        free(s->nodes);
        free(s->starts);
        *s = (struct regex_set){.n = 0};
    }
}

/* ---- errors. Patterns are quoted as far as they fit. */

static bool bad(const struct reader *r, const char *what)
{
    int shown = r->len < 80 ? (int)r->len : 80;
    return engine_fail(r->err, ENGINE_BAD_PARAM, "", "pattern '%.*s'%s, at byte %zu: %s", shown,
                       r->text, shown < (int)r->len ? " ..." : "", r->at, what);
}

static bool no_memory(struct engine_error *err)
{
    return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a pattern");
}

/* ---- nodes */

/* 0: none, and the error is set. */
static uint32_t node(struct reader *r, struct regex_node n)
{
    struct regex_set *s = r->s;
    if (s->n >= REGEX_NODES_MAX) {
        (void)bad(r, "it is too large with its repetitions written out: repeat less");
        return 0;
    }
    if (!room_for(&s->nodes, &s->cap, s->n + 1, sizeof *s->nodes)) {
        (void)no_memory(r->err);
        return 0;
    }
    s->nodes[s->n++] = n;
    return (uint32_t)s->n;
}

static struct regex_node *at(const struct reader *r, uint32_t n)
{
    return &r->s->nodes[n - 1];
}

static uint32_t split(struct reader *r, uint32_t a, uint32_t b)
{
    return node(r, (struct regex_node){.kind = REGEX_SPLIT, .a = a, .b = b});
}

/* The next piece of the present alternative. */
static void append(struct reader *r, const struct piece *p)
{
    struct group *g = &r->groups[r->n_groups - 1];
    at(r, g->last)->a = p->in;
    g->last = p->out;
}

static bool add_run(struct reader *r, const struct regex_run *run, uint32_t *in, uint32_t out)
{
    uint32_t first = 0, before = 0;
    for (int i = 0; i < run->n; i++) {
        uint32_t n = node(
            r,
            (struct regex_node){.kind = REGEX_BYTES, .lo = run->lo[i], .hi = run->hi[i], .a = out});
        if (!n) {
            return false;
        }
        if (before) {
            at(r, before)->a = n;
        }
        first = first ? first : n;
        before = n;
    }
    *in = first;
    return true;
}

/* One code point of the class. An empty class is a piece that nothing passes. */
static bool add_class(struct reader *r, const struct regex_class *c, struct piece *p)
{
    p->begin = (uint32_t)r->s->n;
    p->in = split(r, 0, 0);
    p->out = split(r, 0, 0);
    if (!p->in || !p->out) {
        return false;
    }
    uint32_t branch = p->in;
    bool is_first = true;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t lo = c->ranges[i].lo, hi = c->ranges[i].hi;
        lo = lo >= 0xD800 && lo < 0xE000 ? 0xE000 : lo;
        while (lo <= hi) {
            struct regex_run run;
            uint32_t in;
            lo = regex_run_next(lo, hi, &run);
            if (!add_run(r, &run, &in, p->out)) {
                return false;
            }
            if (!is_first) {
                uint32_t more = split(r, 0, 0);
                if (!more) {
                    return false;
                }
                at(r, branch)->b = more;
                branch = more;
            }
            at(r, branch)->a = in;
            is_first = false;
        }
    }
    return true;
}

static bool add_assertion(struct reader *r, enum regex_kind kind)
{
    struct piece p = {.begin = (uint32_t)r->s->n};
    p.in = p.out = node(r, (struct regex_node){.kind = (uint8_t)kind});
    if (!p.in) {
        return false;
    }
    append(r, &p);
    return true;
}

/* ---- characters and escapes */

static bool is_left(const struct reader *r, const char *s)
{
    size_t n = strlen(s);
    return r->len - r->at >= n && memcmp(r->text + r->at, s, n) == 0;
}

/* A code point of the pattern, which is UTF-8. */
static bool read_char(struct reader *r, uint32_t *c)
{
    uint8_t lead = (uint8_t)r->text[r->at];
    size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead >= 0xF8 || (lead >= 0x80 && lead < 0xC0) || r->len - r->at < n) {
        return bad(r, "this is no UTF-8");
    }
    *c = n == 1 ? lead : lead & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        *c = *c << 6 | ((uint8_t)r->text[r->at + i] & 0x3F);
    }
    r->at += n;
    return *c <= REGEX_CODEPOINT_MAX || bad(r, "this is no UTF-8");
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* n digits, or with n 0 from one up to a '}'. */
static bool read_hex(struct reader *r, int n, uint32_t *c)
{
    int n_read = 0;
    *c = 0;
    while (r->at < r->len && hex_digit(r->text[r->at]) >= 0 && (n == 0 || n_read < n)) {
        *c = *c * 16 + (uint32_t)hex_digit(r->text[r->at++]);
        n_read++;
        if (*c > REGEX_CODEPOINT_MAX) {
            return bad(r, "there is no such code point");
        }
    }
    if (n == 0 && n_read > 0 && is_left(r, "}")) {
        r->at++;
        return true;
    }
    return (n != 0 && n_read == n) || bad(r, "hexadecimal digits are missing");
}

static bool read_unicode(struct reader *r, uint32_t *c)
{
    if (is_left(r, "{")) {
        r->at++;
        return read_hex(r, 0, c);
    }
    if (!read_hex(r, 4, c)) {
        return false;
    }
    if (*c >= 0xD800 && *c < 0xDC00 && is_left(r, "\\u")) {
        uint32_t low;
        r->at += 2;
        if (!read_hex(r, 4, &low)) {
            return false;
        }
        if (low < 0xDC00 || low > 0xDFFF) {
            return bad(r, "a surrogate stands alone");
        }
        *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
        return true;
    }
    return (*c < 0xD800 || *c > 0xDFFF) || bad(r, "a surrogate stands alone");
}

static bool read_control(struct reader *r, uint32_t *c)
{
    char letter = r->at < r->len ? r->text[r->at] : '\0';
    if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))) {
        return bad(r, "\\c wants a letter");
    }
    r->at++;
    *c = (uint32_t)letter & 31;
    return true;
}

static bool refuse_escape(struct reader *r, char e)
{
    if ((e >= '1' && e <= '9') || e == 'k') {
        return bad(r, "back-references are not supported");
    }
    if (e == 'b' || e == 'B') {
        return bad(r, "word boundaries are not supported");
    }
    if (e == 'p' || e == 'P') {
        return bad(r, "\\p is not supported: name the ranges");
    }
    return bad(r, "there is no such escape");
}

/* After the backslash: one code point. Classes were looked for before. */
static bool read_escape(struct reader *r, bool is_in_class, uint32_t *c)
{
    static const char letters[] = "tnvfr", codes[] = "\t\n\v\f\r";
    if (r->at >= r->len) {
        return bad(r, "it ends with a backslash");
    }
    char e = r->text[r->at++];
    const char *letter = strchr(letters, e);
    if (e && letter) {
        *c = (uint8_t)codes[letter - letters];
        return true;
    }
    if (e == 'b' && is_in_class) {
        *c = 8;
        return true;
    }
    if (e == '0' && !(r->at < r->len && r->text[r->at] >= '0' && r->text[r->at] <= '9')) {
        *c = 0;
        return true;
    }
    if (e == 'c') {
        return read_control(r, c);
    }
    if (e == 'x') {
        return read_hex(r, 2, c);
    }
    if (e == 'u') {
        return read_unicode(r, c);
    }
    if (e && strchr("^$\\.*+?()[]{}|/-\"'`~!@#%&_=:;,<> ", e)) {
        *c = (uint8_t)e;
        return true;
    }
    r->at--;
    return refuse_escape(r, e);
}

/* \d and its kin, added to r->class. */
static bool read_class_letter(struct reader *r, bool *is_class)
{
    *is_class =
        r->len - r->at >= 2 && r->text[r->at] == '\\' && strchr("dDwWsS", r->text[r->at + 1]);
    if (!*is_class) {
        return true;
    }
    r->at += 2;
    return regex_class_add_letter(&r->class, r->text[r->at - 1]) ||
           bad(r, "it has too many ranges");
}

/* A code point inside [ ]. */
static bool read_member(struct reader *r, uint32_t *c)
{
    if (r->at >= r->len) {
        return bad(r, "']' is missing");
    }
    if (r->text[r->at] == '\\') {
        r->at++;
        return read_escape(r, true, c);
    }
    return read_char(r, c);
}

static bool read_range(struct reader *r)
{
    bool is_class;
    uint32_t lo, hi;
    if (!read_class_letter(r, &is_class)) {
        return false;
    }
    if (is_class) {
        return !(is_left(r, "-") && !is_left(r, "-]")) || bad(r, "a class is no end of a range");
    }
    if (!read_member(r, &lo)) {
        return false;
    }
    hi = lo;
    if (is_left(r, "-") && !is_left(r, "-]")) {
        r->at++;
        if (is_left(r, "\\d") || is_left(r, "\\w") || is_left(r, "\\s")) {
            return bad(r, "a class is no end of a range");
        }
        if (!read_member(r, &hi)) {
            return false;
        }
    }
    if (lo > hi) {
        return bad(r, "a range ends before it begins");
    }
    return regex_class_add(&r->class, lo, hi) || bad(r, "it has too many ranges");
}

static bool read_class(struct reader *r, struct piece *p)
{
    r->at++;
    bool is_negated = is_left(r, "^");
    r->at += is_negated;
    r->class.n = 0;
    while (!is_left(r, "]")) {
        if (r->at >= r->len) {
            return bad(r, "']' is missing");
        }
        if (!read_range(r)) {
            return false;
        }
    }
    r->at++;
    regex_class_finish(&r->class, is_negated);
    return add_class(r, &r->class, p);
}

/* A class, a character or an escape. */
static bool read_atom(struct reader *r, struct piece *p)
{
    bool is_class;
    uint32_t c;
    char first = r->text[r->at];
    if (first == '[') {
        return read_class(r, p);
    }
    r->class.n = 0;
    if (first == '.') {
        r->at++;
        for (size_t i = 0; i < 3; i++) {
            static const uint32_t ends[][2] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
            (void)regex_class_add(&r->class, ends[i][0], ends[i][1]); /* three fit */
        }
        regex_class_finish(&r->class, true);
        return add_class(r, &r->class, p);
    }
    if (!read_class_letter(r, &is_class)) {
        return false;
    }
    if (!is_class) {
        r->at += first == '\\';
        if (!(first == '\\' ? read_escape(r, false, &c) : read_char(r, &c))) {
            return false;
        }
        (void)regex_class_add(&r->class, c, c); /* it is empty */
    }
    regex_class_finish(&r->class, false);
    return add_class(r, &r->class, p);
}

/* ---- repetition */

static bool copy(struct reader *r, const struct piece *p, uint32_t n, struct piece *out)
{
    uint32_t shift = (uint32_t)r->s->n - p->begin;
    for (uint32_t i = 0; i < n; i++) {
        struct regex_node x = r->s->nodes[p->begin + i];
        x.a += x.a ? shift : 0;
        x.b += x.b ? shift : 0;
        if (!node(r, x)) {
            return false;
        }
    }
    *out = (struct piece){p->begin + shift, p->in + shift, p->out + shift};
    return true;
}

/* p becomes p{min,max}; max -1: no end. The pieces of one chain: min that must be passed, then as
 * many as may be, each with a way around the rest. */
static bool repeat(struct reader *r, struct piece *p, long min, long max)
{
    const struct piece first = *p;
    uint32_t n = (uint32_t)r->s->n - p->begin; /* nodes of one */
    long n_copies = max < 0 ? (min > 0 ? min : 1) : max;
    uint32_t in = split(r, 0, 0), out = split(r, 0, 0), last = in, loop_to = 0;
    if (!in || !out) {
        return false;
    }
    for (long i = 0; i < n_copies; i++) {
        struct piece one = first;
        if (i > 0 && !copy(r, &first, n, &one)) {
            return false;
        }
        if (i >= min) {
            uint32_t choice = split(r, one.in, out);
            if (!choice) {
                return false;
            }
            at(r, last)->a = choice;
        } else {
            at(r, last)->a = one.in;
        }
        last = one.out;
        loop_to = one.in;
    }
    if (max < 0) {
        uint32_t again = split(r, loop_to, out);
        if (!again) {
            return false;
        }
        at(r, last)->a = again;
    } else {
        at(r, last)->a = out;
    }
    p->in = in;
    p->out = out;
    return true;
}

static bool read_number(struct reader *r, long *n)
{
    size_t start = r->at;
    *n = 0;
    while (r->at < r->len && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        *n = *n * 10 + (r->text[r->at++] - '0');
        if (*n > REGEX_NODES_MAX) {
            return bad(r, "it repeats too often");
        }
    }
    return r->at > start || bad(r, "a number is missing between { and }");
}

static bool read_braces(struct reader *r, long *min, long *max)
{
    r->at++;
    if (!read_number(r, min)) {
        return false;
    }
    *max = *min;
    if (is_left(r, ",")) {
        r->at++;
        *max = -1;
        if (!is_left(r, "}") && !read_number(r, max)) {
            return false;
        }
    }
    if (!is_left(r, "}")) {
        return bad(r, "'}' is missing");
    }
    r->at++;
    return *max < 0 || *min <= *max || bad(r, "it repeats at least more often than at most");
}

/* What stands behind a piece. */
static bool read_quantifier(struct reader *r, struct piece *p)
{
    long min = 1, max = 1;
    char c = r->at < r->len ? r->text[r->at] : '\0';
    if (c != '*' && c != '+' && c != '?' && c != '{') {
        return true;
    }
    if (c == '{') {
        if (!read_braces(r, &min, &max)) {
            return false;
        }
    } else {
        r->at++;
        min = c == '+';
        max = c == '?' ? 1 : -1;
    }
    r->at += is_left(r, "?");
    return repeat(r, p, min, max);
}

/* ---- groups */

static bool open_group(struct reader *r)
{
    if (r->n_groups > REGEX_GROUPS_MAX) {
        return bad(r, "too many groups in each other, 256 at most");
    }
    struct group *g = &r->groups[r->n_groups];
    g->whole.begin = (uint32_t)r->s->n;
    g->whole.in = split(r, 0, 0);
    g->whole.out = split(r, 0, 0);
    g->branch = g->last = g->whole.in;
    r->n_groups++;
    return g->whole.in && g->whole.out;
}

static bool next_alternative(struct reader *r)
{
    struct group *g = &r->groups[r->n_groups - 1];
    uint32_t branch = split(r, 0, 0);
    if (!branch) {
        return false;
    }
    at(r, g->last)->a = g->whole.out;
    at(r, g->branch)->b = branch;
    g->branch = g->last = branch;
    return true;
}

static struct piece close_group(struct reader *r)
{
    struct group *g = &r->groups[--r->n_groups];
    at(r, g->last)->a = g->whole.out;
    return g->whole;
}

/* "(" and what says which kind of group it is. */
static bool read_open(struct reader *r)
{
    if (is_left(r, "(?=") || is_left(r, "(?!") || is_left(r, "(?<=") || is_left(r, "(?<!")) {
        return bad(r, "look-around is not supported");
    }
    if (is_left(r, "(?<")) {
        const char *end = memchr(r->text + r->at, '>', r->len - r->at);
        if (!end || end == r->text + r->at + 3) {
            return bad(r, "the name of a group is missing");
        }
        r->at = (size_t)(end - r->text) + 1;
    } else if (is_left(r, "(?:")) {
        r->at += 3;
    } else if (is_left(r, "(?")) {
        return bad(r, "there is no such group");
    } else {
        r->at++;
    }
    return open_group(r);
}

static bool read_close(struct reader *r)
{
    if (r->n_groups == 1) {
        return bad(r, "')' without '('");
    }
    r->at++;
    struct piece p = close_group(r);
    if (!read_quantifier(r, &p)) {
        return false;
    }
    append(r, &p);
    return true;
}

static bool read_item(struct reader *r)
{
    struct piece p;
    switch (r->text[r->at]) {
    case '(':
        return read_open(r);
    case ')':
        return read_close(r);
    case '|':
        r->at++;
        return next_alternative(r);
    case '^':
        r->at++;
        return add_assertion(r, REGEX_BEGIN);
    case '$':
        r->at++;
        return add_assertion(r, REGEX_END);
    case '*':
    case '+':
    case '?':
    case '{':
        return bad(r, "there is nothing to repeat");
    case ']':
    case '}':
        return bad(r, "a bracket stands alone: write a backslash before it");
    default:
        break;
    }
    if (!read_atom(r, &p) || !read_quantifier(r, &p)) {
        return false;
    }
    append(r, &p);
    return true;
}

/* ---- the set */

static bool add_start(struct reader *r, uint32_t start)
{
    if (!room_for(&r->s->starts, &r->s->starts_cap, r->s->n_starts + 1, sizeof start)) {
        return no_memory(r->err);
    }
    r->s->starts[r->s->n_starts++] = start;
    return true;
}

/* Any text, from which `from` is reached: *loop is the way in. */
static bool add_any(struct reader *r, uint32_t *loop)
{
    struct piece p;
    r->class.n = 0;
    regex_class_finish(&r->class, true);
    *loop = split(r, 0, 0);
    if (!*loop || !add_class(r, &r->class, &p)) {
        return false;
    }
    at(r, *loop)->a = p.in;
    at(r, p.out)->a = *loop;
    return true;
}

/* The pattern may be anywhere: any text, it, any text. */
static bool read_pattern(struct reader *r, int tag)
{
    uint32_t before, after, accept;
    if (!add_any(r, &before) || !add_any(r, &after) || !open_group(r)) {
        return false;
    }
    while (r->at < r->len) {
        if (!read_item(r)) {
            return false;
        }
    }
    if (r->n_groups > 1) {
        return bad(r, "')' is missing");
    }
    struct piece p = close_group(r);
    accept = node(r, (struct regex_node){.kind = REGEX_ACCEPT, .a = (uint32_t)tag});
    if (!accept) {
        return false;
    }
    at(r, before)->b = p.in;
    at(r, p.out)->a = after;
    at(r, after)->b = accept;
    return add_start(r, before);
}

bool regex_add(struct regex_set *s, const char *pattern, size_t len, int tag,
               struct engine_error *err)
{
    if (len > REGEX_LENGTH_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "", "a pattern has %zu bytes, at most %d", len,
                           (int)REGEX_LENGTH_MAX);
    }
    struct reader *r = malloc(sizeof *r);
    if (!r) {
        return no_memory(err);
    }
    *r = (struct reader){.s = s, .text = pattern, .len = len, .err = err};
    bool ok = read_pattern(r, tag);
    free(r);
    return ok;
}

bool regex_add_text(struct regex_set *s, const char *text, size_t len, int tag,
                    struct engine_error *err)
{
    struct reader r = {.s = s, .text = text, .len = len, .err = err};
    uint32_t start = split(&r, 0, 0), last = start;
    for (size_t i = 0; start && last && i < len; i++) {
        uint32_t n =
            node(&r, (struct regex_node){
                         .kind = REGEX_BYTES, .lo = (uint8_t)text[i], .hi = (uint8_t)text[i]});
        if (!n) {
            return false;
        }
        at(&r, last)->a = n;
        last = n;
    }
    uint32_t accept =
        start ? node(&r, (struct regex_node){.kind = REGEX_ACCEPT, .a = (uint32_t)tag}) : 0;
    if (!accept) {
        return false;
    }
    at(&r, last)->a = accept;
    return add_start(&r, start);
}
