/* snapshot.c - one version of the catalog in memory.
 *
 * Read once, then never written: strings are interned in an arena, equal JSON texts share one
 * parsed value, equal patterns one compiled expression (five thousand claims have some 140). The
 * lists grow while rows come in; what points into them (patterns, groups) is resolved when they
 * have stopped growing.
 */
#include "claim_row.h"
#include "hash_list.h"
#include "rules_cache.h"

#include <stdlib.h>
#include <string.h>

/* ---- growing lists */

static void *grow(void *list, size_t n, size_t *cap, size_t item)
{
    if (n < *cap) {
        return list;
    }
    size_t wanted = *cap ? *cap * 2 : 64;
    void *more = realloc(list, wanted * item);
    if (more) {
        *cap = wanted;
    }
    return more;
}

struct load {
    struct snapshot *s;
    size_t *pattern_at; /* of each claim: index into patterns, SIZE_MAX for "*" */
    size_t pattern_at_cap;
    uint32_t *json_slots; /* open addressing: place in the snapshot's json + 1, by the address of
                             its text, which is interned; 0: free */
    size_t n_json_slots;
    struct hash_list provider_hashes, claim_hashes;
    struct catalog_error *err;
};

static bool no_memory(struct load *l)
{
    return catalog_fail(l->err, CATALOG_NOMEM, "out of memory");
}

static bool take_hash(struct load *l, struct hash_list *list, int64_t id, struct db_cell c)
{
    unsigned char *out = c.type == DB_HASH ? hash_list_add(list) : NULL;
    if (out) {
        memcpy(out, c.hash, SHA256_LEN);
        return true;
    }
    return c.type == DB_HASH ? no_memory(l) : claim_row_bad(id, "its hash is missing", l->err);
}

/* ---- what claims share */

static bool keep_text(void *ud, const char *text, const char **out)
{
    struct load *l = ud;
    *out = arena_intern(&l->s->arena, text);
    return *out || no_memory(l);
}

/* The slot where a text has its place, or would have it; the table always has a free one. */
static uint32_t *json_slot(const struct load *l, const char *text)
{
    size_t i = ((uintptr_t)text >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (;; i++) {
        uint32_t *slot = &l->json_slots[i & (l->n_json_slots - 1)];
        if (*slot == 0 || l->s->json[*slot - 1].text == text) {
            return slot;
        }
    }
}

static bool grow_json_slots(struct load *l)
{
    if (l->s->n_json * 2 < l->n_json_slots) {
        return true;
    }
    size_t n = l->n_json_slots ? 2 * l->n_json_slots : 256;
    uint32_t *more = calloc(n, sizeof *more);
    if (!more) {
        return no_memory(l);
    }
    free(l->json_slots);
    l->json_slots = more;
    l->n_json_slots = n;
    for (size_t i = 0; i < l->s->n_json; i++) {
        *json_slot(l, l->s->json[i].text) = (uint32_t)i + 1;
    }
    return true;
}

static bool parse_json(struct load *l, int64_t id, const char *text, const json_t **out)
{
    struct snapshot *s = l->s;
    struct snapshot_json *more = grow(s->json, s->n_json, &s->json_cap, sizeof *more);
    if (!more) {
        return no_memory(l);
    }
    s->json = more;
    json_t *value = claim_row_parse(id, text, l->err);
    if (!value) {
        return false;
    }
    s->json[s->n_json++] = (struct snapshot_json){text, value};
    *out = value;
    return true;
}

/* Equal texts share one value. */
static bool keep_json(void *ud, int64_t id, const char *text, const json_t **out)
{
    struct load *l = ud;
    const char *interned = arena_intern(&l->s->arena, text);
    if (!interned) {
        return no_memory(l);
    }
    if (!grow_json_slots(l)) {
        return false;
    }
    uint32_t *slot = json_slot(l, interned);
    if (*slot != 0) {
        *out = l->s->json[*slot - 1].value;
        return true;
    }
    if (!parse_json(l, id, interned, out)) {
        return false;
    }
    *slot = (uint32_t)l->s->n_json;
    return true;
}

static bool take_pattern(struct load *l, int64_t id, const char *text, size_t *index)
{
    struct snapshot *s = l->s;
    *index = SIZE_MAX;
    if (strcmp(text, "*") == 0) {
        return true;
    }
    for (size_t i = s->n_patterns; i-- > 0;) { /* neighbours mostly share it */
        if (s->patterns[i].text == text) {
            *index = i;
            return true;
        }
    }
    struct snapshot_pattern *more =
        grow(s->patterns, s->n_patterns, &s->patterns_cap, sizeof *more);
    if (!more) {
        return no_memory(l);
    }
    s->patterns = more;
    struct catalog_error why = {.code = CATALOG_OK};
    if (!pattern_init(&s->patterns[s->n_patterns].compiled, text, &why)) {
        return claim_row_bad_pattern(id, &why, l->err);
    }
    s->patterns[s->n_patterns].text = text;
    *index = s->n_patterns++;
    return true;
}

/* ---- one claim */

static bool take_claim(int64_t id, const struct db_cell *cells, void *ud)
{
    struct load *l = ud;
    struct snapshot *s = l->s;
    const struct claim_keep keep = {keep_text, keep_json, l};
    struct claim c;
    size_t pattern;
    if (!claim_row_read(&c, id, cells, &keep, l->err) || !take_pattern(l, id, c.models, &pattern) ||
        !take_hash(l, &l->claim_hashes, id, cells[COLUMN_COUNT])) {
        return false;
    }
    struct claim *more = grow(s->claims, s->n_claims, &s->claims_cap, sizeof *more);
    if (!more) {
        return no_memory(l);
    }
    s->claims = more;
    size_t *at = grow(l->pattern_at, s->n_claims, &l->pattern_at_cap, sizeof *at);
    if (!at) {
        return no_memory(l);
    }
    l->pattern_at = at;
    l->pattern_at[s->n_claims] = pattern;
    s->claims[s->n_claims++] = c;
    return true;
}

/* ---- providers */

static bool take_member(struct load *l, const json_t *body, const char *key, const char **out)
{
    const char *text = json_string_value(json_object_get(body, key));
    return !text || keep_text(l, text, out);
}

static bool fill_quirks(struct load *l, const json_t *body, struct provider_quirks *q)
{
    q->tool_id_len = json_integer_value(json_object_get(body, "tool_id_len"));
    q->tool_id_len_max = json_integer_value(json_object_get(body, "tool_id_len_max"));
    q->has_one_system = json_is_true(json_object_get(body, "one_system"));
    q->has_turn_after_tool = json_is_true(json_object_get(body, "turn_after_tool"));
    q->has_strict_messages = json_is_true(json_object_get(body, "strict_messages"));
    q->thinks_in_tags = json_is_true(json_object_get(body, "thinks_in_tags"));
    q->has_call_ids = json_is_true(json_object_get(body, "call_ids"));
    q->has_untyped_links = json_is_true(json_object_get(body, "untyped_links"));
    return take_member(l, body, "reasoning_key", &q->reasoning_key);
}

static bool fill_provider(struct load *l, int64_t id, const json_t *body, struct provider *p)
{
    const struct {
        const char *key;
        const char **out;
    } texts[] = {
        {"id", &p->id},
        {"title", &p->title},
        {"dialect", &p->dialect},
        {"base_url", &p->base_url},
        {"chat_path", &p->chat_path},
        {"stream_path", &p->stream_path},
        {"text_path", &p->text_path},
        {"text_stream_path", &p->text_stream_path},
        {"chat_endpoint", &p->chat_endpoint},
        {"text_endpoint", &p->text_endpoint},
        {"auth_header", &p->auth_header},
        {"sign_service", &p->sign_service},
        {"sign_hosts", &p->sign_hosts},
        {"key_env", &p->key_env},
        {"stand_in", &p->stand_in},
        {"request_id_header", &p->request_id_header},
        {"model_prefix", &p->model_prefix},
        {"prefill_path", &p->prefill_path},
    };
    const struct {
        const char *key;
        const char **out;
    } route[] = {
        {"dialect", &p->also.dialect},
        {"chat_path", &p->also.chat_path},
        {"stream_path", &p->also.stream_path},
        {"chat_endpoint", &p->also.chat_endpoint},
    };
    const json_t *also = json_object_get(body, "also");
    const char *auth = json_string_value(json_object_get(body, "auth"));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!take_member(l, body, texts[i].key, texts[i].out)) {
            return false;
        }
    }
    for (size_t i = 0; also && i < sizeof route / sizeof route[0]; i++) {
        if (!take_member(l, also, route[i].key, route[i].out)) {
            return false;
        }
    }
    if (!p->id || !p->title || !p->dialect || !auth) {
        return claim_row_bad(id, "a field of a provider is missing", l->err);
    }
    p->auth = strcmp(auth, "bearer") == 0   ? CATALOG_AUTH_BEARER
              : strcmp(auth, "header") == 0 ? CATALOG_AUTH_HEADER
              : strcmp(auth, "sigv4") == 0  ? CATALOG_AUTH_SIGV4
                                            : CATALOG_AUTH_NONE;
    p->headers = json_object_get(body, "headers");
    p->is_local = json_is_true(json_object_get(body, "is_local"));
    return fill_quirks(l, json_object_get(body, "quirks"), &p->quirks);
}

static bool take_provider(int64_t id, const struct db_cell *cells, void *ud)
{
    struct load *l = ud;
    struct snapshot *s = l->s;
    struct provider p = {0};
    const json_t *body;
    if (cells[0].type != DB_TEXT) {
        return claim_row_bad(id, "a provider is no text", l->err);
    }
    if (!keep_json(l, id, cells[0].s, &body) || !fill_provider(l, id, body, &p) ||
        !take_hash(l, &l->provider_hashes, id, cells[1])) {
        return false;
    }
    struct provider *more = grow(s->providers, s->n_providers, &s->providers_cap, sizeof *more);
    if (!more) {
        return no_memory(l);
    }
    s->providers = more;
    s->providers[s->n_providers++] = p;
    return true;
}

/* ---- the whole */

static bool make_groups(struct load *l)
{
    struct snapshot *s = l->s;
    for (size_t i = 0; i < s->n_claims; i++) {
        const struct claim *c = &s->claims[i];
        size_t at = l->pattern_at[i];
        const struct snapshot_pattern *p = at == SIZE_MAX ? NULL : &s->patterns[at];
        struct snapshot_group *last = s->n_groups ? &s->groups[s->n_groups - 1] : NULL;
        if (last && last->provider == c->provider && last->endpoint == c->endpoint &&
            last->pattern == p) {
            last->n++;
            continue;
        }
        struct snapshot_group *more = grow(s->groups, s->n_groups, &s->groups_cap, sizeof *more);
        if (!more) {
            return no_memory(l);
        }
        s->groups = more;
        s->groups[s->n_groups++] = (struct snapshot_group){c->provider, c->endpoint, p, i, 1};
    }
    return true;
}

static bool check_hash(struct load *l)
{
    char hash[SHA256_HEX_LEN];
    hash_list_sum(&l->provider_hashes, &l->claim_hashes, hash);
    if (strcmp(hash, l->s->version.hash) != 0) {
        return catalog_fail(l->err, CATALOG_BAD_DB,
                            "catalog version %lld is not what was built: build it again",
                            (long long)l->s->version.number);
    }
    return true;
}

/* ---- verdicts */

struct claim_place {
    int64_t id;
    size_t at;
};

static int compare_place(const void *a, const void *b)
{
    const struct claim_place *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

struct verdicts {
    struct load *l;
    struct claim_place *places; /* owned; by row id */
};

static bool take_verdict(int64_t id, enum claim_verdict verdict, const char *on, void *ud)
{
    struct verdicts *v = ud;
    struct snapshot *s = v->l->s;
    struct claim_place key = {.id = id};
    if (!v->places) { /* mostly there is no evidence at all */
        v->places = calloc(s->n_claims + 1, sizeof *v->places);
        if (!v->places) {
            return no_memory(v->l);
        }
        for (size_t i = 0; i < s->n_claims; i++) {
            v->places[i] = (struct claim_place){s->claims[i].id, i};
        }
        qsort(v->places, s->n_claims, sizeof *v->places, compare_place);
    }
    const struct claim_place *found =
        bsearch(&key, v->places, s->n_claims, sizeof *v->places, compare_place);
    if (found) {
        struct claim *c = &s->claims[found->at];
        c->verdict = verdict;
        return !on || keep_text(v->l, on, &c->verdict_on);
    }
    return true;
}

static bool load_verdicts(struct db *db, struct load *l)
{
    struct verdicts v = {.l = l};
    bool ok = db_verdicts(db, l->s->version.number, take_verdict, &v, l->err);
    free(v.places);
    return ok;
}

static bool load_rows(struct db *db, int64_t version, struct load *l)
{
    struct snapshot *s = l->s;
    return db_version(db, version, &s->version, l->err) &&
           db_providers(db, s->version.number, take_provider, l, l->err) &&
           db_claims(db, s->version.number, take_claim, l, l->err) && check_hash(l) &&
           load_verdicts(db, l) && make_groups(l);
}

bool snapshot_load(struct db *db, int64_t version, struct snapshot **out, struct catalog_error *err)
{
    if (!db_begin(db, err)) {
        return false;
    }
    bool ok = snapshot_load_inside(db, version, out, err);
    db_end(db);
    return ok;
}

bool snapshot_load_inside(struct db *db, int64_t version, struct snapshot **out,
                          struct catalog_error *err)
{
    struct snapshot *s = calloc(1, sizeof *s);
    if (!s) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    struct load l = {.s = s, .err = err};
    atomic_init(&s->n_refs, 1);
    arena_init(&s->arena);
    bool ok = load_rows(db, version, &l);
    if (ok) {
        s->cache = rules_cache_new(s->claims, s->n_claims);
        ok = s->cache || no_memory(&l);
    }
    arena_end_interning(&s->arena);
    free(l.pattern_at);
    free(l.json_slots);
    hash_list_release(&l.provider_hashes);
    hash_list_release(&l.claim_hashes);
    if (!ok) {
        snapshot_release(s);
        return false;
    }
    *out = s;
    return true;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
    atomic_fetch_add_explicit(&s->n_refs, 1, memory_order_relaxed);
    return s;
}

bool snapshot_is_shared(const struct snapshot *s)
{
    return atomic_load_explicit(&((struct snapshot *)s)->n_refs, memory_order_acquire) > 1;
}

void snapshot_release(struct snapshot *s)
{
    /* acq_rel: what other threads read from the snapshot is over before it is freed. */
    if (!s || atomic_fetch_sub_explicit(&s->n_refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < s->n_patterns; i++) {
        pattern_release(&s->patterns[i].compiled);
    }
    for (size_t i = 0; i < s->n_json; i++) {
        json_decref(s->json[i].value);
    }
    free(s->providers);
    free(s->claims);
    free(s->patterns);
    free(s->json);
    free(s->groups);
    rules_cache_free(s->cache);
    arena_release(&s->arena);
    free(s);
}

/* ---- reading */

int64_t snapshot_version(const struct snapshot *s)
{
    return s->version.number;
}

const char *snapshot_hash(const struct snapshot *s)
{
    return s->version.hash;
}

const struct provider *snapshot_provider(const struct snapshot *s, const char *id)
{
    for (size_t i = 0; i < s->n_providers; i++) {
        if (strcmp(s->providers[i].id, id) == 0) {
            return &s->providers[i];
        }
    }
    return NULL;
}

size_t snapshot_n_providers(const struct snapshot *s)
{
    return s->n_providers;
}

const struct provider *snapshot_provider_at(const struct snapshot *s, size_t i)
{
    return &s->providers[i];
}

bool snapshot_pattern_matches(const struct snapshot_pattern *p, const char *model)
{
    return !p || pattern_takes(&p->compiled, model);
}

void snapshot_each(const struct snapshot *s, const char *provider, const char *model,
                   const char *param, catalog_claim_fn *fn, void *ud)
{
    for (size_t g = 0; g < s->n_groups; g++) {
        const struct snapshot_group *group = &s->groups[g];
        if ((provider && strcmp(group->provider, provider) != 0) ||
            (model && !snapshot_pattern_matches(group->pattern, model))) {
            continue;
        }
        for (size_t i = group->first; i < group->first + group->n; i++) {
            if ((!param || strcmp(s->claims[i].param, param) == 0) && !fn(&s->claims[i], ud)) {
                return;
            }
        }
    }
}
