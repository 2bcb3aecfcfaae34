/* constrain_raw.c - patterns and lists of texts that are the answer as it stands, not JSON. */
#include "constrain.h"
#include "constrain_schema.h"
#include "regex.h"

#include <stdlib.h>
#include <string.h>

/* The states of the automaton that lead to a match become nodes. */
static void write_states(struct grammar *g, const struct regex_dfa *d, const bool *alive,
                         const uint32_t *nodes, uint32_t rule)
{
    for (uint32_t s = 1; s < d->n; s++) {
        if (!alive[s]) {
            continue;
        }
        if ((d->tags[s] & 1) && (d->tags[s] & REGEX_WHOLE)) {
            grammar_nothing(g, nodes[s], grammar_end(g, rule));
        }
        for (int b = 0, hi; b < 256; b = hi + 1) {
            uint32_t next = regex_next(d, s, (uint8_t)b);
            for (hi = b; hi < 255 && regex_next(d, s, (uint8_t)(hi + 1)) == next; hi++) {
            }
            if (alive[next]) {
                grammar_byte(g, nodes[s], (uint8_t)b, (uint8_t)hi, nodes[next]);
            }
        }
    }
}

static bool write_dfa(struct grammar *g, const struct regex_dfa *d, uint32_t rule)
{
    bool *alive = regex_alive(d, REGEX_WHOLE | 1, REGEX_WHOLE | 1);
    uint32_t *nodes = calloc(d->n, sizeof *nodes);
    bool ok = alive && nodes;
    for (size_t s = 1; ok && s < d->n; s++) {
        nodes[s] = grammar_node(g, rule);
    }
    if (ok) {
        grammar_nothing(g, grammar_start(g, rule), nodes[1]);
        write_states(g, d, alive, nodes, rule);
    }
    free(alive);
    free(nodes);
    return ok;
}

/* "^(?:" pattern ")$": yours; NULL: out of memory. */
static char *whole(const json_t *pattern, size_t *len)
{
    size_t n = json_string_length(pattern);
    char *text = malloc(n + 6);
    if (text) {
        memcpy(text, "^(?:", 4);
        memcpy(text + 4, json_string_value(pattern), n);
        memcpy(text + 4 + n, ")$", 2);
        *len = n + 6;
    }
    return text;
}

static bool read_pattern(const json_t *pattern, struct regex_dfa *d, struct engine_error *err)
{
    struct regex_set alone = {.n = 0}, set = {.n = 0};
    size_t len;
    char *text = whole(pattern, &len);
    /* by itself first: the errors quote it as it was sent, and "a)(b" is none */
    bool ok =
        text ? regex_add(&alone, json_string_value(pattern), json_string_length(pattern), 0, err) &&
                   regex_add(&set, text, len, 0, err) && regex_dfa_init(d, &set, err)
             : engine_fail(err, ENGINE_NOMEM, "", "out of memory for a pattern");
    free(text);
    regex_set_release(&alone);
    regex_set_release(&set);
    return ok;
}

bool constrain_regex(struct grammar *g, const json_t *pattern, const char *param, uint32_t *rule,
                     struct engine_error *err)
{
    struct engine_error inner = {.code = ENGINE_OK};
    struct regex_dfa d;
    if (!json_is_string(pattern)) {
        return engine_fail(err, ENGINE_BAD_PARAM, param, "'%s': regex must be a string", param);
    }
    if (!read_pattern(pattern, &d, &inner)) {
        bool is_theirs = inner.code == ENGINE_BAD_PARAM;
        return engine_fail(err, inner.code, is_theirs ? param : "", "'%s': %s", param, inner.text);
    }
    *rule = grammar_rule(g);
    bool ok = write_dfa(g, &d, *rule);
    regex_dfa_release(&d);
    return ok || engine_fail(err, ENGINE_NOMEM, "", "out of memory for a pattern");
}

bool constrain_choice(struct grammar *g, const json_t *list, const char *param, uint32_t *rule,
                      struct engine_error *err)
{
    size_t n = json_array_size(list);
    bool ok = n > 0 && n <= CONSTRAIN_CHOICES_MAX;
    for (size_t i = 0; ok && i < n; i++) {
        ok = json_is_string(json_array_get(list, i));
    }
    if (!ok) {
        return engine_fail(err, ENGINE_BAD_PARAM, param,
                           "'%s': choice must be a list of 1 to %d strings", param,
                           CONSTRAIN_CHOICES_MAX);
    }
    *rule = grammar_rule(g);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(list, i);
        grammar_text(g, grammar_start(g, *rule), json_string_value(text), json_string_length(text),
                     grammar_end(g, *rule));
    }
    return true;
}
