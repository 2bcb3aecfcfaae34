/* test_golden_decode.c - tests/golden/decode/<dialect>/<case>: bytes of a 2xx answer -> deltas.
 *
 * in.sse is a stream, in.array a stream as one JSON array, in.lines one of
 * lines, in.json one whole body,
 * in.frames.json the frames of an AWS stream in clear; for the engine in.json is the list of its
 * frames. Each is fed whole, byte by byte and in random pieces; streams also with other line ends
 * and without the space after `data:`. The deltas are always the same.
 */
#include "golden.h"

#include "gateway/backend/backend.h"
#include "tests/lib/aws_bytes.h"

struct result {
    json_t *deltas;
};

static struct provider provider; /* of the case at hand */

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

/* Bytes of the next piece. */
typedef size_t cut_fn(uint64_t *state);

static size_t cut_whole(uint64_t *state)
{
    (void)state;
    return SIZE_MAX;
}

static size_t cut_byte(uint64_t *state)
{
    (void)state;
    return 1;
}

static size_t cut_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return 1 + (*state >> 33) % 7;
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

static json_t *decode(const struct backend *b, enum wire_form form, bool is_chat, struct slice in,
                      cut_fn *cut, uint64_t seed)
{
    struct result r = {json_array()};
    struct failure f = {.status = 0};
    struct decoder *d = backend_decoder(b, &provider, form, is_chat);
    assert_non_null(d);
    bool ok = true;
    for (size_t i = 0; ok && i < in.len;) {
        size_t n = cut(&seed);
        n = n < in.len - i ? n : in.len - i;
        char *piece = malloc(n); /* of its own, so that a sanitizer sees a read beyond it */
        memcpy(piece, in.p + i, n);
        ok = b->decode(d, (struct slice){piece, n}, gather, &r, &f);
        free(piece);
        i += n;
    }
    ok = ok && b->decode_end(d, gather, &r, &f);
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

static void expect_same(const char *folder, const char *how, json_t *want, json_t *got)
{
    if (!json_equal(want, got)) {
        char *a = json_dumps(want, JSON_INDENT(1)), *b = json_dumps(got, JSON_INDENT(1));
        print_error("%s, %s\nwhole: %s\nthis: %s\n", folder, how, a, b);
        free(a);
        free(b);
        fail();
    }
    json_decref(got);
}

/* The stream with another line end, and without the space after the colon. */
static char *reframe(struct slice in, const char *line_end, bool keeps_space, size_t *len)
{
    char *out = malloc(2 * in.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < in.len; i++) {
        bool is_start = i == 0 || in.p[i - 1] == '\n';
        if (in.p[i] == '\n') {
            memcpy(out + n, line_end, strlen(line_end));
            n += strlen(line_end);
        } else {
            out[n++] = in.p[i];
            if (!keeps_space && is_start && i + 6 <= in.len && memcmp(in.p + i, "data: ", 6) == 0) {
                memcpy(out + n, "ata:", 4);
                n += 4;
                i += 5;
            }
        }
    }
    *len = n;
    return out;
}

static void run_framings(const char *folder, const struct backend *b, bool is_chat, struct slice in,
                         json_t *want)
{
    static const struct {
        const char *name, *line_end;
        bool keeps_space;
    } framings[] = {{"CRLF", "\r\n", true}, {"CR", "\r", true}, {"no space", "\n", false}};
    for (size_t i = 0; i < 3; i++) {
        size_t len;
        char *other = reframe(in, framings[i].line_end, framings[i].keeps_space, &len);
        expect_same(folder, framings[i].name, want,
                    decode(b, FORM_SSE, is_chat, (struct slice){other, len}, cut_whole, 0));
        expect_same(folder, framings[i].name, want,
                    decode(b, FORM_SSE, is_chat, (struct slice){other, len}, cut_byte, 0));
        free(other);
    }
}

/* ---- in.frames.json: [{headers, payload}] of AWS, in clear; numbers are big-endian */

static size_t put_frame(char *to, const json_t *frame)
{
    char *payload = json_dumps(json_object_get(frame, "payload"), JSON_COMPACT);
    const char *name;
    json_t *value;
    size_t headers = 0;
    json_object_foreach (json_object_get(frame, "headers"), name, value) {
        struct slice text = {json_string_value(value), json_string_length(value)};
        headers += aws_put_header(to + 12 + headers, name, text);
    }
    size_t n = aws_put_frame(to, headers, slice_str(payload));
    free(payload);
    return n;
}

/* NULL: there is no such file. */
static char *aws_bytes(const char *folder, size_t *len)
{
    json_t *frames = golden_load(folder, "in.frames.json");
    char *p = frames ? malloc(1 << 20) : NULL;
    *len = 0;
    for (size_t i = 0; i < json_array_size(frames); i++) {
        *len += put_frame(p + *len, json_array_get(frames, i));
        assert_true(*len < 1 << 19);
    }
    json_decref(frames);
    return p;
}

/* provider.json, where a case needs one: {quirks:{thinks_in_tags}} */
static void set_provider(const char *folder)
{
    json_t *o = golden_load(folder, "provider.json");
    const json_t *quirks = json_object_get(o, "quirks");
    provider = (struct provider){.id = "acme"};
    provider.quirks.thinks_in_tags = json_is_true(json_object_get(quirks, "thinks_in_tags"));
    json_decref(o);
}

static void run_case(const char *folder, const char *dialect, const char *name)
{
    const struct backend *b = backend_find(dialect);
    assert_non_null(b);
    if (strcmp(dialect, "engine") == 0) {
        json_t *frames = golden_load(folder, "in.json"), *got = decode_frames(b, frames);
        golden_check(folder, got);
        json_decref(got);
        json_decref(frames);
        return;
    }
    set_provider(folder);
    static const struct {
        const char *file;
        enum wire_form form;
    } files[] = {{"in.sse", FORM_SSE},
                 {"in.array", FORM_ARRAY},
                 {"in.lines", FORM_LINES},
                 {"in.json", FORM_WHOLE}};
    bool is_chat = strncmp(name, "text-", 5) != 0;
    size_t len = 0, which = 0;
    char *bytes = golden_bytes(folder, files[0].file, &len);
    while (!bytes && ++which < sizeof files / sizeof *files) {
        bytes = golden_bytes(folder, files[which].file, &len);
    }
    enum wire_form form = bytes ? files[which].form : FORM_AWS;
    bytes = bytes ? bytes : aws_bytes(folder, &len);
    assert_non_null(bytes);
    struct slice in = {bytes, len};
    json_t *got = decode(b, form, is_chat, in, cut_whole, 0);
    golden_check(folder, got);
    expect_same(folder, "byte by byte", got, decode(b, form, is_chat, in, cut_byte, 0));
    for (uint64_t seed = 1; seed <= 100; seed++) {
        expect_same(folder, "random pieces", got, decode(b, form, is_chat, in, cut_random, seed));
    }
    if (form == FORM_SSE) {
        run_framings(folder, b, is_chat, in, got);
    }
    json_decref(got);
    free(bytes);
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
