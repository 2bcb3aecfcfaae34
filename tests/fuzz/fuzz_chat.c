/* fuzz_chat.c - the first byte says how many bytes are messages, the rest is a template's text.
 * What is recognised must write, and the runs must cover exactly what was written.
 */
#include "local-engine/chat_template.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 8 };

/* Messages end at a zero byte; their first byte says the role. */
static size_t split(const char *p, size_t len, struct chat_message m[MESSAGES_MAX])
{
    static const char *const roles[] = {"user", "assistant", "system", "tool", "other"};
    size_t n = 0;
    while (len > 0 && n < MESSAGES_MAX) {
        size_t part = strnlen(p + 1, len - 1);
        m[n++] = (struct chat_message){roles[(unsigned char)p[0] % 5], p + 1, part};
        size_t used = part + 2 < len ? part + 2 : len;
        p += used;
        len -= used;
    }
    return n;
}

static void write_all(const struct chat_template *t, const struct chat_message *m, size_t n)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct chat_text o;
    chat_text_init(&o, "<s>", "</s>", &err);
    size_t sum = 0;
    if (!chat_template_write(t, &o, m, n)) {
        if (err.code == ENGINE_OK || err.text[0] == '\0') {
            abort();
        }
    } else {
        for (size_t i = 0; i < o.n_runs; i++) {
            sum += o.runs[i].len;
        }
        if (sum != o.len) {
            abort();
        }
    }
    chat_text_release(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chat_message m[MESSAGES_MAX];
    struct chat_template t = {.style = NULL};
    if (size < 1) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    size_t len = (size - 1) * data[0] / 512, n = split(text, len, m);
    if (chat_template_recognise(&t, text + len, size - 1 - len, NULL)) {
        write_all(&t, m, n);
        chat_template_release(&t);
    }
    for (size_t i = 0; chat_template_name(i); i++) {
        if (!chat_template_named(&t, chat_template_name(i), NULL)) {
            abort();
        }
        write_all(&t, m, n);
        chat_template_release(&t);
    }
    return 0;
}
