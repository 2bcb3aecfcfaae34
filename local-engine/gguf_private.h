/* gguf_private.h - what gguf.c (reading, checking) and gguf_meta.c (asking) share. */
#ifndef ISOTHERM_GGUF_PRIVATE_H
#define ISOTHERM_GGUF_PRIVATE_H

#include "filemap.h"
#include "gguf.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL8,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
};

struct gguf_entry {
    char *key; /* own copy, ended by a zero */
    uint32_t type;
    const unsigned char *data; /* the value; of a string its bytes, of an array its elements */
    size_t n;                  /* bytes of a string, elements of an array */
    uint32_t element;          /* type of an array's elements */
    struct gguf_pair pair;     /* as it is stored */
};

struct gguf {
    char label[64];
    const unsigned char *bytes;
    size_t n_bytes;
    struct filemap map; /* what `bytes` is of, unless they are the caller's */
    uint32_t version;
    struct gguf_entry *entry; /* in the file's order */
    size_t n_entries;
    struct gguf_entry **by_key;
    struct gguf_tensor *tensor; /* by name; names are own copies */
    size_t n_tensors;
};

uint64_t gguf_little(const unsigned char *p, int n); /* n bytes, the lowest first */
/* Bytes of a value of fixed size; 0: a string, an array or unknown. */
int gguf_type_size(uint32_t type);

#endif
