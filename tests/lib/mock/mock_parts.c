/* mock_parts.c - nothing here knows an API: only JSON, counting, and OpenAI's shape of tools, which
 * Cohere, Ollama and DashScope have taken over.
 */
#include "mock_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    json_t *text = json_stringn(b.p ? b.p : "", b.len);
    buf_release(&b);
    return text;
}

json_t *mock_parts_call(const struct mock_call *c)
{
    return json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", c->id, "type", "function", "function", "name",
                     c->name, "arguments", c->arguments);
}

json_t *mock_parts_half(const struct mock_call *c, bool is_second)
{
    size_t len = strlen(c->arguments), cut = len / 2;
    while (cut > 0 && ((unsigned char)c->arguments[cut] & 0xc0) == 0x80) {
        cut--; /* 10xxxxxx goes on with a character */
    }
    return is_second ? json_stringn(c->arguments + cut, len - cut)
                     : json_stringn(c->arguments, cut);
}

static json_t *one_token(const struct mock_answer *a, size_t i, size_t k)
{
    const char *token = mock_alternative(a, i, k);
    return json_pack("{s:s,s:f,s:o}", "token", token, "logprob", mock_logprob(a, i, k), "bytes",
                     mock_bytes(token));
}

json_t *mock_parts_token(const struct mock_answer *a, size_t i)
{
    json_t *o = one_token(a, i, 0), *top = json_array();
    for (int k = 0; k < a->n_top; k++) {
        (void)json_array_append_new(top, one_token(a, i, (size_t)k));
    }
    (void)json_object_set_new(o, "top_logprobs", top);
    return o;
}

void mock_parts_uuid(const char *id, unsigned kind, char out[MOCK_UUID_LEN])
{
    unsigned long n = strtoul(id + strcspn(id, "0123456789"), NULL, 10);
    (void)snprintf(out, MOCK_UUID_LEN, "00000000-0000-4000-8000-%04x%08lx", kind & 0xffff,
                   n & 0xffffffff);
}

const char *mock_parts_leaf(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

int mock_parts_count_len(const char *limit)
{
    return (int)strcspn(limit, " ");
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

void mock_parts_read_tools(const json_t *tools, const json_t *choice, struct mock_wish *wish)
{
    size_t i;
    json_t *tool;
    json_array_foreach ((json_t *)tools, i, tool) { /* the macro wants no const */
        const char *name = mock_get_string(tool, "function.name");
        if (name) {
            mock_wish_function(wish, name, mock_get(tool, "function.parameters"));
        }
    }
    const char *word = json_string_value(choice), *only = mock_get_string(choice, "function.name");
    wish->is_forced = word && strcasecmp(word, "required") == 0;
    wish->is_barred = word && strcasecmp(word, "none") == 0;
    if (only) {
        mock_wish_only(wish, only);
    }
}
