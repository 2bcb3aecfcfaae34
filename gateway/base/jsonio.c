/* jsonio.c - see jsonio.h. Doubles are tried with 15, 16 and 17 digits: the first that reads back
 * is the shortest that anybody wrote by hand; 17 always do. The decimal point is put in by us,
 * since printf follows the locale.
 *
 * Strings are most of what is written: eight bytes are looked at in one step, nothing on the way to
 * a byte goes through printf, and what is written is gathered before it is appended.
 */
#include "jsonio.h"

#include "limits.h"
#include <assert.h>
#include <endian.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Turns a locale's decimal comma into a point. */
static void use_point(char *s)
{
    for (; *s; s++) {
        if (!((*s >= '0' && *s <= '9') || *s == '-' || *s == '+' || *s == 'e')) {
            *s = '.';
        }
    }
}

/* The digits of n, the least `width` of them (zeros before it). Returns their number. */
static size_t put_digits(char *out, uint64_t n, size_t width)
{
    char back[20];
    size_t len = 0;
    for (; n > 0 || len < width; n /= 10) {
        back[len++] = (char)('0' + n % 10);
    }
    for (size_t i = 0; i < len; i++) {
        out[i] = back[len - 1 - i];
    }
    return len;
}

#define FEW_DIGITS 6
#define FEW_SCALE  1e6

/* What people write, at most six digits behind the point: m / 10^6 with both exact is the double
 * nearest to those digits, so they read back to it. The same bytes as "%.15g". 0: another one. */
static size_t format_few_digits(double d, char *out)
{
    double size = fabs(d), scaled = size * FEW_SCALE;
    if (!(size >= 1e-4 && size < 1e9)) { /* below it %g turns to exponents */
        return 0;
    }
    uint64_t m = (uint64_t)(scaled + 0.5);
    if ((double)m / FEW_SCALE != size) {
        return 0;
    }
    size_t n = 0;
    if (d < 0) {
        out[n++] = '-';
    }
    n += put_digits(out + n, m / (uint64_t)FEW_SCALE, 1);
    out[n] = '.';
    n += 1 + put_digits(out + n + 1, m % (uint64_t)FEW_SCALE, FEW_DIGITS);
    while (out[n - 1] == '0') {
        n--;
    }
    n -= out[n - 1] == '.';
    out[n] = '\0';
    return n;
}

size_t jsonio_format_double(double d, char out[JSONIO_DOUBLE_MAX])
{
    size_t n = format_few_digits(d, out);
    if (n > 0) {
        return n;
    }
    if (!isfinite(d)) { /* JSON has no such number; callers floor log-probabilities before */
        return (size_t)snprintf(out, JSONIO_DOUBLE_MAX, "null");
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, JSONIO_DOUBLE_MAX, "%.*g", digits, d);
        if (strtod(out, NULL) == d) { /* same locale on both sides */
            break;
        }
    }
    use_point(out);
    return strlen(out);
}

#define STAGE         4096 /* bytes that are gathered: an append costs as much as some dozen of them */
#define CHUNK         256 /* bytes of a string that are written in one step */
#define ESCAPE_MAX    6
#define WORD          8 /* bytes that are looked at together */
#define EVERY_BYTE(x) (UINT64_C(0x0101010101010101) * (x))

/* In a byte that is `c`, and in none below 0x80 before the first such, the subtraction sets the
 * highest bit: its carries go on behind that byte only. */
static uint64_t mark_byte(uint64_t word, unsigned char c)
{
    return (word ^ EVERY_BYTE(c)) - EVERY_BYTE(1);
}

/* Of the next eight bytes, how many can stand for themselves before the first one that cannot.
 * Every byte from 0x80 on can: it is part of a longer character. */
static size_t count_plain(const char *s)
{
    uint64_t word;
    memcpy(&word, s, sizeof word);
    word = le64toh(word);
    uint64_t marks = (word - EVERY_BYTE(0x20)) | mark_byte(word, '"') | mark_byte(word, '\\') |
                     mark_byte(word, 0x7f);
    marks &= ~word & EVERY_BYTE(0x80);
    return marks ? (size_t)__builtin_ctzll(marks) / 8 : WORD;
}

static bool is_escaped(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\' || c == 0x7f;
}

/* One byte that cannot stand for itself. Returns the length of what stands for it. */
static size_t put_escape(char *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char letters[0x20] = {
        ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\b'] = 'b', ['\f'] = 'f'};
    char letter = c < sizeof letters ? letters[c] : c == 0x7f ? '\0' : (char)c;
    out[0] = '\\';
    out[1] = letter ? letter : 'u';
    if (letter) {
        return 2;
    }
    out[2] = out[3] = '0';
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return ESCAPE_MAX;
}

/* `out` has room for WORD bytes more than the longest form. */
static size_t put_escaped(char *out, const char *s, size_t len)
{
    size_t n = 0, i = 0;
    while (len - i >= WORD) {
        size_t plain = count_plain(s + i);
        memcpy(out + n, s + i, WORD);
        n += plain;
        i += plain;
        if (plain < WORD) {
            n += put_escape(out + n, (unsigned char)s[i++]);
        }
    }
    for (; i < len; i++) {
        if (is_escaped((unsigned char)s[i])) {
            n += put_escape(out + n, (unsigned char)s[i]);
        } else {
            out[n++] = s[i];
        }
    }
    return n;
}

struct writer {
    struct buf *to;
    size_t n;
    char text[STAGE];
};

static void begin(struct writer *w, struct buf *to)
{
    w->to = to;
    w->n = 0; /* the text stays as it is: zeroing would cost more than most texts */
}

static bool flush(struct writer *w)
{
    size_t n = w->n;
    w->n = 0;
    return buf_append(w->to, w->text, n);
}

static bool has_room(struct writer *w, size_t n)
{
    return n <= sizeof w->text - w->n || flush(w);
}

static bool put_char(struct writer *w, char c)
{
    bool ok = has_room(w, 1);
    if (ok) {
        w->text[w->n++] = c;
    }
    return ok;
}

static bool put(struct writer *w, const char *s, size_t len)
{
    if (!has_room(w, len)) {
        return false;
    }
    memcpy(w->text + w->n, s, len);
    w->n += len;
    return true;
}

static bool write_string(struct writer *w, const char *s, size_t len)
{
    static_assert(CHUNK * ESCAPE_MAX + WORD + 1 <= STAGE, "a step fits");
    bool ok = put_char(w, '"');
    for (size_t at = 0, part; ok && at < len; at += part) {
        part = len - at < CHUNK ? len - at : CHUNK;
        ok = has_room(w, part * ESCAPE_MAX + WORD);
        w->n += ok ? put_escaped(w->text + w->n, s + at, part) : 0;
    }
    return ok && put_char(w, '"');
}

bool jsonio_write_string(struct buf *b, const char *s, size_t len)
{
    struct writer w;
    begin(&w, b);
    return write_string(&w, s, len) && flush(&w);
}

static bool write_integer(struct writer *w, json_int_t v)
{
    char text[24];
    bool is_negative = v < 0;
    text[0] = '-';
    uint64_t size = is_negative ? -(uint64_t)v : (uint64_t)v;
    size_t n = put_digits(text + is_negative, size, 1);
    return put(w, text, n + is_negative);
}

static bool write_double(struct writer *w, double d)
{
    char text[JSONIO_DOUBLE_MAX];
    size_t n = jsonio_format_double(d, text);
    return put(w, text, n);
}

static bool write_value(struct writer *w, const json_t *v, unsigned depth);

static bool write_object(struct writer *w, const json_t *v, unsigned depth)
{
    bool ok = put_char(w, '{'), is_first = true;
    json_t *object = (json_t *)v; /* jansson's iterators lack const */
    for (void *at = json_object_iter(object); ok && at; at = json_object_iter_next(object, at)) {
        ok = (is_first || put_char(w, ',')) &&
             write_string(w, json_object_iter_key(at), json_object_iter_key_len(at)) &&
             put_char(w, ':') && write_value(w, json_object_iter_value(at), depth + 1);
        is_first = false;
    }
    return ok && put_char(w, '}');
}

static bool write_array(struct writer *w, const json_t *v, unsigned depth)
{
    bool ok = put_char(w, '[');
    for (size_t i = 0; ok && i < json_array_size(v); i++) {
        ok = (i == 0 || put_char(w, ',')) && write_value(w, json_array_get(v, i), depth + 1);
    }
    return ok && put_char(w, ']');
}

static bool write_value(struct writer *w, const json_t *v, unsigned depth)
{
    if (depth > 4 * LIMIT_NESTING) {
        return false;
    }
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return write_object(w, v, depth);
    case JSON_ARRAY:
        return write_array(w, v, depth);
    case JSON_STRING:
        return write_string(w, json_string_value(v), json_string_length(v));
    case JSON_INTEGER:
        return write_integer(w, json_integer_value(v));
    case JSON_REAL:
        return write_double(w, json_real_value(v));
    case JSON_TRUE:
        return put(w, "true", 4);
    case JSON_FALSE:
        return put(w, "false", 5);
    default:
        return put(w, "null", 4);
    }
}

bool jsonio_write(struct buf *b, const json_t *v)
{
    struct writer w;
    begin(&w, b);
    return v && write_value(&w, v, 0) && flush(&w);
}

/* Whether there are so few brackets, in strings or not, that the text cannot be too deep: so it is
 * with most, and looking for them is many times faster than reading every byte. */
static bool has_few_brackets(const char *p, size_t len)
{
    unsigned n = 0;
    for (const char *kind = "{["; *kind; kind++) {
        const char *at = p, *end = p + len;
        while (n <= LIMIT_NESTING && at < end && (at = memchr(at, *kind, (size_t)(end - at)))) {
            n++;
            at++;
        }
    }
    return n <= LIMIT_NESTING;
}

/* Levels of nesting, before a parser recurses over them. Strings are skipped; an unbalanced text is
 * the parser's to refuse. */
static bool is_too_deep(const char *p, size_t len)
{
    if (has_few_brackets(p, len)) {
        return false;
    }
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = p[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > LIMIT_NESTING) {
                return true;
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

/* An integer that was read as a double for the sake of another one that is too large; NULL: it is
 * none, a double may not hold all its digits, or there is no memory: it stays as it is. */
static json_t *integer_of(const json_t *v)
{
    double d = json_real_value(v);
    return json_is_real(v) && fabs(d) < 0x1p53 && floor(d) == d ? json_integer((json_int_t)d)
                                                                : NULL;
}

/* So that only the one that is too large is named. LIMIT_NESTING bounds the recursion. */
static void restore_integers(json_t *v)
{
    for (void *at = json_object_iter(v); at; at = json_object_iter_next(v, at)) {
        json_t *i = integer_of(json_object_iter_value(at));
        if (i) {
            (void)json_object_iter_set_new(v, at, i); /* cannot fail: the key is there */
        } else {
            restore_integers(json_object_iter_value(at));
        }
    }
    for (size_t k = 0; k < json_array_size(v); k++) {
        json_t *i = integer_of(json_array_get(v, k));
        if (i) {
            (void)json_array_set_new(v, k, i);
        } else {
            restore_integers(json_array_get(v, k));
        }
    }
}

/* Counts down for each value; false: n were not enough. As deep as a body at most. */
static bool count_down(const json_t *v, size_t *n)
{
    bool ok = *n > 0;
    *n -= ok;
    json_t *object = (json_t *)v; /* jansson's iterators lack const; nothing is changed */
    for (void *at = json_object_iter(object); ok && at; at = json_object_iter_next(object, at)) {
        ok = count_down(json_object_iter_value(at), n);
    }
    for (size_t i = 0; ok && i < json_array_size(v); i++) {
        ok = count_down(json_array_get(v, i), n);
    }
    return ok;
}

bool jsonio_has_more(const json_t *v, size_t n)
{
    return !count_down(v, &n);
}

json_t *jsonio_parse(const char *p, size_t len, struct failure *f)
{
    if (is_too_deep(p, len)) {
        (void)failure_set(f, 400, "invalid_json", NULL,
                          "the body is nested more than %d levels deep", LIMIT_NESTING);
        return NULL;
    }
    json_error_t e;
    json_t *v = json_loadb(p, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!v && json_error_code(&e) == json_error_numeric_overflow) {
        v = json_loadb(p, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL,
                       &e);
        restore_integers(v);
    }
    if (!v) {
        bool is_null = json_error_code(&e) == json_error_null_character;
        char *near = strstr(e.text, " near "); /* what follows is the client's own text */
        if (near) {
            *near = '\0';
        }
        (void)failure_set(f, 400, "invalid_json", NULL,
                          "the body is not valid JSON: line %d, column %d: %s", e.line, e.column,
                          is_null ? "a string holds \\u0000, which is not taken" : e.text);
    }
    return v;
}

#define PATH_PART_MAX 64

bool jsonio_set_path(json_t *object, const char *path, json_t *value)
{
    json_t *at = object;
    for (;;) {
        const char *dot = strchr(path, '.');
        size_t n = dot ? (size_t)(dot - path) : strlen(path);
        char part[PATH_PART_MAX];
        if (!value || n == 0 || n >= sizeof part || !json_is_object(at)) {
            json_decref(value);
            return false;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        if (!dot) {
            return json_object_set_new(at, part, value) == 0;
        }
        json_t *next = json_object_get(at, part);
        if (!next && json_object_set_new(at, part, next = json_object()) != 0) {
            json_decref(value);
            return false;
        }
        at = next;
        path = dot + 1;
    }
}

const json_t *jsonio_get_path(const json_t *object, const char *path)
{
    const json_t *at = object;
    while (at) {
        const char *dot = strchr(path, '.');
        size_t n = dot ? (size_t)(dot - path) : strlen(path);
        char part[PATH_PART_MAX];
        if (n == 0 || n >= sizeof part) {
            return NULL;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        at = json_object_get(at, part);
        if (!dot) {
            return at;
        }
        path = dot + 1;
    }
    return NULL;
}
