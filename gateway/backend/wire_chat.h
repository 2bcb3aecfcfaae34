/* wire_chat.h - chat messages as the OpenAI family takes them, where providers differ: roles, keys,
 * the form of tool call ids, one system message only, what continues a last message. Pure.
 *
 * What is changed is noted once, by its first value; what cannot be said is a 400. The differences
 * are claims (rules) and provider->quirks.
 */
#ifndef ISOTHERM_WIRE_CHAT_H
#define ISOTHERM_WIRE_CHAT_H

#include "backend.h"

/* New reference: the list that leaves. NULL: failure set. */
json_t *wire_chat_messages(const struct call *c, struct failure *f);

/* ---- for other dialects of the same house */

/* What the claims say that the model cannot take: a last message of the assistant, images. */
bool wire_chat_check(const struct call *c, struct failure *f);
/* The role of a message as this provider knows it; NULL: it has none. */
const char *wire_chat_role(const struct call *c, const json_t *message);
/* An adjustment about the role of a message, which went out as `sent`. */
bool wire_chat_note_role(const struct call *c, const char *asked, const char *sent,
                         struct failure *f);
/* A tool call's id in the form that is taken: exactly `len` letters and digits (0: any), at most
 * `len_max` bytes (0: any). The same id always gives the same one: `id` itself, or `out`. */
#define WIRE_CHAT_ID_SIZE 65
const char *wire_chat_tool_id(const char *id, size_t len, size_t len_max,
                              char out[WIRE_CHAT_ID_SIZE]);
/* response_format whole, {"type":"json_schema","json_schema":{..}}, whatever part of it the claim's
 * path names; another path is left alone. *value is replaced. false: memory. */
bool wire_chat_shape_format(enum param p, json_t **value, const char **path);

#endif
