/* mock_script.c - words to bits; a queue of scripts in a ring. */
#include "mock_script.h"
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word, *text;
} table[MOCK_SCRIPT_COUNT] = {
#define X(word, id, text) {word, text},
    MOCK_SCRIPT_WORDS(X)
#undef X
};
static_assert(MOCK_SCRIPT_COUNT <= 32, "one bit for each word");

static struct mock_script queue[MOCK_SCRIPT_QUEUE_MAX];
static size_t first, n_queued;

/* The whole rest is a number within the bounds. */
static bool take_number(const char *text, long min, long max, int *out)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || v < min || v > max) {
        return false;
    }
    *out = (int)v;
    return true;
}

static bool take_argument(enum mock_word w, const char *rest, struct mock_script *out)
{
    switch (w) {
    case MOCK_SCRIPT_STATUS:
        return take_number(rest, 400, 599, &out->status);
    case MOCK_SCRIPT_RETRY_AFTER:
        out->status = 429;
        return take_number(rest, 0, 86400, &out->retry_s);
    case MOCK_SCRIPT_SILENT:
        return take_number(rest, 0, 3600000, &out->silent_ms);
    case MOCK_SCRIPT_REFUSE:
        (void)snprintf(out->refused, sizeof out->refused, "%s", rest);
        return rest[0] && strlen(rest) < sizeof out->refused;
    default:
        return false;
    }
}

static bool take_word(const char *word, struct mock_script *out)
{
    for (int i = 0; i < MOCK_SCRIPT_COUNT; i++) {
        size_t len = strlen(table[i].word);
        bool has_argument = table[i].word[len - 1] == '-';
        if (has_argument ? strncmp(word, table[i].word, len) == 0 &&
                               take_argument((enum mock_word)i, word + len, out)
                         : strcmp(word, table[i].word) == 0) {
            out->words |= UINT32_C(1) << i;
            return true;
        }
    }
    return false;
}

bool mock_script_parse(const char *text, struct mock_script *out, char *why, size_t cap)
{
    *out = (struct mock_script){0};
    while (true) {
        char word[96];
        size_t len = strcspn(text, "+");
        (void)snprintf(word, sizeof word, "%.*s", (int)len, text);
        if (len >= sizeof word || !take_word(word, out)) {
            (void)snprintf(why, cap, "'%s' is no word of a script: isotherm-mock --help lists them",
                           word);
            *out = (struct mock_script){0};
            return false;
        }
        if (!text[len]) {
            return true;
        }
        text += len + 1;
    }
}

bool mock_script_is_name(const char *model)
{
    static const char *const names[] = {"story", "slow", "cut", "hang", "error-in-stream"};
    struct mock_script s = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(model, names[i]) == 0) {
            return true;
        }
    }
    return (strncmp(model, "status-", 7) == 0 || strncmp(model, "refuse-", 7) == 0) &&
           take_word(model, &s);
}

bool mock_script_push(const json_t *body, char *why, size_t cap)
{
    const json_t *next = json_object_get(body, "next");
    struct mock_script s;
    if (!json_is_array(next)) {
        (void)snprintf(why, cap, "expected {\"next\": [\"status-503\", \"cut\", ...]}");
        return false;
    }
    if (json_array_size(next) > MOCK_SCRIPT_QUEUE_MAX - n_queued) {
        (void)snprintf(why, cap, "at most %d scripts may wait", MOCK_SCRIPT_QUEUE_MAX);
        return false;
    }
    for (size_t i = 0; i < json_array_size(next); i++) {
        const char *text = json_string_value(json_array_get(next, i));
        if (!mock_script_parse(text ? text : "", &s, why, cap)) {
            return false;
        }
    }
    /* All are words by now. */
    for (size_t i = 0; i < json_array_size(next); i++) {
        size_t at = (first + n_queued) % MOCK_SCRIPT_QUEUE_MAX;
        const char *text = json_string_value(json_array_get(next, i));
        n_queued += mock_script_parse(text, &queue[at], why, cap);
    }
    return true;
}

bool mock_script_pop(struct mock_script *out)
{
    if (n_queued == 0) {
        return false;
    }
    *out = queue[first];
    first = (first + 1) % MOCK_SCRIPT_QUEUE_MAX;
    n_queued--;
    return true;
}

void mock_script_clear(void)
{
    n_queued = 0;
}

void mock_script_print(struct buf *out)
{
    for (int i = 0; i < MOCK_SCRIPT_COUNT; i++) {
        (void)buf_printf(out, "  %-17s %s\n", table[i].word, table[i].text);
    }
}
