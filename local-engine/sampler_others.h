/* sampler_others.h - the filters of other implementations where their boundary rules differ from
 * ours, as stages on the list of survivors (sampler_stages.h). For `sampler_order`, so that a user
 * can see why two servers differ; in float64 and, where a rule leaves ties to an unstable sort, as
 * if that sort were stable. Sources: sampling semantics, section 2.
 */
#ifndef ISOTHERM_SAMPLER_OTHERS_H
#define ISOTHERM_SAMPLER_OTHERS_H

#include "sampler_stages.h"

/* vLLM: on probabilities; all ties with the k-th stay. Renormalises, as all of these do. */
void others_top_k(struct stage_candidates *c, int64_t k);
/* llama.cpp: on scaled logits, before softmax; exactly k, ties by lower id. */
void others_top_k_exact(struct stage_candidates *c, int64_t k);
/* Hugging Face, vLLM: sorted ascending (ties: the lower id is the smaller), what has a running sum
 * <= 1 - top_p goes, the last one stays. */
void others_top_p_ascending(struct stage_candidates *c, double top_p);
/* SGLang: both by rank in the full distribution: rank < k, and running sum less the own <= top_p.
 */
void others_top_k_top_p_joint(struct stage_candidates *c, int64_t k, double top_p);
/* llama.cpp: sorted by typicality, up to and with the one that takes the running sum above mass. */
void others_typical(struct stage_candidates *c, double mass);
/* llama.cpp: logit >= greatest logit + log(min_p). z must be whole. */
void others_min_p_logits(struct stage_candidates *c, double min_p);
/* llama.cpp: the survivors' probabilities at this temperature, from their logits. */
void others_temperature(struct stage_candidates *c, double temperature);

#endif
