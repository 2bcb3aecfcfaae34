/* link_params.h - what the canonical parameters of a request mean to the engine: `params` of a
 * generate frame -> struct link_params.
 *
 * The names are link_param_names. An unknown name, a wrong type and a meaningless value are
 * refused, and the error names the parameter; null is the same as absent. What needs the vocabulary
 * (token ids) is checked by session_start().
 */
#ifndef ISOTHERM_LINK_PARAMS_H
#define ISOTHERM_LINK_PARAMS_H

#include "engine.h"
#include <jansson.h>

#define LINK_STOPS_MAX        64 /* editors send a dozen */
#define LINK_STOP_IDS_MAX     128
#define LINK_BIAS_MAX         1024
#define LINK_TOP_LOGPROBS_MAX 20

struct link_params {
    struct sampler_config sampling; /* owned until link_params_request() moves it */
    int64_t seed, max_tokens;       /* max_tokens 0: not given */
    int64_t n, best_of;
    const char **stops; /* owned; the strings are borrowed from the JSON */
    size_t n_stops;
    bool logprobs, logprobs_processed, echo;
    int64_t n_top_logprobs;
};

/* `params` must outlive `out`. NULL stands for an empty object. `seed` is required. */
ENGINE_WARN_UNUSED bool link_params_parse(const json_t *params, struct link_params *out,
                                          struct engine_error *err);
void link_params_release(struct link_params *p);
/* The engine's request with the prompt; everything in it is borrowed from `p` and `prompt`. */
struct session_request link_params_request(struct link_params *p, const int32_t *prompt,
                                           size_t n_prompt);

#endif
