/* messages.h - OpenAI's messages one by one, for dialects that keep their roles and their order
 * (those whose turns alternate use turns.h). Pure.
 *
 * Each message is checked and handed to the dialect, which writes it its own way. What has no place
 * in any of these dialects is noted here, once, by its first value; what cannot be said is a 400.
 */
#ifndef ISOTHERM_MESSAGES_H
#define ISOTHERM_MESSAGES_H

#include "backend.h"

/* One message; everything is borrowed for the call of message_fn. */
struct message {
    size_t at;        /* its place, for a 400 that names it */
    bool is_last;     /* an assistant's last message is to be continued */
    const char *role; /* "system", "user", "assistant" or "tool" */
    /* The content where it is one string and not empty, as most are; then there are no parts. */
    const json_t *text;
    /* [{"type":"text","text"} | {"type":"image_url","image_url":{"url","detail"?}}]: no empty
     * texts, images only of the user, every url is an http address or data:TYPE;base64,DATA */
    const json_t *parts;
    const json_t *reasoning;         /* an assistant's reasoning text, or NULL */
    const json_t *calls;             /* an assistant's tool_calls, each with id and name */
    const char *call_id, *call_name; /* whose result this is; the name is NULL for an id that no
                                        message before has */
};
struct messages;
/* The message as the dialect writes it, a new reference. NULL: a failure is set, or memory. */
typedef json_t *message_fn(const struct message *m, struct messages *b);

struct messages {
    const struct call *c;
    struct failure *f;
    /* What was changed: a dialect sets what it leaves out, to the first value (NULL: nothing). */
    const json_t *detail;     /* of an image */
    const json_t *reasoning;  /* of the assistant */
    size_t n_parts, n_joined; /* texts that were made one, and what they became */
    bool is_moved;            /* an image stood after a text, and now before it */
    /* of messages_build() itself */
    const json_t *developer, *system, *name;
    const char *unknown_key;
    json_t *call_names; /* id of a call -> its function's name, of the messages so far; or NULL */
};
/* New array of what fn gave; NULL: a failure is set. */
json_t *messages_build(const struct call *c, message_fn *fn, struct failure *f);
/* 400 that names the message. Always NULL. */
json_t *messages_refuse(struct messages *b, size_t at, const char *what);

/* All texts of a message in one string, "\n" between them: a new reference. Where that changes
 * something it is counted in `b`. */
json_t *messages_text(const struct message *m, struct messages *b);
/* The parts of a text message as a string where there is only one, else as blocks. */
json_t *messages_content(const struct message *m);

/* Arguments of a call as text, and as an object: what is no object is wrapped, so that nothing of
 * it is lost. New references. */
json_t *messages_arguments_text(const json_t *arguments);
json_t *messages_arguments_object(const json_t *arguments);

/* [{"type":"function","function":{name, description, parameters}}] without other keys; a function
 * without parameters gets an empty object. NULL: 400. */
json_t *messages_tools(const json_t *tools, struct failure *f);
/* Notes that `strict` of a tool and `description` of a response format are left out. */
bool messages_note_strict(const struct call *c, struct failure *f);
bool messages_note_format(const struct call *c, struct failure *f);
/* The schema inside a response_format; NULL: it has none. Borrowed. */
const json_t *messages_schema(const json_t *format);

#endif
