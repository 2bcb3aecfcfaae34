/* failure.c - see failure.h. The tables below are the whole mapping from library errors to HTTP. */
#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 502:
    case 504:
        return "upstream_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

/* What did not fit was cut at its last byte: the rest of a character there goes too, or the text
 * could not be said in JSON. */
static void end_at_character(char *text)
{
    size_t n = strlen(text), from = n;
    while (from > 0 && n - from < 3 && ((unsigned char)text[from - 1] & 0xc0) == 0x80) {
        from--;
    }
    unsigned char lead = from > 0 ? (unsigned char)text[from - 1] : 0;
    size_t whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (whole > n - from + 1) {
        text[from - 1] = '\0';
    }
}

bool failure_set(struct failure *f, int status, const char *code, const char *param,
                 const char *fmt, ...)
{
    if (!f || f->status) {
        return false;
    }
    f->status = status;
    f->retry_after_s = 0;
    (void)snprintf(f->type, sizeof f->type, "%s", type_of(status));
    (void)snprintf(f->code, sizeof f->code, "%s", code ? code : "");
    (void)snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(f->message, sizeof f->message, fmt, ap);
    va_end(ap);
    end_at_character(f->message);
    end_at_character(f->param);
    end_at_character(f->code);
    return false;
}

bool failure_from_catalog(struct failure *f, const struct catalog_error *e)
{
    static const struct {
        int status;
        const char *code;
    } map[] = {
        [CATALOG_OK] = {500, "internal_error"},
        [CATALOG_NOMEM] = {503, "out_of_memory"},
        [CATALOG_IO] = {503, "catalog_unavailable"},
        [CATALOG_BAD_SOURCE] = {500, "catalog_bad_source"},
        [CATALOG_NOT_FOUND] = {404, "not_found"},
        [CATALOG_BAD_DB] = {503, "catalog_unavailable"},
    };
    return failure_set(f, map[e->code].status, map[e->code].code, e->param, "%s", e->text);
}

/* Status of an engine's error by its stable word; anything else is our own fault. */
static int engine_status(const char *code, int *retry_after_s)
{
    static const struct {
        enum engine_code code;
        int status, retry_after_s;
    } map[] = {
        {ENGINE_BAD_PARAM, 400, 0}, {ENGINE_CONTEXT_FULL, 400, 0}, {ENGINE_NO_CANDIDATE, 400, 0},
        {ENGINE_NOMEM, 503, 1},     {ENGINE_BUSY, 503, 1},         {ENGINE_CANCELLED, 503, 1},
        {ENGINE_BAD_FILE, 503, 0},  {ENGINE_IO, 503, 0},           {ENGINE_NONFINITE, 500, 0},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (strcmp(engine_code_name(map[i].code), code) == 0) {
            *retry_after_s = map[i].retry_after_s;
            return map[i].status;
        }
    }
    *retry_after_s = 0;
    return 500;
}

bool failure_from_engine_words(struct failure *f, const char *code, const char *param,
                               const char *text)
{
    int retry_after_s, status = engine_status(code, &retry_after_s);
    bool was_set = f && f->status;
    (void)failure_set(f, status, code, param, "%s", text);
    if (f && !was_set) {
        f->retry_after_s = retry_after_s;
    }
    return false;
}

bool failure_from_engine(struct failure *f, const struct engine_error *e)
{
    return failure_from_engine_words(f, engine_code_name(e->code), e->param, e->text);
}
