/* emit.c - see emit.h */
#include "emit.h"

#include <stdio.h>
#include <string.h>

void emit_begin(struct emitter *e, bool is_stream, delta_fn *fn, void *ud, struct failure *f)
{
    e->is_stream = is_stream;
    e->fn = fn;
    e->ud = ud;
    e->f = f;
}

bool emit_meta(struct emitter *e, const json_t *id, const json_t *model)
{
    struct delta x = {.kind = DELTA_META};
    x.meta.id = json_string_value(id);
    x.meta.model = json_string_value(model);
    return e->fn(&x, e->ud);
}

bool emit_slice(struct emitter *e, enum delta_kind kind, unsigned choice, struct slice text,
                json_t *items)
{
    if (text.len == 0 && !items) {
        return true;
    }
    e->has_content = true;
    struct delta x = {.kind = kind, .choice = choice, .text = text, .json = items};
    return e->fn(&x, e->ud);
}

bool emit_text(struct emitter *e, enum delta_kind kind, unsigned choice, const json_t *text,
               json_t *items)
{
    const char *s = json_string_value(text);
    return emit_slice(e, kind, choice, (struct slice){s ? s : "", json_string_length(text)}, items);
}

bool emit_tool(struct emitter *e, unsigned choice, unsigned index, const char *id, const char *name,
               const char *arguments)
{
    json_t *tool = backend_tool_delta(index, id, name, arguments);
    if (!tool) {
        return failure_set(e->f, 500, "out_of_memory", NULL,
                           "out of memory while reading the backend's answer");
    }
    e->has_content = true;
    struct delta x = {.kind = DELTA_TOOL, .choice = choice, .json = tool};
    bool ok = e->fn(&x, e->ud);
    json_decref(tool);
    return ok;
}

bool emit_usage(struct emitter *e, const struct usage *u)
{
    struct delta x = {.kind = DELTA_USAGE, .usage = *u};
    return e->fn(&x, e->ud);
}

bool emit_finish(struct emitter *e, unsigned choice, const char *word, bool has_tools,
                 const char *error_text)
{
    bool is_error;
    enum finish finish = backend_finish(word, &is_error);
    if (is_error) {
        struct refusal r = {.status = 502};
        refusal_clean(
            slice_str(error_text && error_text[0] ? error_text : "the model could not go on"),
            r.message, sizeof r.message);
        return emit_refused(e, &r);
    }
    struct delta x = {.kind = DELTA_FINISH, .choice = choice, .text = slice_str(word)};
    x.finish = finish == FINISH_STOP && has_tools ? FINISH_TOOL_CALLS : finish;
    return e->fn(&x, e->ud);
}

bool emit_end(struct emitter *e)
{
    struct delta x = {.kind = DELTA_END};
    e->is_ended = true;
    return e->fn(&x, e->ud);
}

bool emit_malformed(struct emitter *e, const char *what)
{
    return failure_set(e->f, 502, e->is_stream ? "stream_incomplete" : "upstream_malformed", NULL,
                       "the backend's answer %s", what);
}

bool emit_refused(struct emitter *e, const struct refusal *r)
{
    return refusal_inside(r, e->is_stream, e->has_content, e->f);
}
