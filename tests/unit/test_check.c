/* test_check.c - what catalog_check() finds and what it leaves alone, kind by kind; whether two
 * expressions take one model; what it says of the shipped sources.
 *
 * Claims that `build` refuses are made by changing a claim of a snapshot in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "catalog/check.h"
#include "catalog/snapshot.h"
#include "catalog/versions.h"

#define DAY     "2026-11-30"
#define CREATED "2026-11-30T12:00:00Z"

static char folder[] = "/tmp/isotherm-check-XXXXXX";
static char db_path[128], source_path[128];

/* ---- helpers */

#define PROVIDER                                                                                   \
    "\"provider\":{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"openai\",\"auth\":\"none\","         \
    "\"chat_endpoint\":\"/chat\",\"text_endpoint\":\"/text\",\"stand_in\":\"new\"}"
#define SEEN(as_of) "\"source\":\"s\",\"as_of\":\"" as_of "\",\"confidence\":\"high\""
#define AT(models, param, rest, as_of)                                                             \
    "{\"models\":\"" models "\",\"endpoint\":\"/chat\",\"param\":\"" param "\",\"wire\":\"" param  \
    "\",\"support\":\"yes\"," rest                                                                 \
    SEEN(as_of) "}"
#define CLAIM(models, param, rest) AT(models, param, rest, "2026-11-01")
/* Of another source: two of one source that contradict each other are refused. */
#define CLAIM2(models, param, rest)                                                                \
    "{\"models\":\"" models "\",\"endpoint\":\"/chat\",\"param\":\"" param "\",\"wire\":\"" param  \
    "\",\"support\":\"yes\"," rest                                                                 \
    "\"source\":\"t\",\"as_of\":\"2026-11-01\",\"confidence\":\"high\"}"

static void clean(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[160];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", db_path, ends[i]);
        (void)remove(path);
    }
    (void)remove(source_path);
}

static struct snapshot *snapshot_of(const char *const *sources, size_t n)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    if (!catalog_build(db_path, sources, n, &(struct version_stamp){"me", "because", CREATED}, &v,
                       &err) ||
        !catalog_open(&c, db_path, &err) || !catalog_snapshot(c, 0, &s, &err)) {
        fail_msg("%s", err.text);
    }
    catalog_close(c);
    return s;
}

/* The provider "p" with these claims, "," between them. */
static struct snapshot *snapshot_with(const char *claims)
{
    const char *one = source_path;
    clean();
    FILE *f = fopen(source_path, "wb");
    assert_non_null(f);
    assert_true(fprintf(f, "{" PROVIDER ",\"claims\":[%s]}", claims) > 0);
    assert_int_equal(fclose(f), 0);
    return snapshot_of(&one, 1);
}

/* Findings as text, a line each: "kind param text", and how many of each kind. */
struct found {
    char text[16384];
    size_t n[CHECK_COUNT], n_all, stop_after;
    int last_kind;
};

static bool take(const struct finding *f, void *ud)
{
    struct found *all = ud;
    size_t len = strlen(all->text);
    (void)snprintf(all->text + len, sizeof all->text - len, "%s %s %s\n", check_kind_name(f->kind),
                   f->claim ? f->claim->param : "-", f->text);
    assert_true(f->text[0] && !strchr(f->text, '\n'));
    assert_true((int)f->kind >= all->last_kind);
    all->last_kind = (int)f->kind;
    all->n[f->kind]++;
    return ++all->n_all != all->stop_after;
}

static struct found run(const struct snapshot *s, const struct check_options *o)
{
    struct found all = {.n_all = 0};
    struct catalog_error err = {0};
    if (!catalog_check(s, o, take, &all, &err)) {
        fail_msg("%s", err.text);
    }
    return all;
}

static const struct check_options usual = {.today = DAY, .stale_days = 180};

static struct found check(const char *claims)
{
    struct snapshot *s = snapshot_with(claims);
    struct found all = run(s, &usual);
    snapshot_release(s);
    return all;
}

#define FINDS(kind, claims, words)                                                                 \
    do {                                                                                           \
        struct found all_ = check(claims);                                                         \
        if (all_.n_all != 1 || all_.n[kind] != 1 || !strstr(all_.text, words)) {                   \
            fail_msg("found:\n%s", all_.text);                                                     \
        }                                                                                          \
    } while (0)
#define FINDS_NOTHING(claims)                                                                      \
    do {                                                                                           \
        struct found all_ = check(claims);                                                         \
        if (all_.n_all != 0) {                                                                     \
            fail_msg("found:\n%s", all_.text);                                                     \
        }                                                                                          \
    } while (0)

static int setup(void **state)
{
    (void)state;
    clean();
    return 0;
}

/* ---- stale */

static void test_stale(void **state)
{
    (void)state;
    FINDS(CHECK_STALE, AT("*", "top_p", "", "2026-06-02"), "181 days ago");
    FINDS_NOTHING(AT("*", "top_p", "", "2026-06-03"));
    /* A partial date counts to its end. */
    FINDS_NOTHING(AT("*", "top_p", "", "2026-06"));
    FINDS(CHECK_STALE, AT("*", "top_p", "", "2026-05"), "183 days ago");
    FINDS_NOTHING(AT("*", "top_p", "", "2026"));
    FINDS(CHECK_STALE, AT("*", "top_p", "", "2025"), "334 days ago");
    FINDS(CHECK_STALE, AT("*", "top_p", "", "2024-02-29"), "1005 days ago");
    FINDS_NOTHING(AT("*", "top_p", "", "2027-01-01")); /* a date to come is not old */
    /* What has ended or is history is left alone; what ends today has not ended. */
    FINDS_NOTHING(AT("*", "top_p", "\"valid_to\":\"2026-11-29\",", "2024"));
    FINDS(CHECK_STALE, AT("*", "top_p", "\"valid_to\":\"2026-11\",", "2024"), "top_p");
    FINDS_NOTHING(AT("*", "top_p", "\"variant\":\"history\",", "2024"));
    FINDS(CHECK_STALE,
          AT("*", "top_p",
             "\"variant\":\"conditional\",\"when\":{\"param\":\"temperature\",\"in\":[\"0\"]},",
             "2024"),
          "top_p");
}

static void test_stale_days(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_with(AT("*", "top_p", "", "2026-11-20"));
    struct check_options o = {.today = DAY, .stale_days = 10};
    assert_int_equal(run(s, &o).n_all, 0);
    o.stale_days = 9;
    assert_int_equal(run(s, &o).n[CHECK_STALE], 1);
    o.skip = 1u << CHECK_STALE;
    assert_int_equal(run(s, &o).n_all, 0);
    o = (struct check_options){.today = "2999-01-01", .stale_days = 0};
    assert_int_equal(run(s, &o).n_all, 0);
    snapshot_release(s);
}

/* ---- contradicted, sourceless: by changing a claim of the snapshot */

static void test_contradicted(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_with(CLAIM("*", "top_p", "") "," CLAIM("*", "top_k", ""));
    s->claims[1].verdict = CLAIM_CONTRADICTED;
    s->claims[1].verdict_on = "2026-11-29T08:00:00Z";
    s->claims[0].verdict = CLAIM_CONFIRMED;
    struct found all = run(s, &usual);
    assert_int_equal(all.n_all, 1);
    assert_non_null(
        strstr(all.text, "contradicted top_k the provider did otherwise on 2026-11-29"));
    s->claims[1].valid_to = "2026-10";
    assert_int_equal(run(s, &usual).n_all, 0);
    snapshot_release(s);
}

static void test_sourceless(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_with(CLAIM("*", "top_p", "") "," CLAIM("*", "top_k", ""));
    s->claims[0].source = " ";
    struct found all = run(s, &usual);
    assert_int_equal(all.n_all, 1);
    assert_non_null(strstr(all.text, "sourceless top_p it has no source:"));
    s->claims[0].as_of = "";
    assert_non_null(strstr(run(s, &usual).text, "no source and no date:"));
    snapshot_release(s);
}

/* ---- disputed */

static void test_disputed(void **state)
{
    (void)state;
    FINDS(CHECK_DISPUTED,
          CLAIM("^a", "top_p", "\"max\":1,") "," CLAIM("^a", "top_p",
                                                       "\"max\":2,\"variant\":\"disputed\","),
          "says yes ..2 (as of 2026-11-01), claim 1 says yes ..1");
    /* The nearest: the same pattern before one that overlaps before "*". */
    FINDS(CHECK_DISPUTED,
          CLAIM("*", "top_p", "\"max\":1,") "," CLAIM("^b", "top_p", "\"max\":0.5,") "," CLAIM(
              "^ab", "top_p", "\"max\":0.25,\"variant\":\"disputed\","),
          "claim 1 says yes ..1");
    FINDS(CHECK_DISPUTED,
          CLAIM("*", "top_p", "\"max\":1,") "," CLAIM("^a", "top_p", "\"max\":0.5,") "," CLAIM(
              "^ab", "top_p", "\"max\":0.25,\"variant\":\"disputed\","),
          "says yes ..0.5");
    FINDS(CHECK_DISPUTED, CLAIM("*", "top_p", "\"variant\":\"disputed\","), "no other claim");
    FINDS(CHECK_DISPUTED,
          CLAIM("*", "top_p",
                "") ",{\"models\":\"*\",\"endpoint\":\"/chat\",\"param\":\"top_p\","
                    "\"wire\":\"x.p\",\"support\":\"yes\",\"variant\":\"disputed\"," SEEN(
                        "2026-11-01") "}",
          "its source says it is at 'x.p' (as of 2026-11-01), claim 1 says 'top_p'");
    FINDS_NOTHING(CLAIM("*", "top_p", "\"variant\":\"disputed\",\"valid_to\":\"2026-10\","));
}

/* ---- overlapping */

static void test_overlapping(void **state)
{
    (void)state;
    FINDS(CHECK_OVERLAPPING,
          CLAIM("^gpt-4", "top_p", "\"max\":1,") "," CLAIM2("-mini$", "top_p", "\"max\":0.5,"),
          "model 'gpt-4-mini' is taken by this and by claim 2 (-mini$), and they differ in 'max'");
    FINDS(CHECK_OVERLAPPING,
          CLAIM("^gpt-4o", "top_p", "") "," CLAIM2("^gpt-4", "top_p", "\"required\":true,"),
          "'required'");
    /* Two sources under one pattern: of equal strength nothing decides, else it is a dispute. */
    FINDS(CHECK_OVERLAPPING,
          CLAIM("*", "top_p", "\"max\":1,") "," CLAIM2("*", "top_p", "\"max\":2,"),
          "the same pattern");
    FINDS(CHECK_DISPUTED,
          AT("*", "top_p", "\"max\":2,", "2026-11-02") "," CLAIM2("*", "top_p", "\"max\":1,"),
          "its source says yes ..1 (as of 2026-11-01), claim 1 says yes ..2");
    FINDS(CHECK_DISPUTED,
          AT("^gpt-4", "top_p", "\"max\":2,", "2026-11-02") "," CLAIM("-mini$", "top_p", ""),
          "'max' of 'gpt-4-mini': its source says yes (as of 2026-11-01)");
    FINDS(CHECK_OVERLAPPING,
          CLAIM("^a", "top_p", "\"max\":1,\"valid_to\":\"2026-06\",") "," CLAIM2(
              "^a", "top_p",
              "\"max\":2,\"valid_from\":\"2026-05\",\"valid_to\":\"2026-07\","
              "\"min\":0,"),
          "the same pattern");
}

#define WHEN(value)                                                                                \
    "\"variant\":\"conditional\",\"when\":{\"param\":\"temperature\",\"in\":[\"" value "\"]},"

static void test_not_overlapping(void **state)
{
    (void)state;
    /* Equal in what they say; what is said about the row itself is no difference. */
    FINDS_NOTHING(CLAIM("^gpt-4", "top_p", "\"max\":1,\"note\":\"x\",") "," AT(
        "mini$", "top_p", "\"max\":1,", "2026-11-02"));
    FINDS_NOTHING(CLAIM("^a$", "top_p", "\"max\":1,") "," CLAIM2("^b", "top_p", "\"max\":2,"));
    /* An expression beats "*". */
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,") "," CLAIM2("*", "top_p", "\"max\":2,"));
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,") "," CLAIM2(".*", "top_p", "\"max\":2,"));
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,") "," CLAIM2("^a", "min_p", "\"max\":0.5,"));
    /* One ends where the other begins. */
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,\"valid_to\":\"2026-05\",") "," CLAIM2(
        "^a", "top_p", "\"max\":2,\"valid_from\":\"2026-06\","));
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,\"valid_to\":\"2026-06-01\",") "," CLAIM2(
        "^a", "top_p", "\"max\":2,\"valid_from\":\"2026-06-01\","));
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,") "," CLAIM2(
        "^a", "top_p", "\"max\":2,\"variant\":\"history\","));
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,") "," CLAIM2("^a", "top_p",
                                                                "\"max\":2,\"derived\":true,"));
    FINDS_NOTHING(CLAIM("^a", "top_p", "\"max\":1,") "," CLAIM2("^a", "top_p", WHEN("0")));
    FINDS_NOTHING(
        CLAIM("^a", "top_p", "\"max\":1," WHEN("1")) "," CLAIM2("^a", "top_p", WHEN("0")));
    FINDS(CHECK_OVERLAPPING,
          CLAIM("^a", "top_p", "\"max\":1," WHEN("0")) "," CLAIM2("^ab", "top_p", WHEN("0")),
          "'max'");
}

static void test_local_claims_may_overlap(void **state)
{
    (void)state;
    struct snapshot *s =
        snapshot_with(CLAIM("^a", "top_p", "") "," CLAIM("^ab", "top_p", "\"max\":2,"));
    assert_int_equal(run(s, &usual).n[CHECK_OVERLAPPING], 1);
    s->claims[1].is_local = true;
    assert_int_equal(run(s, &usual).n_all, 0);
    snapshot_release(s);
}

/* ---- impossible */

static void change(struct claim *c, const struct claim *with)
{
    *c = *with;
}

static void test_impossible(void **state)
{
    (void)state;
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "top_p", "\"min\":1.5,\"max\":2,"),
          "outside of what 'top_p'");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "repetition_penalty", "\"min\":-1,\"max\":0,"),
          "outside of what");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "n", "\"min\":1.2,\"max\":1.8,"), "no integer");
    FINDS(CHECK_IMPOSSIBLE,
          CLAIM("*", "top_k",
                "\"integer\":true,\"min\":1,\"max\":2,\"min_exclusive\":true,"
                "\"max_exclusive\":true,"),
          "no integer");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "temperature", "\"max\":1,\"default\":1.5,"), "default 1.5");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "temperature", "\"values\":[0.5],\"default\":0.7,"),
          "default 0.7");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "temperature", "\"max\":1,\"values\":[0,2],"),
          "listed value 2");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "n", "\"values\":[1.5],"), "none of its 1 values");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "temperature", "\"values\":[\"low\",-1],"),
          "none of its 2 values");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "service_tier", "\"values\":[1],"), "none of its");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "user", "\"len_min\":9,\"len_max\":8,"), "as long as 9");
    FINDS(CHECK_IMPOSSIBLE, CLAIM("*", "top_p", "\"conflicts\":[\"top_p\"],"),
          "conflicts with itself");
    FINDS(CHECK_IMPOSSIBLE,
          CLAIM("*", "top_p", "\"needs\":[\"n\",\"top_k\"],\"conflicts\":[\"top_k\"],"),
          "needs 'top_k' and conflicts");
    FINDS(CHECK_IMPOSSIBLE,
          CLAIM("*", "top_p",
                "\"variant\":\"conditional\",\"when\":{\"param\":\"n\",\"in\":[\"many\",\"0\"]},"),
          "condition on 'n'");
    FINDS(CHECK_IMPOSSIBLE,
          CLAIM("*", "top_p",
                "\"variant\":\"conditional\",\"when\":{\"param\":\"logprobs\","
                "\"not_in\":[\"true\",\"false\",\"absent\"]},"),
          "condition on 'logprobs'");
}

static void test_not_impossible(void **state)
{
    (void)state;
    FINDS_NOTHING(CLAIM("*", "top_p", "\"min\":0,\"max\":1,\"min_exclusive\":true,\"default\":1,"));
    FINDS_NOTHING(CLAIM("*", "seed", "\"min\":0,\"max\":4294967295,\"default\":-1,"));
    FINDS_NOTHING(CLAIM("*", "temperature", "\"min\":1,\"max\":1,\"default\":1,"));
    FINDS_NOTHING(CLAIM("*", "logprobs", "\"min\":0,\"max\":5,"));
    FINDS_NOTHING(CLAIM("*", "thinking_budget", "\"min\":0,\"max\":9,\"default\":-1,"));
    FINDS_NOTHING(CLAIM("*", "reasoning_effort", "\"values\":[\"none\",\"low\"],"));
    FINDS_NOTHING(
        CLAIM("*", "top_p",
              "\"variant\":\"conditional\",\"when\":{\"param\":\"thinking\",\"in\":[\"on\"]},"));
    FINDS_NOTHING(
        CLAIM("*", "top_p",
              "\"variant\":\"conditional\",\"when\":{\"param\":\"n\",\"in\":[\"absent\"]},"));
    FINDS_NOTHING(CLAIM("*", "max_tokens", "\"min\":1,\"required\":true,"));
}

/* What a build refuses, and a database of another program may hold. */
static void test_impossible_beyond_build(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_with(CLAIM("*", "temperature", "\"min\":0,\"max\":1,"));
    const struct claim good = s->claims[0];
    struct {
        const char *words;
        struct claim claim;
    } cases[] = {{"no value is left between 2 and 1", good},
                 {"no value is left between 1 and 1", good},
                 {"no integer is left between 0.5 and 0.5", good},
                 {"ends on 2026-01, before it begins on 2026-02-01", good},
                 {"required and absent", good},
                 {"has no place in the body", good}};
    cases[0].claim.min = 2;
    cases[1].claim.min = 1;
    cases[1].claim.min_exclusive = true;
    cases[2].claim.min = cases[2].claim.max = 0.5;
    cases[2].claim.param_id = PARAM_COUNT;
    cases[2].claim.is_integer = true;
    cases[3].claim.valid_from = "2026-02-01";
    cases[3].claim.valid_to = "2026-01";
    cases[4].claim.support = CLAIM_ABSENT;
    cases[4].claim.is_required = true;
    cases[5].claim.wire = NULL;
    cases[5].claim.is_required = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        change(&s->claims[0], &cases[i].claim);
        struct found all = run(s, &usual);
        if (all.n_all != 1 || all.n[CHECK_IMPOSSIBLE] != 1 || !strstr(all.text, cases[i].words)) {
            fail_msg("wanted '%s', found:\n%s", cases[i].words, all.text);
        }
    }
    change(&s->claims[0], &good);
    assert_int_equal(run(s, &usual).n_all, 0);
    snapshot_release(s);
}

/* ---- models in use */

static void test_unmatched(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_with(CLAIM("^new", "top_p", "") "," CLAIM(
        "*", "top_k", "") "," CLAIM("^old", "top_p", "\"valid_to\":\"2026-10-01\","));
    const char *const models[] = {"p/new-1", "p/other", "p/old-1", "q/x", "bare", "p/"};
    struct check_options o = {.today = DAY, .models = models, .n_models = 6};
    struct found all = run(s, &o);
    assert_int_equal(all.n[CHECK_UNMATCHED], 5);
    assert_int_equal(all.n_all, 5);
    assert_null(strstr(all.text, "p/new-1"));
    assert_non_null(strstr(all.text, "'p/other' is in use and no pattern takes it: it is planned "
                                     "as 'new'"));
    assert_non_null(strstr(all.text, "'p/old-1' is in use and its claims ended on 2026-10-01"));
    assert_non_null(strstr(all.text, "'q/x' is in use and the catalog has no such provider"));
    o.provider = "p";
    assert_int_equal(run(s, &o).n[CHECK_UNMATCHED], 3);
    o.skip = 1u << CHECK_UNMATCHED;
    assert_int_equal(run(s, &o).n_all, 0);
    snapshot_release(s);
}

/* ---- all together */

static void test_order_and_stop(void **state)
{
    (void)state;
    struct snapshot *s = snapshot_with(AT("^b", "n", "\"max\":1,", "2020") "," AT(
        "^b1", "n", "\"max\":2,\"default\":3,", "2020") "," AT("^c", "n", "", "2020"));
    struct found all = run(s, &usual);
    assert_int_equal(all.n[CHECK_STALE], 3);
    assert_int_equal(all.n[CHECK_OVERLAPPING], 1);
    assert_int_equal(all.n[CHECK_IMPOSSIBLE], 1);
    struct found few = {.stop_after = 2};
    assert_true(catalog_check(s, &usual, take, &few, NULL));
    assert_int_equal(few.n_all, 2);
    struct check_options o = usual;
    o.provider = "nobody";
    assert_int_equal(run(s, &o).n_all, 0);
    snapshot_release(s);
    for (int k = 0; k < CHECK_COUNT; k++) {
        assert_true(strlen(check_kind_name((enum check_kind)k)) > 4);
    }
}

/* ---- two expressions */

static void test_common_model(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        const char *want; /* NULL: none; "": some */
    } cases[] = {
        {"^gpt-4", "^gpt-4o", "gpt-4o"},
        {"^gpt-4$", "^gpt-4o", NULL},
        {"^gemini", "-preview$", "gemini-preview"},
        {"^a.*z$", "^.b.c.$", "abacz"},
        {"^(o3|o4-mini)(-20[0-9-]+)?$", "^o4-mini-2025$", "o4-mini-2025"},
        {"^(o3|o4-mini)(-20[0-9-]+)?$", "^o4-mini-2125$", NULL},
        {"^gpt-5(-(mini|nano))?(-20[0-9-]+)?$", "^gpt-5-chat(-latest|-20[0-9-]+)?$", NULL},
        {"^claude-opus-4-1(-[0-9]{8})?$", "^claude-opus-4-(0|20250514)$", NULL},
        {"^claude-opus-4-1(-[0-9]{8})?$", "-[0-9]{7}1$", "claude-opus-4-1-00000001"},
        {"^glm-(4[.][67]|5$|5-|5[.]1)", "^glm-5$", "glm-5"},
        {"^glm-(4[.][67]|5$|5-|5[.]1)", "^glm-5[.]2", NULL},
        {"^grok-(4.*|code.*|[5-9].*)$", "^grok-4[.]3.*$", "grok-4.3"},
        {"^(models/)?gemini-3", "^gemini-3", "gemini-3"},
        {"^a{2,3}$", "^aaa$", "aaa"},
        {"^a{2,3}$", "^aaaa$", NULL},
        {"^a{2}$", "^aa$", "aa"},
        {"^a{3,}$", "^a{1,4}$", ""},
        {"^a{,2}b$", "^aab$", "aab"},
        {"^(ab){2}$", "^abab$", "abab"},
        {"^a{2}{2}$", "^a+{4}$", "aaaa"},
        {"^a?{2}b$", "^ab$", "ab"},
        {"^[^a-c]$", "^[b-d]$", "d"},
        {"^[]x-]$", "^[]]$", "]"},
        {"^[]x-]$", "^-$", "-"},
        {"^[[:digit:]]+$", "^[a-f0-4]{2}$", ""},
        {"^a[.]b$", "^a.b$", "a.b"},
        {"^a\\.b$", "^acb$", NULL},
        {"^x+$", "^x?$", "x"},
        {"^x*y$", "^y$", "y"},
        {"(^|/)gpt", "^x/gpt$", "x/gpt"},
        {"(^|/)gpt", "^xgpt$", NULL},
        {"(^|/)gpt", "^x+(/gpt|gpt)$", "x/gpt"},
        {"gpt($|/)", "^gpt(x|/x)$", "gpt/x"},
        {"^(a|b$|c)d", "^bd", NULL},
        {"*", "^only$", "only"},
        {"*", "*", ""},
        {".*", "^only$", "only"},
        {"a", "b", "ab"},
        {"^a|b$", "^cb$", "cb"},
        {"^a|b$", "^cbc$", NULL},
        {"^A$", "^a$", NULL},
        {"^(((((a)))))$", "^a$", "a"},
        {"^\\w+$", "^a_1$", "a_1"},
        {"^()a$", "^a$", "a"},
        {"^(|a)b$", "^b$", "b"},
        {"^(a", "^a", NULL},        /* no expression */
        {"^(a)\\1$", "^aa$", NULL}, /* not told */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char ab[256] = "untouched", ba[256];
        bool is_ab = check_common_model(cases[i].a, cases[i].b, ab, sizeof ab);
        bool is_ba = check_common_model(cases[i].b, cases[i].a, ba, sizeof ba);
        bool is_right = is_ab == (cases[i].want != NULL) && is_ba == is_ab &&
                        (!is_ab || !cases[i].want[0] || strcmp(ab, cases[i].want) == 0);
        if (!is_right || (!is_ab && strcmp(ab, "untouched") != 0)) {
            fail_msg("%s and %s: '%s', wanted '%s'", cases[i].a, cases[i].b, is_ab ? ab : "(none)",
                     cases[i].want ? cases[i].want : "(none)");
        }
    }
    char tiny[4];
    assert_false(check_common_model("^abcd", "^abcd", tiny, sizeof tiny));
    assert_true(check_common_model("^abc", "^abc", tiny, sizeof tiny));
}

/* Deep, long and greedy expressions end soon, one way or the other. */
static void test_common_model_of_large_expressions(void **state)
{
    (void)state;
    char deep[300], out[256];
    memset(deep, '(', 120);
    deep[120] = 'a';
    memset(deep + 121, ')', 120);
    deep[241] = '\0';
    assert_false(check_common_model(deep, "^a", out, sizeof out));
    assert_false(check_common_model("(((a{99}){99}){99}){99}", "^a", out, sizeof out));
    assert_false(check_common_model("(((){99}){99}){99}", "^a", out, sizeof out));
    memset(deep, 'a', 250);
    deep[250] = '\0';
    assert_true(check_common_model(deep, "b$", out, sizeof out));
    assert_int_equal(strlen(out), 251);
    assert_true(check_common_model("(a|b|c|d|e|f|g|h|i|j)*(k|l|m)*(n|o)*x$", "^(.*a)*(.*b)*x", out,
                                   sizeof out));
}

/* ---- the shipped sources */

static bool count_kind(const struct finding *f, void *ud)
{
    size_t *n = ud;
    n[f->kind]++;
    if (f->kind >= CHECK_OVERLAPPING) {
        print_message("%s: %s %s %s: %s\n", check_kind_name(f->kind), f->claim->provider,
                      f->claim->models, f->claim->param, f->text);
    }
    return true;
}

static void test_shipped(void **state)
{
    (void)state;
    glob_t files;
    size_t n[CHECK_COUNT] = {0};
    struct timespec t0, t1;
    struct catalog_error err = {0};
    assert_int_equal(glob("catalog/providers/*.json", 0, NULL, &files), 0);
    struct snapshot *s = snapshot_of((const char *const *)files.gl_pathv, files.gl_pathc);
    (void)clock_gettime(CLOCK_MONOTONIC, &t0);
    assert_true(catalog_check(s, &usual, count_kind, n, &err));
    (void)clock_gettime(CLOCK_MONOTONIC, &t1);
    double ms = (double)(t1.tv_sec - t0.tv_sec) * 1e3 + (double)(t1.tv_nsec - t0.tv_nsec) / 1e6;
    print_message("%zu claims in %.1f ms: %zu stale, %zu disputed\n", s->n_claims, ms,
                  n[CHECK_STALE], n[CHECK_DISPUTED]);
    snapshot_release(s);
    globfree(&files);
    assert_int_equal(n[CHECK_OVERLAPPING], 0);
    assert_int_equal(n[CHECK_IMPOSSIBLE], 0);
    assert_int_equal(n[CHECK_SOURCELESS], 0);
    assert_true(ms < 10000); /* 60 ms where nothing else runs; a sanitizer takes its time */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_stale, setup),
        cmocka_unit_test_setup(test_stale_days, setup),
        cmocka_unit_test_setup(test_contradicted, setup),
        cmocka_unit_test_setup(test_sourceless, setup),
        cmocka_unit_test_setup(test_disputed, setup),
        cmocka_unit_test_setup(test_overlapping, setup),
        cmocka_unit_test_setup(test_not_overlapping, setup),
        cmocka_unit_test_setup(test_local_claims_may_overlap, setup),
        cmocka_unit_test_setup(test_impossible, setup),
        cmocka_unit_test_setup(test_not_impossible, setup),
        cmocka_unit_test_setup(test_impossible_beyond_build, setup),
        cmocka_unit_test_setup(test_unmatched, setup),
        cmocka_unit_test_setup(test_order_and_stop, setup),
        cmocka_unit_test(test_common_model),
        cmocka_unit_test(test_common_model_of_large_expressions),
        cmocka_unit_test_setup(test_shipped, setup),
    };
    assert_non_null(mkdtemp(folder));
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(source_path, sizeof source_path, "%s/source.json", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    clean();
    (void)rmdir(folder);
    return failed;
}
