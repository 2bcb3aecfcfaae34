/* nfc.c - utf8proc's tables, but not its utf8proc_map(): that orders combining marks by swapping
 * neighbours, which takes quadratic time on a long run of them. Here each run is sorted by
 * counting. Decomposition goes character by character, composition is utf8proc's.
 */
#include "nfc.h"

#include "codepoint.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    EXPANDS_MAX = 18,       /* characters that one decomposes into: U+FDFA; canonically four */
    PER_BYTE_MAX = 6,       /* the same for each byte: 18 from three (U+FDFA) ... */
    PER_BYTE_CANONICAL = 2, /* ... canonically 3 from two (U+01D5), 4 from three (U+1F82) */
    CLASSES = 256
};

static bool is_compatible(enum nfc_form form)
{
    return form == NFC_KC || form == NFC_KD;
}

static size_t per_byte_max(enum nfc_form form)
{
    return is_compatible(form) ? PER_BYTE_MAX : PER_BYTE_CANONICAL;
}

/* Decomposition of well-formed text. out [per_byte_max * len + EXPANDS_MAX]; returns the number of
 * characters, 0: utf8proc refuses. */
static size_t decompose(enum nfc_form form, const char *s, size_t len, utf8proc_int32_t *out)
{
    int options =
        UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (is_compatible(form) ? UTF8PROC_COMPAT : 0);
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        i += codepoint_read(s + i, len - i, &cp);
        utf8proc_ssize_t k = utf8proc_decompose_char((utf8proc_int32_t)cp, out + n, EXPANDS_MAX,
                                                     (utf8proc_option_t)options, NULL);
        if (k < 0 || k > EXPANDS_MAX) {
            return 0;
        }
        n += (size_t)k;
    }
    return n;
}

static unsigned class_of(utf8proc_int32_t cp)
{
    return cp < 0x300 ? 0 : (unsigned)utf8proc_get_property(cp)->combining_class % CLASSES;
}

/* Stable counting sort of one run of marks by combining class. */
static void sort_run(utf8proc_int32_t *run, size_t n, utf8proc_int32_t *scratch)
{
    size_t at[CLASSES + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        at[class_of(run[i]) + 1]++;
    }
    for (size_t c = 0; c < CLASSES; c++) {
        at[c + 1] += at[c];
    }
    for (size_t i = 0; i < n; i++) {
        scratch[at[class_of(run[i])]++] = run[i];
    }
    memcpy(run, scratch, n * sizeof *run);
}

static void order_marks(utf8proc_int32_t *cps, size_t n, utf8proc_int32_t *scratch)
{
    for (size_t i = 0; i < n;) {
        size_t from = i;
        bool is_sorted = true;
        for (unsigned last = 0, c; i < n && (c = class_of(cps[i])) != 0; last = c, i++) {
            is_sorted = is_sorted && c >= last;
        }
        if (!is_sorted) {
            sort_run(cps + from, i - from, scratch);
        }
        i += i == from;
    }
}

/* The form of well-formed text, appended at w; NULL: no memory or utf8proc refuses. */
static char *compose(enum nfc_form form, const char *s, size_t len, char *w)
{
    bool composes = form == NFC_C || form == NFC_KC;
    utf8proc_int32_t *cps = malloc((2 * per_byte_max(form) * len + EXPANDS_MAX) * sizeof *cps);
    if (!cps) {
        return NULL;
    }
    size_t n = decompose(form, s, len, cps);
    order_marks(cps, n, cps + n); /* n <= per_byte_max * len */
    utf8proc_ssize_t k = n > 0 ? (utf8proc_ssize_t)n : -1;
    if (n > 0 && composes) {
        k = utf8proc_normalize_utf32(cps, k, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    }
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        w += codepoint_write(w, (uint32_t)cps[i]);
    }
    free(cps);
    return k < 0 ? NULL : w;
}

bool nfc_make(enum nfc_form form, const char *text, size_t len, char **out, size_t *out_len,
              struct engine_error *err)
{
    size_t i = 0;
    while (i < len && (unsigned char)text[i] < 0x80) {
        i++;
    }
    if (i == len) {
        *out = NULL;
        *out_len = len;
        return true;
    }
    /* At most three times as long, eleven for the compatible forms (UAX 15, table 8). */
    char *buf = malloc((is_compatible(form) ? 11 : 3) * len), *w = buf;
    for (i = 0; w && i < len;) {
        size_t n = codepoint_valid_run(text + i, len - i);
        if (n > 0) {
            w = compose(form, text + i, n, w);
        } else {
            n = codepoint_invalid_run(text + i, len - i);
            memcpy(w, text + i, n);
            w += n;
        }
        i += n;
    }
    if (!w) {
        free(buf);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    *out = buf;
    *out_len = (size_t)(w - buf);
    return true;
}
