/* hash_list.c - see hash_list.h. */
#include "hash_list.h"

#include <stdlib.h>
#include <string.h>

unsigned char *hash_list_add(struct hash_list *l)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        unsigned char(*more)[SHA256_LEN] = realloc(l->items, cap * sizeof *more);
        if (!more) {
            return NULL;
        }
        l->items = more;
        l->cap = cap;
    }
    return l->items[l->n++];
}

void hash_list_release(struct hash_list *l)
{
    if (l) {
        free(l->items);
        *l = (struct hash_list){.items = NULL};
    }
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, SHA256_LEN);
}

static void add_sorted(struct catalog_sha256 *h, struct hash_list *l)
{
    if (l->n) {
        qsort(l->items, l->n, sizeof *l->items, compare);
        catalog_sha256_add(h, l->items, l->n * sizeof *l->items);
    }
}

void hash_list_sum(struct hash_list *providers, struct hash_list *claims, char hex[SHA256_HEX_LEN])
{
    unsigned char digest[SHA256_LEN];
    struct catalog_sha256 h;
    catalog_sha256_init(&h);
    add_sorted(&h, providers);
    add_sorted(&h, claims);
    catalog_sha256_end(&h, digest);
    catalog_sha256_hex(digest, hex);
}
