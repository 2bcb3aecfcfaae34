/* mock_script.h - what is to happen to a request: words behind "~" in the model's name, or sent
 * ahead to POST /script. Several are joined by "+": "gpt-4o~slow+crlf".
 */
#ifndef ISOTHERM_MOCK_SCRIPT_H
#define ISOTHERM_MOCK_SCRIPT_H

#include "mock.h"

/* word, flag, what it does. Words that end in "-" are followed by a number or a name. */
#define MOCK_SCRIPT_WORDS(X)                                                                       \
    X("story", STORY, "answers (as any other model does)")                                         \
    X("slow", SLOW, "waits 100 ms before each word of a stream")                                   \
    X("cut", CUT, "breaks the connection after two words")                                         \
    X("cut-clean", CUT_CLEAN, "ends the body after two words, without the API's own end")          \
    X("hang", HANG, "never answers")                                                               \
    X("status-", STATUS, "status-503: answers that status in the API's own words")                 \
    X("retry-after-", RETRY_AFTER, "retry-after-20: 429, with so many seconds in retry-after")     \
    X("refuse-", REFUSE, "refuse-seed: refuses that parameter where the request has it")           \
    X("error-in-stream", ERROR_IN_STREAM, "fails after two words, in the API's own words")         \
    X("malformed", MALFORMED, "breaks the JSON of one event, or of the body")                      \
    X("html", HTML, "a proxy's error page with status 502")                                        \
    X("huge", HUGE_ANSWER, "an answer of 32 MB")                                                   \
    X("reset", RESET, "resets the connection before the head")                                     \
    X("silent-", SILENT, "silent-500: says nothing for so many milliseconds first")                \
    X("pings", PINGS, "a comment or ping event before each event, where the API has them")         \
    X("crlf", CRLF, "lines of a stream end in CR LF")                                              \
    X("nospace", NOSPACE, "no blank behind \"data:\" in a stream")                                 \
    X("bytes", BYTES, "a stream leaves byte by byte")                                              \
    X("filter", FILTER, "ends by the API's content filter")                                        \
    X("refusal", REFUSAL, "the model declines")                                                    \
    X("empty", EMPTY, "no text at all")                                                            \
    X("tools", TOOLS, "calls every function that the request gives")                               \
    X("reasoning", REASONING, "reasons before it answers, asked or not")                           \
    X("logprobs-missing", LOGPROBS_MISSING, "leaves log-probabilities out")                        \
    X("one-choice", ONE_CHOICE, "answers one choice, however many were asked for")                 \
    X("no-usage", NO_USAGE, "leaves usage out")

enum mock_word {
#define X(word, id, text) MOCK_SCRIPT_##id,
    MOCK_SCRIPT_WORDS(X)
#undef X
        MOCK_SCRIPT_COUNT
};
struct mock_script {
    uint32_t words; /* bits of enum mock_word */
    int status, retry_s, silent_ms;
    char refused[64];
};
static inline bool mock_script_has(const struct mock_script *s, enum mock_word w)
{
    return (s->words >> w) & 1;
}

/* "slow+crlf". false: `why` says which word is none; `out` is empty. */
bool mock_script_parse(const char *text, struct mock_script *out, char *why, size_t cap)
    __attribute__((warn_unused_result));
/* Model names that are a script as a whole: those of a provider without models of its own. */
bool mock_script_is_name(const char *model);

/* The scripts of the next requests, in order. One process has one queue. false: the body is not
 * {"next": ["word", ...]}, and `why` says what is wrong. */
#define MOCK_SCRIPT_QUEUE_MAX 4096
bool mock_script_push(const json_t *body, char *why, size_t cap)
    __attribute__((warn_unused_result));
bool mock_script_pop(struct mock_script *out); /* false: none waits */
void mock_script_clear(void);

/* The table above, for --help. */
void mock_script_print(struct buf *out);
#endif
