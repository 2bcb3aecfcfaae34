/* gguf.h - metadata and tensors of one .gguf file (versions 2 and 3, little-endian), mapped
 * read-only.
 *
 * Layout: "GGUF", version, two counts, then key-value pairs, then the tensors' descriptions, then
 * the data, aligned. All of it comes from outside. After opening these hold: keys and names are
 * unique printable ASCII, every string and array lies inside the file and is of a known type, every
 * tensor's bytes are exactly what its type and shape say, lie inside the file and overlap no other.
 * Arrays of arrays are refused: no model needs them. What the values mean is checked by their
 * readers.
 *
 * Strings are bytes with a length, not ended by a zero, and need not be UTF-8. Nothing is aligned.
 */
#ifndef ISOTHERM_GGUF_H
#define ISOTHERM_GGUF_H

#include "engine_error.h"
#include "filemap.h"
#include <stddef.h>
#include <stdint.h>

#define GGUF_DIMS_MAX    4
#define GGUF_NAME_MAX    256
#define GGUF_KEYS_MAX    65536
#define GGUF_TENSORS_MAX 65536

struct gguf;
ENGINE_WARN_UNUSED bool gguf_open(struct gguf **out, const char *path, struct engine_error *err);
/* The same from bytes in memory, which must outlive the object; `label` stands for the file in
 * error texts. */
ENGINE_WARN_UNUSED bool gguf_parse(struct gguf **out, const unsigned char *bytes, size_t n,
                                   const char *label, struct engine_error *err);
void gguf_close(struct gguf *g);
const char *gguf_label(const struct gguf *g);
const struct filemap *gguf_file(const struct gguf *g); /* nothing is mapped of gguf_parse() */
uint32_t gguf_version(const struct gguf *g);

/* ---- metadata. Borrowed from the object. A key that is absent gives `fallback` (or an empty
 * string or array, with is_there false); one of another kind or outside min .. max is an error that
 * names file and key. */
struct gguf_string {
    const char *text; /* len bytes */
    size_t len;
    bool is_there;
};
enum gguf_kind { GGUF_INTEGER, GGUF_REAL, GGUF_BOOL, GGUF_STRING };
struct gguf_array {
    enum gguf_kind kind; /* of the elements */
    uint32_t type;       /* as the format numbers them */
    size_t n;
    const unsigned char *data;
    bool is_there;
};
#define GGUF_REQUIRED INT64_MIN /* as fallback of gguf_get_int: absent is an error, too */

bool gguf_has(const struct gguf *g, const char *key);
ENGINE_WARN_UNUSED bool gguf_get_int(const struct gguf *g, const char *key, int64_t min,
                                     int64_t max, int64_t fallback, int64_t *out,
                                     struct engine_error *err);
/* Integers count as reals, too; not finite is an error. */
ENGINE_WARN_UNUSED bool gguf_get_real(const struct gguf *g, const char *key, double fallback,
                                      double *out, struct engine_error *err);
ENGINE_WARN_UNUSED bool gguf_get_bool(const struct gguf *g, const char *key, bool fallback,
                                      bool *out, struct engine_error *err);
ENGINE_WARN_UNUSED bool gguf_get_string(const struct gguf *g, const char *key,
                                        struct gguf_string *out, struct engine_error *err);
ENGINE_WARN_UNUSED bool gguf_get_array(const struct gguf *g, const char *key, enum gguf_kind kind,
                                       struct gguf_array *out, struct engine_error *err);
/* Elements: i < n, of the array's kind. An integer above INT64_MAX counts as that. */
int64_t gguf_array_int(const struct gguf_array *a, size_t i);
double gguf_array_real(const struct gguf_array *a, size_t i);
/* The string at *at (0 is the first), which is moved on to the next; call it at most n times. */
struct gguf_string gguf_array_string(const struct gguf_array *a, size_t *at);

/* The i-th pair in the file's order, to copy or to show; false: no more. */
struct gguf_pair {
    const char *key;
    uint32_t type;             /* as the format numbers them: 8 string, 9 array ... */
    const unsigned char *data; /* the value as it is stored, without its type */
    size_t n_bytes;
};
bool gguf_pair(const struct gguf *g, size_t i, struct gguf_pair *out);

/* ---- tensors */
struct gguf_tensor {
    const char *name;
    uint32_t type;         /* as the format numbers them */
    const char *type_name; /* "F32", "Q4_K" ... */
    int n_dims;
    int64_t dim[GGUF_DIMS_MAX]; /* rows first: the reverse of the file's order */
    int64_t n_elements;
    const unsigned char *data; /* n_bytes of them */
    uint64_t n_bytes;
};
/* In the order of their names. */
const struct gguf_tensor *gguf_tensors(const struct gguf *g, size_t *n);
const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name);

/* Number, name, elements and bytes of a block of the tensor types that the format knows. */
struct gguf_tensor_type {
    uint32_t id;
    const char *name;
    uint32_t n_elements, n_bytes;
};
const struct gguf_tensor_type *gguf_type_by_id(uint32_t id);        /* NULL: none */
const struct gguf_tensor_type *gguf_type_by_name(const char *name); /* NULL: none */

#endif
