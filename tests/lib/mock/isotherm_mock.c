/* isotherm_mock.c - the scripted provider: every API of the catalog on one port of loopback, for
 * tests, the demonstration, and applications that are tried without a provider.
 *
 * POST /PROVIDER/... is that provider, with --provider the same without the prefix (mock_route.h).
 * Without either, /v1/chat/completions is the provider "scripted" of tests/lib/scripted.json: a
 * strict OpenAI-style endpoint whose temperature ends at 1, which takes four stop strings and knows
 * no seed; its answers have no number in their ids.
 *
 * GET, DELETE /log and POST, DELETE /script are the test's side. It prints "listening PORT" and
 * then one line for each body that it was sent. One loop, so one thread: nothing here is locked.
 */
#include "gateway/base/jsonio.h"
#include "gateway/base/paths.h"
#include "gateway/base/program.h"
#include "mock_check.h"
#include "mock_log.h"
#include "mock_route.h"
#include "mock_send.h"
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BODY_BYTES_MAX (16u << 20)
#define LOG_BYTES_MAX  (1u << 30)
#define RETRY_SECONDS  7 /* of a 429 that says nothing else */

static const char usage[] =
    "usage: isotherm-mock [--listen ADDRESS:PORT] [--catalog DB] [--provider NAME] "
    "[--schemas DIR]\n"
    "                     [--log FILE] [--quiet] [--no-checks]\n"
    "\n"
    "A provider without a model: it speaks every API of the catalog, refuses what that provider "
    "would refuse, and\n"
    "answers the same story each time. http://127.0.0.1:4199/anthropic/v1 is Anthropic, "
    "/openai/v1 is OpenAI ...\n"
    "\n"
    "  --listen A:P     where to listen (127.0.0.1:4199); port 0 takes any free one\n"
    "  --catalog DB     the catalog that says what providers accept (catalog.db beside the "
    "program)\n"
    "  --provider NAME  be this provider alone, without /NAME in front of its paths\n"
    "  --schemas DIR    also hold bodies against DIR/NAME-request.schema.json\n"
    "  --log FILE       append what was asked as JSON lines; memory then keeps the last 1000\n"
    "  --quiet          do not print the bodies\n"
    "  --no-checks      take every body\n"
    "  --version        print the version\n"
    "  --help           print this\n"
    "\n"
    "GET /log [?since=N] shows what was asked, DELETE /log forgets it.\n"
    "A script behind \"~\" of the model's name (\"gpt-4o~slow\", several: \"gpt-4o~slow+crlf\") "
    "says what happens;\n"
    "POST /script {\"next\": [\"status-503\", \"cut\"]} says it for the next requests, DELETE "
    "/script takes it back:\n\n";

struct options {
    const char *listen, *catalog, *provider, *schemas, *log;
    bool is_quiet, has_no_checks;
};

static struct {
    struct options o;
    struct catalog *catalog;
    struct snapshot *snapshot; /* NULL: no catalog */
    const struct provider *only;
    struct mock_check *check;
    char day[16];
    time_t day_until; /* `day` holds up to then */
} app;

/* "scripted": needs no catalog. */
static const struct provider scripted = {.id = "scripted", .dialect = "openai"};
static const char *const scripted_fields[] = {"model",
                                              "messages",
                                              "temperature",
                                              "top_p",
                                              "max_tokens",
                                              "stop",
                                              "stream",
                                              "stream_options",
                                              "user",
                                              "presence_penalty",
                                              "frequency_penalty",
                                              "logprobs",
                                              "top_logprobs",
                                              "response_format",
                                              "tools",
                                              "tool_choice",
                                              "parallel_tool_calls"};

/* One request on its way to its answer. */
struct inquiry {
    struct conn *conn;
    struct mock_route route;
    struct mock_request r;
    struct mock_wish wish;
    struct mock_talk *talk;
    bool is_root;
};

static const char *today(void)
{
    time_t now = time(NULL);
    struct tm tm;
    if (now >= app.day_until) {
        (void)strftime(app.day, sizeof app.day, "%Y-%m-%d", gmtime_r(&now, &tm));
        app.day_until = now - now % 86400 + 86400;
    }
    return app.day;
}

/* ---- the test's side */

static void reply_json(struct conn *c, int status, json_t *o)
{
    struct buf b;
    buf_init(&b, LOG_BYTES_MAX);
    mock_put(&b, o);
    conn_reply(c, status, "application/json", NULL, 0, buf_slice(&b));
    buf_release(&b);
}

static void complain(struct conn *c, int status, const char *text)
{
    reply_json(c, status,
               json_pack("{s:{s:s,s:s,s:n,s:n}}", "error", "message", text, "type",
                         "invalid_request_error", "param", "code"));
}

static void serve_log(struct conn *c)
{
    const char *since = conn_query(c, "since");
    struct buf b;
    buf_init(&b, LOG_BYTES_MAX);
    if (strcmp(conn_method(c), "DELETE") == 0) {
        mock_log_forget();
    }
    mock_log_write(&b, since ? strtoull(since, NULL, 10) : 0);
    if (b.is_failed) {
        complain(c, 500, "the log is too large to be shown: ask for ?since=N, or DELETE it");
    } else {
        conn_reply(c, 200, "application/json", NULL, 0, buf_slice(&b));
    }
    buf_release(&b);
}

static void serve_script(struct conn *c)
{
    struct failure f = {.status = 0};
    struct slice bytes = conn_body(c);
    char why[200] = "";
    if (strcmp(conn_method(c), "DELETE") == 0) {
        mock_script_clear();
        reply_json(c, 200, json_object());
        return;
    }
    json_t *body = jsonio_parse(bytes.p ? bytes.p : "", bytes.len, &f);
    if (!body) {
        complain(c, 400, f.message);
    } else if (!mock_script_push(body, why, sizeof why)) {
        complain(c, 400, why);
    } else {
        reply_json(c, 200, json_object());
    }
    json_decref(body);
}

/* ---- what a request brings with it */

static const char *query_of(const void *ud, const char *name)
{
    return conn_query(ud, name);
}

static const char *header_of(const void *ud, const char *name)
{
    return conn_header(ud, name);
}

static const char *const keys[] = {"authorization", "x-api-key", "api-key", "x-goog-api-key"};

static bool has_key(const struct conn *c)
{
    bool has = conn_query(c, "key") != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        has = has || conn_header(c, keys[i]);
    }
    return has;
}

/* Those that an API gives a meaning to; keys without their values. */
static json_t *headers_json(const struct conn *c)
{
    static const char *const names[] = {"content-type",         "accept",
                                        "user-agent",           "anthropic-version",
                                        "anthropic-beta",       "x-goog-api-client",
                                        "x-dashscope-sse",      "x-client-name",
                                        "openai-project",       "openai-organization",
                                        "idempotency-key",      "x-stainless-retry-count",
                                        "x-request-id",         "traceparent",
                                        "x-amz-date",           "x-amz-content-sha256",
                                        "x-openrouter-metadata"};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *v = conn_header(c, names[i]);
        if (v) {
            (void)json_object_set_new(o, names[i], json_string(v));
        }
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (conn_header(c, keys[i])) {
            (void)json_object_set_new(o, keys[i], json_string("***"));
        }
    }
    return o;
}

static void log_inquiry(const struct inquiry *q, const char *verdict)
{
    const struct mock_talk *t = q->talk;
    struct slice raw = conn_body(q->conn);
    json_t *headers = headers_json(q->conn);
    struct mock_log_entry entry = {.provider = q->r.provider ? q->r.provider->id : NULL,
                                   .path = conn_path(q->conn),
                                   .model = q->r.model,
                                   .verdict = verdict,
                                   .stream = q->wish.stream,
                                   .has_key = has_key(q->conn),
                                   .body = t->body,
                                   .raw = raw,
                                   .headers = headers};
    (void)mock_log_add(&entry);
    json_decref(headers);
    if (!app.o.is_quiet) {
        (void)printf("%.*s\n", (int)raw.len, raw.p ? raw.p : "");
        (void)fflush(stdout);
    }
}

/* ---- checks */

static bool blame(struct mock_error *e, enum mock_fault f, const char *param, const char *limit,
                  const char *message)
{
    e->fault = f;
    (void)snprintf(e->param, sizeof e->param, "%s", param);
    (void)snprintf(e->limit, sizeof e->limit, "%s", limit);
    (void)snprintf(e->message, sizeof e->message, "%s", message);
    return false;
}

/* What "scripted" takes. */
static bool is_taken_by_scripted(const json_t *body, struct mock_error *e)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)body, key, v) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof scripted_fields / sizeof *scripted_fields; i++) {
            is_known = is_known || strcmp(scripted_fields[i], key) == 0;
        }
        if (!is_known) {
            return blame(e, MOCK_FAULT_UNKNOWN, key, "", "unknown field");
        }
    }
    double temperature = json_number_value(json_object_get(body, "temperature"));
    if (temperature > 1) {
        (void)snprintf(e->value, sizeof e->value, "%.17g", temperature);
        return blame(e, MOCK_FAULT_ABOVE, "temperature", "1.0", "temperature above 1");
    }
    return json_array_size(json_object_get(body, "stop")) <= 4 ||
           blame(e, MOCK_FAULT_TOO_LONG, "stop", "4", "more than four stop strings");
}

static bool is_taken(struct inquiry *q, struct mock_error *e)
{
    if (app.o.has_no_checks) {
        return true;
    }
    return q->is_root ? is_taken_by_scripted(q->r.body, e)
                      : mock_check_body(app.check, &q->r, q->route.dialect, &q->wish, today(), e);
}

/* refuse-PARAM: only a request that has it. */
static void refuse_param(struct inquiry *q)
{
    const char *name = q->talk->script.refused;
    const json_t *v = q->is_root ? json_object_get(q->r.body, name)
                                 : mock_check_find(app.check, &q->r, today(), name);
    if (v) {
        (void)blame(&q->talk->error, MOCK_FAULT_UNSUPPORTED, name, "", "refused by script");
    }
}

/* ---- from body to answer */

static void answer_fault(struct inquiry *q)
{
    struct mock_error *e = &q->talk->error;
    int status = q->route.dialect->status ? q->route.dialect->status(e) : 0;
    e->status = status ? status : e->fault == MOCK_FAULT_NO_ADDRESS ? 404 : 400;
    e->model = q->talk->model;
    log_inquiry(q, e->message);
    mock_talk_start(q->talk);
}

/* The model without its script. false: the script is none. */
static bool take_script(struct inquiry *q, const char *model)
{
    struct mock_talk *t = q->talk;
    char why[200];
    const char *tilde = strrchr(model, '~');
    size_t len = tilde ? (size_t)(tilde - model) : strlen(model);
    (void)snprintf(t->model, sizeof t->model, "%.*s", (int)len, model);
    q->r.model = t->model;
    const char *words = tilde ? tilde + 1 : mock_script_is_name(model) ? model : "story";
    if (!mock_script_parse(words, &t->script, why, sizeof why)) {
        return blame(&t->error, MOCK_FAULT_BODY, "", "", why);
    }
    (void)mock_script_pop(&t->script);
    return true;
}

static void apply_script(struct inquiry *q)
{
    struct mock_talk *t = q->talk;
    const struct mock_script *s = &t->script;
    if (mock_script_has(s, MOCK_SCRIPT_REFUSE)) {
        refuse_param(q);
    }
    if (s->status) {
        (void)blame(&t->error, MOCK_FAULT_STATUS, "", "", "Scripted failure");
        t->error.status = s->status;
        t->error.retry_s = s->retry_s ? s->retry_s : s->status == 429 ? RETRY_SECONDS : 0;
    } else if (t->error.fault != MOCK_FAULT_NONE) {
        int status = q->route.dialect->status ? q->route.dialect->status(&t->error) : 0;
        t->error.status = status ? status : t->error.fault == MOCK_FAULT_NO_ADDRESS ? 404 : 400;
    } else {
        t->error.status = 500; /* what a stream that fails says */
        (void)snprintf(t->error.message, sizeof t->error.message, "The server had an error");
    }
}

/* The body is an object and there is a model. */
static void answer(struct inquiry *q)
{
    struct mock_talk *t = q->talk;
    const struct mock_dialect *d = q->route.dialect;
    q->wish = (struct mock_wish){.stream = q->route.is_stream, .n_top = -1};
    d->read(&q->r, &q->wish);
    uint64_t number = q->is_root ? 0 : mock_log_next();
    t->error.is_text = q->r.is_text;
    t->error.shape = q->wish.shape;
    t->error.model = t->model;
    bool ok = is_taken(q, &t->error);
    log_inquiry(q, ok ? "taken" : t->error.message);
    apply_script(q);
    mock_answer_make(&q->r, d, &q->wish, &t->script, number, &t->made);
    json_decref(q->wish.kept);
    t->content_type = q->wish.content_type ? q->wish.content_type : d->content_type;
    mock_talk_start(t);
}

static const char *model_of(const struct inquiry *q)
{
    const char *named = json_string_value(json_object_get(q->r.body, "model"));
    return q->route.model[0] ? q->route.model : named ? named : q->route.dialect->default_model;
}

/* A talk for the inquiry; false: answered already. */
static bool begin_talk(struct inquiry *q)
{
    struct mock_talk *t = mock_talk_new(q->conn);
    if (!t) {
        complain(q->conn, 503, "out of memory");
        return false;
    }
    q->talk = t;
    t->dialect = q->route.dialect;
    t->ends_broken = q->is_root;
    t->error.provider = q->route.provider;
    (void)snprintf(t->error.id, sizeof t->error.id, q->is_root ? "scripted" : "scripted%llu",
                   (unsigned long long)mock_log_next());
    return true;
}

static void serve_api(struct conn *c)
{
    struct inquiry q = {.conn = c};
    struct failure f = {.status = 0};
    struct slice bytes = conn_body(c);
    const char *path = conn_path(c);
    q.is_root = !app.only && strcmp(path, "/v1/chat/completions") == 0;
    bool is_found = q.is_root || mock_route_find(app.snapshot, app.only, path, &q.route);
    if (q.is_root) {
        q.route = (struct mock_route){
            .provider = &scripted, .dialect = &mock_dialect_openai, .path = path};
    }
    if (!q.route.dialect) {
        complain(c, 404, "no provider has this address: the path is /PROVIDER and that API's own");
        return;
    }
    if (!begin_talk(&q)) {
        return;
    }
    struct mock_talk *t = q.talk;
    t->body = jsonio_parse(bytes.p ? bytes.p : "", bytes.len, &f);
    q.r = (struct mock_request){.provider = q.route.provider,
                                .model = "",
                                .path = q.route.path,
                                .body = t->body,
                                .is_text = q.route.is_text,
                                .is_also = q.route.is_also,
                                .query = query_of,
                                .header = header_of,
                                .ud = c};
    const char *model = model_of(&q);
    if (!is_found || strcmp(conn_method(c), "POST") != 0) {
        (void)blame(&t->error, MOCK_FAULT_NO_ADDRESS, "", "", "no such address, or no POST");
    } else if (!json_is_object(t->body)) {
        (void)blame(&t->error, MOCK_FAULT_BODY, "", "",
                    t->body ? "the body is no object" : f.message);
    } else if (!model) {
        (void)blame(&t->error, MOCK_FAULT_MISSING, "model", "", "model is required");
    } else if (take_script(&q, model)) {
        answer(&q);
        return;
    }
    answer_fault(&q);
}

static void handle(struct conn *c, void *ud)
{
    (void)ud;
    if (strcmp(conn_path(c), "/log") == 0) {
        serve_log(c);
    } else if (strcmp(conn_path(c), "/script") == 0) {
        serve_script(c);
    } else {
        serve_api(c);
    }
}

/* ---- the program */

static void print_help(void)
{
    struct buf b;
    buf_init(&b, 1u << 16);
    mock_script_print(&b);
    (void)fputs(usage, stdout);
    (void)fputs(b.p ? b.p : "", stdout);
    buf_release(&b);
}

/* -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"listen", required_argument, NULL, 'l'},   {"catalog", required_argument, NULL, 'c'},
        {"provider", required_argument, NULL, 'p'}, {"schemas", required_argument, NULL, 's'},
        {"log", required_argument, NULL, 'o'},      {"quiet", no_argument, NULL, 'q'},
        {"no-checks", no_argument, NULL, 'n'},      {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        const char **text = c == 'l'   ? &o->listen
                            : c == 'c' ? &o->catalog
                            : c == 'p' ? &o->provider
                            : c == 's' ? &o->schemas
                            : c == 'o' ? &o->log
                                       : NULL;
        if (text) {
            *text = optarg;
        } else if (c == 'q' || c == 'n') {
            *(c == 'q' ? &o->is_quiet : &o->has_no_checks) = true;
        } else if (c == 'v') {
            (void)printf("isotherm-mock %s\n", ISOTHERM_VERSION);
            return program_end("isotherm-mock", 0);
        } else if (c == 'h') {
            print_help();
            return program_end("isotherm-mock", 0);
        } else {
            return program_bad_option("isotherm-mock", c, argv);
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "isotherm-mock: '%s' is not an option: see isotherm-mock --help\n",
                      argv[optind]);
        return 2;
    }
    return -1;
}

static bool say(const char *what, const char *why)
{
    (void)fprintf(stderr, "isotherm-mock: %s%s\n", what, why);
    return false;
}

/* Without a catalog of that name beside the program only "scripted" is there. */
static bool open_catalog(void)
{
    struct catalog_error err = {.code = CATALOG_OK};
    char found[4096], why[600];
    bool is_there = app.o.catalog || paths_find("catalog.db", found, sizeof found);
    const char *path = app.o.catalog ? app.o.catalog : found;
    if (is_there && (!catalog_open_quick(&app.catalog, path, &err) ||
                     !catalog_snapshot(app.catalog, 0, &app.snapshot, &err))) {
        return say("catalog: ", err.text);
    }
    if (!is_there) {
        (void)say("there is no catalog beside the program: only /v1/chat/completions is served, "
                  "--catalog names another",
                  "");
        return !app.o.provider || say("--provider needs a catalog", "");
    }
    app.only = app.o.provider ? snapshot_provider(app.snapshot, app.o.provider) : NULL;
    if (app.o.provider && !app.only) {
        return say("the catalog has no provider of the name ", app.o.provider);
    }
    if (app.only && !mock_route_dialect(app.only->dialect, false)) {
        return say("there is no such API to speak: ", app.only->dialect);
    }
    app.check = mock_check_new(app.snapshot, app.o.schemas, why, sizeof why);
    return app.check || say("--schemas: ", why);
}

static bool serve(void)
{
    struct server *s = NULL;
    struct failure f = {.status = 0};
    struct server_options o = {.listen = app.o.listen,
                               .n_loops = 1,
                               .body_bytes_max = BODY_BYTES_MAX,
                               .in_flight_max = 4096,
                               .handler = handle};
    sigset_t signals;
    int got;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (!server_start(&s, &o, &f)) {
        return say(f.message, "");
    }
    (void)printf("listening %u\n", server_port(s));
    (void)fflush(stdout);
    while (sigwait(&signals, &got) != 0) {
    }
    server_stop(s, 100);
    return true;
}

int main(int argc, char **argv)
{
    app.o.listen = "127.0.0.1:4199";
    program_hold_descriptors();
    int status = parse_options(argc, argv, &app.o);
    if (status >= 0) {
        return status;
    }
    bool ok = open_catalog();
    if (ok && !mock_log_open(app.o.log)) {
        (void)fprintf(stderr, "isotherm-mock: --log %s: %s\n", app.o.log, strerror(errno));
        ok = false;
    }
    ok = ok && serve();
    mock_log_close();
    mock_check_free(app.check);
    snapshot_release(app.snapshot);
    catalog_close(app.catalog);
    return ok ? 0 : 1;
}
