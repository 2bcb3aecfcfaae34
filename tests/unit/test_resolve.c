/* test_resolve.c - what a model's name comes to for providers of the shipped catalog: an address,
 * or a refusal that says what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/versions.h"
#include "gateway/resolve.h"

static char folder[] = "/tmp/isotherm-resolve-XXXXXX";
static char db_path[64];
static struct snapshot *snapshot;
static struct config conf;

static int setup_all(void **state)
{
    (void)state;
    static char unheard[64];
    const char *const sources[] = {
        "catalog/providers/google-palm.json", "catalog/providers/azure.json",
        "catalog/providers/llama.cpp.json", "catalog/providers/groq.json", unheard};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    struct version_stamp stamp = {"test", "resolve", "2026-11-30T00:00:00Z"};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(unheard, sizeof unheard, "%s/unheard.json", folder);
    FILE *f = fopen(unheard, "w");
    assert_non_null(f);
    assert_true(fputs("{\"provider\": {\"id\": \"unheard\", \"title\": \"Unheard\", "
                      "\"dialect\": \"semaphore\", \"auth\": \"none\"}, \"claims\": []}",
                      f) >= 0);
    assert_int_equal(fclose(f), 0);
    if (!catalog_build(db_path, sources, 5, &stamp, &v, &err) || !catalog_open(&c, db_path, &err) ||
        !catalog_snapshot(c, 0, &snapshot, &err)) {
        fail_msg("%s", err.text);
    }
    catalog_close(c);
    return 0;
}

static int teardown_all(void **state)
{
    (void)state;
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[80];
    snapshot_release(snapshot);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", db_path, ends[i]);
        (void)remove(path);
    }
    (void)snprintf(path, sizeof path, "%s/unheard.json", folder);
    (void)remove(path);
    return rmdir(folder);
}

static void goes_to(const char *model, const char *url)
{
    struct target t;
    struct failure f = {0};
    if (!resolve(&conf, snapshot, REQUEST_CHAT, false, model, &t, &f)) {
        fail_msg("%s", f.message);
    }
    assert_string_equal(t.url, url);
}

static void is_refused(const char *model, int status, const char *code, const char *words)
{
    struct target t;
    struct failure f = {0};
    assert_false(resolve(&conf, snapshot, REQUEST_CHAT, false, model, &t, &f));
    if (f.status != status || strcmp(f.code, code) != 0 || !strstr(f.message, words)) {
        fail_msg("%d %s: %s", f.status, f.code, f.message);
    }
}

static void test_resolve(void **state)
{
    (void)state;
    goes_to("groq/x", "https://api.groq.com/openai/v1/chat/completions");
    goes_to("llama.cpp/x", "http://127.0.0.1:8080/v1/chat/completions");
    goes_to("google-palm/chat-bison-001",
            "https://generativelanguage.googleapis.com/v1beta3/models/"
            "chat-bison-001:generateMessage");
    is_refused("unheard/x", 501, "dialect_not_built", "dialect 'semaphore'");
    is_refused("azure/gpt", 404, "model_not_found", "set base_url");
    is_refused("nobody/x", 404, "model_not_found", "is not known: name it provider/model");
    is_refused("palm/x", 404, "model_not_found", "did you mean 'google-palm/...'?");
    is_refused("qroq/x", 404, "model_not_found", "did you mean 'groq/...'?");
    is_refused("groq/", 404, "model_not_found", "is not known: name it provider/model");
    is_refused("groq", 404, "model_not_found", "is not known: name it provider/model");
}

/* A switch that no request can set is the configuration's: the same deployment of azure, with the
 * claims of a model that reasons and of one that does not. */
static void test_switches(void **state)
{
    (void)state;
    static const char *const switches[] = {NULL, "deployment=reasoning",
                                           "other=1, deployment=reasoning"};
    static const enum claim_support want[] = {CLAIM_YES, CLAIM_REJECTED, CLAIM_REJECTED};
    struct rules r;
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        for (int again = 0; again < 2; again++) { /* the second time out of the cache */
            assert_true(snapshot_rules_with(snapshot, "azure", "mine", switches[i], CATALOG_CHAT,
                                            "2026-11-30", &r, NULL));
            const struct sampling none = {.has = 0};
            assert_int_equal(rules_claim(&r, PARAM_TEMPERATURE, &none)->support, want[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resolve),
                                       cmocka_unit_test(test_switches)};
    return cmocka_run_group_tests_name("resolve", tests, setup_all, teardown_all);
}
