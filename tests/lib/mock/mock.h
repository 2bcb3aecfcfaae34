/* mock.h - the scripted provider (isotherm-mock): what its parts say to each other.
 *
 *   isotherm_mock.c  options, addresses -> provider, the server           the program
 *   mock_route       path -> provider, dialect, model
 *   mock_log         what was asked, for tests to look at
 *   mock_script      which fault or answer is asked for (model name, POST /script)
 *   mock_check       what a body may hold: the catalog's claims
 *   mock_schema      what a body may hold: an official JSON Schema
 *   mock_answer      what is answered: words, reasoning, calls, log-probabilities, JSON
 *   mock_send        an answer on its way: whole or in pieces, cut, slow, broken
 *   mock_parts       pieces that dialects share; mock_rpc: errors of Google's services
 *   mock_<dialect>   the answer in the shapes of one API: whole, as events, as an error
 *
 * A dialect writes what the provider's own guide and samples show, and nothing of the gateway's
 * decoders is used: the two sides would share their errors. It is pure: the same answer gives the
 * same bytes. The only exported symbol of a dialect is its `mock_dialect_<name>`, which stands in
 * the table of mock_route.c. TGI has two: its chat is that of mock_openai, mock_tgi is /generate.
 */
#ifndef ISOTHERM_MOCK_H
#define ISOTHERM_MOCK_H

#include "catalog/catalog.h"
#include "gateway/base/buf.h"
#include <jansson.h>
#include <stdbool.h>

#define MOCK_CHOICES_MAX 128
#define MOCK_WORDS_MAX   64
#define MOCK_CALLS_MAX   4
#define MOCK_TOP_MAX     20
#define MOCK_STOPS_MAX   64
/* Time of every answer: 2026-09-21T13:46:40Z. Nothing of an answer depends on the clock. */
#define MOCK_CREATED 1790000000

/* A call of a function that the answer makes. */
struct mock_call {
    char id[16];           /* nine letters and digits; a dialect may put its own prefix before */
    const char *name;      /* borrowed from the request */
    const char *arguments; /* JSON text of an object; mock_answer owns it */
};

enum mock_finish { MOCK_STOP, MOCK_LENGTH, MOCK_STOP_STRING, MOCK_TOOLS, MOCK_FILTER };

/* What a request asks of an answer, read from the body in the API's own words. Borrowed from it.
 * Zeroed before `read`, but for n_top. */
struct mock_wish {
    bool stream; /* set before `read` where the address alone says so (stream_path); read may set it
                    by the body or a header */
    bool wants_usage;
    int64_t limit;       /* of tokens; 0: none */
    const json_t *stops; /* array of strings, or one string, or NULL */
    unsigned n;          /* choices; 0: not said */
    int n_top;    /* log-probabilities: -1 none (as it is before `read`), else alternatives */
    bool reasons; /* asks for reasoning */
    bool is_json; /* any JSON object */
    const json_t *schema; /* of the answer, or NULL */
    const char *function[MOCK_CALLS_MAX];
    const json_t *parameters[MOCK_CALLS_MAX]; /* JSON Schema of its arguments, or NULL */
    size_t n_functions; /* where one function is forced by name: only that one */
    bool is_forced;     /* a call must be made (by tool_choice) */
    bool is_barred;     /* functions are given, and none may be called */
    bool is_single;     /* at most one call (parallel_tool_calls false) */
    const char *echo;   /* raw completion: this prompt comes back before the answer, or NULL */
    unsigned n_prompts; /* raw completion: more than one prompt, each with n choices; 0: one */
    json_t *kept;       /* what `read` had to parse; the program lets go of it */
    int shape;          /* the dialect's own: comes back as mock_answer.shape */
    const char *content_type; /* of the stream where it differs from the dialect's, or NULL */
};

/* What is said, the same in every dialect. Everything is borrowed by the dialects and lives until
 * the answer has been sent. */
struct mock_answer {
    const struct provider *provider; /* of the catalog; never NULL */
    const char *model;               /* as asked, without a script behind "~" */
    char id[32];                     /* "scripted17": a dialect puts its own prefix before */
    bool is_text;                    /* raw completion */
    bool stream;
    int shape;                             /* of the wish */
    const json_t *body;                    /* of the request */
    const char *word[MOCK_WORDS_MAX];      /* the text in pieces: one is one token and one event */
    size_t n_words;                        /* 0 beside calls, with a refusal and with `empty` */
    const char *reasoning[MOCK_WORDS_MAX]; /* comes before the words; n 0: none */
    size_t n_reasoning;
    struct mock_call call[MOCK_CALLS_MAX]; /* come after the words */
    size_t n_calls;
    const char *refusal; /* the model's own refusal where the API has a place for it (else the words
                            hold it and `finish` is MOCK_FILTER), or NULL */
    unsigned n_choices;  /* all of the same words */
    enum mock_finish finish;
    const char *stop; /* MOCK_STOP_STRING: the string that ended it */
    int n_top;        /* log-probabilities: -1 none, else so many alternatives */
    int prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens; /* completion_tokens
                                                                              counts all choices
                                                                              and reasoning */
    bool has_usage;   /* false: the script keeps usage back, wherever it would be */
    bool wants_usage; /* of the wish */
};

/* Why a request is refused. The dialect says it in its API's words; `message` is an English
 * sentence for those that have no words of their own. */
enum mock_fault {
    MOCK_FAULT_NONE,
    MOCK_FAULT_STATUS,      /* scripted: `status` decides */
    MOCK_FAULT_BODY,        /* no JSON, or no object */
    MOCK_FAULT_NO_ADDRESS,  /* 404: path or model unknown */
    MOCK_FAULT_HEADER,      /* a header is missing; `param` is its name */
    MOCK_FAULT_MISSING,     /* a required field is */
    MOCK_FAULT_UNKNOWN,     /* a field that the API does not know */
    MOCK_FAULT_UNSUPPORTED, /* a parameter that this model refuses */
    MOCK_FAULT_TYPE,        /* `limit` says which would be right: "integer" */
    MOCK_FAULT_ABOVE,       /* `limit`: the highest value (or items, or bytes) */
    MOCK_FAULT_BELOW,
    MOCK_FAULT_VALUE,    /* none of the values; `limit` lists them */
    MOCK_FAULT_TOO_LONG, /* list or string; `limit` says how long it may be */
    MOCK_FAULT_CONFLICT, /* two that exclude each other; `limit` names the other */
    MOCK_FAULT_NEEDS,    /* only together with another; `limit` names it */
    MOCK_FAULT_SCHEMA    /* the official schema says no; `limit` says why */
};
struct mock_error {
    enum mock_fault fault;
    int status;                      /* HTTP status, as the dialect's `status` chose it */
    const struct provider *provider; /* never NULL */
    char message[400];
    char param[128];   /* dotted wire path ("generationConfig.topK"), or "" */
    char limit[200];   /* see mock_fault */
    char value[64];    /* the value refused, as JSON, cut to fit; or "" */
    char id[32];       /* "scripted17": request id */
    const char *model; /* or NULL */
    int retry_s;       /* 429 and 503: seconds until it is worth another try; 0: not said */
    int shape;         /* of the wish; 0 where it was not read */
    bool is_text;
    bool in_stream; /* in the middle of an answer, after HTTP 200 */
};

/* Headers of a response beside content-type, which the program writes. */
#define MOCK_HEADERS_MAX 16
struct mock_headers {
    char name[MOCK_HEADERS_MAX][48], value[MOCK_HEADERS_MAX][96];
    size_t n;
};
void mock_header(struct mock_headers *h, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What a dialect may look at beside the body. */
struct mock_request {
    const struct provider *provider;
    const char *model; /* without script; from the body's "model" or the address; never NULL */
    const char *path;  /* below the provider's base, decoded: "/models/m:streamGenerateContent" */
    const json_t *body;
    bool is_text;                                            /* asked at text_path */
    bool is_also;                                            /* asked at the second route */
    const char *(*query)(const void *ud, const char *name);  /* of the address; NULL: absent */
    const char *(*header)(const void *ud, const char *name); /* NULL: absent */
    const void *ud;
};

struct mock_dialect {
    const char *name;          /* as in the catalog: "openai" */
    const char *content_type;  /* of a stream */
    const char *ping;          /* bytes of a comment or ping event between two events, or NULL */
    bool is_binary;            /* framing scripts (crlf, nospace, malformed) do not touch it */
    bool no_retry_after;       /* a 429 has no retry-after header */
    const char *default_model; /* where neither body nor address names one; NULL: one must */
    bool has_refusal;          /* has a place for mock_answer.refusal */
    bool stop_is_list;         /* a stop string that stands alone is refused */
    /* Top-level fields of a body that no claim is about, in API's order; ends with NULL. With those
     * of the claims they are the fields that are known. */
    const char *const *fields;
    /* Further ones that only this provider of the dialect has. NULL: there are none. */
    bool (*knows)(const struct provider *p, const char *field);
    /* What of the body is asked in this API's own words: stream, limit, stop strings, n, functions,
     * a JSON format, log-probabilities. Types need not be right: what is not understood is left
     * out. */
    void (*read)(const struct mock_request *r, struct mock_wish *wish);
    /* Of a refused request (MOCK_FAULT_STATUS excepted), e.g. 422. NULL or 0: 400, 404 for
     * MOCK_FAULT_NO_ADDRESS. */
    int (*status)(const struct mock_error *e);
    void (*whole)(const struct mock_answer *a, struct buf *out);
    /* Event `i` of the stream is appended to out, with all its framing (lines end in "\n"); false:
     * there is none, the stream has ended. Called with i = 0, 1, 2 ...; an event that the answer
     * lacks may append nothing. */
    bool (*event)(const struct mock_answer *a, size_t i, struct buf *out);
    /* The body of a refused request, or (in_stream) an event in the middle of an answer. */
    void (*error)(const struct mock_error *e, struct buf *out);
    /* Response headers beside the request id (request_id_header of the provider, else
     * x-request-id: written by the program with the value `a->id` or `e->id`, unless the dialect
     * writes one of that name itself) and retry-after. One of a, e is NULL. May be NULL. */
    void (*headers)(const struct mock_answer *a, const struct mock_error *e,
                    struct mock_headers *h);
    /* An event whose JSON is broken inside an intact frame, for is_binary. NULL: mock_send breaks
     * the text. */
    void (*malformed)(const struct mock_answer *a, struct buf *out);
};

extern const struct mock_dialect mock_dialect_openai, mock_dialect_responses,
    mock_dialect_anthropic, mock_dialect_google, mock_dialect_palm, mock_dialect_converse,
    mock_dialect_cohere, mock_dialect_ollama, mock_dialect_tgi, mock_dialect_dashscope;

/* ---- what the dialects share (mock_answer.c) */

/* Writes `json` compact and lets go of it. */
void mock_put(struct buf *out, json_t *json);
/* The same as an event: "event: NAME\n" unless name is NULL, "data: ...\n\n". */
void mock_put_event(struct buf *out, const char *name, json_t *json);
/* The arguments of a call, parsed; yours. */
json_t *mock_arguments(const struct mock_call *call);
/* Log-probabilities: those of word i, alternative k (0: the word itself, -0.125 * (1 + i % 4); each
 * further one 1 less), its text and a token id. */
double mock_logprob(const struct mock_answer *a, size_t i, size_t k);
const char *mock_alternative(const struct mock_answer *a, size_t i, size_t k);
int mock_token_id(const char *token);
/* UTF-8 bytes of a token as an array; yours. */
json_t *mock_bytes(const char *token);

/* Reading bodies: at a dotted path ("parameters.top_k"), of that type; else 0, false, NULL. */
int64_t mock_get_int(const json_t *body, const char *path); /* a real is rounded down */
bool mock_get_bool(const json_t *body, const char *path);
const char *mock_get_string(const json_t *body, const char *path);
const json_t *mock_get(const json_t *body, const char *path);
/* One more function that may be called; more than MOCK_CALLS_MAX are left out. */
void mock_wish_function(struct mock_wish *w, const char *name, const json_t *parameters);
/* Only this function stays, and it is forced. */
void mock_wish_only(struct mock_wish *w, const char *name);
#endif
