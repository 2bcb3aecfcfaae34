/* chat_template.h - the chat template of a model: recognised by its text, or chosen by name. It
 * knows no vocabulary: what it writes is text with markers (chat_text.h).
 *
 * Templates are programs (Jinja), and programs from a model's file are not run here. A template is
 * known by the expressions in which it writes messages; one with any that is not known in just that
 * form is unknown, since a prompt that is nearly right is worse than none.
 */
#ifndef ISOTHERM_CHAT_TEMPLATE_H
#define ISOTHERM_CHAT_TEMPLATE_H

#include "chat_style.h"

#define CHAT_TEMPLATE_MAX (1u << 20) /* bytes; the longest that are known have 13,000 */
#define CHAT_SYSTEM_MAX   (64u << 10)
/* More than any context has room for: each message takes at least four tokens of it. */
enum { CHAT_MESSAGES_MAX = 65536 };

struct chat_template {
    const struct chat_style *style;
    struct chat_variant variant;
    char *text; /* that variant.system points into */
};

/* By name (chat_template_name); false: ENGINE_BAD_PARAM "chat_template", with all names. */
ENGINE_WARN_UNUSED bool chat_template_named(struct chat_template *out, const char *name,
                                            struct engine_error *err);
/* By the text of a template; false: ENGINE_BAD_PARAM "chat_template": it is not known, or longer
 * than CHAT_TEMPLATE_MAX. */
ENGINE_WARN_UNUSED bool chat_template_recognise(struct chat_template *out, const char *text,
                                                size_t len, struct engine_error *err);
void chat_template_release(struct chat_template *t);

/* The prompt that asks for the assistant's next message. Fails with ENGINE_BAD_PARAM "messages":
 * none, too many, a role that is no word, or what the original template refuses; the text names the
 * message. */
ENGINE_WARN_UNUSED bool chat_template_write(const struct chat_template *t, struct chat_text *o,
                                            const struct chat_message *m, size_t n);

/* Names of the styles, in order; NULL behind the last. */
const char *chat_template_name(size_t i);

#endif
