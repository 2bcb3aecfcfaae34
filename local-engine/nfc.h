/* nfc.h - Unicode normalisation form C of text that need not be UTF-8: bytes that are not stay as
 * they are. Time n log n at worst. */
#ifndef ISOTHERM_NFC_H
#define ISOTHERM_NFC_H

#include "engine_error.h"
#include <stddef.h>

/* *out is yours (free); it is NULL and *out_len is len when the text has no byte above 127, and so
 * is in form C already. */
ENGINE_WARN_UNUSED bool nfc_make(const char *text, size_t len, char **out, size_t *out_len,
                                 struct engine_error *err);

#endif
