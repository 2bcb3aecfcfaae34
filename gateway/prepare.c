/* prepare.c - see prepare.h. A plan is for one target: when the asked one will not do, the fallback
 * is resolved and planned for in the same way, and every parameter that was the reason becomes a
 * `moved` adjustment. */
#include "prepare.h"

#include "base/jsonio.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

bool prepare_parse(struct prepared *p, const struct prepare_env *env, enum request_kind kind,
                   struct slice body, struct failure *f)
{
    memset(p, 0, sizeof *p);
    return request_parse(&p->request, kind, body.p, body.len, &env->policy, f);
}

bool prepare_resolve(struct prepared *p, const struct prepare_env *env, const char *model,
                     struct failure *f)
{
    if (!resolve(env->conf, env->snap, p->request.kind, p->request.stream,
                 model ? model : p->request.model, &p->asked, f)) {
        return false;
    }
    p->target = p->asked;
    return true;
}

void prepare_forget(struct prepared *p)
{
    struct request request = p->request;
    memset(p, 0, sizeof *p);
    p->request = request;
}

/* The name under which users know a parameter: the two formats are one field of the body. */
static const char *asked_name(const struct request *r, enum param p)
{
    if (p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        return "response_format";
    }
    return p == PARAM_MAX_TOKENS && r->max_tokens_name ? r->max_tokens_name
                                                       : sampling_table[p].name;
}

/* Of a retired model that is called all the same: the rules of its last day. */
static bool read_rules(const struct prepared *p, const struct prepare_env *env,
                       enum catalog_route route, struct rules *rules, struct failure *f)
{
    struct catalog_error e = {.code = CATALOG_OK};
    const struct target *t = &p->target;
    bool ok = snapshot_rules_with(env->snap, t->provider->id, t->model, t->switches, route,
                                  env->day, rules, &e);
    if (ok && p->is_retired && rules->retired_on) {
        ok = snapshot_rules_with(env->snap, t->provider->id, t->model, t->switches, route,
                                 rules->retired_on, rules, &e);
    }
    return ok || failure_from_catalog(f, &e);
}

static bool check_retired(struct prepared *p, const struct prepare_env *env, struct failure *f)
{
    struct catalog_retired r;
    const struct target *t = &p->target;
    p->is_retired =
        snapshot_retired(env->snap, t->provider->id, t->model, t->switches, env->day, &r);
    if (!p->is_retired || p->request.allow_retired || t->allow_retired) {
        return true;
    }
    bool has_note = r.by->note && strcmp(r.by->param, behaviour_name(BEHAVIOUR_ENDPOINT)) == 0;
    return failure_set(f, 404, "model_retired", "model",
                       "model '%.128s' was retired on %s (%.200s): name another one, or set "
                       "'isotherm.allow_retired' to true to call it all the same",
                       t->name, r.on, has_note ? r.by->note : r.by->source);
}

static bool is_served(const struct rules *rules)
{
    const struct claim *c = rules->behaviour[BEHAVIOUR_ENDPOINT];
    return !c || (c->support != CLAIM_ABSENT && c->support != CLAIM_REJECTED);
}

/* What of the request is no parameter and still decides what may be sent. */
static struct plan_context context_of(const struct prepared *p)
{
    const json_t *messages = p->request.content.messages;
    size_t n = json_array_size(messages);
    const char *role =
        n ? json_string_value(json_object_get(json_array_get(messages, n - 1), "role")) : NULL;
    return (struct plan_context){.is_fallback = p->is_fallback || p->target.provider->is_local,
                                 .stream = p->request.stream,
                                 .prefill = role && strcmp(role, "assistant") == 0};
}

/* A message that is to be continued may have to go to another address. */
static bool turn_to_prefill(struct prepared *p, const struct rules *rules, struct failure *f)
{
    const struct claim *c = rules->behaviour[BEHAVIOUR_PREFILL];
    bool is_continued = context_of(p).prefill && c && c->support == CLAIM_YES;
    return !is_continued || resolve_prefill(&p->target, f);
}

/* A model that the first route does not serve: by the provider's second one, if that does. */
static bool use_other_route(struct prepared *p, const struct prepare_env *env, struct rules *rules,
                            struct failure *f)
{
    const struct claim *served = rules->behaviour[BEHAVIOUR_ENDPOINT];
    bool has_other = p->request.kind == REQUEST_CHAT && p->target.provider->also.dialect;
    if (has_other && (!resolve_also(&p->target, p->request.stream, f) ||
                      !read_rules(p, env, CATALOG_CHAT_ALSO, rules, f))) {
        return false;
    }
    return (has_other && is_served(rules)) ||
           failure_set(f, 404, "endpoint_not_supported", "model",
                       "model '%.128s' is not served by this endpoint: %.200s", p->target.name,
                       served->note ? served->note : "see the catalog");
}

static bool load_rules(struct prepared *p, const struct prepare_env *env, struct rules *rules,
                       struct failure *f)
{
    enum catalog_route route = p->request.kind == REQUEST_CHAT ? CATALOG_CHAT : CATALOG_TEXT;
    p->is_retired = false;
    bool ok = read_rules(p, env, route, rules, f);
    if (ok && !rules->is_known) {
        ok = check_retired(p, env, f) && (!p->is_retired || read_rules(p, env, route, rules, f));
    }
    if (ok) {
        ok = is_served(rules) ? turn_to_prefill(p, rules, f) : use_other_route(p, env, rules, f);
    }
    for (unsigned i = 0; ok && i < PARAM_COUNT; i++) {
        if (!p->is_fallback && (p->ruled_out & PARAM_BIT(i))) {
            rules_forget(rules, (enum param)i);
        }
    }
    return ok;
}

static bool rejected(const struct prepared *p, const struct plan *plan, struct failure *f)
{
    return failure_set(f, 400, "unsupported_parameter", asked_name(&p->request, plan->rejected),
                       "%s", plan->reject_text);
}

/* The parameters that made the fallback answer, as adjustments of the plan that is carried out,
 * with the reasons of the first plan. */
static bool add_moved(struct prepared *p, const struct plan *first, const struct sampling *asked)
{
    for (size_t i = 0; i < first->n_adj; i++) {
        struct adjustment a = first->adj[i];
        if (a.param == PARAM_COUNT || !(p->because & PARAM_BIT(a.param))) {
            continue;
        }
        a.action = ACTION_MOVED;
        a.asked = asked->v[a.param];
        a.sent = (struct value){.type = VALUE_NONE};
        if (sampling_has(&p->plan.send, a.param)) {
            a.sent = p->plan.send.v[a.param];
        }
        if (!plan_adjust(&p->plan, a)) {
            return false;
        }
    }
    return true;
}

static bool plan_fallback(struct prepared *p, const struct prepare_env *env,
                          const struct sampling *asked, struct failure *f)
{
    struct plan first_plan = p->plan;
    enum param first = PARAM_COUNT;
    for (unsigned i = 0; i < PARAM_COUNT && first == PARAM_COUNT; i++) {
        first = p->plan.because & PARAM_BIT(i) ? (enum param)i : PARAM_COUNT;
    }
    p->because = p->plan.because;
    p->is_fallback = true;
    if (!env->conf->fallback || !env->conf->fallback[0]) {
        return failure_set(
            f, 400, "unsupported_parameter", asked_name(&p->request, first),
            "'%s' is not supported by %.128s as asked, and no fallback is configured",
            asked_name(&p->request, first), p->asked.name);
    }
    if (!resolve(env->conf, env->snap, p->request.kind, p->request.stream, env->conf->fallback,
                 &p->target, f) ||
        !load_rules(p, env, &p->rules, f)) {
        return false;
    }
    struct plan_context how = context_of(p);
    plan_make(&p->rules, &p->request.policy, asked, &how, &p->plan);
    if (p->plan.route == PLAN_REJECT) { /* what has led there is what the client can change */
        return failure_set(f, 400, "unsupported_parameter", asked_name(&p->request, first),
                           "'%s' is not supported by %.128s as asked, nor can the fallback answer: "
                           "%s",
                           asked_name(&p->request, first), p->asked.name, p->plan.reject_text);
    }
    return add_moved(p, &first_plan, asked) ||
           failure_set(f, 400, "too_many_adjustments", NULL,
                       "the request would need more than %d adjustments", PLAN_ADJ_MAX);
}

/* The older name of the limit beside the newer one, which holds. */
static bool add_older_limit(struct prepared *p)
{
    const json_t *older = json_object_get(p->request.body, "max_tokens"),
                 *newer = json_object_get(p->request.body, "max_completion_tokens");
    return !json_is_integer(older) || !json_is_integer(newer) ||
           plan_adjust(&p->plan, (struct adjustment){.param = PARAM_MAX_TOKENS,
                                                     .name = "max_tokens",
                                                     .action = ACTION_DROPPED,
                                                     .asked = {.type = VALUE_JSON, .j = older},
                                                     .reason = REASON_CONFLICT});
}

/* The limit has two names. What the plan says of the canonical one is put in the words of the
 * request: no notice when the wire has the name that was asked, one when it has the other, and one
 * when both were given. */
static bool name_max_tokens(struct prepared *p)
{
    struct plan *plan = &p->plan;
    const struct request *r = &p->request;
    if (!r->max_tokens_name || !sampling_has(&plan->send, PARAM_MAX_TOKENS)) {
        return true;
    }
    const char *wire = plan->wire[PARAM_MAX_TOKENS], *dot = strrchr(wire, '.');
    const char *leaf = dot ? dot + 1 : wire;
    bool is_local = p->target.provider->is_local;
    const struct claim *said = rules_claim(&p->rules, PARAM_MAX_TOKENS, &plan->send);
    size_t kept = 0;
    for (size_t i = 0; i < plan->n_adj; i++) {
        bool is_rename =
            plan->adj[i].param == PARAM_MAX_TOKENS && plan->adj[i].action == ACTION_RENAMED;
        if (!is_rename) {
            plan->adj[kept++] = plan->adj[i];
        }
    }
    plan->n_adj = kept;
    struct value v = p->request.asked.v[PARAM_MAX_TOKENS];
    if (strcmp(leaf, r->max_tokens_name) != 0 && !is_local &&
        !plan_adjust(plan, (struct adjustment){.param = PARAM_MAX_TOKENS,
                                               .name = r->max_tokens_name,
                                               .action = ACTION_RENAMED,
                                               .asked = v,
                                               .sent = plan->send.v[PARAM_MAX_TOKENS],
                                               .reason = REASON_WIRE_NAME,
                                               .claim = said ? said->id : 0})) {
        return false;
    }
    return true;
}

static bool add_unknown(struct prepared *p)
{
    for (size_t i = 0; i < p->request.n_unknown; i++) {
        const char *name = p->request.unknown[i];
        struct adjustment a = {
            .param = PARAM_COUNT,
            .name = name,
            .action = ACTION_DROPPED,
            .reason = REASON_UNKNOWN_PARAMETER,
            .asked = {.type = VALUE_JSON, .j = json_object_get(p->request.body, name)}};
        if (!plan_adjust(&p->plan, a)) {
            return false;
        }
    }
    return true;
}

/* The local engine always has a seed, so that any answer can be had again. */
static void choose_seed(struct prepared *p, const struct prepare_env *env)
{
    struct sampling *send = &p->plan.send;
    if (p->target.provider->is_local && !sampling_has(send, PARAM_SEED)) {
        sampling_set(send, PARAM_SEED,
                     (struct value){.type = VALUE_INT, .i = (int64_t)(env->random >> 1)});
        p->plan.wire[PARAM_SEED] = sampling_table[PARAM_SEED].name;
    }
    p->has_seed = sampling_has(send, PARAM_SEED);
    p->seed = p->has_seed ? send->v[PARAM_SEED].i : 0;
}

/* A search of the local engine says by which rule lengths are weighed, so that the record does. */
static void choose_length_rule(struct prepared *p)
{
    struct sampling *send = &p->plan.send;
    const enum param rule = PARAM_LENGTH_PENALTY;
    if (!p->target.provider->is_local || !sampling_is_search(send) || sampling_has(send, rule)) {
        return;
    }
    sampling_set(send, rule,
                 (struct value){.type = VALUE_NUMBER, .d = 1.0}); /* its neutral value */
    p->plan.wire[rule] = sampling_table[rule].name;
}

static bool check_meaning(const struct prepared *p, struct failure *f)
{
    struct sampling_fault fault;
    if (sampling_check(&p->request.asked, p->asked.provider->is_local, &fault)) {
        return true;
    }
    return failure_set(f, 400, "invalid_value", asked_name(&p->request, fault.param), "%s",
                       fault.text);
}

/* 0: one, which is no list. */
static size_t listed_prompts(const struct prepared *p)
{
    const json_t *prompt = p->request.content.prompt;
    bool is_list = json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0));
    return is_list ? json_array_size(prompt) : 0;
}

static int64_t choices_asked(const struct prepared *p)
{
    const struct sampling *asked = &p->request.asked;
    return sampling_has(asked, PARAM_N) ? asked->v[PARAM_N].i : 1;
}

/* A list of prompts has n choices for each of them; an answer has room for so many. */
static bool check_choices(const struct prepared *p, struct failure *f)
{
    int64_t n = choices_asked(p);
    int64_t n_prompts = listed_prompts(p) ? (int64_t)listed_prompts(p) : 1;
    return n * n_prompts <= ANSWER_CHOICES_MAX ||
           failure_set(f, 400, "invalid_value", n > 1 ? "n" : "prompt",
                       "%lld prompts with %lld choices each are more than %d answers",
                       (long long)n_prompts, (long long)n, ANSWER_CHOICES_MAX);
}

bool prepare_plan(struct prepared *p, const struct prepare_env *env, struct failure *f)
{
    p->target = p->asked;
    p->is_fallback = false;
    p->because = 0;
    if (!check_meaning(p, f) || !check_choices(p, f) || !load_rules(p, env, &p->rules, f)) {
        return false;
    }
    struct sampling asked = p->request.asked;
    if (sampling_has(&asked, PARAM_SEED) && sampling_is_neutral(PARAM_SEED, asked.v[PARAM_SEED])) {
        sampling_clear(
            &asked,
            PARAM_SEED); /* -1 is "no seed", also where a provider would take it as a number */
    }
    struct plan_context how = context_of(p);
    plan_make(&p->rules, &p->request.policy, &asked, &how, &p->plan);
    assert(plan_check_invariants(&p->plan, &asked));
    if (p->plan.route == PLAN_REJECT) {
        return rejected(p, &p->plan, f);
    }
    if (p->plan.route == PLAN_FALLBACK && !plan_fallback(p, env, &asked, f)) {
        return false;
    }
    choose_seed(p, env);
    choose_length_rule(p);
    p->is_by_prompt =
        listed_prompts(p) > 0 && (p->target.provider->is_local || p->plan.n_calls > 1);
    p->n_calls = p->plan.n_calls * (p->is_by_prompt ? listed_prompts(p) : 1);
    if (!name_max_tokens(p) || !add_older_limit(p) || !add_unknown(p)) {
        return failure_set(f, 400, "too_many_adjustments", NULL,
                           "the request would need more than %d adjustments", PLAN_ADJ_MAX);
    }
    p->n_adj = p->plan.n_adj;
    p->n_extra = p->plan.n_extra;
    return true;
}

unsigned prepare_choices(const struct prepared *p, size_t at_call)
{
    int64_t n = choices_asked(p);
    if (p->plan.n_calls > 1) {
        n = plan_call_choices(&p->plan, at_call % p->plan.n_calls);
    } else if (!p->is_by_prompt && listed_prompts(p) > 0) {
        n *= (int64_t)listed_prompts(p); /* a list that the backend takes whole */
    }
    return (unsigned)n;
}

bool prepare_encode(struct prepared *p, size_t at_call, const char *key, struct buf *body,
                    struct headers *headers, struct failure *f)
{
    const struct content *content = &p->request.content;
    size_t at_prompt = at_call / p->plan.n_calls;
    struct sampling send;
    p->plan.n_adj = p->n_adj;
    p->plan.n_extra = p->n_extra;
    plan_call_send(&p->plan, at_call % p->plan.n_calls, &send);
    struct call c = {.provider = p->target.provider,
                     .backend = p->target.backend,
                     .rules = &p->rules,
                     .model = p->target.model,
                     .messages = content->messages,
                     .prompt = p->is_by_prompt ? json_array_get(content->prompt, at_prompt)
                                               : content->prompt,
                     .send = &send,
                     .plan = &p->plan,
                     .stream = p->request.stream,
                     .key = key};
    if (!p->target.backend->encode(&c, body, headers, f)) {
        return failure_set(f, 500, "encode_failed", NULL,
                           "the request could not be written in the dialect '%s'",
                           p->target.backend->name);
    }
#ifdef ISOTHERM_CHECK_SENT
    const char *lost = NULL;
    assert(backend_check_sent(&c, buf_slice(body), &lost));
#endif
    return true;
}

void prepare_release(struct prepared *p)
{
    if (p) {
        request_release(&p->request);
    }
}

/* ---- how a plan looks from outside */

json_t *prepare_sampling_json(const struct sampling *s)
{
    json_t *o = json_object();
    for (unsigned i = 0; o && i < PARAM_COUNT; i++) {
        if (sampling_has(s, (enum param)i) &&
            json_object_set_new(o, sampling_table[i].name, value_json(s->v[i])) != 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

json_t *prepare_adjustments_json(const struct plan *plan)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < plan->n_adj; i++) {
        const struct adjustment *a = &plan->adj[i];
        json_t *claim = a->claim ? json_integer(a->claim) : json_null();
        json_t *o =
            json_pack("{s:s,s:o,s:o,s:s,s:s,s:o}", "param", a->name, "asked", plan_asked_json(a),
                      "sent", plan_sent_json(plan, a), "action", action_name(a->action), "reason",
                      reason_name(a->reason), "claim", claim);
        if (!o || json_array_append_new(list, o) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *prepare_fallback_json(const struct prepared *p)
{
    if (!p->is_fallback) {
        return json_null();
    }
    json_t *because = json_array();
    for (unsigned i = 0; because && i < PARAM_COUNT; i++) {
        if (p->because & PARAM_BIT(i)) {
            (void)json_array_append_new(because,
                                        json_string(asked_name(&p->request, (enum param)i)));
        }
    }
    return json_pack("{s:s,s:o}", "from", p->asked.name, "because", because);
}

static void header_value(struct value v, struct buf *b)
{
    json_t *j = v.type == VALUE_JSON ? NULL : value_json(v);
    if (j && v.type != VALUE_STRING) {
        (void)jsonio_write(b, j);
    } else {
        (void)buf_puts(b, "*"); /* lists and free text do not belong into a header */
    }
    json_decref(j);
}

static void header_entry(const struct adjustment *a, struct buf *b)
{
    bool is_plain = true;
    for (const char *c = a->name; *c; c++) {
        is_plain = is_plain && *c > 0x20 && *c < 0x7f && *c != ',';
    }
    (void)buf_puts(b, is_plain ? a->name : "*");
    if (a->action == ACTION_CLAMPED) {
        (void)buf_puts(b, "=");
        header_value(a->asked, b);
        (void)buf_puts(b, ">");
        header_value(a->sent, b);
    }
    (void)buf_printf(b, " %s", action_name(a->action));
}

void prepare_adjusted_header(const struct plan *plan, char *out, size_t cap)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < plan->n_adj; i++) {
        struct buf b;
        buf_init(&b, 512);
        header_entry(&plan->adj[i], &b);
        size_t need = (len ? 2 : 0) + b.len;
        bool fits = len + need + sizeof ", ..." <= cap;
        if (b.p && !b.is_failed && fits) {
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? ", " : "", b.p);
        } else {
            (void)snprintf(out + len, cap - len, "%s...", len ? ", " : "");
            buf_release(&b);
            return;
        }
        buf_release(&b);
    }
}
