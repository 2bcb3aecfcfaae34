/* probe_inside.h - inside of a probe, for the files that make one: probe.c (what comes next, and
 * what was found), probe_report.c (the verdict), probe_trials.c (what is sent), probe_effect.c
 * (whether it does anything), probe_stat.c (how sure that is). */
#ifndef ISOTHERM_CATALOG_PROBE_INSIDE_H
#define ISOTHERM_CATALOG_PROBE_INSIDE_H

#include "probe.h"

/* ---- requests whose status tells */

#define PROBE_ITEMS_MAX  24
#define PROBE_VALUES_MAX 8 /* enumerated values that are tried */
#define PROBE_NAMES_MAX  6 /* other wire names that are tried */
#define PROBE_STEPS_MAX  6 /* requests that look for a bound that has moved */

enum probe_spot {
    PROBE_INSIDE, /* the first one: what nobody doubts */
    PROBE_NEUTRAL,
    PROBE_AT_MIN,
    PROBE_AT_MAX,
    PROBE_ABOVE_MIN, /* of an exclusive bound, one step inside */
    PROBE_BELOW_MAX,
    PROBE_UNDER, /* one step outside */
    PROBE_OVER,
    PROBE_FAR_UNDER,
    PROBE_FAR_OVER,
    PROBE_VALUE, /* one of the enumerated ones */
    PROBE_NO_VALUE,
    PROBE_AT_LENGTH, /* of a list or a string */
    PROBE_OVER_LENGTH,
    PROBE_PAIR, /* with `other`, that may not travel with it */
    PROBE_ALONE /* without `other`, that it needs */
};
enum probe_answer { PROBE_UNASKED, PROBE_NOTHING, PROBE_ACCEPTED, PROBE_REFUSED };
struct probe_item {
    enum probe_spot spot;
    struct value v;
    enum param other; /* PARAM_COUNT: none */
    bool is_fit;      /* the claim says that it is accepted */
    enum probe_answer answer;
};

/* A bound: the outermost value that was accepted, the innermost that was refused. */
struct probe_bound {
    bool has_ok, has_bad;
    double ok, bad;
    unsigned n_steps;
};

/* ---- requests whose answers tell */

enum probe_effect { PROBE_NO_TEST, PROBE_UNKNOWN, PROBE_HAS_EFFECT, PROBE_NO_EFFECT };

/* Answers at two settings: `sharp` must be equal where the parameter works, `flat` differ. */
struct probe_samples {
    char sharp[PROBE_REPEATS_MAX][64], flat[PROBE_REPEATS_MAX][64];
    unsigned n_sharp, n_flat;
};
#define PROBE_ANSWER_TOKENS 4 /* of each of these answers */
/* What the samples say so far; *error: how likely that is by chance. */
enum probe_effect probe_stat_judge(const struct probe_samples *s, double *error);
/* Whether the number of answers at each setting is one at which they are judged. */
bool probe_stat_is_look(unsigned n);
double probe_stat_binomial_tail(unsigned n, double p, unsigned k); /* P(X >= k) */
double probe_stat_hyper_tail(unsigned n, unsigned marked, unsigned drawn, unsigned k);

enum probe_phase {
    PROBE_PHASE_ITEMS,
    PROBE_PHASE_NAMES,
    PROBE_PHASE_BOUNDS,
    PROBE_PHASE_STRICT, /* is a name that nobody knows refused */
    PROBE_PHASE_EFFECT,
    PROBE_PHASE_DONE
};

struct probe {
    const struct rules *rules;
    const struct snapshot *snap;
    enum param param;
    const struct claim *claim;  /* NULL: nobody says anything */
    enum claim_support support; /* ABSENT for that */
    const char *wire;
    json_t *owned;   /* values that were made for trials */
    bool has_memory; /* false: a value could not be made; its trial is left out */
    enum probe_phase phase;

    struct probe_item item[PROBE_ITEMS_MAX];
    size_t n_items, at_item;
    struct probe_bound low, high;
    bool seeks_high; /* the bound that is looked for now */

    /* A refusal that does not name the parameter counts once a request without it was accepted. */
    bool asks_plain;
    enum probe_answer plain;
    struct probe_outcome doubtful;

    const char *name[PROBE_NAMES_MAX];
    size_t n_names, at_name;
    bool is_unknown; /* refused as unknown */
    enum probe_answer strict;

    /* effect */
    struct probe_samples samples;
    bool without_temperature; /* it was refused beside the parameter */
    unsigned n_yes, n_no, n_unclear, n_control_yes, n_control_no, n_lost;
    bool is_control;

    struct probe_trial trial;
    char why[96];
    bool is_pending;
    unsigned n_trials, n_answers;
    char lost_text[128]; /* why trials told nothing */

    /* findings, the strongest kept */
    enum probe_verdict verdict;
    bool has_finding;
    const char *found_name;
    char text[240];
    enum probe_effect effect;
    double effect_error;
    int64_t items_found; /* longest list that was accepted beyond items_max, or 0 */
};

/* ---- probe.c */

void probe_begin_status(struct probe *p, const struct probe_item *it);
void probe_begin_strict(struct probe *p);
/* Far beyond a bound is asked only where just beyond it was accepted. */
bool probe_is_needless(const struct probe *p, size_t i);
bool probe_is_accepted(const struct probe *p); /* at the value inside */
/* Whether the claimed bound is not where it was accepted and refused. */
bool probe_has_moved(const struct probe *p, bool is_high);
double probe_number_of(struct value v);

/* ---- probe_trials.c */

/* The claim of any parameter as an empty request meets it. */
const struct claim *probe_claim(const struct probe *p, enum param q);
/* A value that asks for something and that nobody doubts; VALUE_NONE: there is none. */
struct value probe_inside_value(struct probe *p, enum param q, const struct claim *c);
void probe_make_items(struct probe *p);
void probe_make_names(struct probe *p);
/* Begins p->trial: the limit of the answer and what the provider demands. */
void probe_trial_begin(struct probe *p, const char *prompt, int64_t tokens, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds a parameter where its claim has a place for it; false: it has none. */
bool probe_trial_add(struct probe *p, enum param q, struct value v);
/* Adds the probe's own under `wire`, with what it needs. */
void probe_trial_add_own(struct probe *p, struct value v, const char *wire);
struct value probe_number(const struct probe *p, double x);
double probe_step(enum param p, double bound);
/* The roundest number strictly between two, near their middle; NAN: none. */
double probe_between(enum param p, double a, double b);
void probe_value_text(struct value v, char *out, size_t cap);
extern const char probe_prompt_ok[], probe_prompt_flat[], probe_prompt_count[], probe_prompt_json[];

/* ---- probe_effect.c */

/* Whether answers can tell at all for this parameter. */
bool probe_effect_has_test(const struct probe *p);
/* The next request; false: p->effect is settled. */
bool probe_effect_next(struct probe *p);
void probe_effect_take(struct probe *p, const struct probe_outcome *o);
/* One request of the i-th kind, and how many there can be of it; false: no more. */
bool probe_effect_list(struct probe *p, size_t i, unsigned *n);
/* The most requests, and the tokens of each answer. */
unsigned probe_effect_requests(const struct probe *p, unsigned *tokens, const char **prompt);

#endif
