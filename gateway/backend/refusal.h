/* refusal.h - what an upstream's error body says, fit to be shown to a client. Pure.
 *
 * Bodies are read in one order whoever wrote them: `error` object; `error` string with `code`; flat
 * `message`; `detail` string or array; `base_resp`. Texts are made plain: no markup, no addresses,
 * nothing that looks like a key, valid UTF-8, cut at a character.
 */
#ifndef ISOTHERM_REFUSAL_H
#define ISOTHERM_REFUSAL_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include <jansson.h>

#define REFUSAL_TEXT_MAX 480 /* fits into failure.message with a few words before it */
struct refusal {
    char message[REFUSAL_TEXT_MAX];
    char code[48], type[40]; /* the provider's words, or "" */
    char param[64];          /* the parameter that it names, or "" */
    char retry[16];          /* seconds to wait, as a number's text, or "" */
    int status;              /* an HTTP status inside the body, or 0 */
};

/* Whether `body` (a whole answer, a chunk, an error page's JSON) tells of an error. false: *out is
 * untouched. */
bool refusal_read(const json_t *body, struct refusal *out);
/* One plain line of at most cap - 1 bytes. */
void refusal_clean(struct slice text, char *out, size_t cap);
/* Whether the text refuses a parameter as such ("Unknown parameter: 'top_k'"), not its value ("must
 * be at most 1"): only then would every value be refused. In doubt it does not. */
bool refusal_is_of_parameter(const char *code, const char *message);
/* A non-2xx answer, for backend.refusal(): reads the body, JSON or not, and maps the status. */
void refusal_answer(int status, struct slice body, const char *retry_after, char param[64],
                    struct failure *f);
/* An error inside a 2xx answer. After content has gone out only the end of the stream can be told:
 * 502 stream_incomplete; before it the status in the body counts. Always returns false. */
bool refusal_inside(const struct refusal *r, bool is_stream, bool has_content, struct failure *f);

#endif
