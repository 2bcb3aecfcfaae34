/* pattern.c - see pattern.h.
 *
 * glibc writes repetitions out before it compiles: `x+` becomes xx*, `x{2,5}` five times x. Nested,
 * that doubles with each `+` (an expression of 60 characters takes seconds, one of 80 for ever) and
 * multiplies with each count. So the size of what would be written out is counted first, in one
 * pass, and refused above a limit. Back references are refused as well: with them libc tries all
 * ways to match, without them it walks an automaton, once over the id.
 */
#include "pattern.h"

#include <string.h>

/* ---- the size */

struct sizes {
    size_t sum[PATTERN_LEN_MAX + 1]; /* of the groups that are open, outermost first */
    size_t last;                     /* of the piece that a repetition would repeat */
    int depth;
    bool refers_back; /* "\\1" */
};

/* Behind the "]" of a bracket expression; `s` is behind its "[". */
static const char *skip_bracket(const char *s)
{
    s += *s == '^';
    s += *s == ']';
    while (*s && *s != ']') {
        bool is_class = s[0] == '[' && s[1] && strchr(".=:", s[1]); /* [[:digit:]] */
        if (is_class) {
            const char ends[] = {s[1], ']', '\0'};
            const char *end = strstr(s + 2, ends);
            s = end ? end + 2 : s + strlen(s);
        } else {
            s++;
        }
    }
    return s + (*s == ']');
}

/* The largest number in "{2,5}", one more for "{2,}"; `s` is behind the "{". libc refuses what is
 * no such thing. */
static size_t read_count(const char *s)
{
    size_t largest = 0;
    for (;;) {
        size_t n = 0, digits = strspn(s, "0123456789");
        for (size_t i = 0; i < digits; i++) {
            n = n <= PATTERN_SIZE_MAX ? n * 10 + (size_t)(s[i] - '0') : n;
        }
        largest = n > largest ? n : largest;
        if (s[digits] != ',') {
            return largest;
        }
        s += digits + 1;
        largest += *s == '}';
    }
}

static void next_piece(struct sizes *z, size_t size)
{
    z->sum[z->depth] += z->last;
    z->last = size;
}

/* One character of the expression, or a bracket, or an escape; returns what is behind it. */
static const char *count_one(struct sizes *z, const char *s)
{
    switch (*s) {
    case '(':
        next_piece(z, 0);
        z->sum[++z->depth] = 1;
        return s + 1;
    case ')':
        if (z->depth > 0) { /* else libc takes it as a letter */
            next_piece(z, 0);
            z->last = z->sum[z->depth--];
            return s + 1;
        }
        break;
    case '*':
    case '?':
        z->last++;
        return s + 1;
    case '+':
        z->last = 2 * z->last + 1;
        return s + 1;
    case '{':
        z->last *= read_count(s + 1) + 1;
        s += strcspn(s, "}");
        return s + (*s == '}');
    case '[':
        next_piece(z, 1);
        return skip_bracket(s + 1);
    case '\\':
        next_piece(z, 1);
        z->refers_back = z->refers_back || (s[1] >= '1' && s[1] <= '9');
        return s + 1 + (s[1] != '\0');
    default:
        break;
    }
    next_piece(z, 1);
    return s + 1;
}

static bool check_size(const char *text, struct catalog_error *err)
{
    struct sizes z = {.last = 0};
    bool is_small = true;
    while (*text && is_small) {
        text = count_one(&z, text);
        is_small = z.last <= PATTERN_SIZE_MAX && z.sum[z.depth] + z.last <= PATTERN_SIZE_MAX;
    }
    if (!is_small) {
        return catalog_fail(err, CATALOG_BAD_SOURCE,
                            "repeats too much: written out it has more than %d pieces",
                            PATTERN_SIZE_MAX);
    }
    return !z.refers_back ||
           catalog_fail(err, CATALOG_BAD_SOURCE, "refers back (\\1 to \\9): write it without");
}

/* ---- compiled */

bool pattern_init(struct pattern *p, const char *text, struct catalog_error *err)
{
    char why[80];
    struct pattern made = {.takes_all = strcmp(text, "*") == 0};
    if (strnlen(text, PATTERN_LEN_MAX + 1) > PATTERN_LEN_MAX) {
        return catalog_fail(err, CATALOG_BAD_SOURCE, "is longer than %d bytes", PATTERN_LEN_MAX);
    }
    if (!check_size(text, err)) {
        return false;
    }
    int rc = made.takes_all ? 0 : regcomp(&made.re, text, REG_EXTENDED | REG_NOSUB);
    if (rc == REG_ESPACE) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    if (rc != 0) {
        (void)regerror(rc, &made.re, why, sizeof why);
        return catalog_fail(err, CATALOG_BAD_SOURCE, "is no regular expression: %s", why);
    }
    *p = made;
    return true;
}

void pattern_release(struct pattern *p)
{
    if (p && !p->takes_all) {
        regfree(&p->re);
        *p = (struct pattern){.takes_all = true};
    }
}

bool pattern_takes(const struct pattern *p, const char *model)
{
    return p->takes_all || (strnlen(model, PATTERN_MODEL_MAX + 1) <= PATTERN_MODEL_MAX &&
                            regexec(&p->re, model, 0, NULL, 0) == 0);
}

bool pattern_ask(const char *text, const char *model, bool *takes, struct catalog_error *err)
{
    struct pattern p;
    if (!pattern_init(&p, text, err)) {
        return false;
    }
    *takes = pattern_takes(&p, model);
    pattern_release(&p);
    return true;
}
