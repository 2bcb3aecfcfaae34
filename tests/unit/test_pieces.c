/* The same objects in every framing, wherever the pieces are cut; and what is damaged, too long or
 * cut off is refused. tests/golden/frames/<case>/in.<form> is what a provider sends; want.json was
 * made by another reader than ours. */
#include "gateway/backend/pieces.h"

#include "gateway/backend/aws_frame.h"
#include "gateway/base/limits.h"
#include "golden.h"
#include <zlib.h>

#define FOLDER "tests/golden/frames"

/* ---- what came out, compared with a list of {event, object, exception} */

struct seen {
    const struct pieces *s;
    const json_t *want; /* NULL: only counted */
    size_t n, refuse_at;
    const char *wrong;
};

static bool take(const json_t *object, struct slice event, void *ud)
{
    struct seen *x = ud;
    const json_t *want = json_array_get(x->want, x->n++);
    if (x->want) {
        json_t *wanted = json_object_get(want, "object");
        const char *name = json_string_value(json_object_get(want, "event"));
        if (!want || event.len != strlen(name) || memcmp(event.p, name, event.len) != 0) {
            x->wrong = "event";
        } else if (object ? !json_equal(wanted, (json_t *)object) : !json_is_null(wanted)) {
            x->wrong = "object";
        } else if (x->s->is_exception != json_is_true(json_object_get(want, "exception"))) {
            x->wrong = "exception";
        }
    }
    return x->n != x->refuse_at;
}

/* In pieces of `size` bytes after a first one of `first` bytes (0: none). Each piece is an exact
 * copy, so that a read beyond it is seen. */
static bool feed(struct pieces *s, struct slice t, size_t first, size_t size, struct seen *x,
                 struct failure *f)
{
    bool ok = true;
    for (size_t at = 0; ok && at < t.len;) {
        size_t n = at == 0 && first > 0 ? first : size;
        n = n < t.len - at ? n : t.len - at;
        char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, t.p + at, n);
        ok = pieces_feed(s, (struct slice){copy, n}, take, x, f);
        free(copy);
        at += n;
    }
    ok = ok && pieces_end(s, take, x, f);
    if (!ok) { /* broken for ever */
        struct failure none = {.status = 0};
        assert_false(pieces_feed(s, SLICE_LIT("x"), take, x, &none));
        assert_false(pieces_end(s, take, x, &none));
        assert_int_equal(none.status, 0);
    }
    return ok;
}

static void check_cut(const char *name, enum wire_form form, struct slice t, const json_t *want,
                      size_t first, size_t size)
{
    struct pieces s;
    struct failure f = {.status = 0};
    pieces_init(&s, form);
    struct seen x = {.s = &s, .want = want};
    bool ok = feed(&s, t, first, size, &x, &f);
    if (!ok || f.status || x.wrong || x.n != json_array_size(want)) {
        fail_msg("%s cut at %zu, then pieces of %zu: object %zu of %zu: %s%s", name, first, size,
                 x.n, json_array_size(want), x.wrong ? x.wrong : "", f.message);
    }
    pieces_release(&s);
}

static const char *const endings[] = {
    [FORM_WHOLE] = "in.whole", [FORM_SSE] = "in.sse", [FORM_LINES] = "in.lines",
    [FORM_ARRAY] = "in.array", [FORM_AWS] = "in.aws",
};

static void test_samples(void **state)
{
    (void)state;
    struct dirent **names;
    int n = scandir(FOLDER, &names, golden_not_hidden, alphasort), n_forms[5] = {0};
    assert_true(n > 50);
    for (int i = 0; i < n; i++) {
        char folder[512];
        (void)snprintf(folder, sizeof folder, FOLDER "/%s", names[i]->d_name);
        json_t *want = golden_load(folder, "want.json");
        assert_non_null(want);
        for (int form = 0; form < 5; form++) {
            struct slice t = {NULL, 0};
            char *p = golden_bytes(folder, endings[form], &t.len);
            if (!p) {
                continue;
            }
            t.p = p;
            n_forms[form]++;
            for (size_t at = 1; at <= t.len; at++) {
                check_cut(folder, form, t, want, at, t.len);
            }
            static const size_t sizes[] = {1, 2, 3, 7, 37};
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                check_cut(folder, form, t, want, 0, sizes[k]);
            }
            free(p);
        }
        json_decref(want);
        free(names[i]);
    }
    free(names);
    for (int form = 0; form < 5; form++) {
        assert_true(n_forms[form] > 0);
    }
}

/* ---- what must be refused: the number of objects before, and the failure */

static void check_refused(enum wire_form form, struct slice t, size_t n, const char *code,
                          const char *message)
{
    static const size_t sizes[] = {1, 2, 3, 7, 37, SIZE_MAX};
    for (size_t i = t.len > 10000 ? 5 : 0; i < 6; i++) {
        struct pieces s;
        struct failure f = {.status = 0};
        pieces_init(&s, form);
        struct seen x = {.s = &s};
        assert_false(feed(&s, t, 0, sizes[i], &x, &f));
        assert_string_equal(f.code, code);
        assert_int_equal(f.status, 502);
        if (!strstr(f.message, message)) {
            fail_msg("'%s' wanted, '%s' got", message, f.message);
        }
        assert_int_equal(x.n, n);
        pieces_release(&s);
    }
}

static void test_not_json(void **state)
{
    (void)state;
    static const struct {
        enum wire_form form;
        const char *text;
        size_t n;
        const char *code, *message;
    } cases[] = {
        {FORM_WHOLE, "", 0, "upstream_malformed", "not a JSON object"},
        {FORM_WHOLE, "[{}]", 0, "upstream_malformed", "not a JSON object"},
        {FORM_WHOLE, "{\"a\":1", 0, "upstream_malformed", "not a JSON object"},
        {FORM_SSE, "data: {}\n\ndata: <html>\n\n", 1, "stream_incomplete", "holds a line"},
        {FORM_LINES, "{}\n{\n", 1, "stream_incomplete", "holds a line"},
        {FORM_LINES, "{}\n{\"a\":", 1, "stream_incomplete", "holds a line"},
        {FORM_LINES, "{}{}\n", 0, "stream_incomplete", "holds a line"},
        {FORM_LINES, "7\n", 0, "stream_incomplete", "holds a line"},
        {FORM_ARRAY, "", 0, "upstream_malformed", "not a JSON object"},
        {FORM_ARRAY, " \n", 0, "upstream_malformed", "not a JSON object"},
        {FORM_ARRAY, " <html>[{}]", 0, "upstream_malformed", "not a JSON object"},
        {FORM_ARRAY, "{\"a\":[{}]}]", 0, "upstream_malformed", "not a JSON object"},
        {FORM_ARRAY, "[", 0, "stream_incomplete", "ends inside its JSON array"},
        {FORM_ARRAY, "[{}", 1, "stream_incomplete", "ends inside its JSON array"},
        {FORM_ARRAY, "[{},", 1, "stream_incomplete", "ends inside its JSON array"},
        {FORM_ARRAY, "[{},{\"]\":[", 1, "stream_incomplete", "ends inside its JSON array"},
        {FORM_ARRAY, "[{},{\"\\\"}]", 1, "stream_incomplete", "ends inside its JSON array"},
        {FORM_ARRAY, "[{},]", 1, "stream_incomplete", "not a JSON array"},
        {FORM_ARRAY, "[,{}]", 0, "stream_incomplete", "not a JSON array"},
        {FORM_ARRAY, "[{} {}]", 1, "stream_incomplete", "not a JSON array"},
        {FORM_ARRAY, "[7]", 0, "stream_incomplete", "not a JSON array"},
        {FORM_ARRAY, "[[{}]]", 0, "stream_incomplete", "not a JSON array"},
        {FORM_ARRAY, "[{}] {}", 1, "stream_incomplete", "not a JSON array"},
        {FORM_ARRAY, "[{}]]", 1, "stream_incomplete", "not a JSON array"},
        {FORM_ARRAY, "[{}, {]]", 1, "stream_incomplete", "holds a line"},
        {FORM_ARRAY, "[{}, {\"a\"}]", 1, "stream_incomplete", "holds a line"},
        {FORM_AWS, "<html><body>Bad gateway</body></html>", 0, "stream_incomplete",
         "checksum of a frame's prelude"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_refused(cases[i].form, slice_str(cases[i].text), cases[i].n, cases[i].code,
                      cases[i].message);
    }
}

/* A JSON body where a stream was asked for says what it is as soon as it has begun. */
static void test_decided_late(void **state)
{
    (void)state;
    struct pieces s;
    struct seen x = {.s = &s};
    pieces_init(&s, FORM_ARRAY);
    assert_true(pieces_feed(&s, SLICE_LIT(" \n"), take, &x, NULL));
    assert_true(s.form == FORM_ARRAY && s.is_stream);
    assert_true(pieces_feed(&s, SLICE_LIT(" {\"a\""), take, &x, NULL));
    assert_true(s.form == FORM_WHOLE && !s.is_stream);
    assert_true(pieces_feed(&s, SLICE_LIT(":1}"), take, &x, NULL));
    assert_int_equal(x.n, 0);
    assert_true(pieces_end(&s, take, &x, NULL));
    assert_int_equal(x.n, 1);
    pieces_release(&s);
    /* An object of an array comes with its last byte, not with the comma. */
    pieces_init(&s, FORM_ARRAY);
    assert_true(pieces_feed(&s, SLICE_LIT("[{}"), take, &x, NULL));
    assert_int_equal(x.n, 2);
    assert_true(s.form == FORM_ARRAY && s.is_stream);
    pieces_release(&s);
}

/* ---- AWS frames */

#define FRAME_MAX 1024

static size_t put_u32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (char)(v >> (24 - 8 * i));
    }
    return 4;
}

/* A frame around these bytes of headers, with right checksums whatever its sizes say. */
static struct slice frame(char to[FRAME_MAX], struct slice headers, const char *payload,
                          uint32_t size_add, uint32_t headers_add)
{
    size_t n = 12 + headers.len + strlen(payload) + 4;
    assert_true(n <= FRAME_MAX);
    (void)put_u32(to, (uint32_t)n + size_add);
    (void)put_u32(to + 4, (uint32_t)headers.len + headers_add);
    (void)put_u32(to + 8, (uint32_t)crc32(0, (const Bytef *)to, 8));
    memcpy(to + 12, headers.p, headers.len);
    memcpy(to + 12 + headers.len, payload, strlen(payload));
    (void)put_u32(to + n - 4, (uint32_t)crc32(0, (const Bytef *)to, (uInt)(n - 4)));
    return (struct slice){to, n};
}

#define EVENT                                                                                      \
    "\x0d:message-type\x07\x00\x05"                                                                \
    "event"
#define EXCEPTION                                                                                  \
    "\x0d:message-type\x07\x00\x09"                                                                \
    "exception"
#define ERROR                                                                                      \
    "\x0d:message-type\x07\x00\x05"                                                                \
    "error"

static void test_aws_headers(void **state)
{
    (void)state;
    static const struct {
        struct slice headers;
        const char *message;
    } cases[] = {
        {{"", 0}, "no message type"},
        {SLICE_LIT("\x0d:message-type\x07\x00\x05"
                   "other"),
         "no message type"},
        {SLICE_LIT("\x0d:message-type\x06\x00\x05"
                   "event"),
         "is no text or comes twice"},
        {SLICE_LIT("\x0d:message-type\x00"), "is no text or comes twice"},
        {SLICE_LIT(EVENT EVENT), "is no text or comes twice"},
        {SLICE_LIT(EVENT "\x0b:event-type\x08"
                         "12345678"),
         "is no text or comes twice"},
        {SLICE_LIT(EVENT "\x01x\x0a"), "does not end"}, /* no such type */
        {SLICE_LIT(EVENT "\x01x\xff"), "does not end"},
        {SLICE_LIT(EVENT "\x00\x01"), "does not end"}, /* no name */
        {SLICE_LIT(EVENT "\x05x"), "does not end"},    /* the name */
        {SLICE_LIT(EVENT "\x01x"), "does not end"},    /* its type */
        {SLICE_LIT(EVENT "\x01x\x04"
                         "123"),
         "does not end"}, /* its value */
        {SLICE_LIT(EVENT "\x01x\x09"
                         "123456789abcdef"),
         "does not end"},
        {SLICE_LIT(EVENT "\x01x\x07\x00"), "does not end"},
        {SLICE_LIT(EVENT "\x01x\x07\x00\x02"
                         "1"),
         "does not end"},
        {SLICE_LIT(EVENT "\x01x\x06\xff\xff"
                         "1"),
         "does not end"},
    };
    char bytes[FRAME_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_refused(FORM_AWS, frame(bytes, cases[i].headers, "{}", 0, 0), 0, "stream_incomplete",
                      cases[i].message);
    }
    struct slice event = SLICE_LIT(EVENT);
    check_refused(FORM_AWS, frame(bytes, event, "7", 0, 0), 0, "stream_incomplete", "JSON object");
}

static void test_aws_sizes(void **state)
{
    (void)state;
    char bytes[FRAME_MAX];
    struct slice event = SLICE_LIT(EVENT);
    const char *short_of = "shorter than its parts";
    uint32_t n = (uint32_t)frame(bytes, event, "{}", 0, 0).len;
    check_refused(FORM_AWS, frame(bytes, event, "{}", 0u - n, 0), 0, "stream_incomplete", short_of);
    check_refused(FORM_AWS, frame(bytes, event, "{}", 15 - n, 0), 0, "stream_incomplete", short_of);
    check_refused(FORM_AWS, frame(bytes, event, "{}", 0, 3), 0, "stream_incomplete", short_of);
    check_refused(FORM_AWS, frame(bytes, event, "{}", LIMIT_SSE_EVENT_BYTES + 1 - n, 0), 0,
                  "upstream_too_large", "longer than 4194304 bytes");
    check_refused(FORM_AWS, frame(bytes, event, "{}", UINT32_MAX - n, 0), 0, "upstream_too_large",
                  "longer than 4194304 bytes");
    check_refused(
        FORM_AWS,
        frame(bytes, event, "{}", 1u << 20, LIMIT_AWS_HEADER_BYTES + 1 - (uint32_t)event.len), 0,
        "upstream_too_large", "longer than 131072 bytes");
    check_refused(FORM_AWS, frame(bytes, event, "{}", 1, 0), 0, "stream_incomplete",
                  "ends inside a frame");
    check_refused(FORM_AWS, frame(bytes, event, "{}", LIMIT_SSE_EVENT_BYTES - n, 0), 0,
                  "stream_incomplete", "ends inside a frame");
    check_refused(FORM_AWS, frame(bytes, event, "{}", 0u - 1, 0), 0, "stream_incomplete",
                  "checksum of a frame is wrong");
}

/* Every byte of a stream of frames, damaged by each of its bits: never taken for whole. */
static void test_aws_damage(void **state)
{
    (void)state;
    struct slice t = {NULL, 0};
    char *p = golden_bytes(FOLDER "/aws-bedrock-stream-error", "in.aws", &t.len);
    assert_non_null(p);
    t.p = p;
    for (size_t at = 0; at < t.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            p[at] ^= (char)(1 << bit);
            struct pieces s;
            struct failure f = {.status = 0};
            pieces_init(&s, FORM_AWS);
            struct seen x = {.s = &s};
            assert_false(feed(&s, t, 0, 100, &x, &f));
            assert_int_equal(f.status, 502);
            assert_true(x.n < 3); /* not the frame that was damaged, nor one after it */
            pieces_release(&s);
            p[at] ^= (char)(1 << bit);
        }
    }
    for (size_t n = 1; n < t.len; n++) { /* cut off: right only between two frames */
        struct pieces s;
        struct failure f = {.status = 0};
        pieces_init(&s, FORM_AWS);
        struct seen x = {.s = &s};
        bool ok = feed(&s, (struct slice){p, n}, 0, 50, &x, &f);
        assert_true(ok == (n == 0x85 || n == 0x85 + 0xa4));
        assert_string_equal(f.message, ok ? "" : "the backend's stream ends inside a frame");
        pieces_release(&s);
    }
    free(p);
}

/* An exception is told whatever its payload is. */
static void test_aws_exceptions(void **state)
{
    (void)state;
    static const struct {
        struct slice headers;
        const char *payload, *want;
    } cases[] = {
        {SLICE_LIT(EXCEPTION "\x0f:exception-type\x07\x00\x01X"), "not JSON",
         "[{\"event\":\"X\",\"exception\":true,\"object\":{\"message\":\"not JSON\"}}]"},
        {SLICE_LIT(EXCEPTION "\x0f:exception-type\x07\x00\x01X"), "",
         "[{\"event\":\"X\",\"exception\":true,\"object\":{\"message\":\"\"}}]"},
        {SLICE_LIT(EXCEPTION "\x0f:exception-type\x07\x00\x01X"), "\xff",
         "[{\"event\":\"X\",\"exception\":true,\"object\":{}}]"},
        {SLICE_LIT(EXCEPTION "\x0f:exception-type\x07\x00\x01X"), "[1]",
         "[{\"event\":\"X\",\"exception\":true,\"object\":{\"message\":\"[1]\"}}]"},
        {SLICE_LIT(EXCEPTION), "{}", "[{\"event\":\"\",\"exception\":true,\"object\":{}}]"},
        {SLICE_LIT(ERROR "\x0b:error-code\x07\x00\x03"
                         "500\x0e:error-message\x07\x00\x02no"),
         "", "[{\"event\":\"500\",\"exception\":true,\"object\":{\"message\":\"no\"}}]"},
        {SLICE_LIT(EVENT "\x0b:event-type\x07\x00\x00"), "{}", "[{\"event\":\"\",\"object\":{}}]"},
        {SLICE_LIT(EVENT), " ", "[]"},
        {SLICE_LIT("\x01x\x05"
                   "12345678" EVENT),
         "{}", "[{\"event\":\"\",\"object\":{}}]"},
    };
    char bytes[FRAME_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *want = json_loads(cases[i].want, 0, NULL);
        struct slice t = frame(bytes, cases[i].headers, cases[i].payload, 0, 0);
        for (size_t at = 1; at <= t.len; at++) {
            check_cut(cases[i].want, FORM_AWS, t, want, at, t.len);
        }
        json_decref(want);
    }
    /* What comes after one is no exception. */
    char two[2 * FRAME_MAX];
    struct slice t = frame(bytes, cases[4].headers, "{}", 0, 0);
    memcpy(two, t.p, t.len);
    struct slice t2 = frame(bytes, cases[6].headers, "{}", 0, 0);
    memcpy(two + t.len, t2.p, t2.len);
    json_t *want = json_loads("[{\"event\":\"\",\"exception\":true,\"object\":{}},"
                              "{\"event\":\"\",\"object\":{}}]",
                              0, NULL);
    check_cut("two", FORM_AWS, (struct slice){two, t.len + t2.len}, want, 0, 9);
    json_decref(want);
}

/* ---- limits, refusal by the receiver, content types */

static void check_limit(enum wire_form form, const char *before, size_t limit, const char *after,
                        size_t over)
{
    size_t n = strlen(before) + strlen(after) + limit;
    char *p = malloc(n + 1);
    assert_non_null(p);
    /* {"a":"xxx"} of `limit` bytes plus `over` - 1 */
    int at = snprintf(p, n + 1, "%s{\"a\":\"", before);
    size_t object = limit - 1 + over - 8;
    memset(p + at, 'x', object);
    int rest = snprintf(p + at + object, n + 1 - (size_t)at - object, "\"}%s", after);
    struct slice t = {p, (size_t)at + object + (size_t)rest};
    static const size_t sizes[] = {100003, SIZE_MAX};
    for (size_t i = 0; i < 2; i++) {
        struct pieces s;
        struct failure f = {.status = 0};
        pieces_init(&s, form);
        struct seen x = {.s = &s};
        bool ok = feed(&s, t, 0, sizes[i], &x, &f);
        assert_true(ok == (over == 1));
        assert_string_equal(f.code, ok ? "" : "upstream_too_large");
        assert_int_equal(x.n, ok);
        pieces_release(&s);
    }
    free(p);
}

static void test_limits(void **state)
{
    (void)state;
    for (size_t over = 1; over <= 2; over++) {
        check_limit(FORM_LINES, "\n", LIMIT_SSE_EVENT_BYTES, "\n", over);
        check_limit(FORM_ARRAY, "[", LIMIT_SSE_EVENT_BYTES, "]", over);
    }
    check_limit(FORM_ARRAY, "\n", LIMIT_SSE_EVENT_BYTES + 100, "", 1); /* whole: another limit */
    check_limit(FORM_ARRAY, "\n", LIMIT_UPSTREAM_BYTES, "", 2);
    check_limit(FORM_WHOLE, "", LIMIT_UPSTREAM_BYTES, "", 2);
}

static void test_refused_by_receiver(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum wire_form form;
    } cases[] = {{"cohere-stream", FORM_SSE},
                 {"ollama-chat-stream", FORM_LINES},
                 {"google-gemini-stream-array", FORM_ARRAY},
                 {"aws-bedrock-stream", FORM_AWS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[512];
        (void)snprintf(folder, sizeof folder, FOLDER "/%s", cases[i].name);
        struct slice t = {NULL, 0};
        char *p = golden_bytes(folder, endings[cases[i].form], &t.len);
        assert_non_null(p);
        t.p = p;
        static const size_t sizes[] = {1, 37, SIZE_MAX};
        for (size_t k = 0; k < 3; k++) {
            struct pieces s;
            struct failure f = {.status = 0};
            pieces_init(&s, cases[i].form);
            struct seen x = {.s = &s, .refuse_at = 2};
            assert_false(feed(&s, t, 0, sizes[k], &x, &f));
            assert_int_equal(x.n, 2);
            assert_int_equal(f.status, 0);
            pieces_release(&s);
        }
        free(p);
    }
    pieces_release(NULL);
}

static void test_form(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum wire_form plain, stream;
    } cases[] = {
        {NULL, FORM_WHOLE, FORM_SSE},
        {"", FORM_WHOLE, FORM_SSE},
        {"text/plain", FORM_WHOLE, FORM_SSE},
        {"text/event-stream", FORM_SSE, FORM_SSE},
        {" Text/Event-Stream;charset=utf-8", FORM_SSE, FORM_SSE},
        {"text/event-streams", FORM_WHOLE, FORM_SSE},
        {"text/event", FORM_WHOLE, FORM_SSE},
        {"application/json", FORM_WHOLE, FORM_ARRAY},
        {"application/json; charset=UTF-8", FORM_WHOLE, FORM_ARRAY},
        {"application/x-ndjson", FORM_LINES, FORM_LINES},
        {"application/jsonl ; x=y", FORM_LINES, FORM_LINES},
        {"application/vnd.amazon.eventstream", FORM_AWS, FORM_AWS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pieces_form(cases[i].type, false), cases[i].plain);
        assert_int_equal(pieces_form(cases[i].type, true), cases[i].stream);
    }
}

/* ---- without memory: each allocation of the parser fails in turn */

static size_t n_left;

static void *fail_malloc(size_t n)
{
    if (n_left == 0) {
        return NULL;
    }
    n_left--;
    return malloc(n);
}

static void test_no_memory(void **state)
{
    (void)state;
    char bytes[FRAME_MAX];
    struct slice headers = SLICE_LIT(EXCEPTION);
    const struct {
        enum wire_form form;
        struct slice t;
    } cases[] = {{FORM_LINES, SLICE_LIT("{\"a\":[\"\\u0000\"]}")},
                 {FORM_ARRAY, SLICE_LIT("[{\"a\":[1]}]")},
                 {FORM_AWS, frame(bytes, headers, "{\"message\":\"no\"}", 0, 0)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_whole = false;
        for (size_t n = 0; !is_whole; n++) {
            struct pieces s;
            struct failure f = {.status = 0};
            pieces_init(&s, cases[i].form);
            struct seen x = {.s = &s};
            assert_true(n < 1000);
            n_left = n;
            json_set_alloc_funcs(fail_malloc, free);
            bool ok = feed(&s, cases[i].t, 0, 5, &x, &f);
            is_whole = n_left > 0;
            json_set_alloc_funcs(malloc, free);
            assert_true(ok == (f.status == 0));
            assert_true(ok || x.n == 0);
            pieces_release(&s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_decided_late),
        cmocka_unit_test(test_aws_headers),
        cmocka_unit_test(test_aws_sizes),
        cmocka_unit_test(test_aws_damage),
        cmocka_unit_test(test_aws_exceptions),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refused_by_receiver),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
}
