/* mock.h - the scripted provider (isotherm-mock): what its parts say to each other.
 *
 *   isotherm_mock.c  options, addresses -> provider, the log, the server          the program
 *   mock_script      which fault or answer is asked for (model name, POST /script)
 *   mock_check       what a body may hold: the catalog's claims, an official JSON Schema
 *   mock_answer      what is answered: words, reasoning, calls, log-probabilities, JSON
 *   mock_send        an answer on its way: whole or in pieces, cut, slow, broken
 *   mock_<dialect>   the answer in the shapes of one API: whole, as events, as an error
 *
 * A dialect writes what the provider's own guide and samples show, and nothing of the gateway's
 * decoders is used: the two sides would share their errors.
 */
#ifndef ISOTHERM_MOCK_H
#define ISOTHERM_MOCK_H

#include "catalog/catalog.h"
#include "gateway/base/buf.h"
#include <jansson.h>
#include <stdbool.h>

#define MOCK_CHOICES_MAX 8
#define MOCK_WORDS_MAX   64
#define MOCK_CALLS_MAX   4

/* A call of a function that the answer makes. */
struct mock_call {
    char id[64];
    const char *name;      /* borrowed from the request */
    const char *arguments; /* JSON text; mock_answer owns it */
};

enum mock_finish { MOCK_STOP, MOCK_LENGTH, MOCK_STOP_STRING, MOCK_TOOLS, MOCK_FILTER };

/* What is said, the same in every dialect. Everything is borrowed by the dialects. */
struct mock_answer {
    const char *model;                /* as asked, without a script behind "~" */
    const char *id;                   /* "scripted-17": a dialect may put its own prefix before */
    const char *word[MOCK_WORDS_MAX]; /* the text in pieces: one is one token and one event */
    size_t n_words;
    const char *reasoning[MOCK_WORDS_MAX]; /* where the request asks for it */
    size_t n_reasoning;
    struct mock_call call[MOCK_CALLS_MAX];
    size_t n_calls;
    unsigned n_choices; /* all of the same words */
    enum mock_finish finish;
    const char *stop; /* MOCK_STOP_STRING: the string that ended it */
    int n_top;        /* log-probabilities: -1 none, else so many alternatives */
    int prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens;
    bool wants_usage; /* in a stream */
    bool is_text;     /* raw completion */
};

/* What a request asks of an answer, read from the body in the API's own words. Borrowed from it. */
struct mock_wish {
    const char *model; /* NULL: the address has it */
    bool is_text;      /* raw completion */
    bool stream;       /* where the body says so; some APIs say it by the address */
    bool wants_usage;
    int64_t limit;       /* of tokens; 0: none */
    const json_t *stops; /* array of strings, or one string, or NULL */
    unsigned n;          /* 0: not said */
    int n_top;           /* log-probabilities: -1 none */
    bool reasons;        /* asks for reasoning */
    bool is_json;
    const json_t *schema; /* of the answer, or NULL */
    const char *function[MOCK_CALLS_MAX];
    const json_t *parameters[MOCK_CALLS_MAX]; /* JSON Schema of its arguments, or NULL */
    size_t n_functions;
    bool is_forced;   /* a call must be made (by tool_choice) */
    bool is_barred;   /* functions are given, and none may be called */
    bool has_result;  /* the last message is the result of a call: the answer is text */
    const char *said; /* text of the last user message, or NULL */
};

struct mock_dialect {
    const char *name; /* as in the catalog: "openai" */
    /* What of the body is asked in this API's own words: stream, limit, stop strings, n, functions,
     * a JSON format, log-probabilities. Fills `wish`. */
    void (*read)(const json_t *body, const char *path, struct mock_wish *wish);
    const char *content_type; /* of a stream */
    void (*whole)(const struct mock_answer *a, struct buf *out);
    /* Event `i` of the stream is appended to out; false: there is none, the stream has ended. */
    bool (*event)(const struct mock_answer *a, size_t i, struct buf *out);
    /* An error: of a refused request, or (in_stream) in the middle of an answer. */
    void (*error)(int status, const char *message, const char *param, bool in_stream,
                  struct buf *out);
};
#endif
