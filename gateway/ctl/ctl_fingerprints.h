/* ctl_fingerprints.h - `isothermctl fingerprints ...`: list and show the records of answers. */
#ifndef ISOTHERM_CTL_FINGERPRINTS_H
#define ISOTHERM_CTL_FINGERPRINTS_H

#include <stdbool.h>
#include <stdint.h>

/* argv[0] is "fingerprints". The exit status: 0 done, 1 failed (one line on stderr), 2 usage. */
int ctl_fingerprints(int argc, char **argv);

/* A point in time as --since takes it: "2026-11-30", "2026-11-30T09:30", "2026-11-30T09:30:15",
 * each with or without Z, always UTC; or an age: "90s", "30m", "2h", "3d", "1w" before now_us.
 * Microseconds since 1970. false: neither. */
bool ctl_fingerprints_since(const char *text, int64_t now_us, int64_t *out_us);

#endif
