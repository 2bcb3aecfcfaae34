/* chat_texts.c - our side of the comparison of chat templates: each line of standard input is
 * {"template": TEXT, "bos": TEXT, "eos": TEXT, "talks": [[{"role", "content"}...]...]}, and its
 * answer {"name": STYLE or null, "texts": [TEXT, or {"refused": WHY} ...]}.
 */
#include "local-engine/chat_template.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 64 };

static json_t *write_talk(const struct chat_template *t, const json_t *line, const json_t *talk)
{
    struct chat_message m[MESSAGES_MAX];
    struct engine_error err = {.code = ENGINE_OK};
    struct chat_text o;
    size_t n = json_array_size(talk);
    for (size_t i = 0; i < n && i < MESSAGES_MAX; i++) {
        const json_t *message = json_array_get(talk, i),
                     *content = json_object_get(message, "content");
        m[i] = (struct chat_message){json_string_value(json_object_get(message, "role")),
                                     json_string_value(content), json_string_length(content)};
    }
    chat_text_init(&o, json_string_value(json_object_get(line, "bos")),
                   json_string_value(json_object_get(line, "eos")), &err);
    json_t *text = chat_template_write(t, &o, m, n) ? json_stringn(o.p ? o.p : "", o.len)
                                                    : json_pack("{s:s}", "refused", err.text);
    chat_text_release(&o);
    return text;
}

static json_t *answer(const json_t *line)
{
    const json_t *text = json_object_get(line, "template");
    const json_t *talks = json_object_get(line, "talks");
    struct chat_template t = {.style = NULL};
    json_t *texts = json_array();
    bool is_known =
        chat_template_recognise(&t, json_string_value(text), json_string_length(text), NULL);
    for (size_t i = 0; is_known && i < json_array_size(talks); i++) {
        if (json_array_append_new(texts, write_talk(&t, line, json_array_get(talks, i))) != 0) {
            abort();
        }
    }
    json_t *out = json_pack("{s:s?, s:o}", "name", is_known ? t.style->name : NULL, "texts", texts);
    chat_template_release(&t);
    return out;
}

int main(void)
{
    char *bytes = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&bytes, &cap, stdin)) > 0) {
        json_t *line = json_loadb(bytes, (size_t)n, 0, NULL);
        json_t *out = line ? answer(line) : NULL;
        if (!out || json_dumpf(out, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF) {
            return 1;
        }
        json_decref(out);
        json_decref(line);
    }
    free(bytes);
    return fflush(stdout) == 0 ? 0 : 1;
}
