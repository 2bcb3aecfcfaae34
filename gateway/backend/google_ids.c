/* google_ids.c - see google_ids.h. The mark is looked for from the left: a provider's id that holds
 * it is not taken, so what is read is always what was written. */
#include "google_ids.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char mark[] = "__sig_";
static const char own[] = "call_";
enum { HASH_LEN = 16, OWN_LEN = sizeof own - 1 + HASH_LEN };

static bool is_id(const char *id)
{
    size_t n = id ? strlen(id) : 0;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)id[i]) && id[i] != '_' && id[i] != '-') {
            return false;
        }
    }
    return n > 0 && n <= GOOGLE_ID_MAX && !strstr(id, mark);
}

/* Base64 of either alphabet, padded or not: its length without padding, or 0. */
static size_t base64_length(const char *s)
{
    size_t n = s ? strlen(s) : 0, pad = 0;
    while (n > 0 && pad < 2 && s[n - 1] == '=') {
        n--;
        pad++;
    }
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && !strchr("+/-_", s[i])) {
            return 0;
        }
    }
    bool fits = n % 4 != 1 && n <= GOOGLE_SIGNATURE_MAX && (pad == 0 || (n + pad) % 4 == 0);
    return fits ? n : 0;
}

static bool put_swapped(struct buf *out, const char *s, size_t n, const char *from, const char *to)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i] == from[0] ? to[0] : s[i] == from[1] ? to[1] : s[i];
        if (!buf_append(out, &c, 1)) {
            return false;
        }
    }
    return true;
}

bool google_id_write(struct buf *out, const char *id, const char *signature, uint64_t made)
{
    size_t n = base64_length(signature);
    bool is_theirs = is_id(id);
    bool ok = is_theirs ? buf_puts(out, id) : buf_printf(out, "%s%016" PRIx64, own, made);
    ok = ok && ((!is_theirs && n == 0) || buf_puts(out, mark));
    return ok && put_swapped(out, signature, n, "+/", "-_");
}

/* "call_" and the hash: made here. */
static bool is_made(const char *id, size_t n)
{
    if (n != OWN_LEN || memcmp(id, own, sizeof own - 1) != 0) {
        return false;
    }
    for (size_t i = sizeof own - 1; i < n; i++) {
        if (!isdigit((unsigned char)id[i]) && !(id[i] >= 'a' && id[i] <= 'f')) {
            return false;
        }
    }
    return true;
}

struct slice google_id_own(const char *tool_id)
{
    const char *at = strstr(tool_id, mark);
    size_t n = at ? (size_t)(at - tool_id) : 0;
    return n > 0 && !is_made(tool_id, n) ? (struct slice){tool_id, n} : (struct slice){NULL, 0};
}

bool google_id_signature(struct buf *out, const char *tool_id)
{
    const char *at = strstr(tool_id, mark);
    const char *s = at ? at + sizeof mark - 1 : "";
    size_t n = base64_length(s);
    if (n == 0 || s[n] == '=') {
        return true;
    }
    return put_swapped(out, s, n, "-_", "+/") && buf_append(out, "==", (4 - n % 4) % 4);
}
