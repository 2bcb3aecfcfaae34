/* mock_log.c - entries are kept as the text that /log gives: writing one costs as much as keeping
 * its parts, and reading many costs nothing more. One thread. */
#include "mock_log.h"
#include "gateway/base/jsonio.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BYTES_MAX (64u << 20)

static char *ring[MOCK_LOG_KEPT]; /* entry n is at n % n_kept; NULL: forgotten */
static size_t n_kept = MOCK_LOG_KEPT;
static uint64_t last;
static FILE *file;

bool mock_log_open(const char *path)
{
    if (!path) {
        return true;
    }
    file = fopen(path, "ae");
    n_kept = MOCK_LOG_KEPT_WITH_FILE;
    return file != NULL;
}

void mock_log_forget(void)
{
    for (size_t i = 0; i < n_kept; i++) {
        free(ring[i]);
        ring[i] = NULL;
    }
}

void mock_log_close(void)
{
    mock_log_forget();
    if (file && fclose(file) != 0) {
        perror("isotherm-mock: log");
    }
    file = NULL;
}

uint64_t mock_log_next(void)
{
    return last + 1;
}

static void put_string(struct buf *b, const char *key, const char *s, size_t len)
{
    (void)buf_printf(b, ",\"%s\":", key);
    if (!s) {
        (void)buf_puts(b, "null");
        return;
    }
    json_t *checked = json_stringn(s, len); /* NULL: no UTF-8 */
    if (!checked || !jsonio_write(b, checked)) {
        (void)buf_puts(b, "null");
    }
    json_decref(checked);
}

static void put_text(struct buf *b, const char *key, const char *s)
{
    put_string(b, key, s, s ? strlen(s) : 0);
}

static void put_json(struct buf *b, const char *key, const json_t *v)
{
    (void)buf_printf(b, ",\"%s\":", key);
    if (!v || !jsonio_write(b, v)) {
        (void)buf_puts(b, "null");
    }
}

uint64_t mock_log_add(const struct mock_log_entry *e)
{
    struct buf b;
    size_t len;
    buf_init(&b, ENTRY_BYTES_MAX);
    (void)buf_printf(&b, "{\"n\":%llu", (unsigned long long)++last);
    put_text(&b, "provider", e->provider);
    put_text(&b, "path", e->path);
    put_text(&b, "model", e->model);
    (void)buf_printf(&b, ",\"stream\":%s", e->stream ? "true" : "false");
    put_json(&b, "body", e->body);
    put_string(&b, "raw", e->raw.p, e->raw.len);
    (void)buf_printf(&b, ",\"has_key\":%s", e->has_key ? "true" : "false");
    put_json(&b, "headers", e->headers);
    put_text(&b, "verdict", e->verdict);
    (void)buf_puts(&b, "}");
    char **slot = &ring[last % n_kept];
    free(*slot);
    *slot = b.is_failed ? NULL : buf_take(&b, &len);
    buf_release(&b);
    if (file && *slot && fprintf(file, "%s\n", *slot) < 0) {
        perror("isotherm-mock: log");
        (void)fclose(file);
        file = NULL;
    }
    if (file) {
        (void)fflush(file);
    }
    return last;
}

void mock_log_write(struct buf *out, uint64_t since)
{
    uint64_t n = last >= n_kept ? last - n_kept + 1 : 1;
    bool is_first = true;
    (void)buf_puts(out, "[");
    for (n = n > since ? n : since + 1; n <= last; n++) {
        const char *entry = ring[n % n_kept];
        if (entry) {
            (void)buf_printf(out, "%s", is_first ? "" : ",");
            (void)buf_puts(out, entry);
            is_first = false;
        }
    }
    (void)buf_puts(out, "]");
}
