/* emit.c - see emit.h */
#include "emit.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <stdlib.h>

void *emit_new(size_t decoder_bytes, enum wire_form form)
{
    struct emitter *e = calloc(1, decoder_bytes);
    if (e) {
        pieces_init(&e->pieces, form);
    }
    return e;
}

void emit_free(void *decoder)
{
    struct emitter *e = decoder;
    if (e) {
        pieces_release(&e->pieces);
        free(e);
    }
}

void emit_begin(struct emitter *e, delta_fn *fn, void *ud, struct failure *f)
{
    e->fn = fn;
    e->ud = ud;
    e->f = f;
}

bool emit_feed(void *decoder, struct slice piece, pieces_fn *on_object, delta_fn *fn, void *ud,
               struct failure *f)
{
    struct emitter *e = decoder;
    emit_begin(e, fn, ud, f);
    return pieces_feed(&e->pieces, piece, on_object, decoder, f);
}

bool emit_feed_end(void *decoder, pieces_fn *on_object, delta_fn *fn, void *ud, struct failure *f)
{
    struct emitter *e = decoder;
    emit_begin(e, fn, ud, f);
    return pieces_end(&e->pieces, on_object, decoder, f);
}

/* ---- deltas */

bool emit_delta(struct emitter *e, const struct delta *x)
{
    return e->fn(x, e->ud);
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
        return emit_no_memory(e);
    }
    e->has_content = true;
    struct delta x = {.kind = DELTA_TOOL, .choice = choice, .json = tool};
    bool ok = e->fn(&x, e->ud);
    json_decref(tool);
    return ok;
}

bool emit_tool_json(struct emitter *e, unsigned choice, unsigned index, const char *id,
                    const char *name, const json_t *arguments)
{
    struct buf text;
    buf_init(&text, LIMIT_ANSWER_BYTES);
    bool ok = !json_is_object(arguments) || jsonio_write(&text, arguments);
    const char *s = json_string_length(arguments) > 0 ? json_string_value(arguments)
                    : text.len > 0                    ? text.p
                                                      : "{}";
    ok = ok ? emit_tool(e, choice, index, id, name, s)
            : emit_malformed(e, "holds arguments that are too long");
    buf_release(&text);
    return ok;
}

bool emit_usage(struct emitter *e, const struct usage *u)
{
    struct delta x = {.kind = DELTA_USAGE, .usage = *u};
    return e->fn(&x, e->ud);
}

bool emit_finish_as(struct emitter *e, unsigned choice, const char *word, enum finish finish)
{
    struct delta x = {
        .kind = DELTA_FINISH, .choice = choice, .text = slice_str(word), .finish = finish};
    return e->fn(&x, e->ud);
}

bool emit_finish(struct emitter *e, unsigned choice, const char *word, bool has_tools,
                 const char *error_text)
{
    struct refusal r = {.status = 0};
    enum finish finish = backend_finish(word, &r.status);
    if (r.status) {
        refusal_clean(
            slice_str(error_text && error_text[0] ? error_text : "the model could not go on"),
            r.message, sizeof r.message);
        return emit_refused(e, &r);
    }
    return emit_finish_as(e, choice, word,
                          finish == FINISH_STOP && has_tools ? FINISH_TOOL_CALLS : finish);
}

bool emit_end(struct emitter *e)
{
    struct delta x = {.kind = DELTA_END};
    e->is_ended = true;
    return e->fn(&x, e->ud);
}

/* ---- failures */

bool emit_malformed(struct emitter *e, const char *what)
{
    return failure_set(e->f, 502, e->pieces.is_stream ? "stream_incomplete" : "upstream_malformed",
                       NULL, "the backend's answer %s", what);
}

bool emit_cut_off(struct emitter *e, const char *what)
{
    return failure_set(e->f, 502, "stream_incomplete", NULL, "the backend's answer %s", what);
}

bool emit_no_memory(struct emitter *e)
{
    return failure_set(e->f, 500, "out_of_memory", NULL,
                       "out of memory while reading the backend's answer");
}

bool emit_refused(struct emitter *e, const struct refusal *r)
{
    return refusal_inside(r, e->pieces.is_stream, e->has_content, e->f);
}
