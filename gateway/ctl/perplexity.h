/* perplexity.h - how well a model predicts a text: the exponential of the mean negative
 * log-likelihood of its tokens, with a 95 % confidence interval.
 */
#ifndef ISOTHERM_PERPLEXITY_H
#define ISOTHERM_PERPLEXITY_H

#include "gateway/base/buf.h"
#include "local-engine/engine_error.h"

#include <signal.h>
#include <stddef.h>

struct perplexity_options {
    const char *label;                 /* for the progress on a terminal: "before "; NULL: none */
    long context, stride, n_threads;   /* 0: by default */
    bool shows_progress;               /* on standard error, a line that is written over */
    const volatile sig_atomic_t *stop; /* not 0: end with ENGINE_CANCELLED; may be NULL */
};
struct perplexity {
    double value, half; /* the interval is value - half to value + half */
    double mean_nll, nll_deviation, seconds, tokens_per_second;
    size_t n_tokens, n_counted, n_computed; /* all, those that count, rows computed */
    size_t n_bytes, context, stride;
    char fingerprint[160];
};

/* The text of a file, "-": standard input. false: it cannot be read or has more than 256 MiB. */
ENGINE_WARN_UNUSED bool perplexity_read(const char *file, struct buf *text,
                                        struct engine_error *err);
/* `path`: a model. `file` stands for the text in errors. ENGINE_BAD_PARAM: context or stride, or a
 * text of fewer than two tokens. */
ENGINE_WARN_UNUSED bool perplexity_measure(struct perplexity *out, const char *path,
                                           const char *file, struct slice text,
                                           const struct perplexity_options *o,
                                           struct engine_error *err);
/* One JSON object on standard output, without a line's end. */
void perplexity_print_json(const struct perplexity *p);

#endif
