/* nfc.h - Unicode's normalisation forms of text that need not be UTF-8: bytes that are not stay as
 * they are. Time linear. */
#ifndef ISOTHERM_NFC_H
#define ISOTHERM_NFC_H

#include "engine_error.h"
#include <stddef.h>

enum nfc_form { NFC_C, NFC_D, NFC_KC, NFC_KD };

/* *out is yours (free); it is NULL and *out_len is len when the text has no byte above 127, and so
 * is in every form already. */
ENGINE_WARN_UNUSED bool nfc_make(enum nfc_form form, const char *text, size_t len, char **out,
                                 size_t *out_len, struct engine_error *err);

#endif
