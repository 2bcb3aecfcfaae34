/* test_golden_decode.c - tests/golden/decode/<dialect>/<case>: bytes of a 2xx answer -> deltas.
 *
 * The files are those of golden_stream.h; for the engine in.json is the list of its frames. Here
 * each comes at once: that cuts and framings make no difference is for test_splits.
 */
#include "golden_stream.h"

struct result {
    json_t *deltas;
};

static const char *kind_name(enum delta_kind k)
{
    static const char *const names[] = {
        [DELTA_META] = "meta",       [DELTA_TEXT] = "text", [DELTA_REASONING] = "reasoning",
        [DELTA_REFUSAL] = "refusal", [DELTA_TOOL] = "tool", [DELTA_FINISH] = "finish",
        [DELTA_USAGE] = "usage",     [DELTA_END] = "end"};
    return names[k];
}

static void set_text(json_t *o, const char *key, const char *s)
{
    if (s) {
        json_object_set_new(o, key, json_string(s));
    }
}

static void add_fields(json_t *o, const struct delta *d)
{
    if (d->kind == DELTA_META) {
        set_text(o, "id", d->meta.id);
        set_text(o, "model", d->meta.model);
        set_text(o, "fingerprint", d->meta.fingerprint);
        if (d->meta.has_seed) {
            json_object_set_new(o, "seed", json_integer(d->meta.seed));
        }
    } else if (d->kind == DELTA_USAGE) {
        assert_true(d->usage.is_known);
        json_object_set_new(o, "prompt", json_integer(d->usage.prompt_tokens));
        json_object_set_new(o, "completion", json_integer(d->usage.completion_tokens));
        json_object_set_new(o, "reasoning", json_integer(d->usage.reasoning_tokens));
        json_object_set_new(o, "cached", json_integer(d->usage.cached_tokens));
    } else if (d->kind != DELTA_END) {
        json_object_set_new(o, "choice", json_integer(d->choice));
    }
    if (d->kind == DELTA_FINISH) {
        assert_true(d->finish != FINISH_NONE);
        json_object_set_new(o, "finish", json_string(finish_name(d->finish)));
    }
    if (d->text.p) {
        json_t *text = json_stringn(d->text.p, d->text.len);
        assert_non_null(text); /* a delta never splits a character */
        json_object_set_new(o, d->kind == DELTA_FINISH ? "native" : "text", text);
    }
    if (d->json) {
        json_object_set_new(o, d->kind == DELTA_TOOL ? "tool" : "logprobs",
                            json_deep_copy(d->json));
    }
}

static bool gather(const struct delta *d, void *ud)
{
    struct result *r = ud;
    json_t *o = json_pack("{s:s}", "kind", kind_name(d->kind));
    add_fields(o, d);
    json_array_append_new(r->deltas, o);
    return true;
}

static json_t *finish_result(struct result *r, bool ok, const struct failure *f)
{
    if (!ok) {
        assert_int_not_equal(f->status, 0);
        return json_pack("{s:o,s:{s:i,s:s,s:s,s:s,s:i}}", "deltas", r->deltas, "error", "status",
                         f->status, "type", f->type, "code", f->code, "message", f->message,
                         "retry_after", f->retry_after_s);
    }
    assert_int_equal(f->status, 0);
    return json_pack("{s:o}", "deltas", r->deltas);
}

static json_t *decode(const struct backend *b, const struct golden_stream *s)
{
    struct result r = {json_array()};
    struct failure f = {.status = 0};
    struct decoder *d = backend_decoder(b, &s->provider, s->form, s->is_chat);
    assert_non_null(d);
    bool ok = b->decode(d, s->in, gather, &r, &f) && b->decode_end(d, gather, &r, &f);
    b->decoder_free(d);
    return finish_result(&r, ok, &f);
}

static json_t *decode_frames(const struct backend *b, const json_t *frames)
{
    struct result r = {json_array()};
    struct failure f = {.status = 0};
    struct decoder *d = b->decoder_new(FORM_SSE, true);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(frames); i++) {
        char *text = json_dumps(json_array_get(frames, i), JSON_ENCODE_ANY);
        ok = b->decode(d, slice_str(text), gather, &r, &f);
        free(text);
    }
    ok = ok && b->decode_end(d, gather, &r, &f);
    b->decoder_free(d);
    return finish_result(&r, ok, &f);
}

static void run_case(const char *folder, const char *dialect, const char *name)
{
    const struct backend *b = backend_find(dialect);
    assert_non_null(b);
    json_t *got;
    if (strcmp(dialect, "engine") == 0) {
        json_t *frames = golden_load(folder, "in.json");
        got = decode_frames(b, frames);
        json_decref(frames);
    } else {
        struct golden_stream s;
        golden_stream_load(&s, folder, name);
        got = decode(b, &s);
        golden_stream_release(&s);
    }
    golden_check(folder, got);
    json_decref(got);
}

static void test_all(void **state)
{
    (void)state;
    assert_true(golden_each("decode", run_case) >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests_name("golden_decode", tests, NULL, NULL);
}
