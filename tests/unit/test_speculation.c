/* test_speculation.c - every event of a choice is the same, to the last bit, with guesses, without
 * any, and with all that there could be, right or wrong: text as it is cut, tokens,
 * log-probabilities, ends and counts.
 *
 * Prompts are made of a few words, some of which repeat; each is asked with every kind of setting.
 * SPECULATION_PROMPTS: how many prompts a model gets; the default model, which takes longest, gets
 * each of them with two settings then. The random model has the weights of the stories' one with
 * signs drawn anew.
 */
#include "local-engine/engine.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STORIES "tests/vectors/stories260k"
#define DEFAULT "local-engine/default-model"

enum { CHOICES = 4, PROMPTS = 4, IDS_MAX = 600 };
enum { OFF, LOOKUP, ALWAYS, DRAFT, N_ENGINES };

static struct engine *engines[N_ENGINES];
static json_t *pattern, *choice, *schema;
static int64_t n_guessed[N_ENGINES], n_right[N_ENGINES], n_pairs;
static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* ---- a request: prompt and kind of setting */

struct ask {
    struct sampler_config sampling;
    struct session_request r;
    int32_t ids[IDS_MAX];
    const char *stops[2];
};

static void set_penalties(struct ask *a)
{
    a->sampling.repetition_penalty = 1.1;
    a->sampling.frequency_penalty = 0.2;
    a->sampling.presence_penalty = 0.1;
    a->sampling.penalty_counts_prompt = true;
    a->sampling.temperature = 0.7;
}

/* A token that is wanted again and again: the answer repeats. */
static void set_bias(struct ask *a)
{
    a->sampling.bias = malloc(2 * sizeof *a->sampling.bias);
    assert_non_null(a->sampling.bias);
    a->sampling.n_bias = 2;
    a->sampling.bias[0] = (struct sampler_bias){a->ids[a->r.n_prompt - 1], 9};
    a->sampling.bias[1] = (struct sampler_bias){a->ids[a->r.n_prompt / 2], 8};
}

static void set_stops(struct ask *a)
{
    a->stops[0] = "e";
    a->stops[1] = "no such text";
    a->r.stops = a->stops;
    a->r.n_stops = 2;
    a->r.n = a->r.best_of = 2;
    a->sampling.min_tokens = 12;
    a->sampling.top_p = 0.9;
}

static void set_stop_token(struct ask *a)
{
    a->sampling.stop_ids = malloc(sizeof *a->sampling.stop_ids);
    assert_non_null(a->sampling.stop_ids);
    a->sampling.stop_ids[0] = a->ids[a->r.n_prompt - 1];
    a->sampling.n_stop_ids = 1;
    a->sampling.temperature = 0.4;
    a->sampling.min_tokens = 3;
}

static void set_logprobs(struct ask *a)
{
    a->r.logprobs = true;
    a->r.n_top_logprobs = 3;
    a->r.logprobs_processed = a->r.seed % 2;
    a->sampling.temperature = a->r.seed % 3 ? 0.3 : 0;
    a->sampling.top_k = 20;
}

static void set_best_of(struct ask *a)
{
    a->r.best_of = 4;
    a->r.n = 2;
    a->sampling.min_p = 0.05;
    a->r.logprobs = a->r.seed % 2;
}

static void set_ngram(struct ask *a)
{
    a->sampling.no_repeat_ngram_size = 3;
    a->sampling.temperature = 0;
    a->r.max_tokens = 60;
}

static void set_context(struct ask *a)
{
    a->sampling.ignore_eos = true;
    a->sampling.temperature = 0.2;
    a->r.max_tokens = a->r.seed % 8 ? 200 : 0;
}

static void set_pattern(struct ask *a)
{
    a->r.constraint = (struct constrain_spec){CONSTRAIN_REGEX, pattern, "p"};
    a->r.max_tokens = 60;
}

static void set_choice(struct ask *a)
{
    a->r.constraint = (struct constrain_spec){CONSTRAIN_CHOICE, choice, "p"};
    a->sampling.ignore_eos = a->r.seed % 2;
}

static void set_schema(struct ask *a)
{
    a->r.constraint = (struct constrain_spec){CONSTRAIN_JSON_SCHEMA, schema, "p"};
    a->r.logprobs = true;
    a->r.max_tokens = 70;
}

static void set_order(struct ask *a)
{
    a->sampling.order = (enum sampler_order)(a->r.seed % SAMPLER_ORDERS);
    a->sampling.top_k = 5;
    a->sampling.top_p = 0.8;
    a->r.n = a->r.best_of = 3;
}

static void set_greedy(struct ask *a)
{
    a->sampling.temperature = 0;
    a->r.max_tokens = 80;
    a->r.n = a->r.best_of = 2;
}

static void set_nothing(struct ask *a)
{
    (void)a;
}

typedef void set_fn(struct ask *a);
static set_fn *const settings[] = {
    set_nothing, set_greedy, set_penalties, set_bias,    set_stops,  set_stop_token, set_logprobs,
    set_best_of, set_ngram,  set_context,   set_pattern, set_choice, set_schema,     set_order};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/* Words in a row; from some word on the last few of them again and again. */
static void make_prompt(char *text, size_t cap)
{
    static const char *const words[] = {
        "Once", " upon", " a",   " time", " the",  " king", " and",  " a cat", " said", ",",
        ".",    " he",   " was", " \"",   " ball", "\n",    " 1, 2", " [",     " Tim",  " happy"};
    enum { N_WORDS = sizeof words / sizeof *words };
    uint32_t said[64], n = 2 + random_below(40), period = 1 + random_below(9);
    bool repeats = random_below(3) > 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        said[i] = repeats && i >= period ? said[i - period] : random_below(N_WORDS);
        (void)strncat(text, words[said[i]], cap - strlen(text) - 1);
    }
}

static void ask_make(struct ask *a, const char *text, int64_t seed, set_fn *set)
{
    const struct tokenizer *t = engine_tokenizer(engines[0]);
    int32_t *ids;
    size_t n;
    memset(a, 0, sizeof *a);
    sampler_config_init(&a->sampling);
    a->r = (struct session_request){
        .sampling = &a->sampling, .n = 1, .best_of = 1, .seed = seed, .max_tokens = 40};
    assert_true(tokenizer_encode(t, text, strlen(text), true, &ids, &n, NULL));
    assert_true(n + 1 < IDS_MAX);
    a->ids[0] = tokenizer_bos(t) >= 0 ? tokenizer_bos(t) : 0;
    memcpy(a->ids + 1, ids, n * sizeof *ids);
    free(ids);
    a->r.prompt = a->ids;
    a->r.n_prompt = n + 1;
    set(a);
}

/* ---- all that was said of it */

struct result {
    uint64_t events[CHOICES]; /* hash of each choice's */
    struct engine_error err;
    int which;
};

static void mix(uint64_t *h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        *h = (*h ^ p[i]) * 0x100000001b3u;
    }
    *h = (*h ^ n) * 0x100000001b3u;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct result *r = ud;
    if (ev->kind == SESSION_ERROR) {
        r->err = *ev->error;
        return;
    }
    assert_true(ev->choice < CHOICES);
    uint64_t *h = &r->events[ev->choice];
    mix(h, &ev->kind, sizeof ev->kind);
    mix(h, &ev->matched_stop, sizeof ev->matched_stop);
    if (ev->kind == SESSION_FINISH) {
        mix(h, ev->finish, strlen(ev->finish));
        mix(h, &ev->n_generated, sizeof ev->n_generated);
        n_guessed[r->which] += ev->n_guessed;
        n_right[r->which] += ev->n_guessed_right;
        return;
    }
    mix(h, ev->text, ev->len);
    for (size_t i = 0; i < ev->n_tokens; i++) {
        const struct session_token *t = &ev->tokens[i];
        mix(h, &t->id, sizeof t->id);
        mix(h, &t->is_first, sizeof t->is_first);
        mix(h, &t->logprob, sizeof t->logprob);
        for (size_t k = 0; t->top && k < 3; k++) {
            mix(h, &t->top[k].id, sizeof t->top[k].id);
            mix(h, &t->top[k].logprob, sizeof t->top[k].logprob);
        }
    }
}

static void run(int which, const char *text, int64_t seed, set_fn *set, struct result *out)
{
    static struct ask a;
    struct session *s;
    struct engine_error err = {.code = ENGINE_OK};
    *out = (struct result){.which = which};
    ask_make(&a, text, seed, set);
    if (!session_start(engines[which], &a.r, on_event, out, &s, &err)) {
        fail_msg("%s", err.text);
    }
    while (engine_step(engines[which])) {
    }
    session_free(s);
}

static void compare(const char *text, int64_t seed, size_t setting)
{
    struct result r[N_ENGINES];
    for (int e = 0; e < N_ENGINES; e++) {
        run(e, text, seed, settings[setting], &r[e]);
        bool is_same = strcmp(r[e].err.text, r[0].err.text) == 0;
        for (int i = 0; i < CHOICES && r[0].err.code == ENGINE_OK; i++) {
            is_same = is_same && r[e].events[i] == r[0].events[i];
        }
        if (!is_same) {
            fail_msg("setting %zu, seed %lld, prompt '%s': speculation %d differs from none",
                     setting, (long long)seed, text, e);
        }
        n_pairs += e > 0;
    }
}

/* ---- models */

static void open_engines(const char *path, const char *draft)
{
    static const enum engine_speculation how[N_ENGINES] = {
        ENGINE_SPECULATION_OFF, ENGINE_SPECULATION_LOOKUP, ENGINE_SPECULATION_ALWAYS,
        ENGINE_SPECULATION_LOOKUP};
    for (int i = 0; i < N_ENGINES; i++) {
        struct engine_options o = {
            .n_threads = 1, .speculation = how[i], .draft_path = i == DRAFT ? draft : NULL};
        struct engine_error err = {.code = ENGINE_OK};
        if (!engine_open(&engines[i], path, &o, &err)) {
            fail_msg("%s", err.text);
        }
        n_guessed[i] = n_right[i] = 0;
    }
    n_pairs = 0;
}

static void close_engines(void)
{
    for (int i = 0; i < N_ENGINES; i++) {
        engine_close(engines[i]);
    }
}

/* is_slow: a prompt gets a part of the settings, in turn. */
static void compare_all(const char *path, const char *draft, bool is_slow)
{
    const char *wanted = getenv("SPECULATION_PROMPTS");
    int64_t n_prompts = wanted ? atoll(wanted) : PROMPTS;
    size_t share = is_slow ? wanted ? N_SETTINGS / 2 : 2 : 1;
    char text[512];
    random_state = 20;
    open_engines(path, draft);
    for (int64_t seed = 1; seed <= n_prompts; seed++) {
        make_prompt(text, sizeof text);
        for (size_t s = (size_t)seed % share; s < N_SETTINGS; s += share) {
            compare(text, seed, s);
        }
    }
    print_message("%s: %lld prompts, %zu settings each, %lld pairs, 0 differ; guesses and right "
                  "ones: %lld, %lld; all possible %lld, %lld; with a draft model %lld, %lld\n",
                  path, (long long)n_prompts, N_SETTINGS / share, (long long)n_pairs,
                  (long long)n_guessed[LOOKUP], (long long)n_right[LOOKUP],
                  (long long)n_guessed[ALWAYS], (long long)n_right[ALWAYS],
                  (long long)n_guessed[DRAFT], (long long)n_right[DRAFT]);
    assert_int_equal(n_guessed[OFF], 0);
    assert_true(n_right[LOOKUP] > 0 && n_right[LOOKUP] < n_guessed[LOOKUP]);
    assert_true(n_right[ALWAYS] > 0 && n_right[ALWAYS] < n_guessed[ALWAYS]);
    assert_true(n_right[DRAFT] > n_right[LOOKUP] && n_right[DRAFT] < n_guessed[DRAFT]);
    close_engines();
}

/* All settings at once, each joining when the others are somewhere else: guesses come and go with
 * the rows that are left, and change nothing. */
static void test_company(void **state)
{
    (void)state;
    static struct result alone[N_SETTINGS], together[N_SETTINGS];
    static struct ask a;
    struct session *s[N_SETTINGS];
    char text[512];
    open_engines(STORIES, NULL);
    random_state = 21;
    make_prompt(text, sizeof text);
    for (size_t i = 0; i < N_SETTINGS; i++) {
        run(OFF, text, (int64_t)i, settings[i], &alone[i]);
    }
    for (size_t i = 0; i < N_SETTINGS; i++) {
        together[i] = (struct result){.which = ALWAYS};
        ask_make(&a, text, (int64_t)i, settings[i]);
        assert_true(session_start(engines[ALWAYS], &a.r, on_event, &together[i], &s[i], NULL));
        for (size_t j = 0; j < i; j++) {
            (void)engine_step(engines[ALWAYS]);
        }
    }
    while (engine_step(engines[ALWAYS])) {
    }
    for (size_t i = 0; i < N_SETTINGS; i++) {
        session_free(s[i]);
        assert_memory_equal(alone[i].events, together[i].events, sizeof alone[i].events);
    }
    assert_true(n_guessed[ALWAYS] > n_right[ALWAYS] && n_right[ALWAYS] > 0);
    close_engines();
}

/* A model is its own best draft: without chance all that it guesses is right, up to the end of the
 * context. */
static void test_own_draft(void **state)
{
    (void)state;
    struct result r[2];
    static struct ask a;
    open_engines(STORIES, STORIES);
    for (int i = 0; i < 2; i++) {
        struct session *s;
        int which = i ? DRAFT : OFF;
        r[i] = (struct result){.which = which};
        ask_make(&a, "Once upon a time", 1, set_greedy);
        a.sampling.ignore_eos = true;
        a.r.max_tokens = 0;
        assert_true(session_start(engines[which], &a.r, on_event, &r[i], &s, NULL));
        size_t n_steps = 0;
        while (engine_step(engines[which])) {
            n_steps++;
        }
        assert_true(i ? n_steps < 150 : n_steps > 500);
        session_free(s);
    }
    assert_memory_equal(r[0].events, r[1].events, sizeof r[0].events);
    assert_true(n_right[DRAFT] > 2 * 350); /* two choices, which are one */
    close_engines();
}

static void test_other_vocabularies_are_refused(void **state)
{
    (void)state;
    struct engine *e;
    struct engine_error err = {.code = ENGINE_OK};
    struct engine_options o = {.n_threads = 1, .draft_path = DEFAULT};
    assert_false(engine_open(&e, STORIES, &o, &err));
    assert_int_equal(err.code, ENGINE_BAD_FILE);
    assert_string_equal(err.text, "draft model '" DEFAULT
                                  "': its vocabulary has 4096 tokens, that of the model 512: they "
                                  "must be the same");
    o.speculation = ENGINE_SPECULATION_OFF;
    assert_true(engine_open(&e, STORIES, &o, NULL)); /* nobody asks for it */
    engine_close(e);
}

/* Sixteen choices leave no row for a guess. */
static void test_many_are_not_guessed(void **state)
{
    (void)state;
    static struct result r[16];
    static struct ask a;
    struct session *s[16];
    open_engines(STORIES, NULL);
    for (int i = 0; i < 16; i++) {
        r[i] = (struct result){.which = ALWAYS};
        ask_make(&a, "a a a a a a a a", i, set_greedy);
        a.r.n = a.r.best_of = 1;
        a.sampling.ignore_eos = true;
        assert_true(session_start(engines[ALWAYS], &a.r, on_event, &r[i], &s[i], NULL));
    }
    while (engine_step(engines[ALWAYS])) {
    }
    for (int i = 0; i < 16; i++) {
        session_free(s[i]);
    }
    assert_int_equal(n_guessed[ALWAYS], 0);
    close_engines();
}

/* Copies FROM/name to TO/name. The weights, float32, get new signs. With `other` the tokenizer's
 * first token has another spelling. */
static void copy_file(const char *from, const char *to, const char *name, bool other)
{
    bool is_drawn = strcmp(name, "model.safetensors") == 0;
    static unsigned char bytes[4 << 20];
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", from, name);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    (void)fclose(f);
    assert_true(n < sizeof bytes);
    for (size_t i = 8 + bytes[0] + 256 * (size_t)bytes[1] + 3; is_drawn && i < n; i += 4) {
        bytes[i] ^= random_below(2) ? 0x80 : 0;
    }
    char *unknown = (char *)bytes;
    bytes[n] = '\0';
    while (other && !is_drawn && (unknown = strstr(unknown, "<unk>"))) {
        unknown[3] = 'x';
    }
    (void)snprintf(path, sizeof path, "%s/%s", to, name);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_stories(void **state)
{
    (void)state;
    compare_all(STORIES, STORIES, false);
}

static void test_default_model(void **state)
{
    (void)state;
    compare_all(DEFAULT, DEFAULT, true);
}

static const char *const model_files[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                          "generation_config.json", "model.safetensors"};

/* `folder` ends with XXXXXX. */
static void make_model(char *folder, bool other)
{
    random_state = 7;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 5; i++) {
        copy_file(STORIES, folder, model_files[i], other);
    }
}

static void remove_model(const char *folder)
{
    char path[256];
    for (size_t i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, model_files[i]);
        (void)remove(path);
    }
    (void)remove(folder);
}

static void test_random_model(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_speculation_XXXXXX";
    make_model(folder, false);
    compare_all(folder, STORIES, false);
    remove_model(folder);
}

static void test_another_token_is_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_speculation_XXXXXX";
    struct engine *e;
    struct engine_error err = {.code = ENGINE_OK};
    make_model(folder, true);
    struct engine_options o = {.n_threads = 1, .draft_path = folder};
    assert_false(engine_open(&e, STORIES, &o, &err));
    assert_string_equal(err.param, "draft_model");
    assert_non_null(strstr(err.text, "its token 0 is '<unx>', that of the model '<unk>': the "
                                     "vocabularies must be the same"));
    remove_model(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories),
        cmocka_unit_test(test_default_model),
        cmocka_unit_test(test_random_model),
        cmocka_unit_test(test_company),
        cmocka_unit_test(test_own_draft),
        cmocka_unit_test(test_other_vocabularies_are_refused),
        cmocka_unit_test(test_another_token_is_refused),
        cmocka_unit_test(test_many_are_not_guessed),
    };
    pattern = json_string("(ab, ab; |cd ){4,30}[0-9]+");
    choice =
        json_loads("[\"yes yes yes yes yes yes\", \"yes yes yes yes yes no\", \"no\"]", 0, NULL);
    schema = json_loads("{\"type\":\"object\",\"properties\":{\"list\":{\"type\":\"array\","
                        "\"items\":{\"enum\":[\"one\",\"two\"]},\"minItems\":6,\"maxItems\":9}},"
                        "\"required\":[\"list\"],\"additionalProperties\":false}",
                        0, NULL);
    int n_failed = pattern && choice && schema
                       ? cmocka_run_group_tests_name("speculation", tests, NULL, NULL)
                       : 1;
    json_decref(pattern);
    json_decref(choice);
    json_decref(schema);
    return n_failed;
}
