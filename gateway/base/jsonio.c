/* jsonio.c - see jsonio.h. Doubles are tried with 15, 16 and 17 digits: the first that reads back
 * is the shortest that anybody wrote by hand; 17 always do. The decimal point is put in by us,
 * since printf follows the locale. */
#include "jsonio.h"

#include "limits.h"
#include <math.h>
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

size_t jsonio_format_double(double d, char out[JSONIO_DOUBLE_MAX])
{
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

bool jsonio_write_double(struct buf *b, double d)
{
    char text[JSONIO_DOUBLE_MAX];
    size_t n = jsonio_format_double(d, text);
    return buf_append(b, text, n);
}

bool jsonio_write_string(struct buf *b, const char *s, size_t len)
{
    bool ok = buf_append(b, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; ok && i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            continue;
        }
        ok = buf_append(b, s + from, i - from);
        from = i + 1;
        const char *at = strchr("\"\"\\\\\nn\rr\tt\bb\ff", c);
        if (c && at) {
            ok = ok && buf_printf(b, "\\%c", c == '"' || c == '\\' ? c : at[1]);
        } else {
            ok = ok && buf_printf(b, "\\u%04x", c);
        }
    }
    return ok && buf_append(b, s + from, len - from) && buf_append(b, "\"", 1);
}

static bool write_value(struct buf *b, const json_t *v, unsigned depth);

static bool write_object(struct buf *b, const json_t *v, unsigned depth)
{
    bool first = true, ok = buf_append(b, "{", 1);
    const char *key;
    json_t *item;
    json_object_foreach ((json_t *)v, key,
                         item) { /* the macro wants no const; nothing is changed */
        ok = ok && (first || buf_append(b, ",", 1)) && jsonio_write_string(b, key, strlen(key)) &&
             buf_append(b, ":", 1) && write_value(b, item, depth + 1);
        first = false;
    }
    return ok && buf_append(b, "}", 1);
}

static bool write_array(struct buf *b, const json_t *v, unsigned depth)
{
    bool ok = buf_append(b, "[", 1);
    for (size_t i = 0; ok && i < json_array_size(v); i++) {
        ok = (i == 0 || buf_append(b, ",", 1)) && write_value(b, json_array_get(v, i), depth + 1);
    }
    return ok && buf_append(b, "]", 1);
}

static bool write_value(struct buf *b, const json_t *v, unsigned depth)
{
    if (depth > 4 * LIMIT_NESTING) {
        return false;
    }
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return write_object(b, v, depth);
    case JSON_ARRAY:
        return write_array(b, v, depth);
    case JSON_STRING:
        return jsonio_write_string(b, json_string_value(v), json_string_length(v));
    case JSON_INTEGER:
        return buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    case JSON_REAL:
        return jsonio_write_double(b, json_real_value(v));
    case JSON_TRUE:
        return buf_puts(b, "true");
    case JSON_FALSE:
        return buf_puts(b, "false");
    default:
        return buf_puts(b, "null");
    }
}

bool jsonio_write(struct buf *b, const json_t *v)
{
    return v && write_value(b, v, 0);
}

/* Levels of nesting, before a parser recurses over them. Strings are skipped; an unbalanced text is
 * the parser's to refuse. */
static bool is_too_deep(const char *p, size_t len)
{
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
