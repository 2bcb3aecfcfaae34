/* jsonscan.c - a string without escapes is returned where it lies; one with escapes is decoded into
 * a buffer that grows with it.
 *
 * What has no meaning is stepped over eight bytes at a time: most of a file that was written with
 * indents is spaces.
 */
#include "jsonscan.h"

#include "codepoint.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void jsonscan_init(struct jsonscan *s, const char *text, size_t len)
{
    *s = (struct jsonscan){.start = text, .at = text, .end = text + len};
}

void jsonscan_release(struct jsonscan *s)
{
    if (s) {
        free(s->scratch);
        *s = (struct jsonscan){0};
    }
}

bool jsonscan_fail(struct jsonscan *s, const char *problem)
{
    if (!s->problem) {
        s->problem = problem;
        s->problem_at = (size_t)(s->at - s->start);
        s->at = s->end;
    }
    return false;
}

/* ---- eight bytes as a number, the first the lowest */

#define EACH UINT64_C(0x0101010101010101)
#define TOPS (0x80 * EACH)

static uint64_t load8(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return le64toh(w);
}

/* The top bit of each byte that is c. Bytes above one that is may be marked, too: only the lowest
 * mark is sure. */
static uint64_t mark(uint64_t w, unsigned char c)
{
    uint64_t x = w ^ c * EACH;
    return (x - EACH) & ~x & TOPS;
}

static uint64_t mark_ends(uint64_t w) /* of a string, or of what is plain in it */
{
    return mark(w, '"') | mark(w, '\\');
}

static uint64_t mark_structural(uint64_t w)
{
    uint64_t lower = w | 0x20 * EACH; /* '[' becomes '{', ']' '}' */
    return mark(w, '"') | mark(lower, '{') | mark(lower, '}');
}

static uint64_t mark_not_plain(uint64_t w)
{
    return mark_ends(w) | (w & TOPS) | ((w - 0x20 * EACH) & ~w & TOPS);
}

static uint64_t mark_not_blank(uint64_t w)
{
    return w ^ ' ' * EACH; /* the lowest bit that is set is in that byte */
}

/* The first byte that is marked, as far as whole eights go; else one of the last seven. */
static const char *skip_to(const char *p, const char *end, uint64_t (*marks)(uint64_t))
{
    for (; end - p >= 8; p += 8) {
        uint64_t m = marks(load8(p));
        if (m) {
            return p + __builtin_ctzll(m) / 8;
        }
    }
    return p;
}

/* ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

char jsonscan_peek(struct jsonscan *s)
{
    if (s->at<s->end && * s->at> ' ') { /* mostly */
        return *s->at;
    }
    while (s->at < s->end && is_space(*s->at)) {
        s->at = skip_to(s->at + 1, s->end, mark_not_blank);
    }
    return s->at < s->end ? *s->at : '\0';
}

bool jsonscan_open(struct jsonscan *s, char bracket)
{
    if (jsonscan_peek(s) != bracket) {
        return jsonscan_fail(s, bracket == '{' ? "an object is expected" : "an array is expected");
    }
    s->at++;
    return true;
}

bool jsonscan_next(struct jsonscan *s, char close, size_t *n_seen)
{
    char c = jsonscan_peek(s);
    if (s->problem) {
        return false;
    }
    if (c == close) {
        s->at++;
        return false;
    }
    if (*n_seen > 0) {
        if (c != ',') {
            return jsonscan_fail(s, "a comma or a closing bracket is expected");
        }
        s->at++;
    }
    *n_seen += 1;
    return true;
}

/* Four hexadecimal digits at s->at, or -1. */
static int32_t read_hex4(struct jsonscan *s)
{
    int32_t v = 0;
    if (s->end - s->at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        char c = *s->at++;
        int32_t d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (d < 0) {
            return -1;
        }
        v = v * 16 + d;
    }
    return v;
}

/* After "\u": one scalar value, from two escapes where they are surrogates. */
static bool read_unicode(struct jsonscan *s, uint32_t *cp)
{
    int32_t a = read_hex4(s);
    if (a < 0 || (a >= 0xdc00 && a <= 0xdfff)) {
        return jsonscan_fail(s, "bad \\u escape in a string");
    }
    *cp = (uint32_t)a;
    if (a < 0xd800 || a > 0xdbff) {
        return true;
    }
    if (s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u') {
        return jsonscan_fail(s, "half of a surrogate pair in a string");
    }
    s->at += 2;
    int32_t b = read_hex4(s);
    if (b < 0xdc00 || b > 0xdfff) {
        return jsonscan_fail(s, "half of a surrogate pair in a string");
    }
    *cp = 0x10000 + ((uint32_t)(a - 0xd800) << 10) + (uint32_t)(b - 0xdc00);
    return true;
}

/* After a backslash: writes what it stands for at out. */
static bool read_escape(struct jsonscan *s, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s->at < s->end ? *s->at++ : '\0';
    const char *hit = c ? strchr(from, c) : NULL;
    if (hit) {
        *(*out)++ = to[hit - from];
        return true;
    }
    uint32_t cp;
    if (c != 'u') {
        return jsonscan_fail(s, "unknown escape in a string");
    }
    if (!read_unicode(s, &cp)) {
        return false;
    }
    *out += codepoint_write(*out, cp);
    return true;
}

/* Steps over ordinary characters of a string: to its quote, a backslash or a problem. */
static bool scan_plain(struct jsonscan *s)
{
    const char *p = s->at, *problem = "a string has no end";
    uint32_t cp;
    while ((p = skip_to(p, s->end, mark_not_plain)) < s->end) {
        unsigned char c = (unsigned char)*p;
        size_t len = c < 0x80 ? 1 : codepoint_read(p, (size_t)(s->end - p), &cp);
        if (c == '"' || c == '\\') {
            s->at = p;
            return true;
        }
        if (c < 0x20 || len == 0) {
            problem = len == 0 ? "a string is not UTF-8" : "a control character in a string";
            break;
        }
        p += len;
    }
    s->at = p;
    return jsonscan_fail(s, problem);
}

/* The end of the string that s->at is in, so that the buffer can be made once; NULL: none. */
static const char *find_quote(const struct jsonscan *s)
{
    const char *p = s->at;
    while ((p = skip_to(p, s->end, mark_ends)) < s->end) {
        if (*p == '"') {
            return p;
        }
        p += 1 + (*p == '\\' && s->end - p > 1);
    }
    return NULL;
}

static bool string_escaped(struct jsonscan *s, const char *from, struct jsonscan_span *out)
{
    const char *quote = find_quote(s);
    if (!quote) {
        return jsonscan_fail(s, "a string has no end");
    }
    size_t need = (size_t)(quote - from) + 4;
    if (need > s->scratch_cap) {
        char *p = realloc(s->scratch, need * 2);
        if (!p) {
            return jsonscan_fail(s, "out of memory");
        }
        s->scratch = p;
        s->scratch_cap = need * 2;
    }
    char *w = s->scratch;
    for (;;) {
        memcpy(w, from, (size_t)(s->at - from));
        w += s->at - from;
        if (*s->at++ == '"') {
            break;
        }
        if (!read_escape(s, &w)) {
            return false;
        }
        from = s->at;
        if (!scan_plain(s)) {
            return false;
        }
    }
    *out = (struct jsonscan_span){.at = s->scratch, .len = (size_t)(w - s->scratch)};
    return true;
}

bool jsonscan_string(struct jsonscan *s, struct jsonscan_span *out)
{
    if (jsonscan_peek(s) != '"') {
        return jsonscan_fail(s, "a string is expected");
    }
    const char *from = ++s->at;
    if (!scan_plain(s)) {
        return false;
    }
    if (*s->at == '\\') {
        return string_escaped(s, from, out);
    }
    *out = (struct jsonscan_span){.at = from, .len = (size_t)(s->at - from)};
    s->at++;
    return true;
}

bool jsonscan_key(struct jsonscan *s, struct jsonscan_span *out)
{
    struct jsonscan_span key;
    if (!jsonscan_string(s, &key)) {
        return false;
    }
    if (jsonscan_peek(s) != ':') {
        return jsonscan_fail(s, "a colon is expected");
    }
    s->at++;
    *out = key;
    return true;
}

bool jsonscan_int(struct jsonscan *s, int64_t *out)
{
    int64_t v = 0;
    bool is_negative = jsonscan_peek(s) == '-';
    const char *from = s->at + is_negative, *p = from;
    while (p < s->end && *p >= '0' && *p <= '9' && p - from < 16) {
        v = v * 10 + (*p++ - '0');
    }
    bool goes_on = p < s->end && (*p == '.' || *p == 'e' || *p == 'E');
    if (p == from || p - from > 15 || goes_on) {
        return jsonscan_fail(s, "an integer is expected");
    }
    s->at = p;
    *out = is_negative ? -v : v;
    return true;
}

bool jsonscan_real(struct jsonscan *s, double *out)
{
    char buf[64], first = jsonscan_peek(s), *end;
    const char *p = s->at;
    size_t n = 0;
    while (p < s->end && n < sizeof buf - 1 && *p && strchr("0123456789+-.eE", *p)) {
        buf[n++] = *p++;
    }
    buf[n] = '\0';
    double value = strtod(buf, &end); /* no program of ours leaves the C locale */
    if ((first != '-' && (first < '0' || first > '9')) || end != buf + n || !isfinite(value)) {
        return jsonscan_fail(s, "a number is expected");
    }
    s->at = p;
    *out = value;
    return true;
}

static bool skip_string(struct jsonscan *s)
{
    s->at++;
    const char *quote = find_quote(s);
    if (!quote) {
        return jsonscan_fail(s, "a string has no end");
    }
    s->at = quote + 1;
    return true;
}

static bool is_structural(char c)
{
    return c == '"' || c == '{' || c == '[' || c == '}' || c == ']';
}

/* One step over a value's text; `open` holds the closing brackets that are due. */
static bool skip_step(struct jsonscan *s, char *open, size_t *depth, size_t *n_strings)
{
    const char *p = skip_to(s->at, s->end, mark_structural);
    while (p < s->end && !is_structural(*p)) {
        p++;
    }
    s->at = p;
    char c = p < s->end ? *p : '\0';
    if (c == '"') {
        *n_strings += 1;
        return skip_string(s);
    }
    if (c == '{' || c == '[') {
        if (*depth == JSONSCAN_DEPTH_MAX) {
            return jsonscan_fail(s, "nested too deeply");
        }
        open[(*depth)++] = c == '{' ? '}' : ']';
    } else if (c == '}' || c == ']') {
        if (*depth == 0 || open[--*depth] != c) {
            return jsonscan_fail(s, "a bracket closes nothing");
        }
    } else if (c == '\0') {
        return jsonscan_fail(s, "the text ends too early");
    }
    s->at++;
    return true;
}

static bool is_scalar_end(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ':' || is_space(c);
}

bool jsonscan_skip(struct jsonscan *s, struct jsonscan_span *out)
{
    char open[JSONSCAN_DEPTH_MAX], c = jsonscan_peek(s);
    const char *from = s->at;
    size_t depth = 0, n_strings = 0;
    if (c == '"') {
        if (!skip_string(s)) {
            return false;
        }
    } else if (c == '{' || c == '[') {
        do {
            if (!skip_step(s, open, &depth, &n_strings)) {
                return false;
            }
        } while (depth > 0);
    } else {
        while (s->at < s->end && !is_scalar_end(*s->at)) {
            s->at++;
        }
        if (s->at == from) {
            return jsonscan_fail(s, "a value is expected");
        }
    }
    *out = (struct jsonscan_span){from, (size_t)(s->at - from), n_strings};
    return true;
}

bool jsonscan_end(struct jsonscan *s)
{
    if (jsonscan_peek(s) != '\0' || s->at < s->end) {
        return jsonscan_fail(s, "something follows the end of the object");
    }
    return !s->problem;
}
