/* test_versions.c - versions: overrides, taking back, rollback, upgrades with overrides. */
#include "versions_help.h"

/* ---- set and unset */

static void test_set(void **state)
{
    (void)state;
    struct catalog_version one = must_build(three);
    struct catalog_version two = must_set("^a$", "top_p", "{\"max\":0.5" OURS "}");
    assert_int_equal(two.number, 2);
    assert_int_equal(two.parent, 1);
    assert_int_equal(two.base, 1);
    assert_int_equal(two.kind, VERSION_LOCAL);
    assert_int_equal(one.kind, VERSION_SHIPPED);
    assert_int_equal(two.n_claims, 3);
    assert_string_equal(two.author, "me");
    assert_string_not_equal(one.hash, two.hash);
    struct said s = say("top_p");
    assert_int_equal(s.n, 1);
    assert_true(s.max == 0.5 && s.is_local);
    /* In the place of the claim that it replaces; a new key at the end. */
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=0.5 */top_k=40 ");
    (void)must_set("^b$", "top_p",
                   "{\"max\":0.7,\"wire\":\"top_p\",\"support\":\"yes\",\"confidence\":\"low\"" OURS
                   "}");
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=0.5 */top_k=40 ^b$/top_p=0.7 ");
    /* Over what was set before, not over the base. */
    struct catalog_version four = must_set("^a$", "top_p", "{\"min\":0.1}");
    assert_int_equal(four.number, 4);
    assert_true(say("top_p").max != 1);
    assert_string_equal(say_at(db_path, 1, NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ");
}

static void test_set_the_same(void **state)
{
    (void)state;
    (void)must_build(three);
    assert_int_equal(must_set("*", "top_k", "{\"max\":40}").number, 1); /* what the base says */
    assert_int_equal(must_set("*", "top_k", "{\"max\":50" OURS "}").number, 2);
    assert_int_equal(must_set("*", "top_k", "{\"max\":50" OURS "}").number, 2);
    struct catalog_version back =
        must_set("*", "top_k", "{\"max\":40,\"source\":\"s\",\"as_of\":\"" AS_OF "\"}");
    assert_int_equal(back.number, 3);
    assert_false(say("top_k").is_local);
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ");
}

static void test_set_over_like(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    (void)must_build(three);
    int64_t like = say("top_p").id;
    assert_true(set("^a-1$", "top_p", "{\"max\":0.2" OURS "}", like, &v, &err));
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ^a-1$/top_p=0.2 ");
    /* The same key again: over that one, whatever `like` is. */
    assert_true(set("^a-1$", "top_p", "{\"min\":0.1" OURS "}", like, &v, &err));
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ^a-1$/top_p=0.2 ");
    assert_false(set("^c$", "top_p", "{\"min\":0.1" OURS "}", 999, &v, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
}

static void test_set_takes_away(void **state)
{
    (void)state;
    struct catalog *c;
    struct catalog_error err = {0};
    struct snapshot *s;
    struct rules r;
    (void)must_build(
        SOURCE(CLAIM("*", "temperature", "\"min\":0,\"max\":1,\"max_exclusive\":true,")));
    (void)must_set("*", "temperature", "{\"max\":null" OURS "}");
    c = must_open(db_path);
    assert_true(catalog_snapshot(c, 0, &s, &err));
    assert_true(snapshot_rules(s, "p", "m", CATALOG_CHAT, "2026-11-30", &r, &err));
    assert_false(r.param[PARAM_TEMPERATURE]->has_max);
    assert_false(r.param[PARAM_TEMPERATURE]->max_exclusive);
    assert_true(r.param[PARAM_TEMPERATURE]->has_min);
    snapshot_release(s);
    catalog_close(c);
    /* What is absent has no place in the body. */
    (void)must_set("*", "temperature", "{\"support\":\"absent\",\"min\":null" OURS "}");
    assert_int_equal(say("temperature").n, 1);
}

static void refuse_set(const char *models, const char *param, const char *fields, const char *field,
                       const char *words)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (set(models, param, fields, 0, &v, &err)) {
        fail_msg("taken: %s", fields);
    }
    if (strcmp(err.param, field) != 0 || !strstr(err.text, words) || strchr(err.text, '\n')) {
        fail_msg("param '%s', text: %s", err.param, err.text);
    }
}

static void test_set_refused(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    (void)must_build(three);
    refuse_set("*", "top_k", "{\"max\":\"x\"}", "max", "'max' must be a number");
    refuse_set("*", "temperature", "{\"max\":-1}", "min", "above 'max'");
    refuse_set("^(", "top_k",
               "{\"max\":1,\"support\":\"yes\",\"wire\":\"x\",\"source\":\"s\","
               "\"as_of\":\"2026\",\"confidence\":\"low\"}",
               "models", "regular expression");
    refuse_set("^z$", "top_k", "{\"max\":1}", "support", "missing");
    refuse_set("*", "top_q", "{}", "support", "missing");
    refuse_set("*", "top_k", "{\"colour\":1}", "colour", "not a field");
    refuse_set("*", "top_k", "{\"as_of\":\"tomorrow\"}", "as_of", "date");
    struct version_override o = {"nobody", "*", NULL, "top_k", json_null(), 0};
    assert_false(catalog_set(db_path, &o, &stamp, NULL, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    assert_non_null(strstr(err.text, "no provider 'nobody'"));
    err = (struct catalog_error){0};
    o.provider = "p";
    assert_false(catalog_set(other_db, &o, &stamp, NULL, &err));
    assert_non_null(strstr(err.text, "catalog build"));
    assert_int_not_equal(access(other_db, F_OK), 0);
    assert_int_equal(say_at(db_path, 0, NULL).n, 3);
}

static void test_conditions_are_keys(void **state)
{
    (void)state;
    (void)must_build(three);
    struct catalog_version v = must_set(
        "*", "top_k",
        "{\"max\":7,\"when\":{\"param\":\"reasoning_effort\",\"in\":[\"none\"]},\"wire\":\"top_k\","
        "\"support\":\"yes\",\"confidence\":\"low\"" OURS "}");
    assert_int_equal(v.n_claims, 4);
    assert_string_equal(say("top_k").order, "*/top_k=40 */top_k=7 ");
    v = must_set("*", "top_k",
                 "{\"max\":8,\"when\":{\"in\":[\"none\"],\"param\":\"reasoning_effort\"}" OURS "}");
    assert_int_equal(v.n_claims, 4);
    assert_string_equal(say("top_k").order, "*/top_k=40 */top_k=8 ");
}

/* Several histories of one key: the override stands for the one that holds. */
static void test_key_that_is_not_unique(void **state)
{
    (void)state;
    (void)must_build(SOURCE(CLAIM("*", "top_k", "\"max\":1,\"valid_to\":\"2025\",") "," CLAIM(
        "*", "top_k", "\"max\":2,\"valid_from\":\"2026\",") "," CLAIM("*", "top_k",
                                                                      "\"max\":3,\"valid_to\":"
                                                                      "\"2024\",")));
    (void)must_set("*", "top_k", "{\"max\":9" OURS "}");
    assert_string_equal(say("top_k").order, "*/top_k=1 */top_k=9 */top_k=3 ");
    /* One of the others is changed by the shipped data: both changes are there, no conflict. */
    struct catalog_version v =
        must_build(SOURCE(CLAIM("*", "top_k", "\"max\":1.5,\"valid_to\":\"2025\",") "," CLAIM(
            "*", "top_k", "\"max\":2,\"valid_from\":\"2026\",") "," CLAIM("*", "top_k",
                                                                          "\"max\":3,\"valid_to\":"
                                                                          "\"2024\",")));
    assert_string_equal(say("top_k").order, "*/top_k=1.5 */top_k=9 */top_k=3 ");
    assert_int_equal(v.n_conflicts, 0);
    (void)must_unset("*", "top_k");
    assert_string_equal(say("top_k").order, "*/top_k=1.5 */top_k=2 */top_k=3 ");
}

static void test_unset(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v, one = must_build(three);
    struct version_override o = {"p", "*", NULL, "temperature", NULL, 0};
    (void)must_set("*", "temperature", "{\"max\":1.5" OURS "}");
    (void)must_set("^a$", "top_p", "{\"max\":0.5" OURS "}");
    (void)must_set("^new$", "top_p",
                   "{\"max\":0.7,\"wire\":\"top_p\",\"support\":\"yes\",\"confidence\":\"low\"" OURS
                   "}");
    v = must_unset("*", "temperature");
    assert_int_equal(v.number, 5);
    assert_int_equal(v.kind, VERSION_LOCAL);
    assert_string_equal(say(NULL).order,
                        "*/temperature=1 ^a$/top_p=0.5 */top_k=40 ^new$/top_p=0.7 ");
    assert_false(catalog_unset(db_path, &o, &stamp, &v, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    assert_non_null(strstr(err.text, "nothing was set"));
    v = must_unset(NULL, NULL); /* everything of the provider */
    assert_string_equal(v.hash, one.hash);
    assert_int_equal(v.base, 1);
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ");
}

static void test_rollback(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v, one = must_build(three), two;
    two = must_set("*", "top_k", "{\"max\":50" OURS "}");
    (void)must_build(SOURCE(CLAIM("*", "top_k", "\"max\":60,"))); /* 3, and 4 with the override */
    assert_true(catalog_rollback(db_path, 2, &stamp, &v, &err));
    assert_int_equal(v.number, 5);
    assert_int_equal(v.parent, 4);
    assert_int_equal(v.base, 1);
    assert_string_equal(v.hash, two.hash);
    assert_int_equal(say_at(db_path, 4, NULL).n, 1); /* nothing is lost */
    assert_true(catalog_rollback(db_path, 2, &stamp, &v, &err));
    assert_int_equal(v.number, 5); /* it is so already */
    assert_true(catalog_rollback(db_path, 1, &stamp, &v, &err));
    assert_string_equal(v.hash, one.hash);
    /* The same shipped data again do not undo it; other shipped data do. */
    assert_int_equal(must_build(SOURCE(CLAIM("*", "top_k", "\"max\":60,"))).number, 6);
    v = must_build(SOURCE(CLAIM("*", "top_k", "\"max\":61,")));
    assert_int_equal(v.number, 7);
    assert_int_equal(v.kind, VERSION_SHIPPED);
    assert_true(say("top_k").max == 61);
    assert_false(catalog_rollback(db_path, 99, &stamp, &v, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    err = (struct catalog_error){0};
    assert_false(catalog_rollback(db_path, 0, &stamp, &v, &err));
}

/* ---- upgrades with overrides */

/* What the shipped data say holds again, and no conflict is open. */
static void check_unset(int shipped)
{
    struct catalog_version v = must_unset("*", "seed");
    struct said s = say("seed");
    assert_int_equal(s.n, shipped != 0);
    assert_true(!shipped || s.max == shipped);
    assert_int_equal(v.n_conflicts, 0);
    assert_string_equal(say(NULL).order, say_at(db_path, v.base, NULL).order);
}

static void check_conflict(const struct conflict_seen *f, int base, int shipped, int local)
{
    assert_true(f->base == (base ? base : -1) && f->shipped == (shipped ? shipped : -1) &&
                f->local == (local ? local : -1));
}

static void try_combination(int base, int shipped, int local)
{
    bool is_local_changed = local != base, is_shipped_changed = shipped != base;
    bool is_conflict = is_local_changed && is_shipped_changed && local != shipped;
    int want = is_local_changed && (is_conflict || !is_shipped_changed) ? local : shipped;
    remove_db(db_path);
    (void)ship(base, 1);
    set_local(base, local);
    struct catalog_version v = ship(shipped, 2);
    struct said s = say("seed");
    struct conflict_seen f = conflicts_of(0);
    bool is_right = s.n == (want != 0) && (!want || s.max == want) && say("top_k").max == 2;
    if (!is_right || f.n != is_conflict || v.n_conflicts != is_conflict ||
        (v.kind == VERSION_LOCAL) != (want != shipped)) {
        fail_msg("base %d shipped %d local %d: %d of max %g, %d conflicts, %s", base, shipped,
                 local, s.n, s.max, f.n, version_kind_name(v.kind));
    }
    if (is_conflict) {
        check_conflict(&f, base, shipped, local);
        assert_int_equal(f.version, v.number);
    }
    if (want != shipped) {
        check_unset(shipped);
    }
}

static void test_upgrade_in_all_combinations(void **state)
{
    (void)state;
    for (int base = 0; base <= 1; base++) {
        for (int shipped = 0; shipped <= 3; shipped++) {
            for (int local = 0; local <= 3; local++) {
                try_combination(base, shipped, local);
            }
        }
    }
}

static void test_conflicts_stay_open(void **state)
{
    (void)state;
    (void)ship(1, 1);
    (void)must_set("*", "seed", "{\"max\":5" OURS "}");
    struct catalog_version v = ship(2, 1); /* 3, 4 */
    assert_int_equal(v.number, 4);
    assert_int_equal(v.n_conflicts, 1);
    v = must_set("*", "top_k", "{\"max\":9" OURS "}"); /* something else: still open */
    assert_int_equal(v.n_conflicts, 1);
    v = ship(2, 7); /* the next upgrade does not touch it: still open */
    assert_int_equal(v.n_conflicts, 2);
    assert_int_equal(conflicts_of(0).n, 2);
    v = ship(3, 7); /* a newer conflict of the same key takes its place */
    assert_int_equal(v.n_conflicts, 2);
    /* Set again, to the same: it is settled. */
    v = must_set("*", "seed", "{\"max\":5" OURS "}");
    assert_int_equal(v.n_conflicts, 1);
    assert_true(say("seed").max == 5);
    int64_t settled = v.number;
    v = must_unset("*", "top_k");
    assert_int_equal(v.n_conflicts, 0);
    assert_int_equal(conflicts_of(settled).n, 1);
    assert_int_equal(conflicts_of(4).n, 1); /* versions keep what was open in them */
}

static void test_overrides_outlive_a_provider(void **state)
{
    (void)state;
    (void)must_build(three);
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}");
    struct catalog_version v =
        must_build("{" PROVIDER("q", "Q") ",\"claims\":[" CLAIM("*", "top_p", "\"max\":1,") "]}");
    assert_string_equal(say(NULL).order, "*/top_p=1 */top_k=50 ");
    assert_int_equal(v.n_conflicts, 1);
    v = must_unset(NULL, NULL);
    assert_string_equal(say(NULL).order, "*/top_p=1 ");
    assert_int_equal(v.n_conflicts, 0);
}

/* ---- shipped databases */

static void test_upgrade_from_a_database(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v, theirs;
    bool is_changed = false;
    (void)must_build_at(other_db, three);
    theirs = must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":60,")));
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_true(is_changed);
    assert_int_equal(v.number, theirs.number); /* a copy, with its numbers */
    assert_string_equal(v.hash, theirs.hash);
    assert_int_equal(say_at(db_path, 1, NULL).n, 3);
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_false(is_changed);
    assert_int_equal(v.number, 2);
    (void)must_set("*", "top_k", "{\"max\":70" OURS "}");
    theirs = must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":60,") "," CLAIM(
                                         "*", "stop", "\"items_max\":4,")));
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_true(is_changed);
    assert_int_equal(v.number, 5);
    assert_int_equal(v.base, 4);
    assert_string_equal(say(NULL).order, "*/top_k=70 */stop=0 ");
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_false(is_changed);
    v = must_unset(NULL, NULL);
    assert_string_equal(v.hash, theirs.hash);
    err = (struct catalog_error){0};
    assert_false(catalog_upgrade(db_path, file_path, &stamp, &is_changed, &v, &err));
    assert_int_equal(err.code, CATALOG_IO);
    err = (struct catalog_error){0};
    assert_false(catalog_upgrade("/nowhere/at/all.db", other_db, &stamp, &is_changed, &v, &err));
    assert_non_null(strstr(err.text, "folder"));
}

static void test_any_order_same_hash(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version a, b;
    const char *forth[] = {source_path, second_path}, *back[] = {second_path, source_path};
    write_text(second_path, "{" PROVIDER("q", "Q") ",\"claims\":[" CLAIM("*", "top_p", "") "]}");
    write_text(source_path, SOURCE(CLAIM("*", "top_k", "\"max\":1,") "," CLAIM("*", "seed", "")));
    assert_true(catalog_build(db_path, forth, 2, &stamp, &a, &err));
    write_text(source_path, SOURCE(CLAIM("*", "seed", "") "," CLAIM("*", "top_k", "\"max\":1,")));
    assert_true(catalog_build(other_db, back, 2, &stamp, &b, &err));
    assert_string_equal(a.hash, b.hash);
    assert_true(catalog_build(db_path, back, 2, &stamp, &b, &err));
    assert_int_equal(b.number, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_set, setup),
        cmocka_unit_test_setup(test_set_the_same, setup),
        cmocka_unit_test_setup(test_set_over_like, setup),
        cmocka_unit_test_setup(test_set_takes_away, setup),
        cmocka_unit_test_setup(test_set_refused, setup),
        cmocka_unit_test_setup(test_conditions_are_keys, setup),
        cmocka_unit_test_setup(test_key_that_is_not_unique, setup),
        cmocka_unit_test_setup(test_unset, setup),
        cmocka_unit_test_setup(test_rollback, setup),
        cmocka_unit_test_setup(test_upgrade_in_all_combinations, setup),
        cmocka_unit_test_setup(test_conflicts_stay_open, setup),
        cmocka_unit_test_setup(test_overrides_outlive_a_provider, setup),
        cmocka_unit_test_setup(test_upgrade_from_a_database, setup),
        cmocka_unit_test_setup(test_any_order_same_hash, setup),
    };
    if (!make_folder()) {
        return 1;
    }
    int rc = cmocka_run_group_tests_name("versions", tests, NULL, NULL);
    (void)setup(NULL);
    (void)rmdir(folder);
    return rc;
}
