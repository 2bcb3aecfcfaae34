/* pull.c - redirects are followed by hand: each one's address is checked, the token stays with the
 * first host, and the hub's hash (X-Linked-Etag) comes with the answer that redirects.
 *
 * What fails is one of three: a connection that broke or a server that is busy is tried again, from
 * where the part ends; a refusal and what is wrong on this side are not.
 */
#include "gateway/ctl/pull.h"

#include "gateway/base/retry_after.h"
#include "local-engine/sha256.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { REDIRECTS_MAX = 10, ETAG_MAX = 256, TEXT_MAX = 16 << 20, CONNECT_S = 30, SILENCE_S = 60 };
/* 0.25, 0.5, 1 ... s between tries; a server that asks for more than a minute is asked another day
 */
enum { WAIT_FIRST_MS = 250, WAIT_MAX_MS = 8000, RETRY_AFTER_MAX_MS = 60000 };

static volatile sig_atomic_t is_interrupted;

void pull_interrupt(void)
{
    is_interrupted = 1;
}

struct fetch {
    const struct pull *p;
    CURL *easy;
    int fd;
    char part[PATH_MAX], note[PATH_MAX]; /* NAME.part, NAME.part.etag */
    char name[256];                      /* the last part of the path */
    /* of the answer that is coming in */
    long status;
    char etag[ETAG_MAX], linked[ETAG_MAX], asked[ETAG_MAX]; /* asked: validator of the part */
    int64_t length, range_from, range_total;                /* -1: not said */
    int64_t retry_after_ms;                                 /* -1: not said */
    bool is_passing;                                        /* another try may do better */
    bool has_begun;                                         /* its first byte was taken */
    int64_t at, n_kept, total; /* bytes in the part; total -1: not known */
    struct sha256 sum;
    double began_s, shown_s;
    int shown_tenth;
    char *error;
};

/* The first one stays. */
static bool fail(struct fetch *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct fetch *f, const char *fmt, ...)
{
    if (!f->error[0]) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(f->error, 512, fmt, ap); /* a long name may be cut */
        va_end(ap);
    }
    return false;
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- addresses */

/* A part of an address, yours (curl_free); NULL: none. */
static char *url_part(const char *url, CURLUPart what)
{
    CURLU *u = curl_url();
    char *part = NULL;
    if (!u || curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(u, what, &part, what == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) !=
            CURLUE_OK) {
        part = NULL;
    }
    curl_url_cleanup(u);
    return part;
}

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

const char *pull_check_url(const char *url)
{
    char *scheme = url_part(url, CURLUPART_SCHEME), *host = url_part(url, CURLUPART_HOST);
    const char *why = !scheme || !host               ? "no URL such as https://HOST/FILE"
                      : strcmp(scheme, "https") == 0 ? NULL
                      : strcmp(scheme, "http") != 0  ? "https is needed"
                      : is_loopback(host)            ? NULL
                                                     : "https is needed: plain http only "
                                                       "reaches this machine";
    curl_free(scheme);
    curl_free(host);
    return why;
}

static bool same_part(const char *a, const char *b, CURLUPart what)
{
    char *x = url_part(a, what), *y = url_part(b, what);
    bool same = x && y && strcasecmp(x, y) == 0;
    curl_free(x);
    curl_free(y);
    return same;
}

static bool same_host(const char *a, const char *b)
{
    return same_part(a, b, CURLUPART_SCHEME) && same_part(a, b, CURLUPART_HOST) &&
           same_part(a, b, CURLUPART_PORT);
}

/* ---- progress */

static void show(struct fetch *f, bool is_end)
{
    double now = now_s(), seconds = now - f->began_s;
    double rate = seconds > 0 ? (double)(f->at - f->n_kept) / seconds : 0;
    int tenth = f->total > 0 ? (int)(10 * f->at / f->total) : 0;
    if (!f->p->shows_bar) {
        if (tenth > f->shown_tenth && tenth < 10) {
            (void)fprintf(stderr, "%s: %d %%, %lld of %lld bytes\n", f->name, 10 * tenth,
                          (long long)f->at, (long long)f->total);
        }
        f->shown_tenth = tenth;
        return;
    }
    if (!is_end && now - f->shown_s < 0.1) {
        return;
    }
    f->shown_s = now;
    static const char full[] = "####################", none[] = "....................";
    int n = f->total > 0 ? (int)(20 * f->at / f->total) : 0;
    (void)fprintf(stderr, "\r%.40s [%.*s%.*s] %.1f of %.1f MB, %.1f MB/s", f->name, n, full, 20 - n,
                  none, (double)f->at / 1e6, (double)(f->total > 0 ? f->total : f->at) / 1e6,
                  rate / 1e6);
    if (rate > 0 && f->total > f->at) {
        long left = (long)((double)(f->total - f->at) / rate);
        (void)fprintf(stderr, ", %ld:%02ld left", left / 60, left % 60);
    }
    (void)fputs(is_end ? "\033[K\n" : "\033[K", stderr);
}

static int on_progress(void *ud, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    (void)ud;
    return is_interrupted;
}

/* ---- what comes in */

static bool take_header(const char *line, size_t n, const char *name, char *out, size_t cap)
{
    size_t len = strlen(name);
    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':') {
        return false;
    }
    line += len + 1;
    n -= len + 1;
    while (n > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        n--;
    }
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' ')) {
        n--;
    }
    if (n < cap) {
        memcpy(out, line, n);
        out[n] = '\0';
    }
    return n < cap;
}

static size_t on_header(char *line, size_t one, size_t n, void *ud)
{
    (void)one;
    struct fetch *f = ud;
    char value[ETAG_MAX];
    long long from = -1, total = -1;
    if (n > 5 && memcmp(line, "HTTP/", 5) == 0) {
        f->etag[0] = '\0';
        f->length = f->range_from = f->range_total = f->retry_after_ms = -1;
    } else if (take_header(line, n, "retry-after", value, sizeof value)) {
        f->retry_after_ms = retry_after_ms(value, (int64_t)time(NULL) * 1000);
    } else if (take_header(line, n, "etag", value, sizeof value)) {
        memcpy(f->etag, value, sizeof value);
    } else if (take_header(line, n, "x-linked-etag", value, sizeof value)) {
        memcpy(f->linked, value, sizeof value);
    } else if (take_header(line, n, "content-length", value, sizeof value)) {
        f->length = strtoll(value, NULL, 10);
    } else if (take_header(line, n, "content-range", value, sizeof value)) {
        if (sscanf(value, "bytes %lld-%*d/%lld", &from, &total) == 2 ||
            sscanf(value, "bytes */%lld", &total) == 1) {
            f->range_from = from;
            f->range_total = total;
        }
    }
    return n;
}

/* The part from its beginning: the server has another file, or cannot go on in the middle. */
static bool start_over(struct fetch *f)
{
    sha256_init(&f->sum);
    f->at = f->n_kept = 0;
    return (ftruncate(f->fd, 0) == 0 && lseek(f->fd, 0, SEEK_SET) == 0) ||
           fail(f, "'%s': %s", f->part, strerror(errno));
}

/* Remembers what the part is a part of. A weak validator does not say that bytes are the same. */
static bool store_note(struct fetch *f)
{
    (void)unlink(f->note); /* the other outcome is that there is none */
    bool is_strong = f->etag[0] == '"';
    (void)snprintf(f->asked, sizeof f->asked, "%s", is_strong ? f->etag : "");
    if (!is_strong) {
        return true;
    }
    int fd = open(f->note, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    size_t n = strlen(f->etag);
    bool ok = fd >= 0 && write(fd, f->etag, n) == (ssize_t)n;
    ok = (fd < 0 || close(fd) == 0) && ok;
    return ok || fail(f, "'%s': %s", f->note, strerror(errno));
}

static bool check_space(struct fetch *f)
{
    struct statvfs s;
    if (f->total < 0 || fstatvfs(f->fd, &s) != 0) {
        return true; /* then writing says */
    }
    uint64_t room = (uint64_t)s.f_bavail * s.f_frsize, left = (uint64_t)(f->total - f->at);
    return left <= room || fail(f,
                                "%s: %llu more bytes do not fit, %llu are free: make room or "
                                "choose another --dir",
                                f->name, (unsigned long long)left, (unsigned long long)room);
}

/* At the first byte of an answer with the file in it. */
static bool begin(struct fetch *f)
{
    (void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &f->status);
    f->has_begun = true;
    if (f->status == 206) {
        if (f->range_from != f->at) {
            return fail(f, "%s: the server answers with another range than was asked for", f->name);
        }
        f->total = f->range_total;
    } else {
        if (!start_over(f)) {
            return false;
        }
        f->total = f->length;
    }
    if (!check_space(f) || !store_note(f)) {
        return false;
    }
    if (!f->p->shows_bar) {
        (void)fprintf(stderr, "%s: %lld bytes, %lld of them here already\n", f->name,
                      (long long)f->total, (long long)f->at);
    }
    f->shown_tenth = f->total > 0 ? (int)(10 * f->at / f->total) : 0;
    return true;
}

static bool is_file(long status)
{
    return status == 200 || status == 206;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *ud)
{
    (void)one;
    struct fetch *f = ud;
    long status = 0;
    (void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!is_file(status)) {
        return n; /* a page about an error or a redirect */
    }
    if (!f->has_begun && !begin(f)) {
        return 0;
    }
    for (size_t i = 0; i < n;) {
        ssize_t done = write(f->fd, bytes + i, n - i);
        if (done < 0 && errno != EINTR) {
            (void)fail(f, "'%s' cannot be written: %s; with more room the same command goes on",
                       f->part, strerror(errno));
            return 0;
        }
        i += done > 0 ? (size_t)done : 0;
    }
    sha256_update(&f->sum, bytes, n);
    f->at += (int64_t)n;
    show(f, false);
    return n;
}

/* ---- a request */

static bool set_options(struct fetch *f, const char *url, struct curl_slist *headers)
{
    CURL *e = f->easy;
    bool ok = true;
    curl_easy_reset(e);
#define SET(option, value) (ok = ok && curl_easy_setopt(e, option, value) == CURLE_OK)
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, f);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, f);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, f);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)SILENCE_S);
    SET(CURLOPT_USERAGENT, "isothermctl/" ISOTHERM_VERSION);
#undef SET
    return ok || fail(f, "out of memory for a request");
}

static bool add_header(struct curl_slist **list, const char *fmt, const char *value)
{
    char line[4200];
    int n = snprintf(line, sizeof line, fmt, value);
    struct curl_slist *more = n < (int)sizeof line ? curl_slist_append(*list, line) : NULL;
    *list = more ? more : *list;
    explicit_bzero(line, sizeof line); /* it may be the token */
    return more != NULL;
}

static CURLcode request_once(struct fetch *f, const char *url)
{
    struct curl_slist *headers = NULL;
    char range[64];
    bool ok = true;
    if (f->p->token && same_host(url, f->p->url)) {
        ok = add_header(&headers, "Authorization: Bearer %s", f->p->token);
    }
    if (ok && f->at > 0 && f->asked[0]) {
        (void)snprintf(range, sizeof range, "%lld", (long long)f->at);
        ok = add_header(&headers, "Range: bytes=%s-", range) &&
             add_header(&headers, "If-Range: %s", f->asked);
    }
    CURLcode rc =
        ok && set_options(f, url, headers) ? curl_easy_perform(f->easy) : CURLE_OUT_OF_MEMORY;
    curl_slist_free_all(headers);
    return rc;
}

/* Follows redirects to the file itself. */
static CURLcode request(struct fetch *f)
{
    char *url = strdup(f->p->url);
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    for (int i = 0; url; i++) {
        char *next = NULL;
        rc = request_once(f, url);
        (void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &f->status);
        (void)curl_easy_getinfo(f->easy, CURLINFO_REDIRECT_URL, &next);
        if (rc != CURLE_OK || !next) {
            break;
        }
        const char *why = i == REDIRECTS_MAX ? "too many redirects" : pull_check_url(next);
        if (!why && strncasecmp(url, "https", 5) == 0 && strncasecmp(next, "https", 5) != 0) {
            why = "https is needed";
        }
        if (why) {
            (void)fail(f, "%s: the server redirects to '%.200s': %s", f->name, next, why);
            rc = CURLE_UNSUPPORTED_PROTOCOL;
            break;
        }
        char *copy = strdup(next);
        free(url);
        url = copy;
    }
    free(url);
    return rc;
}

/* ---- the file */

/* What is here already, and of what; the sum begins with it. */
static bool open_part(struct fetch *f)
{
    f->fd = open(f->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (f->fd < 0) {
        return fail(f, "'%s': %s", f->part, strerror(errno));
    }
    if (flock(f->fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(f->fd); /* it is theirs, also to remove */
        f->fd = -1;
        return fail(f, "'%s' is being fetched by another process", f->part);
    }
    int note = open(f->note, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = note >= 0 ? read(note, f->asked, sizeof f->asked - 1) : 0;
    if (note >= 0) {
        (void)close(note); /* it was only read */
    }
    f->asked[n > 0 ? n : 0] = '\0';
    if (f->asked[0] != '"' || strpbrk(f->asked, "\r\n")) {
        f->asked[0] = '\0';
        return start_over(f);
    }
    char bytes[1 << 16];
    while ((n = read(f->fd, bytes, sizeof bytes)) > 0 && !is_interrupted) {
        sha256_update(&f->sum, bytes, (size_t)n);
        f->at += n;
    }
    f->n_kept = f->at;
    return n == 0 || fail(f, "'%s': %s", f->part, n < 0 ? strerror(errno) : "interrupted");
}

static bool fail_status(struct fetch *f)
{
    if (f->status == 401 || f->status == 403) {
        return fail(f, "%s: the server refuses it (status %ld): %s", f->name, f->status,
                    f->p->token ? "the token in HF_TOKEN may not read it"
                                : "where it needs a token, set HF_TOKEN");
    }
    if (f->status == 404) {
        return fail(f, "%s: there is no such file on the server (status 404)", f->name);
    }
    if (f->retry_after_ms > RETRY_AFTER_MAX_MS) {
        return fail(f, "%s: the server answers with status %ld: try again in %lld s, as it asks",
                    f->name, f->status, (long long)f->retry_after_ms / 1000);
    }
    return fail(f, "%s: the server answers with status %ld: try again later", f->name, f->status);
}

static bool fail_interrupted(struct fetch *f)
{
    f->error[0] = '\0'; /* what went wrong before does not matter any more */
    return fail(f, "interrupted: the same command goes on");
}

static bool fail_transfer(struct fetch *f, CURLcode rc)
{
    if (is_interrupted) {
        return fail_interrupted(f);
    }
    if (f->at > 0 || f->total > 0) {
        char of_total[32] = "";
        if (f->total > 0) {
            (void)snprintf(of_total, sizeof of_total, " of %lld", (long long)f->total);
        }
        return fail(f, "%s: the connection ended after %lld%s bytes (%s): the same command goes on",
                    f->name, (long long)f->at, of_total, curl_easy_strerror(rc));
    }
    return fail(f, "%s: %s", f->name, curl_easy_strerror(rc));
}

/* ---- tries */

static bool is_in(long x, const long *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == x) {
            return true;
        }
    }
    return false;
}

/* Whether another try may do better. */
static bool is_passing(CURLcode rc, long status)
{
    static const long statuses[] = {408, 429, 500, 502, 503, 504};
    static const long codes[] = {
        CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,   CURLE_PARTIAL_FILE,
        CURLE_OPERATION_TIMEDOUT,   CURLE_SSL_CONNECT_ERROR, CURLE_GOT_NOTHING,
        CURLE_SEND_ERROR,           CURLE_RECV_ERROR,        CURLE_HTTP2,
        CURLE_HTTP2_STREAM};
    return rc == CURLE_OK ? is_in(status, statuses, sizeof statuses / sizeof *statuses)
                          : is_in((long)rc, codes, sizeof codes / sizeof *codes);
}

static void sleep_ms(int64_t ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (!is_interrupted && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* After n tries in a row that brought nothing: says what went wrong, and waits. false: that was the
 * last. */
static bool wait_for_next(struct fetch *f, int n)
{
    int64_t ms = WAIT_FIRST_MS;
    for (int i = 1; i < n && ms < WAIT_MAX_MS; i++) {
        ms *= 2;
    }
    ms = f->retry_after_ms > ms ? f->retry_after_ms : ms;
    if (is_interrupted || n >= f->p->n_tries || ms > RETRY_AFTER_MAX_MS) {
        return false;
    }
    (void)fprintf(stderr, "%s%s; try %d of %d in %.2f s\n", f->p->shows_bar ? "\r\033[K" : "",
                  f->error, n + 1, f->p->n_tries, (double)ms / 1e3);
    sleep_ms(ms);
    if (is_interrupted) {
        return false;
    }
    f->error[0] = '\0';
    return true;
}

enum try_end { TRY_DONE, TRY_AGAIN, TRY_FAILED };

/* Everything has come, as far as the server says. */
static enum try_end check_end(struct fetch *f)
{
    if (!f->has_begun && !begin(f)) { /* an empty file */
        return TRY_FAILED;
    }
    if (f->p->shows_bar) {
        show(f, true);
    }
    if (f->total < 0 || f->at == f->total) {
        return TRY_DONE;
    }
    (void)fail(f, "%s: %lld bytes came, the server promised %lld", f->name, (long long)f->at,
               (long long)f->total);
    return TRY_AGAIN;
}

static enum try_end try_once(struct fetch *f)
{
    f->has_begun = false;
    f->retry_after_ms = -1;
    CURLcode rc = request(f);
    bool is_past_end = rc == CURLE_OK && f->status == 416 && f->at > 0;
    if (is_past_end && f->range_total == f->at) {
        f->total = f->at; /* all of it was here */
        return TRY_DONE;
    }
    if (is_past_end) {
        f->asked[0] = '\0';
        rc = start_over(f) ? request(f) : CURLE_WRITE_ERROR;
    }
    if (rc == CURLE_OK && is_file(f->status)) {
        return check_end(f);
    }
    bool is_ours = f->error[0] != '\0';
    f->is_passing = !is_ours && is_passing(rc, f->status);
    (void)(rc == CURLE_OK ? fail_status(f) : fail_transfer(f, rc)); /* it is in f->error */
    return f->is_passing ? TRY_AGAIN : TRY_FAILED;
}

/* Tries that bring the part further are not counted. */
static bool fetch_bytes(struct fetch *f)
{
    int64_t furthest = f->at;
    for (int n = 1;; n++) {
        enum try_end end = try_once(f);
        if (end != TRY_AGAIN) {
            return end == TRY_DONE;
        }
        n = f->at > furthest ? 1 : n;
        furthest = f->at > furthest ? f->at : furthest;
        if (!wait_for_next(f, n)) {
            return is_interrupted ? fail_interrupted(f) : false;
        }
    }
}

static bool is_hex64(const char *s)
{
    return strlen(s) == 64 && strspn(s, "0123456789abcdefABCDEF") == 64;
}

/* The hash that is expected; "": none is known. */
static void expected_hash(const struct fetch *f, char out[65])
{
    char linked[ETAG_MAX];
    size_t n = strlen(f->linked);
    bool is_quoted = n > 2 && f->linked[0] == '"' && f->linked[n - 1] == '"';
    (void)snprintf(linked, sizeof linked, "%.*s", (int)(is_quoted ? n - 2 : n),
                   f->linked + is_quoted);
    (void)snprintf(out, 65, "%s", f->p->sha256 ? f->p->sha256 : is_hex64(linked) ? linked : "");
}

static bool check_hash(struct fetch *f, struct pull_result *out)
{
    unsigned char digest[32];
    char want[65];
    sha256_final(&f->sum, digest);
    sha256_hex(digest, out->sha256);
    expected_hash(f, want);
    out->is_checked = want[0] != '\0';
    if (!want[0] || strcasecmp(want, out->sha256) == 0) {
        return true;
    }
    (void)unlink(f->part); /* going on with it would not mend it */
    (void)unlink(f->note);
    return fail(f, "%s: its SHA-256 is %s, not %s: it was removed", f->name, out->sha256, want);
}

static bool put_in_place(struct fetch *f)
{
    bool ok = fsync(f->fd) == 0 && renameat2(AT_FDCWD, f->part, AT_FDCWD, f->p->path,
                                             f->p->may_replace ? 0 : RENAME_NOREPLACE) == 0;
    if (!ok && errno == EINVAL) { /* a file system that cannot do it in one step */
        ok = access(f->p->path, F_OK) != 0 && rename(f->part, f->p->path) == 0;
    }
    if (!ok) {
        return fail(f, "'%s': %s", f->p->path, strerror(errno));
    }
    (void)unlink(f->note); /* harmless where it stays */
    return true;
}

/* NULL, or why it cannot begin. */
static const char *init(struct fetch *f, const struct pull *p, char error[512])
{
    *f = (struct fetch){
        .p = p, .fd = -1, .total = -1, .retry_after_ms = -1, .error = error, .began_s = now_s()};
    const char *slash = strrchr(p->path, '/'), *why = pull_check_url(p->url);
    error[0] = '\0';
    sha256_init(&f->sum);
    (void)snprintf(f->name, sizeof f->name, "%s", slash ? slash + 1 : p->path);
    if (snprintf(f->part, sizeof f->part, "%s.part", p->path) >= (int)sizeof f->part - 5) {
        why = "the path is too long";
    }
    (void)snprintf(f->note, sizeof f->note, "%.*s.etag", (int)sizeof f->note - 6, f->part);
    f->easy = why ? NULL : curl_easy_init();
    return f->easy ? NULL : why ? why : "out of memory";
}

static void release(struct fetch *f, bool is_done)
{
    if (!is_done && f->has_begun && f->p->shows_bar) {
        (void)fputc('\n', stderr);
    }
    if (f->fd >= 0) {
        if (!is_done && f->at == 0) {
            (void)unlink(f->part); /* nothing is in it */
        }
        (void)close(f->fd); /* synced, or only a part */
    }
    curl_easy_cleanup(f->easy);
}

enum pull_end pull_file(const struct pull *p, struct pull_result *out, char error[512])
{
    struct fetch f;
    const char *why = init(&f, p, error);
    bool ok = why ? fail(&f, "'%.200s': %s", p->url, why) : open_part(&f);
    ok = ok && fetch_bytes(&f) && check_hash(&f, out) && put_in_place(&f);
    out->n_bytes = f.at;
    out->n_kept = f.n_kept;
    release(&f, ok);
    return ok ? PULL_DONE : is_interrupted ? PULL_INTERRUPTED : PULL_FAILED;
}

/* ---- small documents */

struct document {
    char *p;
    size_t n;
};

static size_t on_document(char *bytes, size_t one, size_t n, void *ud)
{
    (void)one;
    struct document *d = ud;
    char *more = n <= TEXT_MAX - d->n ? realloc(d->p, d->n + n + 1) : NULL;
    if (!more) {
        return 0;
    }
    memcpy(more + d->n, bytes, n);
    d->p = more;
    d->n += n;
    d->p[d->n] = '\0';
    return n;
}

/* One try; false: f->error says why. */
static bool try_document(struct fetch *f, struct document *d)
{
    struct curl_slist *headers = NULL;
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    d->n = 0;
    f->status = 0;
    if ((!f->p->token || add_header(&headers, "Authorization: Bearer %s", f->p->token)) &&
        set_options(f, f->p->url, headers)) {
        (void)curl_easy_setopt(f->easy, CURLOPT_WRITEFUNCTION, on_document); /* cannot fail */
        (void)curl_easy_setopt(f->easy, CURLOPT_WRITEDATA, d);
        rc = curl_easy_perform(f->easy);
        (void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &f->status);
    }
    curl_slist_free_all(headers);
    f->is_passing = is_passing(rc, f->status);
    return rc != CURLE_OK ? fail_transfer(f, rc) : f->status == 200 || fail_status(f);
}

char *pull_text(const char *url, const char *token, int n_tries, char error[512])
{
    struct document d = {.p = NULL};
    struct pull p = {.url = url, .token = token, .path = url, .n_tries = n_tries};
    struct fetch f = {.p = &p, .fd = -1, .total = -1, .retry_after_ms = -1, .error = error};
    const char *why = pull_check_url(url);
    error[0] = '\0';
    (void)snprintf(f.name, sizeof f.name, "%.200s", url);
    f.easy = why ? NULL : curl_easy_init();
    bool ok = f.easy || fail(&f, "'%s': %s", f.name, why ? why : "out of memory");
    for (int n = 1; ok && !try_document(&f, &d); n++) {
        ok = f.is_passing && wait_for_next(&f, n);
    }
    curl_easy_cleanup(f.easy);
    if (!ok) {
        free(d.p);
        return NULL;
    }
    return d.p ? d.p : strdup("");
}
