/* check.c - catalog_check(): one pass over the claims for each kind, so that findings come by kind.
 *
 * What needs more than a claim at a time is elsewhere: check_overlap.c, check_patterns.c; what a
 * claim says about values: check_values.c. Days are counted from the dates as they are written: a
 * partial date counts to the end of its month or year.
 */
#include "check_inside.h"
#include "claim_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISPUTED_MAX 1000 /* of so many the claim beside it is looked for: today there are 14 */

static const char *const kind_names[CHECK_COUNT] = {
    [CHECK_STALE] = "stale",           [CHECK_CONTRADICTED] = "contradicted",
    [CHECK_DISPUTED] = "disputed",     [CHECK_OVERLAPPING] = "overlapping",
    [CHECK_IMPOSSIBLE] = "impossible", [CHECK_SOURCELESS] = "sourceless",
    [CHECK_UNMATCHED] = "unmatched",   [CHECK_CONFLICT] = "conflict",
};

const char *check_kind_name(enum check_kind k)
{
    return kind_names[k];
}

void checker_say(struct checker *k, enum check_kind kind, const struct claim *claim,
                 const struct claim *other, const char *fmt, ...)
{
    struct finding f = {.kind = kind, .claim = claim, .other = other};
    va_list args;
    if (k->is_over) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(f.text, sizeof f.text, fmt, args); /* cut where it is long */
    va_end(args);
    k->is_over = !k->fn(&f, k->ud);
}

/* ---- dates */

/* Days since 1970-01-01 of a proleptic Gregorian date. */
static long day_number(int year, int month, int day)
{
    int y = month <= 2 ? year - 1 : year;
    int era_year = y % 400, m = (month + 9) % 12; /* March is the first month */
    long in_era =
        (long)era_year * 365 + era_year / 4 - era_year / 100 + (153 * m + 2) / 5 + day - 1;
    return (long)(y / 400) * 146097 + in_era - 719468;
}

static int digits(const char *s, int n)
{
    int x = 0;
    for (int i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') {
            return -1;
        }
        x = x * 10 + (s[i] - '0');
    }
    return x;
}

/* The last day that a date names: of 2026-11 the 30th. false: it is no date. */
static bool last_day(const char *date, long *out)
{
    size_t n = strlen(date);
    int year = n >= 4 ? digits(date, 4) : -1;
    int month = n >= 7 ? digits(date + 5, 2) : 12;
    int day = n >= 10 ? digits(date + 8, 2) : 0;
    if (year < 0 || month < 1 || month > 12 || day < 0 || day > 31) {
        return false;
    }
    if (n < 10) {
        *out = day_number(month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1, 1) - 1;
    } else {
        *out = day_number(year, month, day);
    }
    return true;
}

static bool has_ended(const struct claim *c, const char *today)
{
    return c->variant == CLAIM_HISTORY ||
           (c->valid_to && strncmp(today, c->valid_to, strlen(c->valid_to)) > 0);
}

/* ---- one claim at a time */

/* What the engine of this program does is no rumour: its claims come with it and do not age. */
static bool is_ours(const struct checker *k, const struct claim *c)
{
    const struct provider *p = snapshot_provider(k->snapshot, c->provider);
    return p && p->is_local;
}

static void say_stale(struct checker *k, const struct claim *c)
{
    const struct check_options *o = k->options;
    long today, seen;
    if (o->stale_days <= 0 || has_ended(c, o->today) || is_ours(k, c) ||
        !last_day(o->today, &today) || !last_day(c->as_of, &seen)) {
        return;
    }
    if (today - seen > o->stale_days) {
        checker_say(k, CHECK_STALE, c, NULL,
                    "was last seen to be so on %s, %ld days ago: probe it or look at its source",
                    c->as_of, today - seen);
    }
}

static void say_contradicted(struct checker *k, const struct claim *c)
{
    if (c->verdict == CLAIM_CONTRADICTED && !has_ended(c, k->options->today)) {
        checker_say(k, CHECK_CONTRADICTED, c, NULL,
                    "the provider did otherwise%s%s: probe it, then set what holds",
                    c->verdict_on ? " on " : "", c->verdict_on ? c->verdict_on : "");
    }
}

/* How near a claim is to the disputed one as that which is planned with; 0: not at all. */
static int nearness(const struct claim *disputed, const struct claim *c)
{
    char model[256];
    if (c == disputed || strcmp(c->provider, disputed->provider) != 0 ||
        strcmp(c->param, disputed->param) != 0 || strcmp(c->endpoint, disputed->endpoint) != 0 ||
        (c->variant != CLAIM_CURRENT && c->variant != CLAIM_CONDITIONAL)) {
        return 0;
    }
    int is_plain = c->variant == CLAIM_CURRENT;
    if (strcmp(c->models, disputed->models) == 0) {
        return 6 + is_plain;
    }
    if (strcmp(c->models, "*") == 0) {
        return 1 + is_plain;
    }
    return check_common_model(c->models, disputed->models, model, sizeof model) ? 3 + is_plain : 0;
}

void check_belief_text(const struct claim *c, char *out, size_t cap)
{
    char range[96];
    claim_range_text(c, range, sizeof range);
    (void)snprintf(out, cap, "%s%s%s", claim_support_name(c->support), range[0] ? " " : "", range);
}

/* The claim that is planned with in the place of the disputed one; NULL: none. */
static const struct claim *find_planned(struct checker *k, const struct claim *disputed)
{
    const struct claim *best = NULL;
    int best_nearness = 0;
    size_t n_looked = ++k->n_disputed <= DISPUTED_MAX ? k->n_claims : 0;
    for (size_t i = 0; i < n_looked; i++) {
        const struct claim *c = k->claims[i];
        int n = has_ended(c, k->options->today) ? 0 : nearness(disputed, c);
        bool is_later = best && strcmp(c->as_of, best->as_of) >= 0;
        if (n > best_nearness || (n && n == best_nearness && is_later)) {
            best = c;
            best_nearness = n;
        }
    }
    return best;
}

static void say_disputed(struct checker *k, const struct claim *c)
{
    char ours[120], theirs[120];
    if (c->variant != CLAIM_DISPUTED || has_ended(c, k->options->today)) {
        return;
    }
    const struct claim *best = find_planned(k, c);
    check_belief_text(c, theirs, sizeof theirs);
    if (!best) {
        checker_say(k, CHECK_DISPUTED, c, NULL,
                    "its source says %s, and no other claim is planned with: probe it", theirs);
        return;
    }
    check_belief_text(best, ours, sizeof ours);
    if (strcmp(ours, theirs) == 0 && c->wire && best->wire) { /* then the place is what differs */
        (void)snprintf(theirs, sizeof theirs, "it is at '%.40s'", c->wire);
        (void)snprintf(ours, sizeof ours, "'%.40s'", best->wire);
    }
    checker_say(k, CHECK_DISPUTED, c, best,
                "its source says %s (as of %s), claim %lld says %s (as of %s) and is planned with: "
                "probe it",
                theirs, c->as_of, (long long)best->id, ours, best->as_of);
}

static void say_impossible(struct checker *k, const struct claim *c)
{
    char text[256];
    if (check_impossible(c, text, sizeof text)) {
        checker_say(k, CHECK_IMPOSSIBLE, c, NULL, "%s", text);
    }
}

static bool is_blank(const char *s)
{
    return !s || s[strspn(s, " \t\r\n")] == '\0';
}

static void say_sourceless(struct checker *k, const struct claim *c)
{
    bool has_no_source = is_blank(c->source), has_no_date = is_blank(c->as_of);
    if (has_no_source || has_no_date) {
        checker_say(k, CHECK_SOURCELESS, c, NULL, "it has no %s%s%s: say who says so, and when",
                    has_no_source ? "source" : "", has_no_source && has_no_date ? " and no " : "",
                    has_no_date ? "date" : "");
    }
}

/* ---- models in use */

static bool has_claims(const struct rules *r)
{
    bool has_any = r->n_conditional > 0;
    for (int p = 0; p < PARAM_COUNT && !has_any; p++) {
        has_any = r->param[p] != NULL;
    }
    return has_any;
}

/* Whether the planner knows the model by itself on that route; *r: what it plans with. */
static bool is_known(const struct checker *k, const struct provider *p, const char *model,
                     enum catalog_route route, struct rules *r)
{
    return snapshot_rules(k->snapshot, p->id, model, route, k->options->today, r, NULL) &&
           !r->is_stand_in && has_claims(r);
}

static void say_unmatched(struct checker *k, const char *name)
{
    struct rules chat = {.model = NULL}, text = {.model = NULL};
    const char *slash = strchr(name, '/'), *only = k->options->provider;
    char id[64];
    if (only && (strncmp(name, only, strlen(only)) != 0 || name[strlen(only)] != '/')) {
        return;
    }
    size_t n = slash ? (size_t)(slash - name) : strlen(name);
    (void)snprintf(id, sizeof id, "%.*s", (int)(n < sizeof id ? n : sizeof id - 1), name);
    const struct provider *p = slash && n < sizeof id ? snapshot_provider(k->snapshot, id) : NULL;
    if (!p) {
        checker_say(k, CHECK_UNMATCHED, NULL, NULL,
                    "model '%.128s' is in use and the catalog has no such provider: add one, or "
                    "set providers[].catalog",
                    name);
        return;
    }
    if (p->is_local || is_known(k, p, slash + 1, CATALOG_CHAT, &chat) ||
        is_known(k, p, slash + 1, CATALOG_TEXT, &text)) {
        return;
    }
    const char *ended = chat.retired_on ? chat.retired_on : text.retired_on;
    if (ended) {
        checker_say(k, CHECK_UNMATCHED, NULL, NULL,
                    "model '%.128s' is in use and its claims ended on %s: use another model", name,
                    ended);
    } else if (p->stand_in) {
        checker_say(k, CHECK_UNMATCHED, NULL, NULL,
                    "model '%.128s' is in use and no pattern takes it: it is planned as '%.64s': "
                    "set claims for it",
                    name, p->stand_in);
    } else {
        checker_say(k, CHECK_UNMATCHED, NULL, NULL,
                    "model '%.128s' is in use and no pattern takes it: nothing is known of it: set "
                    "claims for it",
                    name);
    }
}

/* ---- all of it */

static bool gather(const struct claim *c, void *ud)
{
    struct checker *k = ud;
    if (k->n_claims == k->claims_cap) {
        size_t wanted = k->claims_cap ? k->claims_cap * 2 : 1024;
        const struct claim **more = realloc(k->claims, wanted * sizeof *more);
        if (!more) {
            k->has_failed = true;
            return catalog_fail(k->err, CATALOG_NOMEM, "out of memory");
        }
        k->claims = more;
        k->claims_cap = wanted;
    }
    k->claims[k->n_claims++] = c;
    return true;
}

static bool check_kind(struct checker *k, enum check_kind kind)
{
    static check_claim_fn *const one[CHECK_COUNT] = {
        [CHECK_STALE] = say_stale,           [CHECK_CONTRADICTED] = say_contradicted,
        [CHECK_DISPUTED] = say_disputed,     [CHECK_IMPOSSIBLE] = say_impossible,
        [CHECK_SOURCELESS] = say_sourceless,
    };
    if (kind == CHECK_DISPUTED || kind == CHECK_OVERLAPPING) {
        return check_pairs(k, kind, one[kind]);
    }
    for (size_t i = 0; one[kind] && i < k->n_claims && !k->is_over; i++) {
        one[kind](k, k->claims[i]);
    }
    for (size_t i = 0; kind == CHECK_UNMATCHED && i < k->options->n_models && !k->is_over; i++) {
        say_unmatched(k, k->options->models[i]);
    }
    return true;
}

static bool check_all(struct checker *k)
{
    bool ok = true;
    for (int kind = 0; ok && kind < CHECK_COUNT; kind++) {
        ok = (k->options->skip >> kind & 1) || check_kind(k, (enum check_kind)kind);
    }
    return ok;
}

bool catalog_check(const struct snapshot *s, const struct check_options *o, finding_fn *fn,
                   void *ud, struct catalog_error *err)
{
    struct checker k = {.snapshot = s, .options = o, .fn = fn, .ud = ud, .err = err};
    snapshot_each(s, o->provider, NULL, NULL, gather, &k);
    bool ok = !k.has_failed && check_all(&k);
    free(k.claims);
    return ok;
}
