/* chat_style.h - one row for each way in which published chat templates write messages: the name by
 * which people choose it, how its template is known by its text, and the function that writes what
 * that template would.
 *
 * A style writes what the original does, byte for byte, peculiarities included, and refuses what
 * the original refuses; tests/reference holds both against the originals.
 */
#ifndef ISOTHERM_CHAT_STYLE_H
#define ISOTHERM_CHAT_STYLE_H

#include "chat_text.h"

/* Borrowed. content may hold any bytes. */
struct chat_message {
    const char *role, *content;
    size_t content_len;
};

/* In what templates of one style differ. */
struct chat_variant {
    bool has_bos;            /* the text begins with bos */
    bool skips_empty_system; /* phi3 */
    bool has_system;         /* phi3-v1: system messages are written, not left out */
    const char *system;      /* what is written where no system message comes first */
    size_t system_len;       /* 0: nothing */
};

typedef bool chat_style_fn(struct chat_text *o, const struct chat_variant *v,
                           const struct chat_message *m, size_t n);

enum { CHAT_STYLE_PIECES = 4, CHAT_STYLE_MARKS = 3 };
struct chat_style {
    const char *name;
    chat_style_fn *write;
    bool has_bos; /* of the variant, where the style is chosen by name */
    /* Pieces of the template's text, squeezed (chat_template.c): all of `with` are in it and none
     * of `without`. No `with`: a template is never taken for it. */
    const char *with[CHAT_STYLE_PIECES], *without[CHAT_STYLE_PIECES];
    /* Special tokens without which the style makes no sense; the first ends an answer. */
    const char *marks[CHAT_STYLE_MARKS];
};

/* In the order in which a template is tried; ended by a row without a name. */
extern const struct chat_style chat_styles[];

#endif
