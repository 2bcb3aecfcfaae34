/* constrain_private.h - what the files that turn a JSON schema into a grammar share. Nobody else
 * includes this.
 *
 * Everything is compiled for a list of schemas that must hold together (`parts`): allOf, $ref and
 * the several schemas that speak of one property add to the list; anyOf and oneOf make one list for
 * each branch. A list has one rule of the grammar; which are still to be written is a queue, so
 * nothing recurses by the depth of a schema, and a schema that contains itself is a rule that calls
 * itself.
 */
#ifndef ISOTHERM_CONSTRAIN_PRIVATE_H
#define ISOTHERM_CONSTRAIN_PRIVATE_H

#include "grammar.h"
#include "regex.h"

#include <jansson.h>

enum {
    CONSTRAIN_DEPTH_MAX = 128, /* levels of a schema's text: the daemon takes 64 of a body */
    CONSTRAIN_PARTS_MAX = 64,  /* schemas that must hold together */
    CONSTRAIN_LISTS_MAX = 20000,
    CONSTRAIN_WORK_MAX = 1500000, /* about half a second */
    CONSTRAIN_POINTER_MAX = 200,
    CONSTRAIN_STEP_MAX = 100 /* of multipleOf: an automaton has so many states for each digit */
};

enum constrain_types {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, /* number without integer */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ALL = 127
};

/* Where in the schema something stands: a list from the leaf up. */
struct constrain_path {
    uint32_t above;   /* path + 1, 0: the root */
    const char *name; /* NULL: an index */
    size_t index;
};

struct constrain_part {
    const json_t *schema;    /* an object, or a boolean */
    uint32_t path;           /* + 1, 0: the root */
    uint32_t from;           /* part + 1 of the list that it came from, 0: none */
    bool any_done, one_done; /* a branch of its anyOf, oneOf is in the list already */
};
struct constrain_parts {
    struct constrain_part p[CONSTRAIN_PARTS_MAX];
    size_t n;
    bool is_never; /* `false` is among them */
};

struct constrain_list; /* constrain_list.c */

/* Conditions on a string and their rule: schemas say "date" again and again. */
struct constrain_known_text {
    char *key;
    size_t len;
    uint32_t rule;
};

struct constrain_compiler {
    struct grammar *g;
    const json_t *root;
    struct engine_error *err;
    const char *param;
    struct constrain_path *paths;
    struct constrain_list **lists; /* in the order of their rules' making; those from n_done wait */
    uint32_t *slots;
    struct constrain_known_text *texts; /* rules of strings with patterns */
    size_t n_paths, paths_cap, n_lists, lists_cap, n_done, slots_cap, n_texts, texts_cap, work;
    uint32_t space, text; /* shared rules + 1, 0: not made yet */
};

/* ---- constrain_path.c */
/* The path of `name` below; 0 when memory is out, which shows in the error text alone. */
uint32_t constrain_below(struct constrain_compiler *c, uint32_t path, const char *name);
uint32_t constrain_below_index(struct constrain_compiler *c, uint32_t path, size_t index);
/* Fails with the pointer of `name` (NULL: the schema itself) in the schema at `path`. */
bool constrain_bad(struct constrain_compiler *c, uint32_t path, const char *name, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
bool constrain_no_memory(struct constrain_compiler *c);
/* Counts work; fails when a schema takes too much of it. A unit is about 250 ns. */
ENGINE_WARN_UNUSED bool constrain_works(struct constrain_compiler *c, size_t n);
/* Puts the pointer in front of an error that came without: of a pattern. Always false. */
bool constrain_bad_inner(struct constrain_compiler *c, uint32_t path, const char *name,
                         const struct engine_error *inner);

/* ---- constrain_keywords.c: names and types of what stands in a schema. */
ENGINE_WARN_UNUSED bool constrain_check_keywords(struct constrain_compiler *c,
                                                 const struct constrain_part *part);
/* What `type` says, TYPE_ALL without; and what is made of a schema without: the types that its
 * other keywords are about. */
unsigned constrain_types_said(const json_t *schema);
unsigned constrain_types_meant(const json_t *schema);

/* ---- constrain_list.c */
/* Adds a schema, then what its $ref and allOf bring, to a list. */
ENGINE_WARN_UNUSED bool constrain_parts_add(struct constrain_compiler *c,
                                            struct constrain_parts *parts, const json_t *schema,
                                            uint32_t path, uint32_t from);
/* The rule of a list; it is written later. */
ENGINE_WARN_UNUSED bool constrain_rule(struct constrain_compiler *c,
                                       const struct constrain_parts *parts, uint32_t *rule);

/* ---- what a list allows of one type, written from the rule's start to its end */
ENGINE_WARN_UNUSED bool constrain_object(struct constrain_compiler *c,
                                         const struct constrain_parts *parts, uint32_t rule);
ENGINE_WARN_UNUSED bool constrain_array(struct constrain_compiler *c,
                                        const struct constrain_parts *parts, uint32_t rule);
ENGINE_WARN_UNUSED bool constrain_string(struct constrain_compiler *c,
                                         const struct constrain_parts *parts, uint32_t rule);
ENGINE_WARN_UNUSED bool constrain_number(struct constrain_compiler *c,
                                         const struct constrain_parts *parts, bool is_integer,
                                         uint32_t rule);
/* enum and const; *has: there is one, and it is written. */
ENGINE_WARN_UNUSED bool constrain_values(struct constrain_compiler *c,
                                         const struct constrain_parts *parts, unsigned types,
                                         uint32_t rule, bool *has);
/* oneOf: that no document is in two branches, or the error says which two may share one. */
ENGINE_WARN_UNUSED bool constrain_check_one_of(struct constrain_compiler *c,
                                               const struct constrain_part *part);

/* ---- shared rules: constrain_string.c */
uint32_t constrain_space(struct constrain_compiler *c);    /* bounded white space, or none */
uint32_t constrain_any_text(struct constrain_compiler *c); /* a string without conditions */
/* A JSON string of the texts with (tags & care) == want, at least min and at most max code points
 * long. */
ENGINE_WARN_UNUSED bool constrain_text_of(struct constrain_compiler *c, const struct regex_dfa *d,
                                          uint64_t care, uint64_t want, uint32_t min, uint32_t max,
                                          uint32_t rule);

/* ---- the values of keywords */
struct constrain_bound {
    const json_t *value; /* NULL: none */
    bool is_exclusive;
    uint32_t path;
    const char *name;
};
void constrain_bounds(const struct constrain_parts *parts, struct constrain_bound *lo,
                      struct constrain_bound *hi);
/* The largest of a keyword for which more is stricter, and the smallest of the other; false where
 * they contradict, and an error if both stand in one schema. *path: of the schema with `min`. */
struct constrain_range {
    uint32_t min, max;
    bool is_empty;
};
ENGINE_WARN_UNUSED bool constrain_range(struct constrain_compiler *c,
                                        const struct constrain_parts *parts, const char *min_name,
                                        const char *max_name, struct constrain_range *out);
/* ---- constrain_pattern.c */
/* An automaton of patterns; its work is counted. The error has no pointer. */
ENGINE_WARN_UNUSED bool constrain_dfa(struct constrain_compiler *c, struct regex_dfa *d,
                                      const struct regex_set *set, struct engine_error *inner);
/* A text is right if (tags & care) == want. */
struct constrain_tags {
    uint64_t care, want;
    int n, n_max; /* the next tag, and how many there may be; 0: all */
};
/* All patterns and formats of the list, tags from tags->n on. `set` is released by the caller in
 * any case. */
ENGINE_WARN_UNUSED bool constrain_patterns(struct constrain_compiler *c,
                                           const struct constrain_parts *parts,
                                           struct regex_set *set, struct constrain_tags *tags);
/* Their automaton. */
ENGINE_WARN_UNUSED bool constrain_patterns_dfa(struct constrain_compiler *c,
                                               const struct constrain_parts *parts,
                                               struct regex_dfa *d, const struct regex_set *set);
/* NULL: there is none, and a format without that is known is refused. Others are annotations. */
bool constrain_format_is_known(const json_t *name);
const char *constrain_format_pattern(const json_t *name);
#define CONSTRAIN_FORMATS                                                                          \
    "date, time, date-time, duration, uuid, email, hostname, uri, ipv4 and ipv6"

/* Whether a value is in the list: surely, surely not, or that takes more than is looked at. */
enum constrain_verdict { VERDICT_OUT, VERDICT_IN, VERDICT_UNKNOWN };
ENGINE_WARN_UNUSED bool constrain_judge(struct constrain_compiler *c,
                                        const struct constrain_parts *parts, const json_t *value,
                                        enum constrain_verdict *out);
bool constrain_equal(const json_t *a, const json_t *b); /* as JSON schema: 1 is 1.0 */
/* Of numbers, exactly: below 0, 0, above 0. */
int constrain_compare(const json_t *a, const json_t *b);

#endif
