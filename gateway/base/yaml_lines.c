/* yaml_lines.c - one pass over libyaml's events with a stack of open collections.
 *
 * `path` is the path of the value that is being read; each open collection remembers how long it
 * was when it began. Paths are compared by hash first, so that looking for a key given twice stays
 * cheap for the largest allowed file.
 */
#include "yaml_lines.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct entry {
    uint32_t hash;
    unsigned line;
    char *path;
    char *scalar; /* NULL: a collection */
};
struct yaml_lines {
    struct entry *entry; /* [n_entries] */
    size_t n_entries, entries_cap;
};

struct open_node {
    bool is_mapping;
    bool wants_key;  /* mapping: the next scalar is a key */
    size_t index;    /* sequence: of the next entry */
    size_t path_len; /* of the collection itself */
};
struct scan {
    struct yaml_lines *lines;
    struct yaml_lines_error *err;
    struct open_node open[YAML_LINES_DEPTH];
    size_t n_open;
    size_t n_documents;
    char path[YAML_LINES_PATH];
};

__attribute__((format(printf, 3, 4))) static bool scan_fail(struct scan *s, size_t line,
                                                            const char *fmt, ...)
{
    if (s->err && !s->err->line) {
        s->err->line = (unsigned)line;
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(s->err->text, sizeof s->err->text, fmt, ap);
        va_end(ap);
    }
    return false;
}

static uint32_t path_hash(const char *p, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)p[i]) * 16777619u;
    }
    return h;
}

static const struct entry *find_exact(const struct yaml_lines *l, const char *path, size_t n)
{
    uint32_t h = path_hash(path, n);
    for (size_t i = 0; i < l->n_entries; i++) {
        const struct entry *e = &l->entry[i];
        if (e->hash == h && strlen(e->path) == n && memcmp(e->path, path, n) == 0) {
            return e;
        }
    }
    return NULL;
}

static bool entry_add(struct scan *s, unsigned line)
{
    struct yaml_lines *l = s->lines;
    if (l->n_entries == YAML_LINES_MAX) {
        return scan_fail(s, line, "more than %d keys and entries, split or shorten the lists",
                         YAML_LINES_MAX);
    }
    if (l->n_entries == l->entries_cap) {
        size_t cap = l->entries_cap ? 2 * l->entries_cap : 64;
        struct entry *e = realloc(l->entry, cap * sizeof *e);
        if (!e) {
            return scan_fail(s, line, "out of memory");
        }
        l->entry = e;
        l->entries_cap = cap;
    }
    char *path = strdup(s->path);
    if (!path) {
        return scan_fail(s, line, "out of memory");
    }
    l->entry[l->n_entries++] =
        (struct entry){.hash = path_hash(path, strlen(path)), .line = line, .path = path};
    return true;
}

/* The value that begins now is the next entry of a sequence: gives it its path. */
static bool enter_sequence_entry(struct scan *s, struct open_node *top, unsigned line)
{
    size_t room = sizeof s->path - top->path_len;
    int n = snprintf(s->path + top->path_len, room, "[%zu]", top->index++);
    if (n < 0 || (size_t)n >= room) {
        return scan_fail(s, line, "the name of this entry is too long");
    }
    return entry_add(s, line);
}

static bool enter_key(struct scan *s, struct open_node *top, const char *key, size_t len,
                      unsigned line)
{
    size_t at = top->path_len;
    if (len > YAML_LINES_KEY || at + len + 2 > sizeof s->path || memchr(key, '\0', len)) {
        return scan_fail(s, line, "key '%.40s' is too long or holds a NUL byte", key);
    }
    if (at) {
        s->path[at++] = '.';
    }
    memcpy(s->path + at, key, len);
    s->path[at + len] = '\0';
    if (find_exact(s->lines, s->path, at + len)) {
        return scan_fail(s, line, "%s: given twice, remove one", s->path);
    }
    return entry_add(s, line);
}

/* A scalar or a collection begins where a value (or a key) is wanted. *is_key says which. */
static bool begin_value(struct scan *s, const yaml_event_t *ev, bool *is_key)
{
    unsigned line = (unsigned)ev->start_mark.line + 1;
    *is_key = false;
    if (s->n_open == 0) {
        return true;
    }
    struct open_node *top = &s->open[s->n_open - 1];
    if (!top->is_mapping) {
        return enter_sequence_entry(s, top, line);
    }
    if (!top->wants_key) {
        top->wants_key = true;
        return true;
    }
    if (ev->type != YAML_SCALAR_EVENT) {
        return scan_fail(s, line, "a key must be plain text");
    }
    *is_key = true;
    top->wants_key = false;
    return enter_key(s, top, (const char *)ev->data.scalar.value, ev->data.scalar.length, line);
}

static bool check_plain(struct scan *s, unsigned line, const void *anchor, const void *tag)
{
    if (anchor) {
        return scan_fail(
            s, line, "anchors ('&') are not allowed here, write the value out where it is needed");
    }
    if (tag) {
        return scan_fail(s, line, "tags ('!') are not allowed here, remove it");
    }
    return true;
}

static bool on_scalar(struct scan *s, const yaml_event_t *ev)
{
    unsigned line = (unsigned)ev->start_mark.line + 1;
    bool is_key;
    if (!check_plain(s, line, ev->data.scalar.anchor, ev->data.scalar.tag) ||
        !begin_value(s, ev, &is_key)) {
        return false;
    }
    if (s->n_open == 0 && ev->data.scalar.length) {
        return scan_fail(s, line, "the file must hold 'key: value' lines");
    }
    if (!is_key && memchr(ev->data.scalar.value, '\0', ev->data.scalar.length)) {
        return scan_fail(s, line, "%s: the value holds a NUL byte, remove it", s->path);
    }
    if (is_key || s->n_open == 0) {
        return true;
    }
    /* A value belongs to the entry made last: its key, or its place in the sequence. */
    struct entry *e = &s->lines->entry[s->lines->n_entries - 1];
    e->scalar = strdup((const char *)ev->data.scalar.value);
    return e->scalar ? true : scan_fail(s, line, "out of memory");
}

static bool on_collection(struct scan *s, const yaml_event_t *ev)
{
    bool is_mapping = ev->type == YAML_MAPPING_START_EVENT;
    unsigned line = (unsigned)ev->start_mark.line + 1;
    const void *anchor =
        is_mapping ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor;
    const void *tag = is_mapping ? ev->data.mapping_start.tag : ev->data.sequence_start.tag;
    bool is_key;
    if (!check_plain(s, line, anchor, tag) || !begin_value(s, ev, &is_key)) {
        return false;
    }
    if (s->n_open == 0 && !is_mapping) {
        return scan_fail(s, line, "the file must hold 'key: value' lines, not a list");
    }
    if (s->n_open == YAML_LINES_DEPTH) {
        return scan_fail(s, line, "%s: nested more than %d levels deep", s->path, YAML_LINES_DEPTH);
    }
    size_t len = s->n_open ? strlen(s->path) : 0;
    s->open[s->n_open++] =
        (struct open_node){.is_mapping = is_mapping, .wants_key = is_mapping, .path_len = len};
    return true;
}

static bool on_event(struct scan *s, const yaml_event_t *ev)
{
    unsigned line = (unsigned)ev->start_mark.line + 1;
    switch (ev->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++s->n_documents > 1) {
            return scan_fail(s, line, "a second document begins here, a file holds one");
        }
        return true;
    case YAML_ALIAS_EVENT:
        return scan_fail(s, line, "aliases ('*') are not allowed here, write the value out");
    case YAML_SCALAR_EVENT:
        return on_scalar(s, ev);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return on_collection(s, ev);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        s->n_open--;
        s->path[s->open[s->n_open].path_len] = '\0';
        return true;
    default:
        return true;
    }
}

static bool parser_fail(struct scan *s, const yaml_parser_t *p, const char *text, size_t len)
{
    size_t line = p->problem_mark.line + 1;
    if (p->error == YAML_READER_ERROR) { /* has an offset in place of a mark */
        line = 1;
        for (size_t i = 0; i < p->problem_offset && i < len; i++) {
            line += text[i] == '\n';
        }
    }
    if (!p->context || !p->problem) {
        return scan_fail(s, line, "not valid YAML: %s", p->problem ? p->problem : "out of memory");
    }
    return scan_fail(s, line, "not valid YAML: %s %s that began in line %zu", p->problem,
                     p->context, p->context_mark.line + 1);
}

static bool scan_run(struct scan *s, const char *text, size_t len)
{
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) {
        return scan_fail(s, 1, "out of memory");
    }
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
    bool ok = true, is_end = false;
    while (ok && !is_end) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&p, &ev)) {
            ok = parser_fail(s, &p, text, len);
            break;
        }
        is_end = ev.type == YAML_STREAM_END_EVENT;
        ok = on_event(s, &ev);
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&p);
    return ok;
}

bool yaml_lines_parse(struct yaml_lines **out, const char *text, size_t len,
                      struct yaml_lines_error *err)
{
    struct scan s = {.err = err};
    s.lines = calloc(1, sizeof *s.lines);
    if (!s.lines) {
        return scan_fail(&s, 1, "out of memory");
    }
    if (!scan_run(&s, text, len)) {
        yaml_lines_free(s.lines);
        return false;
    }
    *out = s.lines;
    return true;
}

void yaml_lines_free(struct yaml_lines *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->n_entries; i++) {
        free(l->entry[i].path);
        free(l->entry[i].scalar);
    }
    free(l->entry);
    free(l);
}

unsigned yaml_lines_find(const struct yaml_lines *l, const char *path)
{
    size_t n = strlen(path);
    while (n) {
        const struct entry *e = find_exact(l, path, n);
        if (e) {
            return e->line;
        }
        do {
            n--;
        } while (n && path[n] != '.' && path[n] != '[');
    }
    return 0;
}

const char *yaml_lines_scalar(const struct yaml_lines *l, const char *path)
{
    const struct entry *e = find_exact(l, path, strlen(path));
    return e ? e->scalar : NULL;
}

bool yaml_lines_has(const struct yaml_lines *l, const char *path)
{
    return find_exact(l, path, strlen(path)) != NULL;
}

size_t yaml_lines_count(const struct yaml_lines *l)
{
    return l->n_entries;
}
