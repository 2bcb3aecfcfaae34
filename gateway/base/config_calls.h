/* config_calls.h - how a provider is called: the keys of an entry of `providers` that are numbers
 * or switches, with their defaults. Private to config.c; config_calls_of() is in config.h. */
#ifndef ISOTHERM_CONFIG_CALLS_H
#define ISOTHERM_CONFIG_CALLS_H

#include "config_check.h"

/* What libcyaml reads without a word: 3.5 as 3, "maybe" as true. */
bool config_calls_check(const struct config_file *f, struct config_error *err)
    __attribute__((warn_unused_result));
/* Gives every provider of one file the defaults of the keys that it lacks. */
void config_calls_fill(struct config *c, const struct yaml_lines *lines);
/* The lines of the commented example. false: the buffer's limit or memory. */
bool config_calls_document(struct buf *b);

#endif
