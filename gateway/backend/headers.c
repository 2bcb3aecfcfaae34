/* headers.c - see headers.h. */
#include "headers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(const char *name)
{
    size_t n = 0;
    for (; name[n]; n++) {
        if (!isalnum((unsigned char)name[n]) && name[n] != '-' && name[n] != '_') {
            return false;
        }
    }
    return n > 0 && n <= HEADERS_NAME_MAX;
}

static bool is_value(const char *value)
{
    for (const char *p = value; *p; p++) {
        if (((unsigned char)*p < 0x20 && *p != '\t') ||
            *p == 0x7f) { /* a line break would begin another header */
            return false;
        }
    }
    return true;
}

static struct header *add(struct headers *h, const char *name, const char *before,
                          const char *value)
{
    size_t name_size = strlen(name) + 1, before_len = strlen(before), value_len = strlen(value);
    if (h->n == HEADERS_MAX || !is_name(name) || !is_value(value) ||
        before_len + value_len > HEADERS_VALUE_MAX) {
        return NULL;
    }
    char *p = malloc(name_size + before_len + value_len + 1);
    if (!p) {
        h->is_failed = true;
        return NULL;
    }
    memcpy(p, name, name_size);
    memcpy(p + name_size, before, before_len);
    memcpy(p + name_size + before_len, value, value_len + 1);
    h->h[h->n] = (struct header){.name = p, .value = p + name_size};
    return &h->h[h->n++];
}

bool headers_add(struct headers *h, const char *name, const char *value)
{
    return add(h, name, "", value) != NULL;
}

bool headers_add_secret(struct headers *h, const char *name, const char *before, const char *secret)
{
    struct header *at = add(h, name, before, secret);
    if (at) {
        at->is_secret = true;
    }
    return at != NULL;
}

const char *headers_get(const struct headers *h, const char *name)
{
    for (size_t i = 0; i < h->n; i++) {
        if (strcmp(h->h[i].name, name) == 0) {
            return h->h[i].value;
        }
    }
    return NULL;
}

void headers_cut(struct headers *h, size_t n)
{
    while (h->n > n) {
        struct header *last = &h->h[--h->n];
        explicit_bzero(last->value, strlen(last->value));
        free(last->name);
        *last = (struct header){.name = NULL};
    }
}

void headers_release(struct headers *h)
{
    if (h) {
        headers_cut(h, 0);
        h->is_failed = false;
    }
}
