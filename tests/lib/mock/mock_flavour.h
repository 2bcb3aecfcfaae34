/* mock_flavour.h - where the providers of the OpenAI family differ in the shape of what they
 * answer. Private to mock_openai.c and mock_flavour.c.
 */
#ifndef ISOTHERM_MOCK_FLAVOUR_H
#define ISOTHERM_MOCK_FLAVOUR_H

#include "mock.h"

enum flavour_usage {
    USAGE_EXTRA,        /* a chunk without choices, where it was asked for */
    USAGE_EXTRA_ALWAYS, /* the same, asked for or not */
    USAGE_ON_FINISH,    /* on the chunk with finish_reason, always */
    USAGE_IN_CHOICE     /* inside of the last choice */
};

#define FLAVOUR_NULL_LOGPROBS   (1u << 0)  /* "logprobs": null where there are none */
#define FLAVOUR_NULL_FINISH     (1u << 1)  /* "finish_reason": null before the end */
#define FLAVOUR_NULL_USAGE      (1u << 2)  /* "usage": null in the other chunks */
#define FLAVOUR_REFUSAL         (1u << 3)  /* "refusal" and "annotations" in a message */
#define FLAVOUR_ROLE_ALWAYS     (1u << 4)  /* "role" on each delta */
#define FLAVOUR_NO_ROLE_CHUNK   (1u << 5)  /* the first delta has text */
#define FLAVOUR_CALL_WHOLE      (1u << 6)  /* a call arrives in one chunk */
#define FLAVOUR_FILTERS         (1u << 7)  /* content_filter_results */
#define FLAVOUR_GROQ            (1u << 8)  /* x_groq */
#define FLAVOUR_TAGS            (1u << 9)  /* reasoning inside of <think> in the content */
#define FLAVOUR_APART           (1u << 10) /* completion_tokens without reasoning */
#define FLAVOUR_TIER            (1u << 11) /* "service_tier" */
#define FLAVOUR_LISTS           (1u << 12) /* log-probabilities as parallel lists */
#define FLAVOUR_NO_BYTES        (1u << 13) /* no bytes in log-probabilities */
#define FLAVOUR_KEEPS_STOP      (1u << 14) /* the stop string stays in the text: stop_sequence */
#define FLAVOUR_NATIVE_REASON   (1u << 15) /* native_finish_reason, provider */
#define FLAVOUR_CHUNKED_CONTENT (1u << 16) /* reasoning makes content a list of parts */
#define FLAVOUR_BASE_RESP       (1u << 17) /* base_resp, input_sensitive ... */
#define FLAVOUR_LATE_PRINT      (1u << 18) /* system_fingerprint on the last chunk only */
#define FLAVOUR_STOP_REASON     (1u << 19) /* "stop_reason" in a choice */
#define FLAVOUR_EMPTY_LAST      (1u << 21) /* the last delta has an empty text */
#define FLAVOUR_NULL_CONTENT    (1u << 22) /* "content": null beside reasoning */
#define FLAVOUR_DONE_ANYHOW     (1u << 20) /* [DONE] also after an error */

enum flavour_error {
    ERROR_OPENAI,  /* {"error": {message, type, param, code}} */
    ERROR_PLAIN,   /* the same without param, code only where there is one */
    ERROR_NUMBER,  /* code is the status */
    ERROR_FLAT,    /* the four without a wrapper */
    ERROR_TWO,     /* {"code", "error"}, two strings */
    ERROR_DETAIL,  /* {"detail": [...]} or {"detail": "..."} */
    ERROR_MISTRAL, /* {"object": "error", "message": {"detail": [...]}} */
    ERROR_OBJECT,  /* {"object": "error", message, type, param, code} */
    ERROR_TGI,     /* {"error", "error_type"} */
    ERROR_PROBLEM, /* {"title", "status", "detail"} */
    ERROR_TYPED,   /* {"type": "error", "error": {type, message, http_code}} */
    ERROR_BUSINESS /* {"error": {"code": "1210", message}} */
};

struct flavour {
    const char *provider;    /* id in the catalog */
    const char *id;          /* prefix of the answer's id */
    const char *reasoning;   /* key of the reasoning text; NULL: it is not shown */
    const char *fingerprint; /* NULL: none */
    const char *stop;        /* finish_reason of an end */
    enum flavour_usage usage;
    enum flavour_error error;
    int refusal_status; /* of a body that does not validate */
    unsigned flags;
};
/* Never NULL: who is not in the table is as OpenAI. */
const struct flavour *flavour_of(const struct provider *p);

/* Official fields that only this provider has. */
bool flavour_knows(const struct provider *p, const char *field);

int flavour_status(const struct mock_error *e);
void flavour_error(const struct mock_error *e, struct buf *out);
#endif
