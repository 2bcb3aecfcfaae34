/* probe.h - which few requests tell whether claims hold, and what their answers say. Pure: the
 * caller sends and gives the outcomes back.
 *
 * A probe is a plan of trials for one claim (one parameter of one model). Each trial is one request
 * of one or a few tokens with exactly the parameters given: the planner is not asked, since the
 * point is to send what it would not.
 *
 * Trials of a parameter: the boundary values, just beyond them, the neutral value, each conflicting
 * pair; where "accepted" and "has an effect" differ, repeated trials whose answers tell:
 * temperature 0 against the maximum on a prompt with a flat answer, top_k 1, a seed twice, logprobs
 * there or not, stop strings cut or not, max_tokens kept or not, n choices or one. A parameter that
 * is refused as unknown is tried under the other wire names that the catalog knows for it. A bound
 * that has moved is looked for with a few more, so that the claim can be mended.
 *
 * Statistics (the derivation is at the top of probe.c): "ignored" is said only when answers that
 * would be equal, if the parameter worked, are not; its error rate is the probability of seeing
 * that many different answers from a provider that honours it but is itself not deterministic in
 * PROBE_NOISE of its tokens. That it has an effect is said only when answers that would differ, if
 * it were ignored, are equal; its error rate is the probability of that by chance, were both
 * settings the same. Between the two the verdict is "not told apart". Both must be below
 * PROBE_ALPHA; the number of repetitions grows in steps until one of them is, or PROBE_REPEATS_MAX
 * is reached.
 */
#ifndef ISOTHERM_CATALOG_PROBE_H
#define ISOTHERM_CATALOG_PROBE_H

#include "plan.h"

#define PROBE_ALPHA       1e-5 /* of each verdict of the statistics */
#define PROBE_NOISE       0.02 /* tokens that a provider may change at temperature 0 */
#define PROBE_REPEATS_MAX 24   /* requests at each of two settings */
#define PROBE_TRIALS_MAX  112

enum probe_verdict {
    PROBE_HOLDS,
    PROBE_TOO_NARROW, /* accepted although the claim says out of range, rejected, absent or without
                         effect */
    PROBE_TOO_WIDE,   /* refused although the claim says in range */
    PROBE_IGNORED,    /* accepted without effect, and the claim says otherwise */
    PROBE_RENAMED,    /* refused under its name, accepted under `name` */
    PROBE_NOT_TOLD_APART
};
const char *probe_verdict_name(enum probe_verdict v); /* "too_narrow" */

/* One request to make. */
struct probe_trial {
    struct sampling send; /* parameters, max_tokens among them where it is not the question */
    const char *wire[PARAM_COUNT]; /* of each in `send` */
    const char *prompt;            /* static text */
    const char *why;               /* "just above max", for --dry-run */
};
/* What came back. */
struct probe_outcome {
    int status;       /* HTTP; 0: no answer (network): tells nothing */
    bool names_param; /* the refusal names a parameter of the request: `named` */
    enum param named;
    bool is_unknown; /* ... as unknown, not as out of range */
    char text[512];  /* of the first choice, cut */
    unsigned n_choices;
    unsigned n_tokens; /* of all choices, as the provider counts; 0: not told */
    bool has_logprobs;
    unsigned n_top_logprobs; /* alternatives at the first token */
    char excerpt[240];       /* of an error, cleaned */
};

struct probe; /* of one claim */
/* The claim that rules have for `p` (it may be absent: then whether it is accepted is asked). NULL:
 * memory. The rules, and the snapshot for other names, must outlive it. */
struct probe *probe_new(const struct rules *r, const struct snapshot *s, enum param p);
void probe_free(struct probe *p);
/* The next request, or NULL: enough is known. Valid until the next call. */
const struct probe_trial *probe_next(struct probe *p);
/* For --dry-run, in place of probe_next(): the i-th kind of request, and how many of it there can
 * be; NULL: no more. The sum of *n is the bound of probe_cost_max(). */
const struct probe_trial *probe_list(struct probe *p, size_t i, unsigned *n);
/* The outcome of the last trial. */
void probe_take(struct probe *p, const struct probe_outcome *o);

struct probe_report {
    enum param param;
    const struct claim *claim; /* NULL: nobody says anything */
    enum probe_verdict verdict;
    double error_rate; /* of a statistical verdict; 0: the status told */
    const char *name;  /* renamed: the name that was accepted */
    char text[240];    /* "2.1 was accepted, the claim says at most 2" */
    unsigned n_trials;
    /* What would mend the claim; only what differs is set. */
    struct probe_mend {
        bool has_support, has_min, has_max, has_items;
        enum claim_support support;
        const char *wire; /* NULL: as it is */
        double min, max;  /* the outermost values that were accepted */
        int64_t items_max;
    } mend;
};
void probe_report(const struct probe *p, struct probe_report *out);

/* The most requests, prompt and answer tokens that a probe can take: the bound of --dry-run. It
 * supposes that the provider keeps to max_tokens. */
struct probe_cost {
    unsigned n_requests, prompt_tokens, answer_tokens;
    /* Of max_tokens itself, tried at its limits: what a model could say there that does not stop
     * after the one word it was asked for. */
    unsigned limit_tokens;
};
struct probe_cost probe_cost_max(const struct probe *p);

#endif
