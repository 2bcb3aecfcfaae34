/* constrain_string.c - JSON strings. Without conditions every way to write a character is taken and
 * the rule counts the characters. With a pattern or a format an automaton over the text is
 * rewritten to one over JSON: each state becomes a node, and one more for what stands behind a
 * backslash; limits of the length are multiplied in.
 */
#include "constrain_private.h"
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- white space */

uint32_t constrain_space(struct constrain_compiler *c)
{
    enum { BLANKS_MAX = 20 };
    struct grammar *g = c->g;
    if (c->space) {
        return c->space - 1;
    }
    uint32_t rule = grammar_rule(g), start = grammar_start(g, rule), end = grammar_end(g, rule),
             line = grammar_node(g, rule), blanks = grammar_node(g, rule),
             blank = grammar_node(g, rule);
    grammar_set_count(g, rule, 0, BLANKS_MAX);
    grammar_nothing(g, start, end);
    grammar_byte(g, start, ' ', ' ', end);
    grammar_byte(g, start, '\n', '\n', line);
    grammar_byte(g, line, '\n', '\n', blanks);
    grammar_nothing(g, line, blanks);
    grammar_nothing(g, blanks, end);
    grammar_count(g, blanks, blank);
    grammar_byte(g, blank, ' ', ' ', blanks);
    grammar_byte(g, blank, '\t', '\t', blanks);
    c->space = rule + 1;
    return rule;
}

/* ---- any characters */

static void hex_byte(struct grammar *g, uint32_t from, uint32_t to)
{
    grammar_byte(g, from, '0', '9', to);
    grammar_byte(g, from, 'A', 'F', to);
    grammar_byte(g, from, 'a', 'f', to);
}

/* n hexadecimal digits. */
static void hex_digits(struct grammar *g, uint32_t rule, uint32_t from, int n, uint32_t to)
{
    for (int i = 0; i < n; i++) {
        uint32_t next = i + 1 < n ? grammar_node(g, rule) : to;
        hex_byte(g, from, next);
        from = next;
    }
}

/* Behind "\u": four digits that are no surrogate, or a pair of them. */
static void unicode_escape(struct grammar *g, uint32_t rule, uint32_t from, uint32_t to)
{
    uint32_t any = grammar_node(g, rule), d = grammar_node(g, rule), high = grammar_node(g, rule),
             back = grammar_node(g, rule), u = grammar_node(g, rule), low = grammar_node(g, rule),
             low_d = grammar_node(g, rule), last = grammar_node(g, rule);
    grammar_byte(g, from, '0', '9', any);
    grammar_byte(g, from, 'A', 'C', any);
    grammar_byte(g, from, 'a', 'c', any);
    grammar_byte(g, from, 'E', 'F', any);
    grammar_byte(g, from, 'e', 'f', any);
    grammar_byte(g, from, 'D', 'D', d);
    grammar_byte(g, from, 'd', 'd', d);
    hex_digits(g, rule, any, 3, to);
    grammar_byte(g, d, '0', '7', last);
    hex_digits(g, rule, last, 2, to);
    grammar_byte(g, d, '8', '9', high);
    grammar_byte(g, d, 'A', 'B', high);
    grammar_byte(g, d, 'a', 'b', high);
    hex_digits(g, rule, high, 2, back);
    grammar_text(g, back, "\\u", 2, u);
    grammar_byte(g, u, 'D', 'D', low);
    grammar_byte(g, u, 'd', 'd', low);
    grammar_byte(g, low, 'C', 'F', low_d);
    grammar_byte(g, low, 'c', 'f', low_d);
    hex_digits(g, rule, low_d, 2, to);
}

/* UTF-8 of two bytes and more. */
static void long_characters(struct grammar *g, uint32_t rule, uint32_t from, uint32_t to)
{
    static const uint8_t leads[][4] = {/* first lead, last lead, what may follow */
                                       {0xE0, 0xE0, 0xA0, 0xBF}, {0xE1, 0xEC, 0x80, 0xBF},
                                       {0xED, 0xED, 0x80, 0x9F}, {0xEE, 0xEF, 0x80, 0xBF},
                                       {0xF0, 0xF0, 0x90, 0xBF}, {0xF1, 0xF3, 0x80, 0xBF},
                                       {0xF4, 0xF4, 0x80, 0x8F}};
    uint32_t one = grammar_node(g, rule), two = grammar_node(g, rule);
    grammar_byte(g, from, 0xC2, 0xDF, one);
    grammar_byte(g, one, 0x80, 0xBF, to);
    grammar_byte(g, two, 0x80, 0xBF, one);
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        uint32_t after = grammar_node(g, rule);
        grammar_byte(g, from, leads[i][0], leads[i][1], after);
        grammar_byte(g, after, leads[i][2], leads[i][3], leads[i][0] < 0xF0 ? one : two);
    }
}

/* One character of a string, however it is written. */
static void any_character(struct grammar *g, uint32_t rule, uint32_t from, uint32_t to)
{
    static const char escapes[] = "\"\\/bfnrt";
    uint32_t escape = grammar_node(g, rule), u = grammar_node(g, rule);
    grammar_byte(g, from, ' ', '!', to);
    grammar_byte(g, from, '#', '[', to);
    grammar_byte(g, from, ']', 0x7F, to);
    grammar_byte(g, from, '\\', '\\', escape);
    for (size_t i = 0; escapes[i]; i++) {
        grammar_byte(g, escape, (uint8_t)escapes[i], (uint8_t)escapes[i], to);
    }
    grammar_byte(g, escape, 'u', 'u', u);
    unicode_escape(g, rule, u, to);
    long_characters(g, rule, from, to);
}

static void write_any(struct grammar *g, uint32_t rule, uint32_t min, uint32_t max)
{
    uint32_t between = grammar_node(g, rule), more = grammar_node(g, rule),
             enough = grammar_node(g, rule);
    if (min > 0 || max != GRAMMAR_UNBOUNDED) {
        grammar_set_count(g, rule, min, max);
        grammar_count(g, between, more);
        grammar_enough(g, between, enough);
    } else {
        more = enough = between;
    }
    grammar_byte(g, grammar_start(g, rule), '"', '"', between);
    grammar_byte(g, enough, '"', '"', grammar_end(g, rule));
    any_character(g, rule, more, between);
}

uint32_t constrain_any_text(struct constrain_compiler *c)
{
    if (!c->text) {
        uint32_t rule = grammar_rule(c->g);
        write_any(c->g, rule, 0, GRAMMAR_UNBOUNDED);
        c->text = rule + 1;
    }
    return c->text - 1;
}

/* ---- texts of an automaton */

struct place { /* a state, and how many characters were read */
    uint32_t state, count, node;
};
struct writer {
    struct constrain_compiler *c;
    const struct regex_dfa *d;
    const bool *alive;
    uint32_t min, max, rule;
    struct place *places;
    uint32_t *slots; /* place + 1 */
    size_t n, cap, slots_cap;
};

static size_t slot_of(const struct writer *w, uint32_t state, uint32_t count)
{
    uint32_t h = (state * 0x9E3779B1u ^ count) * 0x85EBCA6Bu;
    size_t k = (h ^ h >> 15) & (w->slots_cap - 1);
    while (w->slots[k] != 0 && (w->places[w->slots[k] - 1].state != state ||
                                w->places[w->slots[k] - 1].count != count)) {
        k = (k + 1) & (w->slots_cap - 1);
    }
    return k;
}

static bool slots_grow(struct writer *w)
{
    size_t cap = w->slots_cap ? w->slots_cap * 2 : 64;
    uint32_t *slots = calloc(cap, sizeof *slots);
    if (!slots) {
        return constrain_no_memory(w->c);
    }
    free(w->slots);
    w->slots = slots;
    w->slots_cap = cap;
    for (size_t i = 0; i < w->n; i++) {
        w->slots[slot_of(w, w->places[i].state, w->places[i].count)] = (uint32_t)i + 1;
    }
    return true;
}

/* The node of a place. */
static bool node_of(struct writer *w, uint32_t state, uint32_t count, uint32_t *node)
{
    if (w->max == GRAMMAR_UNBOUNDED && count > w->min) {
        count = w->min;
    }
    if (w->slots_cap < 2 * w->n + 2 && !slots_grow(w)) {
        return false;
    }
    size_t k = slot_of(w, state, count);
    if (w->slots[k] == 0) {
        if (!constrain_works(w->c, 4)) {
            return false;
        }
        if (!room_for(&w->places, &w->cap, w->n + 1, sizeof *w->places)) {
            return constrain_no_memory(w->c);
        }
        w->places[w->n++] = (struct place){state, count, grammar_node(w->c->g, w->rule)};
        w->slots[k] = (uint32_t)w->n;
    }
    *node = w->places[w->slots[k] - 1].node;
    return true;
}

/* The byte's next place; *ok: it leads somewhere. */
static bool take(struct writer *w, const struct place *p, int byte, uint32_t *node, bool *ok)
{
    uint32_t state = regex_next(w->d, p->state, (uint8_t)byte);
    bool begins = byte < 0x80 || byte >= 0xC0; /* a character */
    *ok = w->alive[state] && !(begins && p->count >= w->max);
    return !*ok || node_of(w, state, p->count + begins, node);
}

/* Bytes that stand for themselves; neighbours of one target are one edge. */
static bool write_plain(struct writer *w, const struct place *p)
{
    uint32_t lo = 0, target = 0;
    bool is_open = false;
    for (int b = ' '; b <= 256; b++) {
        bool ok = false;
        uint32_t node = 0;
        if (b < 256 && b != '"' && b != '\\' && !take(w, p, b, &node, &ok)) {
            return false;
        }
        if (is_open && (!ok || node != target)) {
            grammar_byte(w->c->g, p->node, (uint8_t)lo, (uint8_t)(b - 1), target);
            is_open = false;
        }
        if (ok && !is_open) {
            lo = (uint32_t)b;
            target = node;
            is_open = true;
        }
    }
    return true;
}

/* What follows a backslash for a byte that must be escaped. */
static size_t escape_of(int byte, char out[6])
{
    static const char letters[] = "btnfr", codes[] = "\b\t\n\f\r";
    const char *at = byte ? strchr(codes, byte) : NULL;
    if (byte == '"' || byte == '\\' || at) {
        out[0] = at ? letters[at - codes] : (char)byte;
        return 1;
    }
    memcpy(out, "u00", 3);
    out[3] = byte < 16 ? '0' : '1';
    out[4] = "0123456789abcdef"[byte & 15];
    return 5;
}

static bool write_escapes(struct writer *w, const struct place *p)
{
    uint32_t backslash = 0;
    bool has_one = false;
    for (int b = 0; b <= '\\'; b++) {
        char text[6];
        uint32_t node;
        bool ok;
        if (b >= ' ' && b != '"' && b != '\\') {
            continue;
        }
        if (!take(w, p, b, &node, &ok)) {
            return false;
        }
        if (!ok) {
            continue;
        }
        if (!has_one) {
            has_one = true;
            backslash = grammar_node(w->c->g, w->rule);
            grammar_byte(w->c->g, p->node, '\\', '\\', backslash);
        }
        grammar_text(w->c->g, backslash, text, escape_of(b, text), node);
    }
    return true;
}

static bool write_places(struct writer *w, uint64_t care, uint64_t want)
{
    struct grammar *g = w->c->g;
    uint32_t first;
    if (!w->alive[1] || !node_of(w, 1, 0, &first)) {
        return !w->alive[1];
    }
    grammar_byte(g, grammar_start(g, w->rule), '"', '"', first);
    for (size_t i = 0; i < w->n; i++) {
        const struct place p = w->places[i];
        if ((w->d->tags[p.state] & care) == want && p.count >= w->min) {
            grammar_byte(g, p.node, '"', '"', grammar_end(g, w->rule));
        }
        if (!write_plain(w, &p) || !write_escapes(w, &p)) {
            return false;
        }
    }
    return true;
}

bool constrain_text_of(struct constrain_compiler *c, const struct regex_dfa *d, uint64_t care,
                       uint64_t want, uint32_t min, uint32_t max, uint32_t rule)
{
    bool *alive = regex_alive(d, care, want);
    if (!alive) {
        return constrain_no_memory(c);
    }
    struct writer w = {.c = c, .d = d, .alive = alive, .min = min, .max = max, .rule = rule};
    bool ok = write_places(&w, care, want);
    free(alive);
    free(w.places);
    free(w.slots);
    return ok;
}

/* ---- the conditions */

bool constrain_range(struct constrain_compiler *c, const struct constrain_parts *parts,
                     const char *min_name, const char *max_name, struct constrain_range *out)
{
    *out = (struct constrain_range){0, GRAMMAR_UNBOUNDED, false};
    for (size_t i = 0; i < parts->n; i++) {
        const json_t *min = json_object_get(parts->p[i].schema, min_name),
                     *max = json_object_get(parts->p[i].schema, max_name);
        uint32_t lo = min ? (uint32_t)json_number_value(min) : 0,
                 hi = max ? (uint32_t)json_number_value(max) : GRAMMAR_UNBOUNDED;
        if (lo > hi) {
            return constrain_bad(c, parts->p[i].path, min_name, "it is above '%s'", max_name);
        }
        out->min = lo > out->min ? lo : out->min;
        out->max = hi < out->max ? hi : out->max;
    }
    out->is_empty = out->min > out->max;
    return true;
}

/* All that is asked of a string, as text: yours; NULL: out of memory. */
static char *key_of(const struct constrain_parts *parts, const struct constrain_range *length,
                    size_t *len)
{
    char *key = NULL;
    FILE *f = open_memstream(&key, len);
    if (!f) {
        return NULL;
    }
    (void)fprintf(f, "%u-%u", length->min, length->max);
    for (size_t i = 0; i < parts->n; i++) {
        static const char *const names[] = {"pattern", "format"};
        for (size_t k = 0; k < 2; k++) {
            const json_t *v = json_object_get(parts->p[i].schema, names[k]);
            if (v) {
                (void)fprintf(f, ";%s %zu:", names[k], json_string_length(v));
                (void)fwrite(json_string_value(v), 1, json_string_length(v), f);
            }
        }
    }
    bool ok = !ferror(f);
    if (fclose(f) != 0 || !ok) {
        free(key);
        return NULL;
    }
    return key;
}

static bool write_patterns(struct constrain_compiler *c, const struct constrain_parts *parts,
                           const struct constrain_range *length, uint32_t rule)
{
    struct regex_set set = {.n = 0};
    struct regex_dfa d = {.n = 0};
    struct constrain_tags tags = {.n = 0};
    bool ok = constrain_patterns(c, parts, &set, &tags);
    if (ok && tags.n > 0) {
        ok = constrain_patterns_dfa(c, parts, &d, &set) &&
             constrain_text_of(c, &d, tags.care | REGEX_WHOLE, tags.want | REGEX_WHOLE, length->min,
                               length->max, rule);
    } else if (ok) {
        write_any(c->g, rule, length->min, length->max);
    }
    regex_dfa_release(&d);
    regex_set_release(&set);
    return ok;
}

/* The rule of these conditions: that of the same ones before, or a new one. */
static bool text_rule(struct constrain_compiler *c, const struct constrain_parts *parts,
                      const struct constrain_range *length, uint32_t *rule)
{
    size_t len;
    char *key = key_of(parts, length, &len);
    if (!key || !room_for(&c->texts, &c->texts_cap, c->n_texts + 1, sizeof *c->texts)) {
        free(key);
        return constrain_no_memory(c);
    }
    for (size_t i = 0; i < c->n_texts; i++) {
        if (c->texts[i].len == len && memcmp(c->texts[i].key, key, len) == 0) {
            *rule = c->texts[i].rule;
            free(key);
            return true;
        }
    }
    *rule = grammar_rule(c->g);
    c->texts[c->n_texts++] = (struct constrain_known_text){key, len, *rule};
    return constrain_works(c, 1 + c->n_texts / 64) && write_patterns(c, parts, length, *rule);
}

bool constrain_string(struct constrain_compiler *c, const struct constrain_parts *parts,
                      uint32_t rule)
{
    struct constrain_range length;
    uint32_t text = 0;
    if (!constrain_range(c, parts, "minLength", "maxLength", &length)) {
        return false;
    }
    if (length.is_empty) {
        return true;
    }
    if (!text_rule(c, parts, &length, &text)) {
        return false;
    }
    grammar_call(c->g, grammar_start(c->g, rule), text, grammar_end(c->g, rule));
    return true;
}
