/* evidence.c - see evidence.h. */
#include "evidence.h"
#include "catalog_inside.h"

#include <assert.h>
#include <string.h>

const char *claim_verdict_name(enum claim_verdict v)
{
    static const char *const names[] = {[CLAIM_UNVERIFIED] = "unverified",
                                        [CLAIM_CONFIRMED] = "confirmed",
                                        [CLAIM_CONTRADICTED] = "contradicted"};
    return names[v];
}

const char *evidence_origin_name(enum evidence_origin o)
{
    return o == EVIDENCE_PROBE ? "probe" : "traffic";
}

bool evidence_add(const char *path, const struct evidence *list, size_t n,
                  struct catalog_error *err)
{
    struct db *db;
    if (n == 0) {
        return true;
    }
    if (!db_change_quick(&db, path, err)) {
        return false;
    }
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        assert(list[i].verdict == CLAIM_CONFIRMED || list[i].verdict == CLAIM_CONTRADICTED);
        assert(strlen(list[i].seen) >= sizeof "2026-11-30" - 1);
        ok = db_add_evidence(db, &list[i], err);
    }
    ok = ok && db_commit(db, err);
    db_close(db);
    return ok;
}

bool evidence_each(struct catalog *c, int64_t claim, evidence_fn *fn, void *ud,
                   struct catalog_error *err)
{
    int64_t newest = 0;
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = (claim || db_newest_number(db, &newest, err)) &&
              db_evidence(db, claim, newest, fn, ud, err);
    catalog_let_go(c);
    return ok;
}
