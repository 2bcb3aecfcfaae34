/* chat_source.h - where the files of a model keep its chat template: tokenizer.chat_template of a
 * .gguf file; of a folder chat_template.jinja, else "chat_template" of tokenizer_config.json or of
 * chat_template.json. Of several templates by name the one named "default".
 */
#ifndef ISOTHERM_CHAT_SOURCE_H
#define ISOTHERM_CHAT_SOURCE_H

#include "engine_error.h"
#include <stddef.h>

struct weights;

/* *text is yours (free); NULL: the model has none. Not ended by a zero where it holds one. false:
 * ENGINE_BAD_FILE or ENGINE_NOMEM. */
ENGINE_WARN_UNUSED bool chat_source_read(const struct weights *w, char **text, size_t *len,
                                         struct engine_error *err);
/* The same of a folder. */
ENGINE_WARN_UNUSED bool chat_source_folder(const char *folder, char **text, size_t *len,
                                           struct engine_error *err);

#endif
