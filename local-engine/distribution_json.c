#include "distribution_json.h"
#include "token_json.h"

#include <assert.h>

#define LOGIT_FLOOR (-9999.0) /* JSON has no infinity */

static json_t *stage_json(const struct distribution_stage *s)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:b}", "stage", s->name, "tokens",
                     (json_int_t)s->n_tokens, "entropy", s->entropy, "effective", s->n_effective,
                     "kept", s->kept, "changed", (int)s->has_changed);
}

static json_t *probabilities_json(const struct distribution *d, const struct distribution_token *t)
{
    json_t *o = json_object();
    for (size_t i = 0; o && i < d->n_stages; i++) {
        if (json_object_set_new(o, d->stages[i].name, json_real(t->p[i])) != 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

static json_t *entry_json(const struct distribution *d, const struct distribution_token *t,
                          const struct tokenizer *tokenizer, bool is_first)
{
    json_t *named = token_json(tokenizer, t->id, is_first);
    json_t *o = json_pack("{s:i, s:O, s:O, s:f, s:s?, s:o}", "id", (int)t->id, "token",
                          json_object_get(named, "token"), "bytes", json_object_get(named, "bytes"),
                          "logit", t->logit > LOGIT_FLOOR ? t->logit : LOGIT_FLOOR, "cut_by",
                          t->cut_by, "probability", probabilities_json(d, t));
    json_decref(named);
    return o;
}

json_t *distribution_json(const struct distribution *d, const struct tokenizer *t, bool is_first)
{
    assert(d->n_stages > 0);
    json_t *stages = json_array(), *tokens = json_array();
    bool ok = stages && tokens;
    for (size_t i = 0; ok && i < d->n_stages; i++) {
        ok = json_array_append_new(stages, stage_json(&d->stages[i])) == 0;
    }
    for (size_t i = 0; ok && i < d->n_tokens; i++) {
        ok = json_array_append_new(tokens, entry_json(d, &d->tokens[i], t, is_first)) == 0;
    }
    const struct distribution_stage *first = &d->stages[0], *last = &d->stages[d->n_stages - 1];
    json_t *o =
        ok ? json_pack("{s:O, s:O, s:{s:f, s:f}, s:{s:f, s:f}}", "stages", stages, "tokens", tokens,
                       "entropy", "before", first->entropy, "after", last->entropy, "effective",
                       "before", first->n_effective, "after", last->n_effective)
           : NULL;
    json_decref(stages);
    json_decref(tokens);
    return o;
}
