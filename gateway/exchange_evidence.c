/* exchange_evidence.c - see exchange_evidence.h.
 *
 * Providers echo what they were sent in their error texts, cut and reformatted. So the excerpt and
 * the strings of the request are compared by their letters and digits only, in windows of
 * WINDOW: one pass over the body with a rolling hash of the last WINDOW characters, looked up in a
 * small table of the excerpt's windows.
 */
#include "exchange_evidence.h"

#include "backend/refusal.h"
#include "backend/refusal_param.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WINDOW     24
#define SHORT_MIN  6 /* shorter strings ("hi") are in many a sentence */
#define BUCKETS    512
#define HASH_BASE  UINT32_C(0x01000193)
#define REFUSALS   2 /* one that is planned around, one that ends the request */
#define VALUE_WORD "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."

struct exchange_notes {
    struct exchange_note {
        struct evidence e;
        bool is_of_parameter; /* refused as such, not for its value */
    } note[REFUSALS];
    size_t n;
};

/* ---- is it content? */

struct echo {
    char text[EVIDENCE_EXCERPT_MAX]; /* letters and digits of the excerpt, in lower case */
    size_t len;
    uint16_t head[BUCKETS], next[EVIDENCE_EXCERPT_MAX]; /* 1 + where a window begins */
    uint32_t hash[EVIDENCE_EXCERPT_MAX];
    uint32_t leaving; /* HASH_BASE to the power of WINDOW */
};

static bool is_kept(unsigned char c)
{
    return isalnum(c) || c >= 0x80;
}

static void echo_init(struct echo *e, const char *text)
{
    memset(e, 0, sizeof *e);
    for (; *text && e->len < sizeof e->text; text++) {
        if (is_kept((unsigned char)*text)) {
            e->text[e->len++] = (char)tolower((unsigned char)*text);
        }
    }
    e->leaving = 1;
    for (size_t i = 0; i < WINDOW; i++) {
        e->leaving *= HASH_BASE;
    }
    uint32_t h = 0;
    for (size_t i = 0; i < e->len; i++) {
        h = h * HASH_BASE + (unsigned char)e->text[i];
        if (i >= WINDOW) {
            h -= e->leaving * (unsigned char)e->text[i - WINDOW];
        }
        if (i + 1 >= WINDOW) {
            size_t at = i + 1 - WINDOW;
            e->hash[at] = h;
            e->next[at] = e->head[h % BUCKETS];
            e->head[h % BUCKETS] = (uint16_t)(at + 1);
        }
    }
}

/* ring: the last WINDOW characters, the oldest at `from`. */
static bool has_window(const struct echo *e, uint32_t h, const char *ring, size_t from)
{
    for (size_t at = e->head[h % BUCKETS]; at; at = e->next[at - 1]) {
        const char *p = e->text + at - 1;
        if (e->hash[at - 1] == h && memcmp(p, ring + from, WINDOW - from) == 0 &&
            memcmp(p + WINDOW - from, ring, from) == 0) {
            return true;
        }
    }
    return false;
}

static bool echoes_string(const struct echo *e, const char *s, size_t len)
{
    char ring[WINDOW] = {0};
    uint32_t h = 0;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_kept((unsigned char)s[i])) {
            continue;
        }
        unsigned char c = (unsigned char)tolower((unsigned char)s[i]);
        h = h * HASH_BASE + c - e->leaving * (unsigned char)ring[n % WINDOW];
        ring[n % WINDOW] = (char)c;
        n++;
        if (n >= WINDOW && has_window(e, h, ring, n % WINDOW)) {
            return true;
        }
    }
    return n >= SHORT_MIN && n < WINDOW && memmem(e->text, e->len, ring, n);
}

static bool echoes_value(const struct echo *e, const json_t *v)
{
    const char *key;
    json_t *part;
    size_t i;
    if (json_is_string(v)) {
        return echoes_string(e, json_string_value(v), json_string_length(v));
    }
    json_array_foreach ((json_t *)v, i, part) { /* the macros want no const; not an array: none */
        if (echoes_value(e, part)) {
            return true;
        }
    }
    json_object_foreach ((json_t *)v, key, part) {
        bool is_word = strcmp(key, "role") == 0 || strcmp(key, "type") == 0;
        if (!is_word && echoes_value(e, part)) {
            return true;
        }
    }
    return false;
}

/* Strings of the client's own, unlike reasoning_effort and its kind. */
static bool is_own_text(enum param p)
{
    return p == PARAM_USER || p == PARAM_PROMPT_CACHE_KEY || p == PARAM_SAFETY_IDENTIFIER;
}

bool exchange_evidence_is_content(const char *text, const json_t *body)
{
    struct echo e;
    const char *key;
    json_t *v;
    echo_init(&e, text);
    json_object_foreach ((json_t *)body, key, v) {
        enum param p = sampling_find(key);
        bool is_word = strcmp(key, "model") == 0 || (p != PARAM_COUNT && json_is_string(v) &&
                                                     p != PARAM_STOP && !is_own_text(p));
        if (!is_word && echoes_value(&e, v)) {
            return true;
        }
    }
    return false;
}

/* ---- one observation */

static void write_value(enum param p, struct value v, char out[EVIDENCE_VALUE_MAX])
{
    const char *word = v.type == VALUE_STRING                        ? v.s
                       : v.type == VALUE_JSON && json_is_string(v.j) ? json_string_value(v.j)
                                                                     : NULL;
    out[0] = '\0';
    if (v.type == VALUE_BOOL || v.type == VALUE_INT || v.type == VALUE_NUMBER) {
        json_t *j = value_json(v);
        char *text =
            j ? json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
        (void)snprintf(out, EVIDENCE_VALUE_MAX, "%s", text ? text : "");
        free(text);
        json_decref(j);
    } else if (word && !is_own_text(p) && p != PARAM_STOP && strlen(word) <= 32 &&
               strspn(word, VALUE_WORD) == strlen(word)) {
        (void)snprintf(out, EVIDENCE_VALUE_MAX, "\"%s\"", word);
    }
}

/* About the claim by which `p` was sent; false: there is none that could be wrong. */
static bool observe(const struct exchange *x, enum param p, enum claim_verdict verdict,
                    struct evidence *e)
{
    const struct claim *c = rules_claim(&x->prep.rules, p, &x->prep.plan.send);
    if (!c || c->support != CLAIM_YES || x->prep.target.provider->is_local) {
        return false;
    }
    *e = (struct evidence){.claim = c->id,
                           .verdict = verdict,
                           .origin = EVIDENCE_TRAFFIC,
                           .status = x->upstream_status};
    (void)snprintf(e->model, sizeof e->model, "%s", x->prep.target.model);
    write_value(p, x->prep.plan.send.v[p], e->value);
    return true;
}

/* ---- refusals */

enum param exchange_evidence_param(const struct exchange *x, const char *name)
{
    bool is_inside;
    const struct plan *plan = &x->prep.plan;
    enum param p = refusal_param(name, &plan->send, plan->wire, &is_inside);
    return is_inside ? PARAM_COUNT : p; /* a fault within its value says nothing about its claim */
}

/* `name` stands in `text` as a word of its own. */
static bool has_word(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !isalnum((unsigned char)at[n]) && at[n] != '_') {
            return true;
        }
    }
    return false;
}

/* Whether the refusal is of `p` beside something else that was asked ("not supported when
 * reasoning_effort is set"): then others, who do not ask for that, may well send it. */
static bool is_of_combination(const struct exchange *x, enum param p, const char *message)
{
    static const char *const words[] = {"when",     "while",    "if",       "unless",
                                        "together", "combined", "both",     "combination",
                                        "enabled",  "conflict", "conflicts"};
    const struct plan *plan = &x->prep.plan;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (has_word(message, words[i])) {
            return true;
        }
    }
    for (unsigned i = 0; i < PARAM_COUNT; i++) {
        if ((enum param)i != p && sampling_has(&plan->send, (enum param)i) &&
            (has_word(message, sampling_table[i].name) ||
             (plan->wire[i] && has_word(message, plan->wire[i])))) {
            return true;
        }
    }
    return false;
}

/* Whether several configured providers are planned by the same claims: one of them could then
 * speak for another. */
static bool shares_claims(const struct exchange *x)
{
    const struct config *conf = x->env.conf;
    unsigned n = 0;
    for (unsigned i = 0; i < conf->n_providers; i++) {
        n += strcmp(conf->providers[i].catalog, x->prep.target.provider->id) == 0;
    }
    return n > 1;
}

void exchange_evidence_refused(struct exchange *x, enum param p)
{
    struct evidence e;
    const json_t *body = x->prep.request.body;
    if (!x->notes) {
        x->notes = calloc(1, sizeof *x->notes);
    }
    if (!x->notes || x->notes->n == REFUSALS || !observe(x, p, CLAIM_CONTRADICTED, &e)) {
        return; /* out of memory: one observation less */
    }
    refusal_clean((struct slice){x->fail.message, strlen(x->fail.message)}, e.excerpt,
                  sizeof e.excerpt);
    if (exchange_evidence_is_content(e.excerpt, body)) {
        (void)snprintf(e.excerpt, sizeof e.excerpt, "%s",
                       exchange_evidence_is_content(x->fail.code, body) ? "" : x->fail.code);
    }
    bool is_whole = refusal_is_of_parameter(x->fail.code, x->fail.message) &&
                    !is_of_combination(x, p, x->fail.message) && !shares_claims(x);
    x->notes->note[x->notes->n++] = (struct exchange_note){e, is_whole};
}

void exchange_evidence_moved(struct exchange *x)
{
    for (size_t i = 0; x->notes && i < x->notes->n; i++) {
        x->notes->note[i].is_of_parameter = false;
    }
}

/* ---- answers */

static bool is_served(const struct plan *plan, enum param p)
{
    for (size_t i = 0; i < plan->n_adj; i++) {
        if (plan->adj[i].param == p && plan->adj[i].action == ACTION_NOT_SERVED) {
            return false;
        }
    }
    return true;
}

static bool has_text(const struct exchange *x)
{
    for (size_t i = 0; i < ANSWER_CHOICES_MAX; i++) {
        if (x->hash[i]) {
            return true;
        }
    }
    return false;
}

static void tell_answered(struct exchange *x)
{
    const struct plan *plan = &x->prep.plan;
    struct evidence e;
    for (unsigned i = 0; i < PARAM_COUNT; i++) {
        enum param p = (enum param)i;
        if (!sampling_has(&plan->send, p) || sampling_is_neutral(p, plan->send.v[p])) {
            continue; /* a neutral value asks for nothing: that it is taken tells little */
        }
        if (is_served(plan, p)) {
            const struct claim *c = rules_claim(&x->prep.rules, p, &plan->send);
            if (c && !keeper_is_confirmed(x->gw->keeper, c->id) &&
                observe(x, p, CLAIM_CONFIRMED, &e)) {
                keeper_evidence(x->gw->keeper, x->snap, &e, false);
            }
        } else if (has_text(x) && observe(x, p, CLAIM_CONTRADICTED, &e)) {
            (void)snprintf(e.excerpt, sizeof e.excerpt, "accepted, but not in the answer");
            keeper_evidence(x->gw->keeper, x->snap, &e, false);
        }
    }
}

void exchange_evidence_tell(struct exchange *x)
{
    const struct provider *provider = x->prep.target.provider;
    bool is_answered = !x->fail.status && !x->client_gone && x->upstream_status >= 200 &&
                       x->upstream_status < 300 && provider && !provider->is_local &&
                       !x->prep.is_fallback;
    if (!x->env.conf || strcmp(x->env.conf->catalog_learn, "off") == 0) {
        return;
    }
    for (size_t i = 0; x->notes && i < x->notes->n; i++) {
        const struct exchange_note *n = &x->notes->note[i];
        keeper_evidence(x->gw->keeper, x->snap, &n->e, is_answered && n->is_of_parameter);
    }
    if (is_answered) {
        tell_answered(x);
    }
}

void exchange_evidence_release(struct exchange *x)
{
    free(x->notes);
    x->notes = NULL;
}
