/* bench_wire.c - microseconds that each wire dialect takes: a chat of 4 KB encoded, an answer of
 * 4 KB decoded whole and as a stream of 100 pieces. Beside each row stands what jansson takes to
 * parse the same bytes, and what of our time is left beside that; nothing is parsed for encoding,
 * so there all of it is ours.
 *
 * Time of the thread's own processor, the median and the lowest of many runs: a machine that is
 * busy with others does not count, only that they share its caches.
 *
 * usage: bench_wire [CATALOG.DB [DIALECT [encode|whole|stream]]]
 * BENCH_CHECK=1: fails where a median is above its target. BENCH_RUNS=10: so many runs, at most
 * 501.
 */
#include "catalog/plan.h"
#include "gateway/backend/backend.h"
#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include "gateway/request.h"
#include "tests/lib/aws_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS_MAX  501
#define BATCH     8 /* of one reading of the clock, which costs about as much as a small event */
#define TARGET_US 10.0
#define PIECES    100
#define TEXT      4096
#define DAY       "2024-01-01" /* PaLM was still there */

/* '$' stands for the text, escaped. */
struct event {
    const char *name, *json;
};
struct wire {
    const struct backend *backend;
    const char *provider, *model;
    enum catalog_route route;
    enum wire_form form;
    const char *whole; /* NULL: frames only */
    struct event begin, piece, end[2];
};

static const struct wire wires[] = {
    {.backend = &backend_openai,
     .provider = "openai",
     .model = "gpt-4o-mini",
     .form = FORM_SSE,
     .whole =
         "{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"m\","
         "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":$},"
         "\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":900,"
         "\"completion_tokens\":800,\"total_tokens\":1700},\"system_fingerprint\":\"fp\"}",
     .begin = {"", "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                   "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
                   "\"content\":\"\"},\"finish_reason\":null}]}"},
     .piece = {"", "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                   "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":$},"
                   "\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"},
     .end = {{"", "{\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":"
                  "\"stop\"}]}"},
             {"", "{\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":900,"
                  "\"completion_tokens\":800,\"total_tokens\":1700}}"}}},
    {.backend = &backend_responses,
     .provider = "openai",
     .model = "gpt-4o-mini",
     .route = CATALOG_CHAT_ALSO,
     .form = FORM_SSE,
     .whole = "{\"id\":\"r1\",\"object\":\"response\",\"status\":\"completed\",\"model\":\"m\","
              "\"output\":[{\"type\":\"message\",\"id\":\"m1\",\"role\":\"assistant\",\"content\":"
              "[{\"type\":\"output_text\",\"text\":$,\"annotations\":[]}]}],\"usage\":"
              "{\"input_tokens\":900,\"output_tokens\":800,\"total_tokens\":1700}}",
     .begin = {"response.created",
               "{\"type\":\"response.created\",\"response\":{\"id\":\"r1\",\"object\":\"response\","
               "\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}"},
     .piece = {"response.output_text.delta",
               "{\"type\":\"response.output_text.delta\",\"item_id\":\"m1\",\"output_index\":0,"
               "\"content_index\":0,\"delta\":$,\"sequence_number\":7}"},
     .end = {{"response.completed",
              "{\"type\":\"response.completed\",\"response\":{\"id\":\"r1\",\"object\":"
              "\"response\",\"status\":\"completed\",\"model\":\"m\",\"output\":[],\"usage\":"
              "{\"input_tokens\":900,\"output_tokens\":800}}}"}}},
    {.backend = &backend_anthropic,
     .provider = "anthropic",
     .model = "claude-sonnet-4-5",
     .form = FORM_SSE,
     .whole = "{\"id\":\"m1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\","
              "\"content\":[{\"type\":\"text\",\"text\":$}],\"stop_reason\":\"end_turn\","
              "\"stop_sequence\":null,\"usage\":{\"input_tokens\":900,\"output_tokens\":800}}",
     .begin = {"message_start",
               "{\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"type\":\"message\","
               "\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,"
               "\"usage\":{\"input_tokens\":900,\"output_tokens\":1}}}"},
     .piece = {"content_block_delta",
               "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
               "\"text\":$}}"},
     .end = {{"message_delta", "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
                               "\"end_turn\"},\"usage\":{\"output_tokens\":800}}"},
             {"message_stop", "{\"type\":\"message_stop\"}"}}},
    {.backend = &backend_converse,
     .provider = "aws-bedrock",
     .model = "us.meta.llama4-maverick-17b-instruct-v1:0",
     .form = FORM_AWS,
     .whole = "{\"output\":{\"message\":{\"role\":\"assistant\",\"content\":[{\"text\":$}]}},"
              "\"stopReason\":\"end_turn\",\"usage\":{\"inputTokens\":900,\"outputTokens\":800,"
              "\"totalTokens\":1700},\"metrics\":{\"latencyMs\":1234}}",
     .begin = {"messageStart", "{\"role\":\"assistant\"}"},
     .piece = {"contentBlockDelta", "{\"contentBlockIndex\":0,\"delta\":{\"text\":$}}"},
     .end = {{"messageStop", "{\"stopReason\":\"end_turn\"}"},
             {"metadata", "{\"usage\":{\"inputTokens\":900,\"outputTokens\":800}}"}}},
    {.backend = &backend_google,
     .provider = "google-gemini",
     .model = "gemini-2.5-flash",
     .form = FORM_SSE,
     .whole = "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":$}],\"role\":\"model\"},"
              "\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":900,"
              "\"candidatesTokenCount\":800,\"totalTokenCount\":1700},\"modelVersion\":\"m\","
              "\"responseId\":\"r1\"}",
     .begin = {"", "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":"
                   "\"model\"}}],\"modelVersion\":\"m\",\"responseId\":\"r1\"}"},
     .piece = {"", "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":$}],\"role\":\"model\"},"
                   "\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":900,\"totalTokenCount\":"
                   "900},\"modelVersion\":\"m\",\"responseId\":\"r1\"}"},
     .end = {{"", "{\"candidates\":[{\"content\":{\"parts\":[],\"role\":\"model\"},"
                  "\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":"
                  "900,\"candidatesTokenCount\":800,\"totalTokenCount\":1700}}"}}},
    {.backend = &backend_palm,
     .provider = "google-palm",
     .model = "chat-bison-001",
     .form = FORM_SSE,
     .whole = "{\"candidates\":[{\"author\":\"1\",\"content\":$}],\"messages\":[]}"},
    {.backend = &backend_cohere,
     .provider = "cohere",
     .model = "command-a-03-2025",
     .form = FORM_SSE,
     .whole = "{\"id\":\"c1\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\","
              "\"text\":$}]},\"finish_reason\":\"COMPLETE\",\"usage\":{\"tokens\":"
              "{\"input_tokens\":900,\"output_tokens\":800}}}",
     .begin = {"message-start", "{\"id\":\"c1\",\"type\":\"message-start\",\"delta\":{\"message\":"
                                "{\"role\":\"assistant\",\"content\":[]}}}"},
     .piece = {"content-delta", "{\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":"
                                "{\"content\":{\"text\":$}}}}"},
     .end = {{"message-end",
              "{\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":"
              "{\"tokens\":{\"input_tokens\":900,\"output_tokens\":800}}}}"}}},
    {.backend = &backend_ollama,
     .provider = "ollama",
     .model = "llama3.2",
     .form = FORM_LINES,
     .whole = "{\"model\":\"m\",\"created_at\":\"2026-11-30T09:30:00Z\",\"message\":{\"role\":"
              "\"assistant\",\"content\":$},\"done_reason\":\"stop\",\"done\":true,"
              "\"total_duration\":1,\"prompt_eval_count\":900,\"eval_count\":800}",
     .begin = {"", "{\"model\":\"m\",\"created_at\":\"2026-11-30T09:30:00Z\",\"message\":{\"role\":"
                   "\"assistant\",\"content\":\"\"},\"done\":false}"},
     .piece = {"", "{\"model\":\"m\",\"created_at\":\"2026-11-30T09:30:00Z\",\"message\":{\"role\":"
                   "\"assistant\",\"content\":$},\"done\":false}"},
     .end = {{"", "{\"model\":\"m\",\"created_at\":\"2026-11-30T09:30:00Z\",\"message\":{\"role\":"
                  "\"assistant\",\"content\":\"\"},\"done_reason\":\"stop\",\"done\":true,"
                  "\"prompt_eval_count\":900,\"eval_count\":800}"}}},
    {.backend = &backend_dashscope,
     .provider = "alibaba-dashscope",
     .model = "qwen-plus",
     .route = CATALOG_CHAT_ALSO,
     .form = FORM_SSE,
     .whole = "{\"request_id\":\"r1\",\"output\":{\"choices\":[{\"finish_reason\":\"stop\","
              "\"message\":{\"role\":\"assistant\",\"content\":$}}]},\"usage\":{\"input_tokens\":"
              "900,\"output_tokens\":800,\"total_tokens\":1700}}",
     .begin = {"result", "{\"request_id\":\"r1\",\"output\":{\"choices\":[{\"finish_reason\":"
                         "\"null\",\"message\":{\"role\":\"assistant\",\"content\":\"\"}}]},"
                         "\"usage\":{\"input_tokens\":900,\"output_tokens\":1}}"},
     .piece = {"result", "{\"request_id\":\"r1\",\"output\":{\"choices\":[{\"finish_reason\":"
                         "\"null\",\"message\":{\"role\":\"assistant\",\"content\":$}}]},"
                         "\"usage\":{\"input_tokens\":900,\"output_tokens\":9}}"},
     .end = {{"result", "{\"request_id\":\"r1\",\"output\":{\"choices\":[{\"finish_reason\":"
                        "\"stop\",\"message\":{\"role\":\"assistant\",\"content\":\"\"}}]},"
                        "\"usage\":{\"input_tokens\":900,\"output_tokens\":800}}"}}},
    {.backend = &backend_tgi,
     .provider = "tgi",
     .model = "tgi",
     .route = CATALOG_TEXT,
     .form = FORM_SSE,
     .whole = "{\"generated_text\":$,\"details\":{\"finish_reason\":\"eos_token\","
              "\"generated_tokens\":800,\"seed\":null,\"prefill\":[],\"tokens\":[]}}",
     .piece = {"", "{\"index\":1,\"token\":{\"id\":7,\"text\":$,\"logprob\":-0.5,\"special\":"
                   "false},\"generated_text\":null,\"details\":null}"},
     .end = {{"", "{\"index\":101,\"token\":{\"id\":2,\"text\":\"</s>\",\"logprob\":-0.1,"
                  "\"special\":true},\"generated_text\":\"\",\"details\":{\"finish_reason\":"
                  "\"eos_token\",\"generated_tokens\":800,\"input_length\":900,\"seed\":null}}"}}},
    {.backend = &backend_engine,
     .provider = "local",
     .model = "tales",
     .piece = {"", "{\"op\":\"text\",\"choice\":0,\"text\":$}"},
     .end = {{"", "{\"op\":\"finish\",\"choice\":0,\"reason\":\"stop\"}"},
             {"", "{\"op\":\"done\",\"prompt_tokens\":900,\"completion_tokens\":800}"}}},
};

/* ---- texts */

static const char request_head[] =
    "{\"model\":\"m\",\"temperature\":0.7,\"top_p\":0.9,\"max_tokens\":256,\"stop\":[\"###\"],"
    "\"presence_penalty\":0.1,\"frequency_penalty\":0.2,\"seed\":7,\"user\":\"u-1\",";
static const char request_tools[] =
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":"
    "\"The weather of a town\",\"parameters\":{\"type\":\"object\",\"properties\":{\"town\":"
    "{\"type\":\"string\"},\"unit\":{\"type\":\"string\",\"enum\":[\"c\",\"f\"]}},\"required\":"
    "[\"town\"]}}}],";

/* Words with now and then a quote or the end of a line, as answers have them. */
static void fill_text(char *to, size_t len)
{
    static const char words[] = "A quiet lake lay between the hills, and \"nobody\" went there.\n";
    for (size_t i = 0; i < len; i++) {
        to[i] = words[i % (sizeof words - 1)];
    }
}

static void must(bool ok, const char *what, const struct failure *f)
{
    if (!ok) {
        (void)fprintf(stderr, "bench_wire: %s: %s\n", what, f && f->status ? f->message : "failed");
        exit(1);
    }
}

static void put_filled(struct buf *b, const char *form, const char *text, size_t len)
{
    const char *mark = strchr(form, '$');
    bool ok = mark ? buf_append(b, form, (size_t)(mark - form)) &&
                         jsonio_write_string(b, text, len) && buf_puts(b, mark + 1)
                   : buf_puts(b, form);
    must(ok, "memory", NULL);
}

static void make_request(struct buf *b, bool is_text, bool has_tools)
{
    static const char *const roles[] = {"user", "assistant"};
    char text[TEXT];
    fill_text(text, sizeof text);
    bool ok = buf_puts(b, request_head);
    if (is_text) {
        ok = ok && buf_puts(b, "\"prompt\":") && jsonio_write_string(b, text, TEXT) &&
             buf_puts(b, "}");
        must(ok, "memory", NULL);
        return;
    }
    ok = ok && (!has_tools || buf_puts(b, request_tools)) &&
         buf_puts(b, "\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"}");
    for (size_t i = 0; ok && i < 7; i++) { /* three pairs, and the question */
        ok = buf_printf(b, ",{\"role\":\"%s\",\"content\":", roles[i % 2]) &&
             jsonio_write_string(b, text, TEXT / 7) && buf_puts(b, "}");
    }
    must(ok && buf_puts(b, "]}"), "memory", NULL);
}

/* ---- readings */

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct reading {
    double median, lowest;
};
typedef void step_fn(void *ud);

static struct reading measure(step_fn *step, void *ud)
{
    static double runs[RUNS_MAX];
    const char *wish = getenv("BENCH_RUNS");
    size_t n = wish ? strtoul(wish, NULL, 10) : RUNS_MAX;
    n = n > 0 && n < RUNS_MAX ? n : RUNS_MAX;
    for (size_t i = 0; i < n; i++) {
        double from = now_us();
        for (size_t k = 0; k < BATCH; k++) {
            step(ud);
        }
        runs[i] = (now_us() - from) / BATCH;
    }
    qsort(runs, n, sizeof *runs, by_value);
    return (struct reading){runs[n / 2], runs[0]};
}

static unsigned n_above;

static void report(const char *dialect, const char *what, size_t bytes, struct reading own,
                   struct reading parse, bool is_parsed)
{
    double beside = own.median - (is_parsed ? parse.median : 0);
    bool is_above = beside > TARGET_US && strcmp(what, "check") != 0; /* it has none */
    n_above += is_above;
    (void)printf("%-10s %-9s %6zu %8.2f %8.2f %9.2f %9.2f%s\n", dialect, what, bytes, own.median,
                 own.lowest, parse.median, beside, is_above ? "  above" : "");
}

/* ---- encode */

struct encoding {
    struct call call;
    struct plan plan;
    size_t n_adj, n_extra;
    struct buf body;
};

static void encode_once(void *ud)
{
    struct encoding *e = ud;
    static struct headers headers;
    struct failure f = {.status = 0};
    e->plan.n_adj = e->n_adj;
    e->plan.n_extra = e->n_extra;
    headers_release(&headers);
    buf_release(&e->body); /* as in the daemon, where each request has a new one */
    must(e->call.backend->encode(&e->call, &e->body, &headers, &f), e->call.backend->name, &f);
}

/* What builds with DEVELOPER=1 do to every body. */
static void check_once(void *ud)
{
    struct encoding *e = ud;
    const char *bad = "";
    must(backend_check_sent(&e->call, buf_slice(&e->body), &bad), bad, NULL);
}

struct parsing {
    struct slice *texts;
    size_t n;
};

static void parse_once(void *ud)
{
    const struct parsing *p = ud;
    for (size_t i = 0; i < p->n; i++) {
        json_decref(json_loadb(p->texts[i].p, p->texts[i].len, JSON_REJECT_DUPLICATES, NULL));
    }
}

static void bench_encode(const struct wire *w, const struct snapshot *snap)
{
    static const struct policy policy = {.on_unsupported = PLAN_UNSUPPORTED_DROP};
    struct encoding e = {.n_adj = 0};
    struct rules rules;
    struct request r;
    struct buf body;
    struct failure f = {.status = 0};
    struct catalog_error err = {.code = CATALOG_OK};
    bool is_text = w->route == CATALOG_TEXT;
    buf_init(&body, LIMIT_BODY_BYTES);
    buf_init(&e.body, LIMIT_BODY_BYTES);
    make_request(&body, is_text, w->backend != &backend_palm && w->backend != &backend_engine);
    must(request_parse(&r, is_text ? REQUEST_TEXT : REQUEST_CHAT, body.p, body.len, &policy, &f),
         "request", &f);
    must(snapshot_rules(snap, w->provider, w->model, w->route, DAY, &rules, &err), err.text, NULL);
    plan_make(&rules, &policy, &r.asked, NULL, &e.plan);
    must(e.plan.route == PLAN_TARGET, e.plan.reject_text, NULL);
    e.n_adj = e.plan.n_adj;
    e.n_extra = e.plan.n_extra;
    e.call = (struct call){.provider = rules.provider,
                           .backend = w->backend,
                           .rules = &rules,
                           .model = w->model,
                           .messages = r.content.messages,
                           .prompt = r.content.prompt,
                           .send = &e.plan.send,
                           .plan = &e.plan,
                           .key = "sk-not-a-key"};
    struct reading own = measure(encode_once, &e);
    struct slice text = buf_slice(&e.body);
    struct reading parse = measure(parse_once, &(struct parsing){&text, 1});
    report(w->backend->name, "encode", text.len, own, parse, false);
    report(w->backend->name, "check", text.len, measure(check_once, &e), parse, false);
    buf_release(&e.body);
    buf_release(&body);
    request_release(&r);
}

/* ---- decode */

struct decoding {
    const struct backend *backend;
    enum wire_form form;
    bool is_chat;
    struct slice piece[PIECES + 4]; /* as they come */
    struct slice json[PIECES + 4];  /* what jansson is given */
    size_t n;
    struct buf bytes;
};

static bool take(const struct delta *d, void *ud)
{
    size_t *n = ud;
    *n += d->text.len + (d->kind == DELTA_END);
    return true;
}

static void decode_once(void *ud)
{
    const struct decoding *x = ud;
    static const struct provider nobody;
    struct failure f = {.status = 0};
    size_t n = 0;
    struct decoder *d = backend_decoder(x->backend, &nobody, x->form, x->is_chat);
    bool ok = d != NULL;
    for (size_t i = 0; ok && i < x->n; i++) {
        ok = x->backend->decode(d, x->piece[i], take, &n, &f);
    }
    must(ok && x->backend->decode_end(d, take, &n, &f) && n > TEXT, x->backend->name, &f);
    x->backend->decoder_free(d);
}

/* Offsets only: the buffer still moves. */
static void add_event(struct decoding *x, const struct event *e, const char *text, size_t len)
{
    struct buf json;
    size_t from = x->bytes.len, before = 0, n = x->n++;
    bool ok = true;
    buf_init(&json, LIMIT_UPSTREAM_BYTES);
    put_filled(&json, e->json, text, len);
    if (x->form == FORM_AWS) {
        static char frame[TEXT];
        before = 12 + aws_put_header(frame + 12, ":message-type", SLICE_LIT("event"));
        before += aws_put_header(frame + before, ":event-type", slice_str(e->name));
        ok = buf_append(&x->bytes, frame, aws_put_frame(frame, before - 12, buf_slice(&json)));
    } else if (x->form == FORM_SSE) {
        ok = (!e->name[0] || buf_printf(&x->bytes, "event: %s\n", e->name)) &&
             buf_puts(&x->bytes, "data: ");
        before = x->bytes.len - from;
        ok = ok && buf_append(&x->bytes, json.p, json.len) && buf_puts(&x->bytes, "\n\n");
    } else {
        ok = buf_append(&x->bytes, json.p, json.len) &&
             (x->form != FORM_LINES || buf_puts(&x->bytes, "\n"));
    }
    must(ok, "memory", NULL);
    x->piece[n] = (struct slice){NULL, x->bytes.len - from};
    x->json[n] = (struct slice){NULL, json.len};
    x->json[n].p = (const char *)(uintptr_t)before; /* turned into a place by settle() */
    buf_release(&json);
}

static void settle(struct decoding *x)
{
    const char *at = x->bytes.p;
    for (size_t i = 0; i < x->n; i++) {
        x->piece[i].p = at;
        x->json[i].p = at + (uintptr_t)x->json[i].p;
        at += x->piece[i].len;
    }
}

static void bench_decode(const struct wire *w, enum wire_form form)
{
    char text[TEXT];
    struct decoding x = {.backend = w->backend, .form = form, .is_chat = w->route != CATALOG_TEXT};
    fill_text(text, sizeof text);
    buf_init(&x.bytes, LIMIT_UPSTREAM_BYTES);
    if (form == FORM_WHOLE && w->whole) {
        add_event(&x, &(struct event){"", w->whole}, text, TEXT);
    } else {
        if (w->begin.json) {
            add_event(&x, &w->begin, "", 0);
        }
        for (size_t i = 0, from = 0; i < PIECES; i++) {
            size_t to = TEXT * (i + 1) / PIECES;
            add_event(&x, &w->piece, text + from, to - from);
            from = to;
        }
        for (size_t i = 0; i < 2 && w->end[i].json; i++) {
            add_event(&x, &w->end[i], "", 0);
        }
    }
    settle(&x);
    struct reading own = measure(decode_once, &x);
    struct reading parse = measure(parse_once, &(struct parsing){x.json, x.n});
    bool is_whole = form == FORM_WHOLE && w->whole;
    report(w->backend->name, is_whole ? "whole" : "stream", x.bytes.len, own, parse, true);
    buf_release(&x.bytes);
}

/* what NULL: everything. */
static void bench(const struct wire *w, const struct snapshot *snap, const char *what)
{
    if (!what || strcmp(what, "encode") == 0) {
        bench_encode(w, snap);
    }
    if (w->whole && (!what || strcmp(what, "whole") == 0)) {
        bench_decode(w, FORM_WHOLE);
    }
    if (w->piece.json && (!what || strcmp(what, "stream") == 0)) {
        bench_decode(w, w->form);
    }
}

int main(int argc, char **argv)
{
    struct catalog *catalog;
    struct snapshot *snap;
    struct catalog_error err = {.code = CATALOG_OK};
    const char *path = argc > 1 ? argv[1] : "build/catalog.db", *check = getenv("BENCH_CHECK");
    if (!catalog_open_quick(&catalog, path, &err) || !catalog_snapshot(catalog, 0, &snap, &err)) {
        (void)fprintf(stderr, "bench_wire: %s: %s\n", path, err.text);
        return 1;
    }
    (void)printf("%-10s %-9s %6s %8s %8s %9s %9s   (microseconds)\n", "dialect", "what", "bytes",
                 "median", "lowest", "jansson", "beside");
    for (size_t i = 0; i < sizeof wires / sizeof *wires; i++) {
        if (argc < 3 || strcmp(wires[i].backend->name, argv[2]) == 0) {
            bench(&wires[i], snap, argc > 3 ? argv[3] : NULL);
        }
    }
    snapshot_release(snap);
    catalog_close(catalog);
    return check && check[0] && n_above > 0;
}
