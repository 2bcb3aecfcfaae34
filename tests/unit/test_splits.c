/* test_splits.c - where an upstream's bytes are cut, and in which framing they come, makes no
 * difference: the deltas and the verdict are the same to the byte.
 *
 * Every recorded answer is decoded at once, cut in two at every position, byte by byte and in
 * random pieces; event streams also with other line ends, without the space after `data:`, with
 * comments and pings between their lines and events, after a byte order mark, and with an event's
 * data on several lines. Cutting n bytes at n places costs n * n: where that would take long,
 * positions are sampled, and the last line of the output says so.
 */
#include "golden_stream.h"

#include "tests/lib/delta_trace.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SLOW 1
#endif
#ifdef IS_SLOW /* ten times as long for every decoding */
#define CUTS_MAX 128
#define RANDOM   40
#else
#define CUTS_MAX 5000
#define RANDOM   200
#endif
#define CUTS_FRAMED   32 /* of a stream in another framing */
#define CUTS_FOREIGN  8  /* of a stream that is not this dialect's */
#define RANDOM_FRAMED 12

static struct {
    size_t n_streams, n_twice, n_decoded, n_sampled;
    size_t n_done;
    uint64_t done[8192]; /* hashes of what was decoded, and by whom */
} count;

/* ---- one decoding */

struct cutter {
    size_t first;    /* bytes of the first piece; the rest is one other. 0: as `most` says */
    size_t most;     /* pieces of 1 to so many bytes */
    uint64_t random; /* 0: always `most` */
};

static size_t next_piece(struct cutter *c, size_t at, size_t n_left)
{
    size_t n = c->most;
    if (c->first > 0) {
        n = at == 0 ? c->first : n_left;
    } else if (c->random > 0) {
        c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        n = 1 + (c->random >> 33) % c->most;
    }
    return n < n_left ? n : n_left;
}

static void decode(const struct backend *b, const struct golden_stream *s, struct cutter c,
                   struct trace *out)
{
    struct failure f = {.status = 0};
    struct decoder *d = backend_decoder(b, &s->provider, s->form, s->is_chat);
    assert_non_null(d);
    trace_init(out);
    bool ok = true;
    for (size_t at = 0; ok && at < s->in.len;) {
        size_t n = next_piece(&c, at, s->in.len - at);
        char *piece = malloc(n); /* of its own, so that a sanitizer sees a read beyond it */
        assert_non_null(piece);
        memcpy(piece, s->in.p + at, n);
        ok = b->decode(d, (struct slice){piece, n}, trace_take, out, &f);
        free(piece);
        at += n;
    }
    ok = ok && b->decode_end(d, trace_take, out, &f);
    b->decoder_free(d);
    trace_end(out, ok, &f);
    count.n_decoded++;
}

/* ---- many, compared with the one at once */

struct task {
    const char *name, *framing;
    const struct backend *b;
    const struct golden_stream *s;
    const struct trace *want;
};

static void expect_same(const struct task *t, struct cutter c)
{
    struct trace got;
    decode(t->b, t->s, c, &got);
    const struct slice want = buf_slice(&t->want->text);
    if (got.wrong || got.text.len != want.len || memcmp(got.text.p, want.p, want.len) != 0) {
        print_error("%s as %s, %s, first piece %zu, pieces of at most %zu, random %llu: %s\n"
                    "at once:\n%s\nso:\n%s\n",
                    t->name, t->b->name, t->framing, c.first, c.most, (unsigned long long)c.random,
                    got.wrong ? got.wrong : "other deltas", want.p, got.text.p);
        fail();
    }
    trace_release(&got);
}

/* Whether that was every position. */
static bool cut_everywhere(const struct task *t, size_t cuts_max, size_t n_random)
{
    size_t len = t->s->in.len, step = len / cuts_max + 1;
    for (size_t at = 1; at < len; at += step) {
        expect_same(t, (struct cutter){.first = at});
    }
    expect_same(t, (struct cutter){.most = 1});
    static const size_t most[] = {2, 7, 40, 300};
    for (size_t i = 0; i < n_random; i++) {
        expect_same(t, (struct cutter){.most = most[i % 4], .random = i + 1});
    }
    return step == 1;
}

/* ---- other framings of an event stream that has LF */

struct framing {
    const char *name, *line_end, *before_line, *after_event, *at_start;
    bool is_tight, is_split; /* no space after the colon; data on two lines */
};

#define PING "event: ping\ndata: {\"type\": \"ping\"}\n\n"
static const struct framing framings[] = {
    {.name = "CRLF", .line_end = "\r\n"},
    {.name = "CR", .line_end = "\r"},
    {.name = "no space", .is_tight = true},
    {.name = "comments", .before_line = ": wait\n:\n", .after_event = ":\n\n: data: {}\n\n"},
    {.name = "pings", .after_event = PING},
    {.name = "fields to be skipped", .before_line = "id: 7\nretry: 10\nother\n"},
    {.name = "byte order mark", .at_start = "\xef\xbb\xbf"},
    {.name = "data on two lines", .is_split = true},
    {.name = "all of it",
     .line_end = "\r\n",
     .before_line = ":\r\nid: 8\r\n",
     .after_event = ": x\r\n\r\nevent: ping\r\ndata:\r\n\r\n",
     .at_start = "\xef\xbb\xbf",
     .is_tight = true,
     .is_split = true},
};

static void put_data(struct buf *out, const struct framing *f, struct slice value)
{
    const char *field = f->is_tight ? "data:" : "data: ";
    (void)buf_puts(out, field);
    /* A line break is white space after the brace that opens an object. */
    if (f->is_split && value.len > 1 && value.p[0] == '{') {
        (void)buf_puts(out, "{");
        (void)buf_puts(out, f->line_end ? f->line_end : "\n");
        (void)buf_puts(out, field);
        value = (struct slice){value.p + 1, value.len - 1};
    }
    (void)buf_append(out, value.p, value.len);
}

static void reframe(struct buf *out, const struct framing *f, struct slice in)
{
    const char *end = f->line_end ? f->line_end : "\n";
    (void)buf_puts(out, f->at_start ? f->at_start : "");
    while (in.len > 0) {
        const char *lf = memchr(in.p, '\n', in.len);
        size_t n = lf ? (size_t)(lf - in.p) : in.len;
        (void)buf_puts(out, n > 0 && f->before_line ? f->before_line : "");
        if (n >= 6 && memcmp(in.p, "data: ", 6) == 0) {
            put_data(out, f, (struct slice){in.p + 6, n - 6});
        } else {
            (void)buf_append(out, in.p, n);
        }
        (void)buf_puts(out, lf ? end : "");
        (void)buf_puts(out, n == 0 && f->after_event ? f->after_event : "");
        in = (struct slice){in.p + n + (lf != NULL), in.len - n - (lf != NULL)};
    }
    assert_false(out->is_failed);
}

static void run_framings(const struct task *t)
{
    for (size_t i = 0; i < sizeof framings / sizeof *framings; i++) {
        struct buf bytes;
        buf_init(&bytes, 1 << 20);
        reframe(&bytes, &framings[i], t->s->in);
        struct golden_stream s = *t->s;
        s.in = buf_slice(&bytes);
        struct task framed = {t->name, framings[i].name, t->b, &s, t->want};
        expect_same(&framed, (struct cutter){.first = s.in.len});
        (void)cut_everywhere(&framed, CUTS_FRAMED, RANDOM_FRAMED);
        buf_release(&bytes);
    }
}

/* ---- the recordings */

/* The same recording lies in more than one place: once is enough. */
static bool is_done(const struct backend *b, const struct golden_stream *s)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ (uintptr_t)b ^ (uint64_t)s->form << 60 ^
                 (uint64_t)s->is_chat << 59 ^ (uint64_t)s->provider.quirks.thinks_in_tags << 58;
    for (size_t i = 0; i < s->in.len; i++) { /* FNV-1a */
        h = (h ^ (unsigned char)s->in.p[i]) * UINT64_C(1099511628211);
    }
    for (size_t i = 0; i < count.n_done; i++) {
        if (count.done[i] == h) {
            return true;
        }
    }
    assert_true(count.n_done < sizeof count.done / sizeof *count.done);
    count.done[count.n_done++] = h;
    return false;
}

/* Whether there is something of this dialect in it. */
static bool says_something(const struct trace *whole)
{
    return whole->n_deltas > 1;
}

static void run_stream(const char *name, const struct backend *b, const struct golden_stream *s,
                       bool is_own)
{
    struct trace whole;
    if (is_done(b, s)) {
        count.n_twice++;
        return;
    }
    decode(b, s, (struct cutter){.first = s->in.len}, &whole);
    if (whole.wrong) {
        fail_msg("%s as %s: %s\n%s", name, b->name, whole.wrong, whole.text.p);
    }
    struct task t = {name, "as recorded", b, s, &whole};
    if (is_own || says_something(&whole)) {
        count.n_streams++;
        count.n_sampled += !cut_everywhere(&t, CUTS_MAX, RANDOM);
        if (s->form == FORM_SSE) {
            run_framings(&t);
        }
    } else {
        (void)cut_everywhere(&t, CUTS_FOREIGN, CUTS_FOREIGN);
    }
    trace_release(&whole);
}

static void run_decode_case(const char *folder, const char *dialect, const char *name)
{
    if (strcmp(dialect, "engine") == 0) {
        return; /* its pieces are whole frames */
    }
    struct golden_stream s;
    golden_stream_load(&s, folder, name);
    run_stream(folder, backend_find(dialect), &s, true);
    golden_stream_release(&s);
}

static void test_recorded_answers(void **state)
{
    (void)state;
    assert_true(golden_each("decode", run_decode_case) >= 300);
    assert_true(count.n_streams >= 300);
}

/* ---- a stream that ends early */

/* What was said, and why each choice ended: the lines of the trace that a client would miss. */
static void keep_content(const struct trace *t, struct buf *out)
{
    static const char *const kinds[] = {"text ", "reasoning ", "refusal ", "tool ", "finish "};
    buf_init(out, TRACE_BYTES_MAX);
    for (const char *p = t->text.p; p && *p;) {
        size_t n = strcspn(p, "\n");
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (strncmp(p, kinds[i], strlen(kinds[i])) == 0) {
                (void)buf_append(out, p, n);
                (void)buf_append(out, "\n", 1);
            }
        }
        p += n + (p[n] == '\n');
    }
}

/* Cut off anywhere, a stream either fails or lacks nothing of what it said. */
static void run_cut_off(const char *folder, const char *dialect, const char *name)
{
    struct golden_stream s;
    struct trace whole, part;
    /* Who says STOP in every chunk looks whole after each of them: only the connection can tell. */
    if (strcmp(dialect, "engine") == 0 || strcmp(name, "stream-stop-in-every-chunk") == 0) {
        return;
    }
    const struct backend *b = backend_find(dialect);
    golden_stream_load(&s, folder, name);
    size_t len = s.in.len, step = len / CUTS_MAX + 1;
    decode(b, &s, (struct cutter){.first = len}, &whole);
    struct buf all, some;
    keep_content(&whole, &all);
    for (s.in.len = 0; whole.is_ended && s.in.len < len; s.in.len += step) {
        decode(b, &s, (struct cutter){.most = len}, &part);
        keep_content(&part, &some);
        bool is_same =
            some.len == all.len && (some.len == 0 || memcmp(some.p, all.p, all.len) == 0);
        if (part.wrong || (part.is_ended && !is_same)) {
            fail_msg("%s, the first %zu bytes: %s\n%s", folder, s.in.len,
                     part.wrong ? part.wrong : "looks whole", part.text.p);
        }
        buf_release(&some);
        trace_release(&part);
    }
    buf_release(&all);
    trace_release(&whole);
    golden_stream_release(&s);
}

static void test_a_part_never_looks_whole(void **state)
{
    (void)state;
    assert_true(golden_each("decode", run_cut_off) >= 300);
}

/* Streams of providers, without word of their dialect: each decoder reads each of them. */
static void run_by_all(const char *name, const struct golden_stream *s)
{
    static const struct backend *const all[] = {
        &backend_openai,    &backend_responses, &backend_anthropic, &backend_converse,
        &backend_tgi,       &backend_google,    &backend_palm,      &backend_cohere,
        &backend_dashscope, &backend_ollama};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        run_stream(name, all[i], s, false);
    }
}

static const struct {
    const char *ending;
    enum wire_form form;
} forms[] = {{".sse", FORM_SSE},        {".lines", FORM_LINES},      {".ndjson", FORM_LINES},
             {".array", FORM_ARRAY},    {"-array.json", FORM_ARRAY}, {".aws", FORM_AWS},
             {".eventstream", FORM_AWS}};

/* false: it is no stream. */
static bool form_of(const char *name, enum wire_form *form)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(name), n_ending = strlen(forms[i].ending);
        if (n > n_ending && strcmp(name + n - n_ending, forms[i].ending) == 0) {
            *form = forms[i].form;
            return true;
        }
    }
    return false;
}

/* All streams of <root>/<folder>/; returns their number. */
static size_t run_tree(const char *root)
{
    struct dirent **folders, **files;
    size_t n_streams = 0;
    int n_folders = scandir(root, &folders, golden_not_hidden, alphasort);
    for (int i = 0; i < n_folders; i++) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/%s", root, folders[i]->d_name);
        int n_files = scandir(path, &files, golden_not_hidden, alphasort);
        for (int k = 0; k < n_files; k++) {
            struct golden_stream s = {.provider = {.id = "acme"}, .is_chat = true};
            if (form_of(files[k]->d_name, &s.form)) {
                s.in.p = golden_bytes(path, files[k]->d_name, &s.in.len);
                assert_non_null(s.in.p);
                run_by_all(path, &s);
                golden_stream_release(&s);
                n_streams++;
            }
            free(files[k]);
        }
        if (n_files >= 0) {
            free(files);
        }
        free(folders[i]);
    }
    if (n_folders >= 0) {
        free(folders);
    }
    return n_streams;
}

static void test_streams_of_providers(void **state)
{
    (void)state;
    size_t n = run_tree("tests/golden/frames");
    assert_true(n > 50);
}

/* Beside the tree where the providers' own samples are at hand. */
static void test_samples_beside_the_tree(void **state)
{
    (void)state;
    const char *root = "../shared/wire/samples";
    if (access(root, R_OK) != 0) {
        skip();
    }
    assert_true(run_tree(root) > 40);
}

/* ---- the test itself would see it */

static void test_a_difference_is_seen(void **state)
{
    (void)state;
    static const char *const two[] = {
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n"};
    struct trace t[2];
    for (int i = 0; i < 2; i++) {
        struct golden_stream s = {.provider = {.id = "acme"}, .form = FORM_SSE};
        s.in = slice_str(two[i]);
        decode(&backend_openai, &s, (struct cutter){.most = 3}, &t[i]);
        assert_null(t[i].wrong);
    }
    assert_int_equal(t[0].text.len, t[1].text.len);
    assert_memory_not_equal(t[0].text.p, t[1].text.p, t[0].text.len);
    struct delta half = {.kind = DELTA_TEXT, .text = SLICE_LIT("\xc3")};
    assert_true(trace_take(&half, &t[0]));
    assert_non_null(t[0].wrong);
    trace_release(&t[0]);
    trace_release(&t[1]);
}

static int say_count(void **state)
{
    (void)state;
    print_message("# %zu streams (%zu lie in two places), %zu decodings; positions sampled in %zu "
                  "of them, and in every other framing\n",
                  count.n_streams, count.n_twice, count.n_decoded, count.n_sampled);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_difference_is_seen),
        cmocka_unit_test(test_recorded_answers),
        cmocka_unit_test(test_a_part_never_looks_whole),
        cmocka_unit_test(test_streams_of_providers),
        cmocka_unit_test(test_samples_beside_the_tree),
    };
    return cmocka_run_group_tests_name("splits", tests, NULL, say_count);
}
