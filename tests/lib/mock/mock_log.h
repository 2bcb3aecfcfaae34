/* mock_log.h - what was asked, for tests to look at: GET /log, and a file of JSON lines for long
 * runs. An entry is {n, provider, path, model, stream, body, raw, has_key, headers, verdict}; n
 * counts from 1 and never begins again. The values of keys are never in it.
 */
#ifndef ISOTHERM_MOCK_LOG_H
#define ISOTHERM_MOCK_LOG_H

#include "gateway/base/buf.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define MOCK_LOG_KEPT           65536
#define MOCK_LOG_KEPT_WITH_FILE 1000

struct mock_log_entry {
    const char *provider, *path, *model, *verdict; /* verdict: "taken", or why not */
    bool stream, has_key;
    const json_t *body; /* NULL: it was no JSON */
    struct slice raw;
    const json_t *headers; /* object */
};

/* file NULL: memory only. false: errno says why. */
bool mock_log_open(const char *file) __attribute__((warn_unused_result));
void mock_log_close(void);
/* Returns n. A file that cannot take it is said once on standard error; the program goes on. */
uint64_t mock_log_add(const struct mock_log_entry *e);
uint64_t mock_log_next(void); /* n of the next entry */
/* The entries after n = since that are still kept, as a JSON array. */
void mock_log_write(struct buf *out, uint64_t since);
void mock_log_forget(void);
#endif
