/* probe_print.h - what `catalog probe` shows: the requests it would send, the verdicts, and the
 * lines that mend claims. */
#ifndef ISOTHERM_PROBE_PRINT_H
#define ISOTHERM_PROBE_PRINT_H

#include "gateway/ctl/probe_send.h"

struct probe_result {
    struct probe_report report;
    char set[1024]; /* `isothermctl catalog set ...`, or "" */
};
struct probe_summary {
    const struct target *target;
    const char *day;
    bool is_whole; /* nothing was broken off */
    struct probe_sender_count count;
};

/* The command that mends the claim of r->report; "" where a person has to. */
void probe_print_set(struct probe_result *r, const struct target *target, const char *day);
/* Table, summary and commands on standard output, or one JSON object. 0, or 1 and a line. */
int probe_print(const struct probe_result *list, size_t n, const struct probe_summary *s,
                bool is_json);
/* The requests of one probe, for --dry-run: lines, or items added to `list`. false: memory, said.
 */
bool probe_print_requests(struct probe_sender *sender, struct probe *p, enum param param,
                          json_t *list);

#endif
