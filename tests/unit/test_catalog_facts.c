/* test_catalog_facts.c - the shipped sources hold every row of the collected facts, no field was
 * lost on the way, and the built catalog gives each row back as it was.
 *
 * The counts need nothing but the tree. The comparison row by row needs ../shared/facts; it is
 * named as skipped where that is absent. Claims that were derived (from a note, from another row)
 * stand behind the rows of the source and are no part of the comparison.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/versions.h"

#define FACTS        "../shared/facts/"
#define SOURCES      "catalog/providers/"
#define DAY          "2026-11-30"
#define DB_BYTES_MAX (4 << 20)

static const char *const facts_files[] = {FACTS "native-wire.jsonl", FACTS "openai-family.jsonl",
                                          FACTS "self-hosted.jsonl"};
#define N_FACTS_FILES (sizeof facts_files / sizeof facts_files[0])
#define N_FACTS       5115

static const struct shipped {
    const char *provider;
    size_t n_facts, n_derived;
} shipped[] = {
    {"ai21", 40, 2},
    {"alibaba-dashscope", 80, 4},
    {"anthropic", 614, 37},
    {"aws-bedrock", 203, 38},
    {"azure", 101, 1},
    {"cerebras", 55, 0},
    {"cohere", 128, 8},
    {"deepseek", 200, 3},
    {"fireworks", 50, 0},
    {"google-gemini", 287, 31},
    {"google-palm", 160, 19},
    {"google-vertex", 205, 25},
    {"groq", 54, 0},
    {"huggingface-router", 40, 1},
    {"huggingface-tgi", 81, 6},
    {"koboldcpp", 24, 1},
    {"llama.cpp", 139, 8},
    {"lmstudio", 33, 2},
    {"meta-llama", 41, 1},
    {"meta-model-api", 40, 2},
    {"minimax", 80, 3},
    {"mistral", 90, 11},
    {"moonshot", 161, 22},
    {"nvidia-nim", 121, 10},
    {"ollama", 58, 6},
    {"openai", 1232, 42},
    {"openrouter", 51, 0},
    {"perplexity", 102, 1},
    {"sglang", 53, 14},
    {"tabbyapi", 35, 1},
    {"tgi", 37, 8},
    {"together", 52, 2},
    {"vllm", 93, 36},
    {"xai", 214, 0},
    {"zhipu-glm", 161, 14},
};
#define N_SHIPPED (sizeof shipped / sizeof shipped[0])
#define N_LOCAL   47 /* the built-in engine's own claims are no facts about others */

static const char *source_of(const char *provider)
{
    static char path[128];
    (void)snprintf(path, sizeof path, SOURCES "%s.json", provider);
    return path;
}

static json_t *load_claims(const char *provider, json_t **root)
{
    json_error_t e;
    *root = json_load_file(source_of(provider), JSON_REJECT_DUPLICATES, &e);
    if (!*root) {
        fail_msg("%s line %d: %s", source_of(provider), e.line, e.text);
    }
    return json_object_get(*root, "claims");
}

/* ---- the built catalog */

static char folder[] = "/tmp/isotherm-facts-XXXXXX";
static char db_path[64];
static struct snapshot *snapshot;
static json_t *facts; /* provider -> array of rows; NULL: not there */

static void build(void)
{
    static char paths[N_SHIPPED + 1][128];
    const char *sources[N_SHIPPED + 1];
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    for (size_t i = 0; i <= N_SHIPPED; i++) {
        const char *id = i < N_SHIPPED ? shipped[i].provider : "local";
        (void)snprintf(paths[i], sizeof paths[i], "%s", source_of(id));
        sources[i] = paths[i];
    }
    struct version_stamp stamp = {"test", "facts", DAY "T00:00:00Z"};
    if (!catalog_build(db_path, sources, N_SHIPPED + 1, &stamp, &v, &err) ||
        !catalog_open(&c, db_path, &err) || !catalog_snapshot(c, 0, &snapshot, &err)) {
        fail_msg("%s", err.text);
    }
    catalog_close(c);
}

static void load_facts(const char *path)
{
    static char line[16384];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *row = json_loads(line, 0, NULL);
        const char *provider = json_string_value(json_object_get(row, "provider"));
        assert_non_null(provider);
        if (!json_object_get(facts, provider)) {
            assert_int_equal(json_object_set_new(facts, provider, json_array()), 0);
        }
        assert_int_equal(json_array_append_new(json_object_get(facts, provider), row), 0);
    }
    (void)fclose(f);
}

static int setup_all(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    build();
    bool is_there = true;
    for (size_t i = 0; i < N_FACTS_FILES; i++) {
        is_there = is_there && access(facts_files[i], R_OK) == 0;
    }
    if (is_there) {
        facts = json_object();
        assert_non_null(facts);
        for (size_t i = 0; i < N_FACTS_FILES; i++) {
            load_facts(facts_files[i]);
        }
    }
    return 0;
}

static int teardown_all(void **state)
{
    (void)state;
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[80];
    snapshot_release(snapshot);
    json_decref(facts);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", db_path, ends[i]);
        (void)remove(path);
    }
    return rmdir(folder);
}

/* ---- counts */

static void test_count_in_sources(void **state)
{
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < N_SHIPPED; i++) {
        json_t *root, *claims = load_claims(shipped[i].provider, &root), *claim;
        size_t index, n_derived = 0;
        json_array_foreach (claims, index, claim) {
            n_derived += json_is_true(json_object_get(claim, "derived"));
        }
        assert_int_equal(n_derived, shipped[i].n_derived);
        assert_int_equal(json_array_size(claims) - n_derived, shipped[i].n_facts);
        n += shipped[i].n_facts;
        json_decref(root);
    }
    assert_int_equal(n, N_FACTS);
}

struct count {
    size_t n, n_derived;
};

static bool count_claim(const struct claim *c, void *ud)
{
    struct count *count = ud;
    count->n += !c->is_derived;
    count->n_derived += c->is_derived;
    return true;
}

static void test_count_in_catalog(void **state)
{
    (void)state;
    struct count all = {0}, local = {0};
    struct stat st;
    assert_int_equal(snapshot_n_providers(snapshot), N_SHIPPED + 1);
    for (size_t i = 0; i < N_SHIPPED; i++) {
        struct count count = {0};
        snapshot_each(snapshot, shipped[i].provider, NULL, NULL, count_claim, &count);
        assert_int_equal(count.n, shipped[i].n_facts);
        assert_int_equal(count.n_derived, shipped[i].n_derived);
    }
    snapshot_each(snapshot, NULL, NULL, NULL, count_claim, &all);
    snapshot_each(snapshot, "local", NULL, NULL, count_claim, &local);
    assert_int_equal(local.n, N_LOCAL);
    assert_int_equal(all.n, N_FACTS + N_LOCAL);
    assert_int_equal(stat(db_path, &st), 0);
    print_message("%zu facts, %zu derived, %lld bytes\n", all.n - local.n, all.n_derived,
                  (long long)st.st_size);
    assert_in_range(st.st_size, 1, DB_BYTES_MAX);
}

/* ---- row by row */

/* Absent, null, false, "" and [] are one and the same: nothing was said. */
static bool says_something(const json_t *v)
{
    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_array(v) && json_array_size(v) == 0) &&
           !(json_is_string(v) && json_string_length(v) == 0);
}

static void same(const char *where, size_t row, const char *field, const json_t *fact,
                 const json_t *claim)
{
    bool is_same = says_something(fact) ? claim && json_equal(fact, claim) : !says_something(claim);
    if (!is_same) {
        fail_msg("%s row %zu: %s differs", where, row, field);
    }
}

/* Of a default only null says nothing. */
static void same_default(const char *where, size_t row, const json_t *fact, const json_t *claim)
{
    bool is_none = !fact || json_is_null(fact);
    if (is_none ? claim && !json_is_null(claim) : !claim || !json_equal(fact, claim)) {
        fail_msg("%s row %zu: default differs", where, row);
    }
}

/* What the source called conflicts: in its own words where these are no names; "needs logprobs" was
 * written as a conflict, too. */
static const json_t *conflicts_of(const json_t *claim)
{
    static const char *const fields[] = {"conflicts_text", "needs", "conflicts"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *list = json_object_get(claim, fields[i]);
        if (says_something(list)) {
            return list;
        }
    }
    return NULL;
}

/* Field of the facts -> field of the source; the others have rules of their own below. */
static void compare_row(const char *where, size_t row, const json_t *fact, const json_t *claim)
{
    static const char *const fields[][2] = {
        {"models", "models"},
        {"endpoint", "endpoint"},
        {"wire_name", "wire"},
        {"support", "support"},
        {"min", "min"},
        {"max", "max"},
        {"min_exclusive", "min_exclusive"},
        {"max_exclusive", "max_exclusive"},
        {"integer", "integer"},
        {"values", "values"},
        {"max_items", "items_max"},
        {"max_len", "len_max"},
        {"note", "note"},
        {"source", "source"},
        {"as_of", "as_of"},
        {"confidence", "confidence"},
        {"valid_from", "valid_from"},
        {"valid_to", "valid_to"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        same(where, row, fields[i][0], json_object_get(fact, fields[i][0]),
             json_object_get(claim, fields[i][1]));
    }
    same_default(where, row, json_object_get(fact, "default"), json_object_get(claim, "default"));
    const json_t *own = json_object_get(claim, "source_param");
    same(where, row, "param", json_object_get(fact, "param"),
         own ? own : json_object_get(claim, "param"));
    same(where, row, "conflicts", json_object_get(fact, "conflicts"), conflicts_of(claim));
    const json_t *mode = json_object_get(fact, "mode"), *when = json_object_get(fact, "when");
    same(where, row, "mode or when", says_something(mode) ? mode : when,
         json_object_get(claim, "when_text"));
    const char *variant = json_string_value(json_object_get(fact, "variant"));
    const char *got = json_string_value(json_object_get(claim, "variant"));
    const char *want = says_something(mode) ? "conditional" : variant ? variant : "current";
    assert_string_equal(got ? got : "current", want);
}

static void need_facts(void)
{
    if (!facts) {
        print_message("skipped: " FACTS " is not there\n");
        skip();
    }
}

static void test_lossless_in_sources(void **state)
{
    (void)state;
    need_facts();
    size_t n = 0;
    for (size_t i = 0; i < N_SHIPPED; i++) {
        json_t *root, *claims = load_claims(shipped[i].provider, &root), *fact;
        size_t row;
        json_array_foreach (json_object_get(facts, shipped[i].provider), row, fact) {
            const json_t *claim = json_array_get(claims, row);
            assert_false(json_is_true(json_object_get(claim, "derived")));
            compare_row(shipped[i].provider, row + 1, fact, claim);
            n++;
        }
        assert_int_equal(row, shipped[i].n_facts);
        json_decref(root);
    }
    assert_int_equal(n, N_FACTS);
    assert_int_equal(json_object_size(facts), N_SHIPPED);
}

static void put(json_t *row, const char *field, json_t *value)
{
    if (json_is_null(value)) {
        json_decref(value);
    } else {
        assert_int_equal(json_object_set_new(row, field, value), 0);
    }
}

static json_t *text(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *shared(const json_t *j)
{
    return j ? json_incref((json_t *)j) : json_null(); /* jansson counts without const */
}

/* A claim of the built catalog in the form of a source. */
static json_t *row_of(const struct claim *c)
{
    json_t *row = json_object();
    const struct {
        const char *field, *value;
    } texts[] = {
        {"models", c->models},
        {"endpoint", c->endpoint},
        {"param", c->param},
        {"source_param", c->source_param},
        {"wire", c->wire},
        {"support", claim_support_name(c->support)},
        {"when_text", c->when_text},
        {"variant", claim_variant_name(c->variant)},
        {"valid_from", c->valid_from},
        {"valid_to", c->valid_to},
        {"source", c->source},
        {"as_of", c->as_of},
        {"confidence", c->confidence},
        {"note", c->note},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put(row, texts[i].field, text(texts[i].value));
    }
    put(row, "min", value_json(c->min_value));
    put(row, "max", value_json(c->max_value));
    put(row, "min_exclusive", json_boolean(c->min_exclusive));
    put(row, "max_exclusive", json_boolean(c->max_exclusive));
    put(row, "integer", json_boolean(c->is_integer));
    put(row, "values", shared(c->values));
    put(row, "default", value_json(c->fallback));
    put(row, "items_max", c->items_max ? json_integer(c->items_max) : json_null());
    put(row, "len_max", c->len_max ? json_integer(c->len_max) : json_null());
    put(row, "conflicts", shared(c->conflicts));
    put(row, "conflicts_text", shared(c->conflicts_text));
    put(row, "needs", shared(c->needs));
    return row;
}

struct reading {
    const char *provider;
    const json_t *rows;
    size_t at;
};

static bool compare_claim(const struct claim *c, void *ud)
{
    struct reading *r = ud;
    if (c->is_derived) {
        return true;
    }
    const json_t *fact = json_array_get(r->rows, r->at++);
    json_t *row = row_of(c);
    assert_non_null(fact);
    assert_string_equal(c->provider, json_string_value(json_object_get(fact, "provider")));
    assert_true(c->has_min == (c->min_value.type != VALUE_NONE));
    assert_true(c->has_max == (c->max_value.type != VALUE_NONE));
    compare_row(r->provider, r->at, fact, row);
    json_decref(row);
    return true;
}

static void test_lossless_in_catalog(void **state)
{
    (void)state;
    need_facts();
    size_t n = 0;
    for (size_t i = 0; i < N_SHIPPED; i++) {
        struct reading r = {shipped[i].provider, json_object_get(facts, shipped[i].provider), 0};
        snapshot_each(snapshot, r.provider, NULL, NULL, compare_claim, &r);
        assert_int_equal(r.at, shipped[i].n_facts);
        n += r.at;
    }
    assert_int_equal(n, N_FACTS);
}

/* ---- providers */

/* Every provider has claims where requests go, and its stand-in is a model that it knows. */
static void test_providers(void **state)
{
    (void)state;
    for (size_t i = 0; i < snapshot_n_providers(snapshot); i++) {
        const struct provider *p = snapshot_provider_at(snapshot, i);
        struct catalog_error err = {0};
        struct rules r;
        const char *model = p->stand_in ? p->stand_in : "some-model";
        if (p->is_local) {
            continue;
        }
        assert_true(snapshot_rules(snapshot, p->id, model, CATALOG_CHAT, DAY, &r, &err));
        bool is_known = r.param[PARAM_TEMPERATURE] || r.n_conditional > 0 || r.retired_on;
        if (!is_known || (p->stand_in && r.is_stand_in && !r.retired_on)) {
            fail_msg("%s: stand-in '%s' matches no claim", p->id, model);
        }
        assert_non_null(p->chat_path);
        assert_true(p->auth != CATALOG_AUTH_NONE || strcmp(p->id, "ollama") == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count_in_sources),    cmocka_unit_test(test_count_in_catalog),
        cmocka_unit_test(test_lossless_in_sources), cmocka_unit_test(test_lossless_in_catalog),
        cmocka_unit_test(test_providers),
    };
    return cmocka_run_group_tests_name("catalog_facts", tests, setup_all, teardown_all);
}
