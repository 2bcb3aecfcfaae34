/* mock_parts.c - nothing here knows an API: only JSON, counting, and OpenAI's shape of tools, which
 * Cohere, Ollama and DashScope have taken over.
 */
#include "mock_parts.h"

#include "gateway/base/jsonio.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool mock_parts_place(const size_t *events, size_t n_phases, size_t i, struct mock_place *out)
{
    size_t total = 0;
    for (size_t p = 0; p < n_phases; p++) {
        total += events[p];
    }
    if (i >= total) {
        return false;
    }
    *out = (struct mock_place){.at = i, .is_last = i + 1 == total};
    while (out->at >= events[out->phase]) {
        out->at -= events[out->phase++];
    }
    return true;
}

json_t *mock_parts_text(const char *const *word, size_t n)
{
    struct buf b;
    buf_init(&b, 1u << 26);
    for (size_t i = 0; i < n; i++) {
        (void)buf_puts(&b, word[i]);
    }
    json_t *text = json_stringn(b.len > 0 ? b.data : "", b.len);
    buf_release(&b);
    return text;
}

json_t *mock_parts_object(const char *text)
{
    json_t *o = text ? json_loads(text, 0, NULL) : NULL;
    return o ? o : json_object();
}

json_t *mock_parts_call(const struct mock_call *c, bool asks)
{
    return json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", c->id, "type", "function", "function", "name",
                     c->name, "arguments", asks ? "" : c->arguments);
}

/* JSON text is cut before its middle, and never within a character: a byte that continues one is
 * 10xxxxxx. */
json_t *mock_parts_half(const struct mock_call *c, bool is_second)
{
    size_t len = strlen(c->arguments), cut = len / 2;
    while (cut > 0 && ((unsigned char)c->arguments[cut] & 0xc0) == 0x80) {
        cut--;
    }
    return is_second ? json_stringn(c->arguments + cut, len - cut) : json_stringn(c->arguments, cut);
}

const char *mock_parts_finish(const char *const *word, const struct mock_answer *a)
{
    return word[a->finish];
}

double mock_parts_logprob(size_t i, size_t k)
{
    return -0.125 * (double)(1 + i % 7) - 1.5 * (double)k; /* exact in binary, so in text too */
}

json_t *mock_parts_token(const struct mock_answer *a, size_t i, size_t k)
{
    return k == 0 ? json_string(a->word[i]) : json_sprintf("other%zu", k);
}

json_int_t mock_parts_token_id(size_t i, size_t k)
{
    return (json_int_t)(1000 + 100 * i + k);
}

static json_t *one_token(const struct mock_answer *a, size_t i, size_t k)
{
    json_t *token = mock_parts_token(a, i, k), *bytes = json_array();
    for (const char *p = json_string_value(token); *p; p++) {
        (void)json_array_append_new(bytes, json_integer((unsigned char)*p));
    }
    return json_pack("{s:o,s:f,s:o}", "token", token, "logprob", mock_parts_logprob(i, k), "bytes",
                     bytes);
}

json_t *mock_parts_token_json(const struct mock_answer *a, size_t i)
{
    json_t *o = one_token(a, i, 0), *top = json_array();
    for (int k = 0; k < a->n_top; k++) {
        (void)json_array_append_new(top, one_token(a, i, (size_t)k));
    }
    (void)json_object_set_new(o, "top_logprobs", top);
    return o;
}

void mock_parts_write(struct buf *out, json_t *v)
{
    (void)jsonio_write(out, v);
    json_decref(v);
}

void mock_parts_event(struct buf *out, const char *event, json_t *v)
{
    if (event) {
        (void)buf_puts(out, "event: ");
        (void)buf_puts(out, event);
        (void)buf_puts(out, "\n");
    }
    (void)buf_puts(out, "data: ");
    mock_parts_write(out, v);
    (void)buf_puts(out, "\n\n");
}

/* ---- reading a request */

const json_t *mock_parts_get(const json_t *o, const char *camel)
{
    const json_t *v = json_object_get(o, camel);
    char snake[64];
    size_t n = 0;
    for (const char *p = camel; *p && n + 3 < sizeof snake; p++) {
        if (isupper((unsigned char)*p)) {
            snake[n++] = '_';
        }
        snake[n++] = (char)tolower((unsigned char)*p);
    }
    snake[n] = '\0';
    return v ? v : json_object_get(o, snake);
}

int64_t mock_parts_integer(const json_t *v)
{
    return json_is_integer(v) ? json_integer_value(v) : (int64_t)json_real_value(v);
}

const char *mock_parts_said(const json_t *content)
{
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)content, i, part) { /* the macro wants no const */
        const char *text = json_string_value(json_object_get(part, "text"));
        if (text) {
            return text;
        }
    }
    return json_string_value(content);
}

bool mock_parts_add_function(struct mock_wish *wish, const char *name, const json_t *schema)
{
    if (!name || wish->n_functions == MOCK_CALLS_MAX) {
        return false;
    }
    wish->function[wish->n_functions] = name;
    wish->parameters[wish->n_functions++] = schema;
    return true;
}

void mock_parts_keep_function(struct mock_wish *wish, const char *name)
{
    for (size_t i = 0; name && i < wish->n_functions; i++) {
        if (strcmp(wish->function[i], name) == 0) {
            wish->function[0] = wish->function[i];
            wish->parameters[0] = wish->parameters[i];
            wish->n_functions = 1;
            return;
        }
    }
}

void mock_parts_read_tools(const json_t *tools, struct mock_wish *wish)
{
    size_t i;
    json_t *tool;
    json_array_foreach ((json_t *)tools, i, tool) { /* the macro wants no const */
        const json_t *f = json_object_get(tool, "function");
        (void)mock_parts_add_function(wish, json_string_value(json_object_get(f, "name")),
                                      json_object_get(f, "parameters"));
    }
}

void mock_parts_read_messages(const json_t *messages, struct mock_wish *wish)
{
    size_t i;
    json_t *message;
    json_array_foreach ((json_t *)messages, i, message) { /* the macro wants no const */
        const char *role = json_string_value(json_object_get(message, "role"));
        wish->has_result = role && strcmp(role, "tool") == 0;
        if (role && strcmp(role, "user") == 0) {
            wish->said = mock_parts_said(json_object_get(message, "content"));
        }
    }
}
