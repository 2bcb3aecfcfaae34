/* test_rules.c - which claims hold: overrides of this machine, eras, and what a snapshot keeps of
 * its answers. The order of strength is in tests/golden/plan (disagreement, local-overrides). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "catalog/check.h"
#include "catalog/versions.h"

#define DAY "2026-11-30"
#define PROVIDER                                                                                   \
    "{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"openai\",\"auth\":\"none\",\"chat_endpoint\":\"/" \
    "c\",\"stand_in\":\"new-1\"}"
#define REST "\"endpoint\":\"/c\",\"source\":\"s\",\"confidence\":\"high\""

static char folder[] = "/tmp/isotherm-rules-XXXXXX";
static char db_path[128], source_path[128];

static int open_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) {
        return -1;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(source_path, sizeof source_path, "%s/source.json", folder);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    (void)remove(source_path);
    (void)remove(db_path);
    (void)rmdir(folder);
    return 0;
}

/* A snapshot of exactly these claims; NULL: refused. */
static struct snapshot *snapshot_of(const char *claims)
{
    const char *source = source_path;
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    FILE *f = fopen(source_path, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "{\"provider\":%s,\"claims\":[%s]}", PROVIDER, claims) > 0);
    assert_int_equal(fclose(f), 0);
    (void)remove(db_path);
    if (!catalog_build(db_path, &source, 1, &(struct version_stamp){"a", "r", DAY}, &v, &err) ||
        !catalog_open(&c, db_path, &err) || !catalog_snapshot(c, 0, &s, &err)) {
        fail_msg("%s", err.text);
    }
    catalog_close(c);
    return s;
}

static struct rules rules_on(const struct snapshot *s, const char *model, const char *day)
{
    struct catalog_error err = {0};
    struct rules r;
    if (!snapshot_rules(s, "p", model, CATALOG_CHAT, day, &r, &err)) {
        fail_msg("%s", err.text);
    }
    return r;
}

/* An override for a model that no shipped pattern knows: the stand-in answers for the rest. */
static void test_local_does_not_make_known(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_of(
        "{\"models\":\"^new\",\"param\":\"temperature\",\"wire\":\"temperature\",\"support\":"
        "\"yes\",\"max\":2,\"as_of\":\"2026-11-20\"," REST "},"
        "{\"models\":\"^new\",\"param\":\"top_k\",\"wire\":\"top_k\",\"support\":\"yes\",\"as_of\":"
        "\"2026-11-20\"," REST "},"
        "{\"models\":\"^mine\",\"param\":\"temperature\",\"wire\":\"temperature\",\"support\":"
        "\"yes\",\"max\":1,\"local\":true,\"as_of\":\"2026-11-01\"," REST "}");
    struct rules r = rules_on(s, "mine-7", DAY);
    assert_true(r.is_stand_in);
    assert_true(r.param[PARAM_TEMPERATURE]->is_local);
    assert_true(r.param[PARAM_TEMPERATURE]->max == 1);
    assert_non_null(r.param[PARAM_TOP_K]);
    r = rules_on(s, "new-1", DAY);
    assert_false(r.is_stand_in);
    assert_true(r.param[PARAM_TEMPERATURE]->max == 2);
    snapshot_release(s);
}

static void test_forget(void **state)
{
    (void)state;
    static const char *const effort =
        "\"when\":{\"param\":\"reasoning_effort\",\"in\":[\"none\"]},\"variant\":\"conditional\","
        "\"as_of\":\"2026-11-20\"," REST "}";
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        "{\"models\":\"*\",\"param\":\"temperature\",\"wire\":\"t\",\"support\":\"yes\",%s,"
        "{\"models\":\"*\",\"param\":\"top_p\",\"wire\":\"p\",\"support\":\"yes\",%s,"
        "{\"models\":\"*\",\"param\":\"top_k\",\"wire\":\"k\",\"support\":\"yes\",\"required\":"
        "true,\"as_of\":\"2026-11-20\"," REST "}",
        effort, effort);
    struct snapshot *s = snapshot_of(text);
    struct rules r = rules_on(s, "m", DAY);
    struct sampling asked = {0};
    sampling_set(&asked, PARAM_REASONING_EFFORT, (struct value){.type = VALUE_STRING, .s = "none"});
    assert_int_equal(r.n_conditional, 2);
    assert_int_equal(r.condition_bits, PARAM_BIT(PARAM_REASONING_EFFORT));
    rules_forget(&r, PARAM_TEMPERATURE);
    assert_null(rules_claim(&r, PARAM_TEMPERATURE, &asked));
    assert_string_equal(rules_claim(&r, PARAM_TOP_P, &asked)->wire, "p");
    assert_int_equal(r.n_conditional, 1);
    assert_int_equal(r.required_bits, PARAM_BIT(PARAM_TOP_K));
    rules_forget(&r, PARAM_TOP_K);
    assert_int_equal(r.required_bits, 0);
    assert_null(rules_claim(&r, PARAM_TOP_K, &asked));
    assert_string_equal(rules_claim(&r, PARAM_TOP_P, &asked)->wire, "p");
    snapshot_release(s);
}

/* What was answered on one day is not the answer on another one; partial dates hold to their end,
 * and a day that is no date is answered too. */
static void test_eras(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_of(
        "{\"models\":\"*\",\"param\":\"top_k\",\"wire\":\"old\",\"support\":\"yes\",\"valid_to\":"
        "\"2026-05\",\"as_of\":\"2026-01-01\"," REST "},"
        "{\"models\":\"*\",\"param\":\"top_k\",\"wire\":\"newer\",\"support\":\"yes\",\"valid_"
        "from\":\"2026-06-01\",\"valid_to\":\"2026-12\",\"as_of\":\"2026-01-02\"," REST "}");
    static const struct {
        const char *day, *wire;
    } days[] = {
        {"2026-05-31", "old"},   {"2026-06-01", "newer"}, {"2026-05-01", "old"},
        {"2026-12-31", "newer"}, {"2027-01-01", NULL},    {"2026-05-31", "old"},
        {"2026-12-31", "newer"}, {"2025-01-01", "old"},   {"2026-06", "old"},
    };
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < sizeof days / sizeof days[0]; i++) {
            struct rules r = rules_on(s, "m", days[i].day);
            const struct claim *c = r.param[PARAM_TOP_K];
            if (strlen(days[i].day) < 10) {
                continue; /* only that it is answered */
            }
            if (!days[i].wire) {
                assert_null(c);
            } else {
                assert_non_null(c);
                assert_string_equal(c->wire, days[i].wire);
            }
        }
    }
    snapshot_release(s);
}

/* Retired is a model whose every claim has ended, on every route; a stand-in does not bring it
 * back, and one that has ended itself stands for nobody. */
static void test_retired(void **state)
{
    (void)state;
#define ENDED(models, param, to)                                                                   \
    "{\"models\":\"" models "\",\"param\":\"" param "\",\"wire\":\"w\",\"support\":\"yes\","       \
    "\"valid_to\":\"" to "\",\"note\":\"" to "\",\"as_of\":\"2026-01-01\"," REST "}"
    static const char new_one[] = "{\"models\":\"^new\",\"param\":\"top_k\",\"wire\":\"w\","
                                  "\"support\":\"yes\",\"as_of\":\"2026-01-01\"," REST "}";
    static const char old_ones[] =
        ENDED("^old", "top_k", "2026-03-01") "," ENDED("^old", "endpoint", "2026-05") "," ENDED(
            "^old", "top_p", "2026-05") "," ENDED("*", "seed", "2026-07");
    char claims[2048];
    struct catalog_retired r = {.on = NULL};
    (void)snprintf(claims, sizeof claims, "%s,%s", old_ones, new_one);
    struct snapshot *s = snapshot_of(claims);
    assert_false(snapshot_retired(s, "p", "old", NULL, "2026-04-01", &r));
    assert_false(snapshot_retired(s, "p", "old", NULL, "2026-05-31", &r));
    assert_null(r.on);
    assert_true(snapshot_retired(s, "p", "old", NULL, "2026-06-01", &r));
    assert_string_equal(r.on, "2026-05");
    assert_string_equal(r.by->param, "endpoint");
    assert_false(snapshot_retired(s, "p", "new", NULL, DAY, &r));
    assert_false(snapshot_retired(s, "p", "unheard-of", NULL, DAY, &r));
    assert_false(snapshot_retired(s, "q", "old", NULL, DAY, &r));
    snapshot_release(s);

    s = snapshot_of(ENDED("^new", "top_k", "2026-02") "," ENDED("^old", "top_k", "2026-03-01"));
    assert_true(snapshot_retired(s, "p", "unheard-of", NULL, DAY, &r));
    assert_string_equal(r.on, "2026-02");
    assert_string_equal(r.by->models, "^new");
    assert_true(snapshot_retired(s, "p", "old", NULL, DAY, &r));
    assert_string_equal(r.on, "2026-03-01");
    snapshot_release(s);
}

static const char two_models[] = "{\"models\":\"^new\",\"param\":\"top_k\",\"wire\":\"k\","
                                 "\"support\":\"yes\",\"max\":3,\"as_of\":\"2026-01-01\"," REST "},"
                                 "{\"models\":\"^other\",\"param\":\"top_k\",\"wire\":\"k\","
                                 "\"support\":\"yes\",\"max\":5,\"as_of\":\"2026-01-01\"," REST "}";

/* More models than are kept, twice; a model id is never mixed up with another one. */
static void test_many_models(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_of(two_models);
    for (int i = 0; i < 6000; i++) {
        char model[64];
        (void)snprintf(model, sizeof model, "%s-%d", i % 2 ? "new" : "other", i % 3000);
        struct rules r = rules_on(s, model, DAY);
        assert_ptr_equal(r.model, model);
        assert_true(r.param[PARAM_TOP_K]->max == (i % 2 ? 3 : 5));
    }
    char longer[600];
    memset(longer, 'n', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_true(rules_on(s, longer, DAY).is_stand_in);
    assert_true(rules_on(s, longer, DAY).is_stand_in);
    snapshot_release(s);
}

static void *ask_many(void *ud)
{
    struct snapshot *s = ud;
    for (int i = 0; i < 3000; i++) {
        char model[32];
        struct rules r;
        (void)snprintf(model, sizeof model, "%s-%d", i % 2 ? "new" : "other", i % 50);
        if (!snapshot_rules(s, "p", model, CATALOG_CHAT, i % 5 ? DAY : "2026-10-01", &r, NULL) ||
            r.param[PARAM_TOP_K]->max != (i % 2 ? 3 : 5)) {
            return s;
        }
    }
    snapshot_release(s);
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct snapshot *s = snapshot_of(two_models);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, snapshot_ref(s)), 0);
    }
    snapshot_release(s);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

/* More conditions than rules hold: said, never left out in silence. */
static void test_too_many_conditions(void **state)
{
    (void)state;
    char *text = calloc(1, 200000);
    size_t len = 0;
    assert_non_null(text);
    for (int i = 0; i <= RULES_CONDITIONAL_MAX; i++) {
        len +=
            (size_t)snprintf(text + len, 200000 - len,
                             "%s{\"models\":\"*\",\"param\":\"top_k\",\"wire\":\"k\",\"support\":"
                             "\"yes\",\"when\":{\"param\":\"reasoning_effort\",\"in\":[\"e%d\"]},"
                             "\"variant\":\"conditional\",\"as_of\":\"2026-01-01\"," REST "}",
                             i ? "," : "", i);
    }
    struct snapshot *s = snapshot_of(text);
    struct catalog_error err = {0};
    struct rules r;
    assert_false(snapshot_rules(s, "p", "m", CATALOG_CHAT, DAY, &r, &err));
    assert_non_null(strstr(err.text, "more than"));
    snapshot_release(s);
    free(text);
}

/* ---- the shipped catalog: no row is there in vain */

struct looking {
    const struct snapshot *s;
    const struct provider *p;
    const struct claim *c;    /* does it hold for some model, on some day? */
    enum catalog_route route; /* of its endpoint */
    const char *by;           /* a row that holds in its place, or NULL */
    const char *models[64];   /* expressions of the provider's rows about the same */
    size_t n_models, n_losers;
};

static const char *endpoint_of(const struct provider *p, enum catalog_route route)
{
    return route == CATALOG_CHAT        ? p->chat_endpoint
           : route == CATALOG_CHAT_ALSO ? p->also.chat_endpoint
                                        : p->text_endpoint;
}

/* Which of the rules stands where the claim would; NULL: none is there. */
static const struct claim *holder(const struct rules *r, const struct claim *c)
{
    for (size_t i = 0; c->when.param && i < r->n_conditional; i++) {
        const struct claim *other = r->conditional[i];
        if (strcmp(other->param, c->param) == 0 && strcmp(other->when.param, c->when.param) == 0 &&
            other->when.is_negated == c->when.is_negated &&
            json_equal(other->when.values, c->when.values)) {
            return other;
        }
    }
    if (c->when.param || c->param_id != PARAM_COUNT) {
        return c->when.param ? NULL : r->param[c->param_id];
    }
    for (int b = 0; b < BEHAVIOUR_COUNT; b++) {
        if (strcmp(behaviour_name((enum behaviour)b), c->param) == 0) {
            return r->behaviour[b];
        }
    }
    return c; /* no behaviour that is asked for */
}

static bool holds_for(struct looking *l, const char *model, const char *day)
{
    struct catalog_error err = {0};
    struct rules r;
    char switches[128] = "";
    if (l->c->when.param && l->c->when.id == PARAM_COUNT && !l->c->when.is_negated) {
        (void)snprintf(switches, sizeof switches, "%s=%s", l->c->when.param,
                       json_string_value(json_array_get(l->c->when.values, 0)));
    }
    if (!snapshot_rules_with(l->s, l->p->id, model, switches, l->route, day, &r, &err)) {
        fail_msg("%s", err.text);
    }
    const struct claim *found = holder(&r, l->c);
    /* A later source, or a row that refines this one, may stand in its place everywhere. */
    bool may_lose = found && (strcmp(found->as_of, l->c->as_of) > 0 ||
                              (found->is_derived && !l->c->is_derived));
    l->by = found && found != l->c ? found->models : l->by;
    return found == l->c || may_lose;
}

static bool gather_models(const struct claim *c, void *ud)
{
    struct looking *l = ud;
    bool is_new = strcmp(c->param, l->c->param) == 0;
    for (size_t i = 0; i < l->n_models; i++) {
        is_new = is_new && strcmp(l->models[i], c->models) != 0;
    }
    if (is_new) {
        assert_true(l->n_models < sizeof l->models / sizeof l->models[0]);
        l->models[l->n_models++] = c->models;
    }
    return true;
}

/* Models that its expression takes, each of them also another one; and the last and first day. */
static bool holds_somewhere(struct looking *l)
{
    const char *days[] = {DAY, l->c->valid_to, l->c->valid_from};
    char model[256], day[16];
    l->n_models = 0;
    snapshot_each(l->s, l->p->id, NULL, NULL, gather_models, l);
    for (size_t i = 0; i < l->n_models; i++) {
        for (size_t k = 0; k < sizeof days / sizeof days[0]; k++) {
            (void)snprintf(day, sizeof day, "%s%s", days[k] ? days[k] : DAY,
                           days[k] && strlen(days[k]) == 7 ? "-28" : "");
            if (check_common_model(l->c->models, l->models[i], model, sizeof model) &&
                holds_for(l, model, day)) {
                return true;
            }
        }
    }
    return false;
}

static bool look_at(const struct claim *c, void *ud)
{
    struct looking *l = ud;
    bool counts = c->variant == CLAIM_CURRENT || c->variant == CLAIM_CONDITIONAL;
    l->p = snapshot_provider(l->s, c->provider);
    for (int route = CATALOG_CHAT; counts && route <= CATALOG_CHAT_ALSO; route++) {
        const char *endpoint = endpoint_of(l->p, (enum catalog_route)route);
        if (!endpoint || !strstr(c->endpoint, endpoint)) {
            continue;
        }
        l->c = c;
        l->route = (enum catalog_route)route;
        l->by = NULL;
        if (!holds_somewhere(l)) {
            print_error("%s: %s of %s never holds: %s does in its place\n", c->provider, c->param,
                        c->models, l->by ? l->by : "nothing");
            l->n_losers++;
        }
        return true;
    }
    return true;
}

static void test_each_row_holds_somewhere(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    struct looking l = {.n_losers = 0};
    glob_t found;
    assert_int_equal(glob("catalog/providers/*.json", 0, NULL, &found), 0);
    (void)remove(db_path);
    if (!catalog_build(db_path, (const char *const *)found.gl_pathv, found.gl_pathc,
                       &(struct version_stamp){"a", "r", DAY}, &v, &err) ||
        !catalog_open(&c, db_path, &err) || !catalog_snapshot(c, 0, &s, &err)) {
        fail_msg("%s", err.text);
    }
    globfree(&found);
    l.s = s;
    snapshot_each(s, NULL, NULL, NULL, look_at, &l);
    assert_int_equal(l.n_losers, 0);
    snapshot_release(s);
    catalog_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_does_not_make_known),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_eras),
        cmocka_unit_test(test_retired),
        cmocka_unit_test(test_many_models),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_too_many_conditions),
        cmocka_unit_test(test_each_row_holds_somewhere),
    };
    return cmocka_run_group_tests_name("rules", tests, open_folder, close_folder);
}
