/* mock_check.h - whether a provider would take a body: by the claims of the catalog, and by the
 * official JSON Schema where one is given.
 *
 * Claims are asked for with snapshot_rules(), as the planner does; what they mean for a body is
 * written here a second time, from the body's side, so that a mistake of the planner is seen.
 *
 * Looked at: headers that the provider fixes, required and unknown fields, type, range, whole
 * numbers, values, lengths, parameters that the model refuses, two that conflict, one that needs
 * another, a stream or a role that is refused. A field whose value is null counts as absent.
 */
#ifndef ISOTHERM_MOCK_CHECK_H
#define ISOTHERM_MOCK_CHECK_H

#include "mock.h"

struct mock_check;

/* schemas: the folder of PROVIDER-request.schema.json, or NULL. `s` is borrowed. NULL: `why` says
 * what is wrong. */
struct mock_check *mock_check_new(const struct snapshot *s, const char *schemas, char *why,
                                  size_t cap) __attribute__((warn_unused_result));
void mock_check_free(struct mock_check *c);

/* true: taken. false: e->fault, param, limit, value and message are set, nothing else. `day` is
 * "YYYY-MM-DD". */
bool mock_check_body(struct mock_check *c, const struct mock_request *r,
                     const struct mock_dialect *d, const struct mock_wish *w, const char *day,
                     struct mock_error *e);

/* The value of a parameter in the body, by its canonical name or its wire path; NULL: it is not
 * there. */
const json_t *mock_check_find(struct mock_check *c, const struct mock_request *r, const char *day,
                              const char *name);
#endif
