/* plan_report.c - what others read out of a plan: words, JSON, which stop strings leave, and
 * whether the plan keeps its promises. */
#include "plan_many.h"

#include <string.h>

static const char *const action_names[] = {
    [ACTION_CLAMPED] = "clamped",     [ACTION_RENAMED] = "renamed",
    [ACTION_REWRITTEN] = "rewritten", [ACTION_DROPPED] = "dropped",
    [ACTION_ADDED] = "added",         [ACTION_MOVED] = "moved",
    [ACTION_SPLIT] = "split",         [ACTION_NOT_SERVED] = "not_served",
};

static const char *const reason_names[] = {
    [REASON_ABOVE_MAX] = "above_max",
    [REASON_BELOW_MIN] = "below_min",
    [REASON_NOT_A_VALUE] = "not_a_value",
    [REASON_UNSUPPORTED] = "unsupported",
    [REASON_IGNORED_BY_PROVIDER] = "ignored_by_provider",
    [REASON_CONFLICT] = "conflict",
    [REASON_UNKNOWN_PARAMETER] = "unknown_parameter",
    [REASON_LIST_TOO_LONG] = "list_too_long",
    [REASON_STRING_TOO_LONG] = "string_too_long",
    [REASON_STRING_TOO_SHORT] = "string_too_short",
    [REASON_REQUIRED] = "required",
    [REASON_WIRE_NAME] = "wire_name",
    [REASON_OTHER_SCOPE] = "other_scope",
    [REASON_ENFORCED_LOCALLY] = "enforced_locally",
    [REASON_DEFAULT_OF_PROVIDER] = "default_of_provider",
    [REASON_ROLE] = "role",
    [REASON_MANY_CALLS] = "many_calls",
    [REASON_NOT_SERVED] = "not_served",
};
_Static_assert(sizeof action_names / sizeof action_names[0] == ACTION_NOT_SERVED + 1, "all named");
_Static_assert(sizeof reason_names / sizeof reason_names[0] == REASON_NOT_SERVED + 1, "all named");
const char *action_name(enum action a)
{
    return action_names[a];
}

const char *reason_name(enum reason r)
{
    return reason_names[r];
}

bool plan_adjust(struct plan *p, struct adjustment a)
{
    if (p->n_adj == PLAN_ADJ_MAX) {
        return false;
    }
    p->adj[p->n_adj++] = a;
    return true;
}

/* ---- stop strings: what the provider does not take, the gateway cuts itself */

static bool is_blank(const json_t *item)
{
    const char *s = json_string_value(item);
    size_t n = json_string_length(item);
    return s && strspn(s, " \t\n\v\f\r") == n;
}

static bool stop_is_fit(const struct plan *p, const json_t *item)
{
    return (p->stop_len_max == 0 || json_string_length(item) <= p->stop_len_max) &&
           (!p->stop_no_blank || !is_blank(item));
}

static size_t count_fit(const struct plan *p, const json_t *stop, size_t n)
{
    size_t n_fit = 0;
    for (size_t i = 0; i < n; i++) {
        n_fit += stop_is_fit(p, json_array_get(stop, i));
    }
    return n_fit;
}

size_t plan_stop_count_fit(const struct plan *p, const json_t *stop)
{
    return count_fit(p, stop, json_array_size(stop));
}

bool plan_stop_is_sent(const struct plan *p, const json_t *stop, size_t i)
{
    return sampling_has(&p->send, PARAM_STOP) && i < json_array_size(stop) &&
           stop_is_fit(p, json_array_get(stop, i)) && count_fit(p, stop, i) < p->stop_sent;
}

/* ---- reports */

json_t *plan_asked_json(const struct adjustment *a)
{
    return value_json(a->asked);
}

static json_t *seeds_json(const struct plan *p)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < p->n_calls; i++) {
        if (json_array_append_new(list, json_integer(plan_many_seed(p, i))) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

json_t *plan_sent_json(const struct plan *p, const struct adjustment *a)
{
    if (a->param == PARAM_SEED && a->action == ACTION_REWRITTEN) {
        return seeds_json(p);
    }
    if (a->param != PARAM_STOP || a->sent.type != VALUE_INT) {
        return value_json(a->sent);
    }
    const json_t *stop = p->send.v[PARAM_STOP].j;
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(stop); i++) {
        if (plan_stop_is_sent(p, stop, i) &&
            json_array_append(list, json_array_get(stop, i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* ---- invariants */

static bool is_named(const struct plan *p, enum param param, bool is_added)
{
    for (size_t i = 0; i < p->n_adj; i++) {
        if (p->adj[i].param == param && (!is_added || p->adj[i].action == ACTION_ADDED)) {
            return true;
        }
    }
    return false;
}

static bool is_accounted(const struct plan *p, const struct sampling *asked, enum param param)
{
    bool is_sent = sampling_has(&p->send, param);
    if (!sampling_has(asked, param)) {
        return !is_sent || is_named(p, param, true);
    }
    struct value v = asked->v[param];
    bool is_whole =
        is_sent && value_equal(v, p->send.v[param]) && !(param == PARAM_STOP && p->stop_is_local);
    return is_whole || (!is_sent && sampling_is_neutral(param, v)) || is_named(p, param, false);
}

static bool is_extra_named(const struct plan *p, const struct plan_extra *x)
{
    for (size_t i = 0; i < p->n_adj; i++) {
        if (p->adj[i].param == PARAM_COUNT && p->adj[i].action == ACTION_ADDED &&
            strcmp(p->adj[i].name, x->wire) == 0) {
            return true;
        }
    }
    return false;
}

static const struct adjustment *find(const struct plan *p, enum param param, enum action action)
{
    for (size_t i = 0; i < p->n_adj; i++) {
        if (p->adj[i].param == param && p->adj[i].action == action) {
            return &p->adj[i];
        }
    }
    return NULL;
}

/* Several calls, or one, and said so. */
static bool is_split_whole(const struct plan *p, const struct sampling *asked)
{
    bool is_split = find(p, PARAM_N, ACTION_SPLIT) != NULL;
    bool has_seeds = find(p, PARAM_SEED, ACTION_REWRITTEN) != NULL;
    bool has_seed = sampling_has(&p->send, PARAM_SEED) &&
                    !sampling_is_neutral(PARAM_SEED, p->send.v[PARAM_SEED]);
    int64_t n = 0;
    for (size_t i = 0; i < p->n_calls; i++) {
        n += plan_call_choices(p, i);
        if (is_split && plan_call_choices(p, i) < 1) {
            return false;
        }
    }
    return is_split == (p->n_calls > 1) && p->n_calls > 0 && has_seeds == (is_split && has_seed) &&
           (!is_split || n == asked->v[PARAM_N].i);
}

static bool are_params_sound(const struct plan *p, const struct sampling *asked)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param param = (enum param)i;
        bool is_sent = sampling_has(&p->send, param);
        if (!is_accounted(p, asked, param) || (is_sent && !p->wire[param]) ||
            (is_sent && (p->because & PARAM_BIT(param)))) {
            return false;
        }
    }
    return true;
}

bool plan_check_invariants(const struct plan *p, const struct sampling *asked)
{
    if (p->route == PLAN_REJECT) {
        return p->rejected < PARAM_COUNT && p->reject_text[0] && !p->send.has && !p->because &&
               p->n_adj == 0 && p->n_extra == 0;
    }
    for (size_t i = 0; i < p->n_extra; i++) {
        if (!is_extra_named(p, &p->extra[i])) {
            return false;
        }
    }
    return are_params_sound(p, asked) && is_split_whole(p, asked) &&
           (p->route == PLAN_FALLBACK) == (p->because != 0);
}
