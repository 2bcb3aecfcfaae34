/* chat.h - messages to token ids, by the template of a model. Markers go in as special ids; what
 * people wrote is always plain text, so no message can end its turn or begin another's (but where
 * a model's own marker is plain text, as llama 2's [INST]).
 */
#ifndef ISOTHERM_CHAT_H
#define ISOTHERM_CHAT_H

#include "chat_template.h"
#include <stdint.h>

struct chat;
struct tokenizer;

/* A template for this vocabulary, both borrowed until chat_close(). `name`: the style of that name,
 * whatever the model's files say; NULL: what the template's `text` is recognised as; without a text
 * "chatml" where the vocabulary has its markers, else "plain" (the last user message, to be
 * continued; for models that know no roles). Fails with ENGINE_BAD_PARAM "chat_template": unknown,
 * or the vocabulary lacks a special token that it needs. */
ENGINE_WARN_UNUSED bool chat_open(struct chat **out, const struct tokenizer *t, const char *name,
                                  const char *text, size_t text_len, struct engine_error *err);
void chat_close(struct chat *c);
const char *chat_name(const struct chat *c);
/* The special token that ends an answer; -1: only the model's own end ids do. */
int32_t chat_turn_end(const struct chat *c);

/* The ids of a prompt that asks for the assistant's next message; *ids is yours (free). It begins
 * with bos exactly once where the template or tokenizer_adds_bos() says so. Fails with
 * ENGINE_BAD_PARAM "messages", see chat_template_write(). */
ENGINE_WARN_UNUSED bool chat_render(const struct chat *c, const struct chat_message *messages,
                                    size_t n, int32_t **ids, size_t *n_ids,
                                    struct engine_error *err);

#endif
