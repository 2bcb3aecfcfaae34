/* credentials.h - what lets a request in at its provider: an API key in a header, or a signature
 * made with AWS credentials over the bytes that leave.
 *
 * Keys are looked up for each request and wiped after it: in the file that the configuration names,
 * else in the environment, else among systemd's credentials (config_key()). A provider whose
 * requests are signed (auth "sigv4") is called with a key where there is one, as a bearer, else
 * signed with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if set, AWS_SESSION_TOKEN. What a
 * machine usually has goes to the provider's own hosts only; another address needs an `api_key` or
 * a `region` in its configuration. No key is ever in a failure.
 */
#ifndef ISOTHERM_CREDENTIALS_H
#define ISOTHERM_CREDENTIALS_H

#include "backend/backend.h"
#include "base/config.h"
#include "resolve.h"

#define CREDENTIALS_SIZE (CONFIG_KEY_BYTES_MAX + 1)
struct credentials {
    char key[CREDENTIALS_SIZE]; /* "": none */
    bool signs;                 /* the rest is filled */
    char access_key_id[CREDENTIALS_SIZE], secret_access_key[CREDENTIALS_SIZE];
    char session_token[CREDENTIALS_SIZE]; /* "": none */
    char region[65];
};

/* Whether a request to `t` will carry an authorization, as far as the configuration says it; no key
 * is looked up. */
bool credentials_are_sent(const struct config *conf, const struct target *t);
/* *out is overwritten, also on failure: wipe it. false: 502 upstream_auth, none is set. */
bool credentials_find(const struct config *conf, const struct target *t, struct credentials *out,
                      struct failure *f) __attribute__((warn_unused_result));
/* Adds the headers of a signature, where one is to be made: after all others, before nothing is
 * changed any more. time_s: now, since 1970. */
bool credentials_sign(const struct credentials *c, const struct target *t, struct slice body,
                      int64_t time_s, struct headers *h, struct failure *f)
    __attribute__((warn_unused_result));
void credentials_wipe(struct credentials *c);

#endif
