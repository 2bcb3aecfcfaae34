/* chat.h - messages to token ids, by a named template. Markers go in as special ids; what people
 * wrote is always plain text, so no message can end its turn or begin another's.
 */
#ifndef ISOTHERM_CHAT_H
#define ISOTHERM_CHAT_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* Borrowed. content may hold any bytes. */
struct chat_message {
    const char *role, *content;
    size_t content_len;
};

/* More than any context has room for: each message takes at least four tokens of it. */
enum { CHAT_MESSAGES_MAX = 65536 };

/* The ids of a prompt that asks for the assistant's next message; *ids is yours (free). It begins
 * with bos exactly once where tokenizer_adds_bos(). Templates: "plain"   the last user message, to
 * be continued; for models that know no roles "chatml"  <|im_start|>role, a line break, the
 * content, <|im_end|>, a line break ... Fails with ENGINE_BAD_PARAM: "messages" (none that can be
 * used, a strange role), "chat_template" (unknown, or the vocabulary lacks its markers). */
ENGINE_WARN_UNUSED bool chat_render(const struct tokenizer *t, const char *template_name,
                                    const struct chat_message *messages, size_t n, int32_t **ids,
                                    size_t *n_ids, struct engine_error *err);

/* Names of the templates, in order; NULL behind the last. */
const char *chat_template_name(size_t i);

#endif
