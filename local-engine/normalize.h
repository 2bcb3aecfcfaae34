/* normalize.h - the changes that a tokenizer makes to a text before it cuts it, one after the
 * other: Unicode's forms, lower case, replacing, stripping. Bytes that are not UTF-8 stay as they
 * are.
 */
#ifndef ISOTHERM_NORMALIZE_H
#define ISOTHERM_NORMALIZE_H

#include "engine_error.h"
#include "nfc.h"
#include <stddef.h>

enum { NORMALIZE_STEPS_MAX = 16, NORMALIZE_TEXT_MAX = 256 };

enum normalize_kind {
    NORMALIZE_FORM,      /* `form` */
    NORMALIZE_LOWERCASE, /* character by character; U+0130 becomes i and U+0307 */
    NORMALIZE_REPLACE,   /* every `from` by `to` */
    NORMALIZE_SQUEEZE,   /* two and more spaces by one `to` */
    NORMALIZE_STRIP      /* white space at the ends */
};
struct normalize_step {
    enum normalize_kind kind;
    enum nfc_form form;
    bool at_left, at_right;
    char from[NORMALIZE_TEXT_MAX], to[NORMALIZE_TEXT_MAX];
    size_t from_len, to_len; /* from_len > 0 where it is used */
};
struct normalize {
    struct normalize_step steps[NORMALIZE_STEPS_MAX];
    size_t n_steps;
};

/* *out is yours (free), or NULL where nothing changes; then *out_len is len. */
ENGINE_WARN_UNUSED bool normalize_run(const struct normalize *n, const char *s, size_t len,
                                      char **out, size_t *out_len, struct engine_error *err);

#endif
