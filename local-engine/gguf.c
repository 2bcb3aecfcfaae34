/* gguf.c - walks the header once, front to back, with every length held against what is left of
 * the file, so that nothing is allocated or jumped over on a count's word alone: a pair takes at
 * least 14 bytes, a tensor's description 33. Then the tensors are sorted, by offset to see that
 * none lies in another, and by name to find them.
 */
#include "gguf_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX     65536
#define PAIR_BYTES_MIN    14 /* length, key, type and value of at least a byte */
#define TENSOR_BYTES_MIN  33

static const struct gguf_tensor_type TYPES[] = {
    {0, "F32", 1, 4},       {1, "F16", 1, 2},       {2, "Q4_0", 32, 18},    {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},    {7, "Q5_1", 32, 24},    {8, "Q8_0", 32, 34},    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},  {11, "Q3_K", 256, 110}, {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292}, {24, "I8", 1, 1},       {25, "I16", 1, 2},
    {26, "I32", 1, 4},      {27, "I64", 1, 8},      {28, "F64", 1, 8},      {30, "BF16", 1, 2},
};

const struct gguf_tensor_type *gguf_type_by_id(uint32_t id)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (TYPES[i].id == id) {
            return &TYPES[i];
        }
    }
    return NULL;
}

const struct gguf_tensor_type *gguf_type_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (strcmp(TYPES[i].name, name) == 0) {
            return &TYPES[i];
        }
    }
    return NULL;
}

int gguf_type_size(uint32_t type)
{
    static const int size[GGUF_N_TYPES] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL8] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return type < GGUF_N_TYPES ? size[type] : 0;
}

uint64_t gguf_little(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = n - 1; i >= 0; i--) {
        x = x << 8 | p[i];
    }
    return x;
}

/* ---------------------------------------------------------------- reading */

struct reader {
    struct gguf *g;
    size_t at;
    struct engine_error *err;
};

static size_t left(const struct reader *r)
{
    return r->g->n_bytes - r->at;
}

/* `what` names the field. */
static bool cut(struct reader *r, const char *what, const char *of)
{
    (void)engine_fail(r->err, ENGINE_BAD_FILE, "", "%s: ends within %s%s%.80s", r->g->label, what,
                      *of ? " of " : "", of);
    return false;
}

static bool bad(const struct gguf *g, struct engine_error *err, const char *kind, const char *name,
                const char *what)
{
    return engine_fail(err, ENGINE_BAD_FILE, "", "%s: %s '%.80s' %s", g->label, kind, name, what);
}

static bool read_uint(struct reader *r, int n, const char *what, const char *of, uint64_t *out)
{
    if (left(r) < (size_t)n) {
        return cut(r, what, of);
    }
    *out = gguf_little(r->g->bytes + r->at, n);
    r->at += (size_t)n;
    return true;
}

/* Length and bytes; *from is where the bytes begin. */
static bool read_text(struct reader *r, const char *what, const char *of,
                      const unsigned char **text, size_t *n)
{
    uint64_t len;
    if (!read_uint(r, 8, what, of, &len)) {
        return false;
    }
    if (len > left(r)) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "",
                           "%s: %s%s%.80s has %llu bytes, %zu are left of the file", r->g->label,
                           what, *of ? " of " : "", of, (unsigned long long)len, left(r));
    }
    *text = r->g->bytes + r->at;
    *n = (size_t)len;
    r->at += *n;
    return true;
}

/* A key's or a tensor's name as own text. Error texts are one line and answers are JSON, so it
 * must be printable ASCII. */
static bool read_name(struct reader *r, const char *what, char **out)
{
    const unsigned char *text;
    size_t n;
    if (!read_text(r, what, "", &text, &n)) {
        return false;
    }
    if (n == 0 || n > GGUF_NAME_MAX) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "", "%s: %s has %zu bytes, 1 to %d expected",
                           r->g->label, what, n, GGUF_NAME_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] < 0x20 || text[i] > 0x7e) {
            return engine_fail(r->err, ENGINE_BAD_FILE, "",
                               "%s: %s holds a byte that is no printable ASCII", r->g->label, what);
        }
    }
    *out = malloc(n + 1);
    if (!*out) {
        return engine_fail(r->err, ENGINE_NOMEM, "", "%s: out of memory for the header",
                           r->g->label);
    }
    memcpy(*out, text, n);
    (*out)[n] = '\0';
    return true;
}

/* A count that is believed only as far as the rest of the file can hold it. */
static bool read_count(struct reader *r, const char *what, size_t n_max, size_t bytes_min,
                       uint64_t *out)
{
    if (!read_uint(r, 8, what, "", out)) {
        return false;
    }
    size_t n_fit = left(r) / bytes_min;
    n_max = n_fit < n_max ? n_fit : n_max;
    return *out <= n_max ||
           engine_fail(r->err, ENGINE_BAD_FILE, "", "%s: the %s is %llu, at most %zu are possible",
                       r->g->label, what, (unsigned long long)*out, n_max);
}

/* ---------------------------------------------------------------- metadata */

static bool read_array(struct reader *r, struct gguf_entry *e)
{
    uint64_t type, n;
    if (!read_uint(r, 4, "the array", e->key, &type) || !read_uint(r, 8, "the array", e->key, &n)) {
        return false;
    }
    size_t size = type == GGUF_TEXT ? 8 : (size_t)gguf_type_size((uint32_t)type);
    if (size == 0) {
        return engine_fail(
            r->err, ENGINE_BAD_FILE, "", "%s: key '%.80s' is an array of %s", r->g->label, e->key,
            type == GGUF_ARRAY ? "arrays, which is not supported" : "an unknown type");
    }
    if (n > left(r) / size) {
        return engine_fail(
            r->err, ENGINE_BAD_FILE, "",
            "%s: key '%.80s' is an array of %llu elements, %zu bytes are left of the file",
            r->g->label, e->key, (unsigned long long)n, left(r));
    }
    e->element = (uint32_t)type;
    e->n = (size_t)n;
    e->data = r->g->bytes + r->at;
    for (size_t i = 0; type == GGUF_TEXT && i < e->n; i++) {
        const unsigned char *text;
        size_t len;
        if (!read_text(r, "a string", e->key, &text, &len)) {
            return false;
        }
    }
    r->at += type == GGUF_TEXT ? 0 : e->n * size;
    return true;
}

static bool read_value(struct reader *r, struct gguf_entry *e)
{
    uint64_t unused;
    int size = gguf_type_size(e->type);
    if (e->type == GGUF_TEXT) {
        return read_text(r, "the string", e->key, &e->data, &e->n);
    }
    if (e->type == GGUF_ARRAY) {
        return read_array(r, e);
    }
    if (size == 0) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "", "%s: key '%.80s' has the unknown type %u",
                           r->g->label, e->key, e->type);
    }
    e->data = r->g->bytes + r->at;
    return read_uint(r, size, "the value", e->key, &unused) &&
           (e->type != GGUF_BOOL8 || unused <= 1 ||
            bad(r->g, r->err, "key", e->key, "is neither true nor false"));
}

static bool read_entry(struct reader *r, struct gguf_entry *e)
{
    uint64_t type;
    if (!read_name(r, "a metadata key", &e->key) || !read_uint(r, 4, "the type", e->key, &type)) {
        return false;
    }
    e->type = (uint32_t)type;
    size_t from = r->at;
    if (!read_value(r, e)) {
        return false;
    }
    e->pair = (struct gguf_pair){e->key, e->type, r->g->bytes + from, r->at - from};
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct gguf_entry *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static bool read_entries(struct reader *r, uint64_t n)
{
    struct gguf *g = r->g;
    g->entry = calloc(n + 1, sizeof *g->entry);
    g->by_key = calloc(n + 1, sizeof(g->by_key[0]));
    if (!g->entry || !g->by_key) {
        return engine_fail(r->err, ENGINE_NOMEM, "", "%s: out of memory for the header", g->label);
    }
    while (g->n_entries < n) {
        struct gguf_entry *e = &g->entry[g->n_entries];
        g->by_key[g->n_entries++] = e; /* counted first: its key is freed with the rest */
        if (!read_entry(r, e)) {
            return false;
        }
    }
    qsort(g->by_key, g->n_entries, sizeof(g->by_key[0]), by_key);
    for (size_t i = 1; i < g->n_entries; i++) {
        if (strcmp(g->by_key[i - 1]->key, g->by_key[i]->key) == 0) {
            return bad(g, r->err, "key", g->by_key[i]->key, "is there twice");
        }
    }
    return true;
}

/* ---------------------------------------------------------------- tensors */

static bool read_shape(struct reader *r, struct gguf_tensor *t)
{
    uint64_t n;
    if (!read_uint(r, 4, "the dimensions", t->name, &n)) {
        return false;
    }
    if (n < 1 || n > GGUF_DIMS_MAX) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%.80s' has n_dims %llu, 1 to %d expected", r->g->label,
                           t->name, (unsigned long long)n, GGUF_DIMS_MAX);
    }
    t->n_dims = (int)n;
    t->n_elements = 1;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        uint64_t d;
        if (!read_uint(r, 8, "the dimensions", t->name, &d)) {
            return false;
        }
        if (d == 0 || d > INT64_MAX ||
            __builtin_mul_overflow(t->n_elements, (int64_t)d, &t->n_elements)) {
            return bad(r->g, r->err, "tensor", t->name,
                       "has a dimension of 0 or dimensions whose product is too large");
        }
        t->dim[i] = (int64_t)d;
    }
    return true;
}

static bool read_type(struct reader *r, struct gguf_tensor *t)
{
    uint64_t id;
    if (!read_uint(r, 4, "the type", t->name, &id)) {
        return false;
    }
    const struct gguf_tensor_type *type = gguf_type_by_id((uint32_t)id);
    if (!type) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%.80s' has the unknown type %llu", r->g->label, t->name,
                           (unsigned long long)id);
    }
    if (t->dim[t->n_dims - 1] % type->n_elements != 0) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%.80s' has rows of %lld, which type %s cannot hold",
                           r->g->label, t->name, (long long)t->dim[t->n_dims - 1], type->name);
    }
    t->type = type->id;
    t->type_name = type->name;
    return !__builtin_mul_overflow((uint64_t)t->n_elements / type->n_elements, type->n_bytes,
                                   &t->n_bytes) ||
           bad(r->g, r->err, "tensor", t->name, "has dimensions whose product is too large");
}

/* `data` keeps the offset until the header's end is known. */
static bool read_tensor(struct reader *r, struct gguf_tensor *t, uint64_t *offset)
{
    char *name = NULL;
    bool ok = read_name(r, "a tensor's name", &name);
    t->name = name;
    return ok && read_shape(r, t) && read_type(r, t) &&
           read_uint(r, 8, "the offset", t->name, offset);
}

static bool find_alignment(const struct gguf *g, uint64_t *out, struct engine_error *err)
{
    int64_t n = ALIGNMENT_DEFAULT;
    if (!gguf_get_int(g, "general.alignment", 8, ALIGNMENT_MAX, ALIGNMENT_DEFAULT, &n, err)) {
        return false;
    }
    *out = (uint64_t)n;
    return (n & (n - 1)) == 0 ||
           engine_fail(err, ENGINE_BAD_FILE, "",
                       "%s: key 'general.alignment' is %lld, a power of two expected", g->label,
                       (long long)n);
}

static bool place_tensor(struct gguf *g, struct gguf_tensor *t, uint64_t offset, uint64_t from,
                         uint64_t alignment, struct engine_error *err)
{
    uint64_t n_data = g->n_bytes - from;
    if (offset % alignment != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%.80s' has offset %llu, no multiple of the alignment %llu",
                           g->label, t->name, (unsigned long long)offset,
                           (unsigned long long)alignment);
    }
    if (offset > n_data || t->n_bytes > n_data - offset) {
        return engine_fail(
            err, ENGINE_BAD_FILE, "",
            "%s: tensor '%.80s' has offset %llu and %llu bytes, the file has %llu bytes of data",
            g->label, t->name, (unsigned long long)offset, (unsigned long long)t->n_bytes,
            (unsigned long long)n_data);
    }
    t->data = g->bytes + from + offset;
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

static int by_name(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static bool sort_tensors(struct gguf *g, struct engine_error *err)
{
    struct gguf_tensor *t = g->tensor;
    qsort(t, g->n_tensors, sizeof *t, by_place);
    for (size_t i = 1; i < g->n_tensors; i++) {
        if (t[i - 1].data + t[i - 1].n_bytes > t[i].data) {
            return bad(g, err, "tensor", t[i].name, "overlaps another tensor");
        }
    }
    qsort(t, g->n_tensors, sizeof *t, by_name);
    for (size_t i = 1; i < g->n_tensors; i++) {
        if (strcmp(t[i - 1].name, t[i].name) == 0) {
            return bad(g, err, "tensor", t[i].name, "is there twice");
        }
    }
    return true;
}

static bool place_tensors(struct reader *r, const uint64_t *offset)
{
    struct gguf *g = r->g;
    uint64_t alignment;
    if (!find_alignment(g, &alignment, r->err)) {
        return false;
    }
    uint64_t from = (r->at + alignment - 1) / alignment * alignment;
    from = from > g->n_bytes ? g->n_bytes : from; /* then no tensor fits, which is told below */
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (!place_tensor(g, &g->tensor[i], offset[i], from, alignment, r->err)) {
            return false;
        }
    }
    return sort_tensors(g, r->err);
}

static bool read_tensors(struct reader *r, uint64_t n)
{
    struct gguf *g = r->g;
    uint64_t *offset = calloc(n + 1, sizeof *offset);
    g->tensor = calloc(n + 1, sizeof *g->tensor);
    bool ok = offset && g->tensor;
    if (!ok) {
        (void)engine_fail(r->err, ENGINE_NOMEM, "", "%s: out of memory for the header", g->label);
    }
    while (ok && g->n_tensors < n) {
        size_t i = g->n_tensors++; /* counted first: its name is freed with the rest */
        ok = read_tensor(r, &g->tensor[i], &offset[i]);
    }
    ok = ok && place_tensors(r, offset);
    free(offset);
    return ok;
}

/* ---------------------------------------------------------------- the file */

static bool read_head(struct reader *r)
{
    struct gguf *g = r->g;
    uint64_t version;
    if (g->n_bytes < 4 || memcmp(g->bytes, "GGUF", 4) != 0) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "",
                           "%s: does not begin with 'GGUF': give a .gguf file, or the folder of a "
                           "model's config.json",
                           g->label);
    }
    r->at = 4;
    if (!read_uint(r, 4, "the version", "", &version)) {
        return false;
    }
    g->version = (uint32_t)version;
    if (version != 2 && version != 3) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "", "%s: has version %llu%s, 2 or 3 expected",
                           g->label, (unsigned long long)version,
                           version && version % 65536 == 0 ? " (big-endian)" : "");
    }
    return true;
}

static bool parse(struct gguf *g, struct engine_error *err)
{
    struct reader r = {g, 0, err};
    uint64_t n_tensors, n_entries;
    return read_head(&r) &&
           read_count(&r, "tensor count", GGUF_TENSORS_MAX, TENSOR_BYTES_MIN, &n_tensors) &&
           read_count(&r, "metadata count", GGUF_KEYS_MAX, PAIR_BYTES_MIN, &n_entries) &&
           read_entries(&r, n_entries) && read_tensors(&r, n_tensors);
}

static struct gguf *new_object(const char *label, struct engine_error *err)
{
    struct gguf *g = calloc(1, sizeof *g);
    if (!g) {
        (void)engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory", label);
        return NULL;
    }
    (void)snprintf(g->label, sizeof g->label, "%s", label);
    return g;
}

bool gguf_parse(struct gguf **out, const unsigned char *bytes, size_t n, const char *label,
                struct engine_error *err)
{
    struct gguf *g = new_object(label, err);
    if (!g) {
        return false;
    }
    g->bytes = bytes;
    g->n_bytes = n;
    if (!parse(g, err)) {
        gguf_close(g);
        return false;
    }
    *out = g;
    return true;
}

bool gguf_open(struct gguf **out, const char *path, struct engine_error *err)
{
    struct gguf *g = new_object(filemap_name(path), err);
    if (!g) {
        return false;
    }
    if (!filemap_open(&g->map, path, g->label, 24, "GGUF", err)) {
        gguf_close(g);
        return false;
    }
    g->bytes = g->map.bytes;
    g->n_bytes = g->map.n;
    if (!parse(g, err)) {
        gguf_close(g);
        return false;
    }
    *out = g;
    return true;
}

void gguf_close(struct gguf *g)
{
    if (!g) {
        return;
    }
    for (size_t i = 0; i < g->n_entries; i++) {
        free(g->entry[i].key);
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        free((void *)(uintptr_t)g->tensor[i].name);
    }
    free(g->entry);
    free(g->by_key);
    free(g->tensor);
    filemap_close(&g->map);
    free(g);
}

const char *gguf_label(const struct gguf *g)
{
    return g->label;
}

const struct filemap *gguf_file(const struct gguf *g)
{
    return &g->map;
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->version;
}

const struct gguf_tensor *gguf_tensors(const struct gguf *g, size_t *n)
{
    *n = g->n_tensors;
    return g->tensor;
}

const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name)
{
    struct gguf_tensor key = {.name = name};
    return g->n_tensors ? bsearch(&key, g->tensor, g->n_tensors, sizeof key, by_name) : NULL;
}
