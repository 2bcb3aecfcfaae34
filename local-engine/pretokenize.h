/* pretokenize.h - cuts text into the pieces that are encoded one by one: a chain of regular
 * expressions (PCRE2), each of which cuts the pieces of the one before. Bytes that are not UTF-8
 * are always pieces of their own, one for each run. Patterns that wordscan.h knows are cut by it.
 *
 * Time is linear in the text for the patterns that are published; one match may take at most
 * PRETOKENIZE_STEPS_MIN steps or sixteen for each byte of the text, then the text is refused. The
 * stack does not grow with the text.
 */
#ifndef ISOTHERM_PRETOKENIZE_H
#define ISOTHERM_PRETOKENIZE_H

#include "engine_error.h"
#include "wordscan.h"
#include <stddef.h>
#include <stdint.h>

enum {
    PRETOKENIZE_STAGES_MAX = 16, /* published files have up to five */
    PRETOKENIZE_PATTERN_MAX = 16384,
    PRETOKENIZE_STEPS_MIN = 1000000
};

/* What becomes of the text that a pattern matches, in Hugging Face's words: a piece of its own;
 * left out; one piece with the text before it, with the text behind it, with the match before. */
enum pretokenize_behavior {
    PRETOKENIZE_ISOLATED,
    PRETOKENIZE_REMOVED,
    PRETOKENIZE_MERGED_WITH_PREVIOUS,
    PRETOKENIZE_MERGED_WITH_NEXT,
    PRETOKENIZE_CONTIGUOUS
};
struct pretokenize_rule {
    enum pretokenize_behavior behavior;
    bool is_inverted; /* what does not match counts as the match */
};

struct pretokenize_stage {
    void *code; /* compiled pattern; NULL: the stage that puts a space in front */
    struct pretokenize_rule rule;
    enum wordscan_kind scan; /* the same by hand, if there is such */
};
struct pretokenize {
    struct pretokenize_stage stages[PRETOKENIZE_STAGES_MAX];
    size_t n_stages;
};

/* A zeroed one has no stage: the text is one piece. */
void pretokenize_release(struct pretokenize *p);
/* `what` names the file and field in errors. */
ENGINE_WARN_UNUSED bool pretokenize_add(struct pretokenize *p, const char *pattern, size_t len,
                                        struct pretokenize_rule rule, const char *what,
                                        struct engine_error *err);
/* A stage that puts a space in front of every piece that does not begin with one
 * (add_prefix_space). */
ENGINE_WARN_UNUSED bool pretokenize_add_space(struct pretokenize *p, const char *what,
                                              struct engine_error *err);

/* Called for each piece in order; false ends the run, which then returns false. Pieces are never
 * empty. */
typedef bool pretokenize_fn(void *ud, const char *piece, size_t len, struct engine_error *err);
/* `is_front`: whether the first piece, too, gets the space of pretokenize_add_space(). */
ENGINE_WARN_UNUSED bool pretokenize_run(const struct pretokenize *p, const char *text, size_t len,
                                        bool is_front, pretokenize_fn *fn, void *ud,
                                        struct engine_error *err);

#endif
