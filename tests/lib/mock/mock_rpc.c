/* mock_rpc.c - a gRPC status as JSON. Field names in a message are snake_case whatever the request
 * wrote. What an unknown field is told, and how long to wait after a 429, stands in `details`.
 */
#include "mock_rpc.h"

#include "mock_parts.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *status_word(int status)
{
    static const struct {
        int status;
        const char *word;
    } words[] = {{401, "UNAUTHENTICATED"}, {402, "RESOURCE_EXHAUSTED"}, {403, "PERMISSION_DENIED"},
                 {404, "NOT_FOUND"},       {429, "RESOURCE_EXHAUSTED"}, {500, "INTERNAL"},
                 {503, "UNAVAILABLE"},     {504, "DEADLINE_EXCEEDED"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].status == status) {
            return words[i].word;
        }
    }
    return status < 500 ? "INVALID_ARGUMENT" : "INTERNAL";
}

/* "generationConfig.topK" without its last part: "generation_config", or "". */
static void parent_of(const char *path, char out[128])
{
    size_t len = (size_t)(mock_parts_leaf(path) - path), n = 0;
    for (size_t i = 0; i + 1 < len && n + 3 < 128; i++) {
        if (isupper((unsigned char)path[i])) {
            out[n++] = '_';
        }
        out[n++] = (char)tolower((unsigned char)path[i]);
    }
    out[n] = '\0';
}

static bool is_vertex(const struct mock_error *e)
{
    return strcmp(e->provider->id, "google-vertex") == 0;
}

/* What is said of a parameter that the model refuses whatever its value. */
static void unsupported_text(const struct mock_error *e, char *out, size_t cap)
{
    const char *name = mock_parts_leaf(e->param);
    bool is_logprobs = strcmp(name, "responseLogprobs") == 0 || strcmp(name, "logprobs") == 0;
    if (strstr(name, "Penalty")) {
        (void)snprintf(out, cap, "Penalty is not enabled for this model");
    } else if (is_logprobs && is_vertex(e)) {
        (void)snprintf(out, cap,
                       "Unable to submit request because Logprobs is not supported for this "
                       "model. Remove the Logprobs parameter and try again.");
    } else if (is_logprobs) {
        (void)snprintf(out, cap, "Logprobs is not enabled for models/%s", e->model);
    } else if (strcmp(name, "candidateCount") == 0) {
        (void)snprintf(out, cap, "Multiple candidates is not enabled for this model");
    } else if (strcmp(name, "systemInstruction") == 0) {
        (void)snprintf(out, cap, "Developer instruction is not enabled for models/%s", e->model);
    } else {
        (void)snprintf(out, cap, "%s", e->message);
    }
}

static void message_of(const struct mock_error *e, char *out, size_t cap)
{
    const char *name = mock_parts_leaf(e->param);
    char parent[128];
    parent_of(e->param, parent);
    if (e->fault == MOCK_FAULT_UNKNOWN && parent[0]) {
        (void)snprintf(out, cap,
                       "Invalid JSON payload received. Unknown name \"%s\" at '%s': Cannot find "
                       "field.",
                       name, parent);
    } else if (e->fault == MOCK_FAULT_UNKNOWN) {
        (void)snprintf(out, cap,
                       "Invalid JSON payload received. Unknown name \"%s\": Cannot find field.",
                       name);
    } else if (e->fault == MOCK_FAULT_UNSUPPORTED) {
        unsupported_text(e, out, cap);
    } else if (e->fault == MOCK_FAULT_ABOVE && strcmp(name, "candidateCount") == 0) {
        (void)snprintf(out, cap, "Only one candidate can be specified");
    } else if (e->fault == MOCK_FAULT_TOO_LONG && strcmp(name, "stopSequences") == 0) {
        (void)snprintf(out, cap, "the number of stop_sequences must not exceed %.*s",
                       mock_parts_count_len(e->limit), e->limit);
    } else {
        (void)snprintf(out, cap, "%s", e->message);
    }
}

static json_t *details_of(const struct mock_error *e, const char *message)
{
    char parent[128];
    parent_of(e->param, parent);
    if (e->fault == MOCK_FAULT_UNKNOWN) {
        json_t *one = json_pack("{s:s}", "description", message);
        if (parent[0]) {
            (void)json_object_set_new(one, "field", json_string(parent));
        }
        return json_pack("[{s:s,s:[o]}]", "@type", "type.googleapis.com/google.rpc.BadRequest",
                         "fieldViolations", one);
    }
    if (e->status == 429 && e->retry_s > 0 && !is_vertex(e)) {
        return json_pack("[{s:s,s:o}]", "@type", "type.googleapis.com/google.rpc.RetryInfo",
                         "retryDelay", json_sprintf("%ds", e->retry_s));
    }
    return NULL;
}

json_t *mock_rpc_error(const struct mock_error *e)
{
    char message[512];
    message_of(e, message, sizeof message);
    json_t *inner = json_pack("{s:i,s:s,s:s}", "code", e->status, "message", message, "status",
                              status_word(e->status));
    json_t *details = details_of(e, message);
    if (details) {
        (void)json_object_set_new(inner, "details", details);
    }
    return json_pack("{s:o}", "error", inner);
}
