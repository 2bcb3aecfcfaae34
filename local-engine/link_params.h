/* link_params.h - what the canonical parameters of a request mean to the engine: `params` of a
 * generate frame -> struct link_params.
 *
 * The names are link_param_names. An unknown name, a wrong type and a meaningless value are
 * refused, and the error names the parameter; null is the same as absent. Beam search is on with
 * use_beam_search, or num_beams above 1; it is as wide as num_beams, or else as n, or else
 * LINK_BEAMS_DEFAULT; length_penalty is 1 unless given. What has no meaning with it, or without
 * it, is refused. What needs the vocabulary (token ids) is checked by session_start(), and so is
 * what a schema or a pattern says.
 */
#ifndef ISOTHERM_LINK_PARAMS_H
#define ISOTHERM_LINK_PARAMS_H

#include "engine.h"
#include <jansson.h>

#define LINK_STOPS_MAX        64 /* editors send a dozen */
#define LINK_STOP_IDS_MAX     128
#define LINK_BIAS_MAX         1024
#define LINK_TOP_LOGPROBS_MAX 20
#define LINK_BEAMS_DEFAULT    4

struct link_params {
    struct sampler_config sampling; /* owned until link_params_request() moves it */
    int64_t seed, max_tokens;       /* max_tokens -1: not given; 0: with echo only */
    int64_t n, best_of;
    bool use_beam_search;
    int64_t num_beams; /* 0: not given */
    double length_penalty;
    const char **stops; /* owned; the strings are borrowed from the JSON */
    size_t n_stops;
    bool logprobs, logprobs_processed, echo;
    int64_t n_top_logprobs;
    struct constrain_spec constraint; /* its value is borrowed from the JSON */
    bool is_strict;                   /* json_schema.strict: nothing may cut the document */
};

/* `params` must outlive `out`. NULL stands for an empty object. `seed` is required. */
ENGINE_WARN_UNUSED bool link_params_parse(const json_t *params, struct link_params *out,
                                          struct engine_error *err);
void link_params_release(struct link_params *p);
/* 0: sampling. */
uint32_t link_params_beams(const struct link_params *p);
/* The engine's request with the prompt; everything in it is borrowed from `p` and `prompt`. */
struct session_request link_params_request(struct link_params *p, const int32_t *prompt,
                                           size_t n_prompt);

#endif
