/* exchange_evidence.h - what the answers of a provider say about its claims, told to the keeper.
 *
 * A refusal that names a parameter which was sent contradicts the claim by which it was sent; so
 * does an answer that lacks what was asked for. An answer confirms the claims of the parameters
 * that asked for something, once a day each. The local engine's answers say nothing: its claims are
 * ours. No content, no key: the excerpt is the cleaned error text, and that is left out when it
 * holds a piece of the request.
 */
#ifndef ISOTHERM_EXCHANGE_EVIDENCE_H
#define ISOTHERM_EXCHANGE_EVIDENCE_H

#include "exchange_record.h"

/* The parameter of the plan that a refusal calls `name`, by its canonical or wire name, or the last
 * part of that as "maxOutputTokens" or "max_output_tokens"; PARAM_COUNT: none that was sent. */
enum param exchange_evidence_param(const struct exchange *x, const char *name);
/* The provider refused `p`; x->fail says how. Kept until the exchange ends: whether the request is
 * accepted without it is part of what was seen. */
void exchange_evidence_refused(struct exchange *x, enum param p);
/* Another target is asked: that one answers says nothing about what this one has refused. */
void exchange_evidence_moved(struct exchange *x);
/* At the end of the calls, once. */
void exchange_evidence_tell(struct exchange *x);
void exchange_evidence_release(struct exchange *x);

/* Whether `text` holds 24 letters and digits in a row that a string of the request's body holds
 * too, or the whole of a shorter one; for tests. Linear in the body. */
bool exchange_evidence_is_content(const char *text, const json_t *body);

#endif
