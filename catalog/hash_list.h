/* hash_list.h - the hash of content, made of the hashes of what it holds: of providers, then of
 * claims, each in their own order, so that the order of the sources does not count.
 */
#ifndef ISOTHERM_CATALOG_HASH_LIST_H
#define ISOTHERM_CATALOG_HASH_LIST_H

#include "catalog.h"
#include "catalog_sha256.h"

struct hash_list {
    unsigned char (*items)[SHA256_LEN]; /* owned */
    size_t n, cap;
};
/* Where one more is to be written; NULL: out of memory. */
unsigned char *hash_list_add(struct hash_list *l);
void hash_list_release(struct hash_list *l);

/* Sorts both. */
void hash_list_sum(struct hash_list *providers, struct hash_list *claims, char hex[SHA256_HEX_LEN]);

#endif
