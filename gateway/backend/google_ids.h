/* google_ids.h - how the two things that Gemini wants back with a function call travel through an
 * OpenAI client, which keeps nothing of a call but its id. Pure.
 *
 *   PROVIDER__sig_SIGNATURE     the provider's own id, then its thought signature (may be empty)
 *   call_0123456789abcdef       made here, where the provider sent no id (Gemini 2.x)
 *   call_0123456789abcdef__sig_SIGNATURE    the same with a signature
 *   anything else               of another provider: nothing of it is sent
 *
 * The signature is in the URL's base64 without padding, so the whole is letters, digits, `_` and
 * `-`, which every provider takes. A signature that is longer than GOOGLE_SIGNATURE_MAX, or no
 * base64, does not travel: the call then counts as one of another provider, for which the vendor
 * documents GOOGLE_NO_SIGNATURE. Signatures beside a text do not travel either: they may be left
 * out.
 */
#ifndef ISOTHERM_GOOGLE_IDS_H
#define ISOTHERM_GOOGLE_IDS_H

#include "gateway/base/buf.h"
#include <stdint.h>

/* Seen: some hundred bytes to a few thousand. */
#define GOOGLE_SIGNATURE_MAX 8192
#define GOOGLE_ID_MAX        64
/* "Skips the check": for calls that came from elsewhere. */
#define GOOGLE_NO_SIGNATURE "skip_thought_signature_validator"

/* id, signature: the provider's, or NULL. made: what an id is made from where there is none. false:
 * memory or limit. */
bool google_id_write(struct buf *out, const char *id, const char *signature, uint64_t made)
    __attribute__((warn_unused_result));

/* The provider's own id, a part of `tool_id`; p NULL: there was none. */
struct slice google_id_own(const char *tool_id);
/* The signature as the provider sent it (standard base64, padded). false: memory or limit; nothing
 * is written where there is none. */
bool google_id_signature(struct buf *out, const char *tool_id) __attribute__((warn_unused_result));

#endif
