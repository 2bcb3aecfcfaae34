/* isotherm_mock.c - the scripted provider: a strict OpenAI-style chat endpoint on loopback whose
 * temperature ends at 1 and which knows no seed. Tests and the demonstration talk to it; its claims
 * are tests/lib/scripted.json.
 *
 *   isotherm-mock [--listen 127.0.0.1:4199]
 *
 * It prints "listening PORT" and then one line for each chat body that it was sent. GET /log gives
 * them as a JSON array, DELETE /log forgets them. An unknown field, a temperature above 1 or a
 * fifth stop string is a 400 in OpenAI's words. The model's name chooses what happens: `story` (and
 * any other) answers; `slow` waits 100 ms before each word; `cut` breaks off after two words;
 * `hang` never answers; `status-NNN` answers that status; `refuse-PARAM` refuses that parameter;
 * `error-in-stream` fails after two words. */
#include "gateway/base/jsonio.h"
#include "gateway/io/server.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *seen; /* bodies; one loop, so one thread */

static const char *const words[] = {"Once",  " there", " was", " a",     " lamp", " that",
                                    " told", " only",  " the", " truth", "."};
#define N_WORDS (sizeof words / sizeof *words)
static const char *const fields[] = {"model",
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

struct talk {
    struct conn *conn;
    struct loop *loop;
    json_t *body;
    char model[128];
    size_t at, end;
    bool gone;
    struct loop_timer timer;
};

static void reply_json(struct conn *c, int status, json_t *o)
{
    struct buf b;
    struct conn_header h[] = {{"x-request-id", "req_scripted"}, {"retry-after", "7"}};
    buf_init(&b, 1u << 24);
    (void)jsonio_write(&b, o);
    conn_reply(c, status, "application/json", h, status == 429 ? 2 : 1, buf_slice(&b));
    buf_release(&b);
    json_decref(o);
}

static void refuse(struct conn *c, int status, const char *code, const char *param, const char *fmt)
{
    char text[200];
    (void)snprintf(text, sizeof text, fmt, param);
    reply_json(c, status,
               json_pack("{s:{s:s,s:s,s:s,s:s}}", "error", "message", text, "type",
                         "invalid_request_error", "param", param, "code", code));
}

/* false: refused and answered. */
static bool is_acceptable(struct conn *c, const json_t *body, const char *model)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)body, key, v) {
        bool known = false;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            known = known || strcmp(fields[i], key) == 0;
        }
        if (!known) {
            refuse(c, 400, "unknown_parameter", key, "Unknown parameter: '%s'.");
            return false;
        }
        if (strncmp(model, "refuse-", 7) == 0 && strcmp(model + 7, key) == 0) {
            refuse(c, 400, "unsupported_parameter", key,
                   "Unsupported parameter: '%s' is not supported with this model.");
            return false;
        }
    }
    if (json_number_value(json_object_get(body, "temperature")) > 1) {
        refuse(c, 400, "decimal_above_max_value", "temperature",
               "Invalid '%s': decimal above maximum value. Expected a value <= 1.");
        return false;
    }
    if (json_array_size(json_object_get(body, "stop")) > 4) {
        refuse(c, 400, "array_above_max_length", "stop",
               "Invalid '%s': array too long. Expected at most 4.");
        return false;
    }
    return true;
}

static json_t *chunk(const struct talk *t, json_t *choices, json_t *usage)
{
    json_t *o = json_pack("{s:s,s:s,s:i,s:s,s:s,s:o}", "id", "chatcmpl-scripted", "object",
                          "chat.completion.chunk", "created", 1790000000, "model", t->model,
                          "system_fingerprint", "fp_scripted", "choices", choices);
    (void)json_object_set_new(o, "usage", usage ? usage : json_null());
    return o;
}

static void send_event(struct talk *t, json_t *o)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    (void)buf_puts(&b, "data: ");
    (void)jsonio_write(&b, o);
    (void)buf_puts(&b, "\n\n");
    (void)conn_stream_write(t->conn, buf_slice(&b));
    buf_release(&b);
    json_decref(o);
}

static json_t *usage_json(const struct talk *t)
{
    return json_pack("{s:i,s:i,s:i}", "prompt_tokens", 9, "completion_tokens", (int)t->end,
                     "total_tokens", 9 + (int)t->end);
}

static void end_talk(struct talk *t)
{
    loop_timer_cancel(t->loop, &t->timer);
    json_decref(t->body);
    free(t);
}

static void end_stream(struct talk *t)
{
    bool is_cut = t->end < N_WORDS;
    send_event(t, chunk(t,
                        json_pack("[{s:i,s:{},s:n,s:s}]", "index", 0, "delta", "logprobs",
                                  "finish_reason", is_cut ? "length" : "stop"),
                        NULL));
    if (json_is_true(
            json_object_get(json_object_get(t->body, "stream_options"), "include_usage"))) {
        send_event(t, chunk(t, json_array(), usage_json(t)));
    }
    (void)conn_stream_write(t->conn, SLICE_LIT("data: [DONE]\n\n"));
    conn_stream_end(t->conn);
    end_talk(t);
}

static void send_word(struct talk *t)
{
    json_t *delta = json_pack("{s:s}", "content", words[t->at]);
    if (t->at == 0) {
        (void)json_object_set_new(delta, "role", json_string("assistant"));
    }
    send_event(t, chunk(t,
                        json_pack("[{s:i,s:o,s:n,s:n}]", "index", 0, "delta", delta, "logprobs",
                                  "finish_reason"),
                        NULL));
    t->at++;
}

static void next_word(void *ud)
{
    struct talk *t = ud;
    bool fails = strcmp(t->model, "error-in-stream") == 0;
    if (t->gone) {
        conn_stream_abort(t->conn);
        end_talk(t);
        return;
    }
    if (t->at == 2 && (fails || strcmp(t->model, "cut") == 0)) {
        if (fails) {
            send_event(t, json_pack("{s:{s:s,s:s}}", "error", "message", "The server had an error",
                                    "type", "server_error"));
        }
        conn_stream_abort(t->conn);
        end_talk(t);
        return;
    }
    if (t->at == t->end) {
        end_stream(t);
        return;
    }
    send_word(t);
    (void)loop_timer_arm(t->loop, &t->timer, strcmp(t->model, "slow") == 0 ? 100 : 1, next_word, t);
}

static void whole_answer(struct talk *t)
{
    char text[512] = "";
    for (size_t i = 0; i < t->end; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s", words[i]);
    }
    json_t *message = json_pack("{s:s,s:s,s:n}", "role", "assistant", "content", text, "refusal");
    json_t *choice = json_pack("{s:i,s:o,s:n,s:s}", "index", 0, "message", message, "logprobs",
                               "finish_reason", t->end < N_WORDS ? "length" : "stop");
    reply_json(t->conn, 200,
               json_pack("{s:s,s:s,s:i,s:s,s:s,s:[o],s:o}", "id", "chatcmpl-scripted", "object",
                         "chat.completion", "created", 1790000000, "model", t->model,
                         "system_fingerprint", "fp_scripted", "choices", choice, "usage",
                         usage_json(t)));
    end_talk(t);
}

static void on_close(void *ud)
{
    ((struct talk *)ud)->gone = true;
}

static void chat(struct conn *c)
{
    struct failure f = {.status = 0};
    struct slice bytes = conn_body(c);
    json_t *body = jsonio_parse(bytes.p ? bytes.p : "", bytes.len, &f);
    const char *model = json_string_value(json_object_get(body, "model"));
    if (!model) {
        refuse(c, 400, "missing_required_parameter", "model", "Missing required parameter: '%s'.");
        json_decref(body);
        return;
    }
    (void)printf("%.*s\n", (int)bytes.len, bytes.p);
    (void)fflush(stdout);
    json_t *entry = json_pack("{s:O,s:s#,s:b}", "body", body, "raw", bytes.p, (int)bytes.len,
                              "has_key", conn_header(c, "authorization") != NULL);
    (void)json_array_append_new(seen, entry);
    if (strncmp(model, "status-", 7) == 0) {
        reply_json(c, (int)strtol(model + 7, NULL, 10),
                   json_pack("{s:{s:s,s:s,s:n,s:n}}", "error", "message", "Scripted failure",
                             "type", "scripted_error", "param", "code"));
    } else if (is_acceptable(c, body, model) && strcmp(model, "hang") != 0) {
        struct talk *t = calloc(1, sizeof *t);
        const json_t *max = json_object_get(body, "max_tokens");
        t->conn = c;
        t->loop = conn_loop(c);
        t->body = json_incref(body);
        (void)snprintf(t->model, sizeof t->model, "%s", model);
        t->end = json_is_integer(max) && json_integer_value(max) < (json_int_t)N_WORDS
                     ? (size_t)json_integer_value(max)
                     : N_WORDS;
        if (json_is_true(json_object_get(body, "stream"))) {
            conn_on_close(c, on_close, t);
            conn_stream_begin(c, 200, "text/event-stream", NULL, 0);
            next_word(t);
        } else {
            whole_answer(t);
        }
    }
    json_decref(body);
}

static void handle(struct conn *c, void *ud)
{
    (void)ud;
    if (strcmp(conn_path(c), "/log") == 0) {
        if (strcmp(conn_method(c), "DELETE") == 0) {
            (void)json_array_clear(seen);
        }
        reply_json(c, 200, json_deep_copy(seen));
    } else if (strcmp(conn_path(c), "/v1/chat/completions") == 0) {
        chat(c);
    } else {
        refuse(c, 404, "not_found", "path", "Unknown '%s'.");
    }
}

int main(int argc, char **argv)
{
    struct server *s = NULL;
    struct failure f = {.status = 0};
    struct server_options o = {.listen = "127.0.0.1:4199",
                               .n_loops = 1,
                               .body_bytes_max = 1u << 24,
                               .in_flight_max = 1024,
                               .handler = handle};
    sigset_t signals;
    int got;
    if (argc == 3 && strcmp(argv[1], "--listen") == 0) {
        o.listen = argv[2];
    } else if (argc != 1) {
        (void)fputs("usage: isotherm-mock [--listen ADDRESS:PORT]\n", stderr);
        return 2;
    }
    seen = json_array();
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (!server_start(&s, &o, &f)) {
        (void)fprintf(stderr, "isotherm-mock: %s\n", f.message);
        return 1;
    }
    (void)printf("listening %u\n", server_port(s));
    (void)fflush(stdout);
    while (sigwait(&signals, &got) != 0) {
    }
    server_stop(s, 100);
    json_decref(seen);
    return 0;
}
