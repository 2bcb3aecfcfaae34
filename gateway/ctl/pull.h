/* pull.h - one file over HTTP to a folder, whole or not at all: what arrives is NAME.part, with the
 * server's validator beside it in NAME.part.etag, until its length and hash are right; then it is
 * renamed. Begun again, it goes on where it ended, if the server still has the same file; it begins
 * again by itself where a connection broke or a server is busy (408, 429, 500, 502, 503, 504),
 * after a wait that grows, or that the server names if that is at most a minute.
 */
#ifndef ISOTHERM_PULL_H
#define ISOTHERM_PULL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct pull {
    const char *url;
    const char *token;  /* sent as Bearer to the url's own host and port only; NULL: none */
    const char *path;   /* where to */
    const char *sha256; /* 64 hex digits that are expected, or NULL: the hub's own, if it says */
    int n_tries;        /* in a row that bring nothing, with waits between; 1: no other */
    bool may_replace;   /* an existing file at path */
    bool shows_bar;     /* progress as a bar on standard error, else lines */
};
struct pull_result {
    int64_t n_bytes, n_kept; /* n_kept: of them were here already */
    char sha256[65];
    bool is_checked; /* against a hash that was known before */
};
enum pull_end { PULL_DONE, PULL_FAILED, PULL_INTERRUPTED };

/* Interrupted by pull_interrupt(), which is for signal handlers. */
enum pull_end pull_file(const struct pull *p, struct pull_result *out, char error[512]);
void pull_interrupt(void);
/* https, or http to this machine; NULL, or why not. */
const char *pull_check_url(const char *url);
/* A small document (JSON of the hub's API) as text, yours (free); NULL: error says why. */
char *pull_text(const char *url, const char *token, int n_tries, char error[512]);

#endif
