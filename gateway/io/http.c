/* How it works: libmicrohttpd 0.9 splits the head in place, so the buffer it leaves behind still
 * shows every byte that it saw, with NUL where it found structure. Walking it with a strict grammar
 * (name NUL value NUL NUL) and comparing the number of fields finds whatever it read more kindly
 * than the standard, without a second copy of the head and without a race for the socket.
 */
#include "http.h"

#include <string.h>
#include <strings.h>

/* RFC 9110, 5.6.2 */
static bool is_tchar(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

bool http_is_token(const char *s)
{
    size_t n = 0;
    while (is_tchar((unsigned char)s[n])) {
        n++;
    }
    return n > 0 && s[n] == '\0';
}

bool http_target_is_sound(const char *target)
{
    for (const unsigned char *c = (const unsigned char *)target; *c; c++) {
        if (*c <= ' ' || *c == 0x7f) {
            return false;
        }
    }
    return *target != '\0' && !strstr(target, "%00");
}

/* One field and its line end from p; NULL: not sound. */
static const char *skip_field(const char *p, const char *end)
{
    const char *name = p;
    while (p < end && is_tchar((unsigned char)*p)) {
        p++;
    }
    if (p == name || p == end || *p != '\0') {
        return NULL;
    }
    p++;
    while (p < end && ((unsigned char)*p >= ' ' || *p == '\t') && *p != 0x7f) {
        p++;
    }
    return end - p >= 2 && p[0] == '\0' && p[1] == '\0' ? p + 2 : NULL;
}

bool http_lines_are_sound(const char *lines, size_t len, size_t n_fields)
{
    const char *p = lines;
    const char *end = lines + len;
    if (len < 2 || p[0] != '\0' || p[1] != '\0') { /* the request line's own end */
        return false;
    }
    p += 2;
    size_t n = 0;
    while (end - p > 2) {
        p = skip_field(p, end);
        if (!p) {
            return false;
        }
        n++;
    }
    return end - p == 2 && p[0] == '\0' && p[1] == '\0' && n == n_fields;
}

static uint64_t parse_length(const char *s)
{
    uint64_t n = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
        unsigned digit = (unsigned)(*s - '0');
        if (n > (UINT64_MAX - digit) / 10) {
            return UINT64_MAX;
        }
        n = n * 10 + digit;
    }
    return n;
}

void http_framing_field(struct http_framing *h, const char *name, const char *value)
{
    if (strcasecmp(name, "host") == 0) {
        h->n_host++;
    } else if (strcasecmp(name, "content-length") == 0) {
        h->n_length++;
        h->length = parse_length(value);
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        h->n_coding++;
        h->is_chunked = strcasecmp(value, "chunked") == 0;
    }
}

bool http_framing_check(const struct http_framing *h, bool is_http_1_1, struct failure *f)
{
    const char *code = "invalid_http";
    if (h->n_host > 1 || (is_http_1_1 && h->n_host == 0)) {
        return failure_set(f, 400, code, NULL, "send exactly one host header");
    }
    if (h->n_length > 1) {
        return failure_set(f, 400, code, NULL, "send content-length once");
    }
    if (h->n_coding > 0 && h->n_length > 0) {
        return failure_set(f, 400, code, NULL, "send either content-length or transfer-encoding");
    }
    if (h->n_coding > 1 || (h->n_coding == 1 && !(h->is_chunked && is_http_1_1))) {
        return failure_set(f, 400, code, NULL,
                           "the only transfer-encoding understood is chunked, of http/1.1");
    }
    return true;
}

bool http_error_body(struct buf *b, const struct failure *f)
{
    return buf_printf(
        b, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}",
        f->message, f->type, f->code);
}

static const char *reason(int status)
{
    switch (status) {
    case 408:
        return "Request Timeout";
    case 413:
        return "Content Too Large";
    default:
        return "Error";
    }
}

bool http_error_answer(struct buf *b, const struct failure *f)
{
    struct buf body;
    buf_init(&body, 4096);
    bool ok = http_error_body(&body, f) &&
              buf_printf(b,
                         "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: "
                         "%zu\r\nConnection: close\r\n\r\n%s",
                         f->status, reason(f->status), body.len, body.p);
    buf_release(&body);
    return ok;
}
