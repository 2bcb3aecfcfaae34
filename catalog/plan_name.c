/* plan_name.c - see plan_name.h. */
#include "plan_name.h"

#include <string.h>

/* Whether the path says the parameter's own name, first or last: `tool_choice.type` and
 * `options.top_k` do, `stop_sequences` does not. A response format is one field with two canonical
 * names. */
static bool is_own_name(enum param p, const char *wire)
{
    bool is_format =
        p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA;
    const char *name = is_format ? "response_format" : sampling_table[p].name;
    const char *last = strrchr(wire, '.');
    size_t len = strlen(name);
    return strcmp(last ? last + 1 : wire, name) == 0 ||
           (strncmp(wire, name, len) == 0 && (wire[len] == '.' || wire[len] == '\0'));
}

/* Asks for nothing, in a field that another parameter fills: that one's value is what is sent. */
static bool is_lost_in_field(const struct plan *out, enum param p)
{
    if (!sampling_is_neutral(p, out->send.v[p])) {
        return false;
    }
    for (unsigned i = 0; i < PARAM_COUNT; i++) {
        if (i != p && sampling_has(&out->send, (enum param)i) &&
            strcmp(out->wire[i], out->wire[p]) == 0) {
            return true;
        }
    }
    return false;
}

bool plan_is_renamed(const struct plan *plan, enum param p)
{
    return !is_own_name(p, plan->wire[p]) && !is_lost_in_field(plan, p);
}
