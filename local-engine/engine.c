/* engine.c - which rows go into the next batch, and who gets their logits.
 *
 * A step has one row for each running choice, at most DECODE_ROWS of them, in turn, and a chunk of
 * at most PREFILL_ROWS rows of prompts that are not evaluated yet, shared evenly among them, or of
 * PREFILL_ROWS_BESIDE where there are rows of choices: a long prompt costs the others a slower
 * token, never a stop, and a short one beside it is through after a few steps. A prompt that begins
 * like one before it waits for that one's blocks. Rows that are left are for guesses: a choice
 * whose guessed token is the one that is drawn has the next one's logits in the same step. How rows
 * are batched does not change their bits (model.h), so neither do the company and the guesses.
 */
#include "beam.h"
#include "chat_source.h"
#include "known.h"
#include "session.h"
#include "sha256.h"
#include "tokenizer_source.h"
#include "weights.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DECODE_ROWS = 64, PREFILL_ROWS = 64, ROWS = DECODE_ROWS + PREFILL_ROWS };
/* Beside sessions that generate: a step is then about twice as long as without a prompt. */
enum { PREFILL_ROWS_BESIDE = 8 };
/* Tokenizer, logits of a few rows, scratch: 20 to 27 MB were measured at 152 thousand tokens. */
enum { BYTES_PER_TOKEN = 192 };
enum { SESSIONS_DEFAULT = 16, THREADS_DEFAULT_MAX = 8, THREADS_MAX = 64 };
static_assert(PREFILL_ROWS >= ENGINE_SESSIONS_MAX, "a row for each");
/* Rows of choices and guesses together, at most DECODE_ROWS: more choices leave less to guesses,
 * and from here on nothing. */
enum { GUESS_ROWS = 16 };
/* What a row more adds to a step of one row: measured, where the weights lie in the processor's
 * caches (0.4 to 0.65) and where they are read from memory (0.13 to 0.37). */
#define ROW_COST_CACHED 0.55
#define ROW_COST_READ   0.3
#define CACHED_BYTES    (64 << 20)

/* Who gets the logits of a row. */
struct owner {
    struct session *session;
    struct session_choice *choice; /* NULL: a row of a prompt */
    bool is_guess;                 /* the token is not known to be the choice's next one */
};

struct engine {
    char *path; /* of the model, as it was given */
    struct model *model;
    struct tokenizer *tokenizer;
    struct constrain_cache *constraints;
    struct kvpool *pool;
    enum kernels_type kv_type;
    size_t n_blocks_max; /* of the pool */
    int32_t context;     /* the model's, or less where the pool is smaller */
    struct tokenizer_source source;
    char *chat_template; /* the text in the model's files, or NULL */
    size_t chat_template_len;
    int n_threads;
    struct model_worker *worker;
    const struct model_shape *shape;
    struct session *sessions[ENGINE_SESSIONS_MAX]; /* running ones */
    size_t n_sessions, n_sessions_max, turn;
    struct model_row rows[ROWS];
    struct owner owners[ROWS];
    size_t n_rows, n_wanted;
    float *logits; /* [ROWS][n_vocab]; pages that are never used cost nothing */
    int64_t weight_bytes;
    char config_hash[9];
    enum engine_speculation speculation;
    struct draft *draft; /* or NULL */
    char fingerprint[160];
};

/* ---- opening */

bool engine_speculation_parse(const char *word, enum engine_speculation *out)
{
    bool is_off = strcmp(word, "off") == 0, is_known = is_off || strcmp(word, "lookup") == 0;
    if (is_known) {
        *out = is_off ? ENGINE_SPECULATION_OFF : ENGINE_SPECULATION_LOOKUP;
    }
    return is_known;
}

static int threads_default(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX : (int)n;
}

static bool check_end_ids(const struct engine *e, struct engine_error *err)
{
    size_t n;
    const int32_t *eos = tokenizer_eos(e->tokenizer, &n);
    for (size_t i = 0; i < n; i++) {
        if (eos[i] < 0 || eos[i] >= e->shape->n_vocab) {
            return engine_fail(
                err, ENGINE_BAD_FILE, "",
                "'%s': the tokenizer's end token %d is outside the model's vocabulary of %d",
                e->path, eos[i], e->shape->n_vocab);
        }
    }
    return true;
}

/* Adds a file's name and bytes; one that is not there adds nothing. false: it cannot be read. */
static bool add_file(struct sha256 *sum, const char *folder, const char *name)
{
    char path[4096], bytes[16384];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return false;
    }
    FILE *f = fopen(path, "re");
    if (!f) {
        return errno == ENOENT;
    }
    sha256_update(sum, name, strlen(name) + 1);
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        sha256_update(sum, bytes, n);
    }
    bool ok = !ferror(f);
    (void)fclose(f); /* it was only read */
    return ok;
}

/* The first eight hex digits. */
static void shorten(struct sha256 *sum, char out[9])
{
    char hex[65];
    uint8_t digest[32];
    sha256_final(sum, digest);
    sha256_hex(digest, hex);
    (void)snprintf(out, 9, "%.8s", hex);
}

/* Of all files that decide about begin and end tokens and about messages; "none" where one cannot
 * be read. */
static void hash_configs(struct engine *e)
{
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "tokenizer_config.json", "chat_template.jinja",
                                        "chat_template.json"};
    struct sha256 sum;
    bool ok = true;
    sha256_init(&sum);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ok = add_file(&sum, weights_folder(model_weights(e->model)), names[i]) && ok;
    }
    shorten(&sum, e->config_hash);
    if (!ok) {
        (void)snprintf(e->config_hash, sizeof e->config_hash, "none");
    }
}

/* So that the first answer need not wait until all weights are read. */
static void find_hash(struct engine *e, const char *known)
{
    char identity[65], hash[65];
    weights_identity(model_weights(e->model), identity);
    if (known && known_find(known, identity, hash)) {
        model_set_hash(e->model, hash);
    }
}

/* Unless the caller says: room for as many contexts as one request may have choices, but at most a
 * quarter of the machine's memory and at least one context. */
static size_t default_n_blocks(const struct engine *e, size_t block_bytes)
{
    size_t context = kvcache_n_blocks(e->shape->context), n = context * ENGINE_CHOICES_MAX;
    long n_pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t fits = n_pages > 0 && page > 0 ? (size_t)n_pages / 4 * (size_t)page / block_bytes : n;
    n = fits < n ? fits : n;
    return n > context ? n : context;
}

/* How keys and values will be kept. */
static bool plan_pool(struct engine *e, const struct engine_options *o, struct engine_error *err)
{
    e->kv_type = o && o->is_kv_f16 ? KERNELS_F16 : KERNELS_F32;
    size_t block_bytes = kvcache_block_bytes(e->model, e->kv_type);
    size_t n = o && o->kv_bytes_max > 0 ? (size_t)o->kv_bytes_max / block_bytes
                                        : default_n_blocks(e, block_bytes);
    if (n == 0) {
        return engine_fail(err, ENGINE_BAD_PARAM, "kv_memory",
                           "'%s': kv_memory of %" PRId64 " bytes has no room for one block of %zu "
                           "bytes (%d tokens): raise it",
                           e->path, o->kv_bytes_max, block_bytes, KVPOOL_TOKENS);
    }
    bool is_less = n < kvcache_n_blocks(e->shape->context);
    e->context = is_less ? (int32_t)n * KVPOOL_TOKENS : e->shape->context;
    e->n_blocks_max = n;
    return true;
}

static bool map_parts(struct engine *e, const struct engine_options *o, struct engine_error *err)
{
    if (!model_open(&e->model, e->path, err)) {
        return false;
    }
    const struct weights *w = model_weights(e->model);
    e->shape = model_get_shape(e->model);
    e->weight_bytes = (int64_t)weights_file_bytes(w);
    hash_configs(e);
    find_hash(e, o ? o->known : NULL);
    return plan_pool(e, o, err) && tokenizer_source_open(&e->source, w, err) &&
           chat_source_read(w, &e->chat_template, &e->chat_template_len, err) &&
           (!o || !o->draft_path || e->speculation == ENGINE_SPECULATION_OFF ||
            draft_map(&e->draft, o->draft_path, err));
}

bool engine_map(struct engine **out, const char *path, const struct engine_options *o,
                struct engine_error *err)
{
    struct engine *e = calloc(1, sizeof *e);
    if (!e) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for an engine");
    }
    int n_max = o && o->n_sessions_max > 0 ? o->n_sessions_max : SESSIONS_DEFAULT;
    int n_threads = o && o->n_threads > 0 ? o->n_threads : threads_default();
    e->n_sessions_max = n_max < ENGINE_SESSIONS_MAX ? (size_t)n_max : ENGINE_SESSIONS_MAX;
    e->n_threads = n_threads > THREADS_MAX ? THREADS_MAX : n_threads;
    e->speculation = o ? o->speculation : ENGINE_SPECULATION_LOOKUP;
    e->path = strdup(path);
    if (!e->path) {
        engine_close(e);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for an engine");
    }
    if (!map_parts(e, o, err)) {
        engine_close(e);
        return false;
    }
    *out = e;
    return true;
}

bool engine_load(struct engine *e, struct engine_error *err)
{
    assert(!e->logits);
    if (!tokenizer_source_read(&e->source, &e->tokenizer, err) || !check_end_ids(e, err) ||
        !constrain_cache_new(&e->constraints, e->tokenizer, e->shape->n_vocab, err) ||
        !model_worker_new(&e->worker, e->model, ROWS, e->n_threads, err) ||
        !kvpool_new(&e->pool, kvcache_block_bytes(e->model, e->kv_type), e->n_blocks_max, err) ||
        (e->draft && !draft_load(e->draft, e->tokenizer, e->n_threads, err))) {
        engine_unload(e);
        return false;
    }
    e->logits = calloc((size_t)ROWS * (size_t)e->shape->n_vocab, sizeof *e->logits);
    if (!e->logits) {
        engine_unload(e);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the logits");
    }
    return true;
}

void engine_warm(struct engine *e)
{
    weights_need(model_weights(e->model));
    if (e->draft) {
        draft_need(e->draft);
    }
    (void)engine_fingerprint(e); /* kept */
}

void engine_unload(struct engine *e)
{
    assert(e->n_sessions == 0);
    model_worker_free(e->worker);
    draft_unload(e->draft);
    constrain_cache_free(e->constraints);
    tokenizer_close(e->tokenizer);
    kvpool_free(e->pool);
    free(e->logits);
    e->worker = NULL;
    e->pool = NULL;
    e->constraints = NULL;
    e->tokenizer = NULL;
    e->logits = NULL;
    tokenizer_source_forget(&e->source);
    weights_forget(model_weights(e->model));
    (void)malloc_trim(0);
}

bool engine_open(struct engine **out, const char *path, const struct engine_options *o,
                 struct engine_error *err)
{
    struct engine *e;
    if (!engine_map(&e, path, o, err)) {
        return false;
    }
    if (!engine_load(e, err)) {
        engine_close(e);
        return false;
    }
    *out = e;
    return true;
}

void engine_close(struct engine *e)
{
    if (!e) {
        return;
    }
    if (e->model) {
        engine_unload(e);
        draft_close(e->draft);
        tokenizer_source_close(&e->source);
        model_close(e->model);
    }
    free(e->chat_template);
    free(e->path);
    free(e);
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
    return e->tokenizer;
}

const struct model *engine_model(const struct engine *e)
{
    return e->model;
}

const char *engine_chat_template(const struct engine *e, size_t *len)
{
    *len = e->chat_template_len;
    return e->chat_template;
}

const struct model_shape *engine_shape(const struct engine *e)
{
    return e->shape;
}

int32_t engine_context(const struct engine *e)
{
    return e->context;
}

int64_t engine_weight_bytes(const struct engine *e)
{
    return e->weight_bytes;
}

int64_t engine_loaded_bytes(const struct engine *e)
{
    return e->weight_bytes + (int64_t)BYTES_PER_TOKEN * e->shape->n_vocab +
           (e->draft ? draft_bytes(e->draft) : 0);
}

/* A tokenizer that lies in the weights' file is part of their hash. */
static void hash_tokenizer(const struct engine *e, char out[9])
{
    static const char name[] = "tokenizer.json";
    struct sha256 sum;
    sha256_init(&sum);
    if (e->source.files) {
        size_t n;
        const unsigned char *bytes = tokenizer_files_json(e->source.files, &n);
        sha256_update(&sum, name, sizeof name);
        sha256_update(&sum, bytes, n);
    }
    shorten(&sum, out);
}

void engine_weights_hash(struct engine *e, char identity[65], const char **hash)
{
    weights_identity(model_weights(e->model), identity);
    *hash = model_hash(e->model);
}

const char *engine_fingerprint(struct engine *e)
{
    if (!e->fingerprint[0]) {
        char tokenizer[9], limit[24] = "";
        hash_tokenizer(e, tokenizer);
        if (e->context < e->shape->context) {
            (void)snprintf(limit, sizeof limit, " context:%d", e->context);
        }
        (void)snprintf(e->fingerprint, sizeof e->fingerprint,
                       "isotherm-engine/%s exact%s%s weights:%.16s config:%s tokenizer:%s",
                       ENGINE_VERSION, e->kv_type == KERNELS_F16 ? " kv:f16" : "", limit,
                       model_hash(e->model), e->config_hash, tokenizer);
    }
    return e->fingerprint;
}

/* ---- sessions */

static bool check_prompt(const struct engine *e, const struct session_request *r,
                         struct engine_error *err)
{
    if (r->n_prompt == 0) {
        return engine_fail(err, ENGINE_BAD_PARAM, "prompt",
                           "the prompt has no tokens: give at least one");
    }
    if (r->n_prompt + !r->generates_nothing > (size_t)e->context) {
        return engine_fail(
            err, ENGINE_CONTEXT_FULL, "prompt",
            "prompt has %zu tokens, the context of the model is %d%s: at most %d leave "
            "room for a new one",
            r->n_prompt, e->context,
            e->context < e->shape->context ? " (for its 'kv_memory' is no greater)" : "",
            e->context - 1);
    }
    for (size_t i = 0; i < r->n_prompt; i++) {
        if (r->prompt[i] < 0 || r->prompt[i] >= e->shape->n_vocab) {
            return engine_fail(err, ENGINE_BAD_PARAM, "prompt",
                               "token id %d of the prompt is outside the vocabulary 0..%d",
                               r->prompt[i], e->shape->n_vocab - 1);
        }
    }
    return true;
}

/* What beam searches and distributions ask. */
static bool check_kind(const struct session_request *r, struct engine_error *err)
{
    assert(r->n_given <= r->n_prompt);
    if (r->n_beams && (r->n > r->n_beams || r->n_beams > BEAM_WIDTH_MAX)) {
        return engine_fail(err, ENGINE_BAD_PARAM, r->n > r->n_beams ? "n" : "num_beams",
                           "'num_beams' must be from 'n' to %d", BEAM_WIDTH_MAX);
    }
    if (r->n_beams && r->constraint.kind != CONSTRAIN_NOTHING) {
        return engine_fail(err, ENGINE_BAD_PARAM, "use_beam_search",
                           "a beam search takes no constraint: leave one of them out");
    }
    if (r->n_distribution > DISTRIBUTION_TOP_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "top", "'top' must be from 1 to %d",
                           DISTRIBUTION_TOP_MAX);
    }
    if (r->n_distribution && r->n_beams) {
        return engine_fail(err, ENGINE_BAD_PARAM, "use_beam_search",
                           "a beam search draws from no distribution: leave it out");
    }
    return true;
}

/* Whether the blocks that it may need are fewer than there are; those of others do not count. */
static bool check_room(const struct engine *e, const struct session_request *r,
                       struct engine_error *err)
{
    size_t n = session_n_blocks(r, e->context), n_max = e->n_blocks_max;
    return n <= n_max ||
           engine_fail(err, ENGINE_CONTEXT_FULL, "max_tokens",
                       "the choices may come to %zu tokens of keys and values, 'kv_memory' of the "
                       "model has room for %zu: ask for fewer choices, fewer beams or a lower "
                       "max_tokens, or raise it",
                       n * KVPOOL_TOKENS, n_max * KVPOOL_TOKENS);
}

static bool check_constraint(const struct engine *e, const struct session_request *r,
                             struct engine_error *err)
{
    struct constrain *c;
    if (r->constraint.kind == CONSTRAIN_NOTHING) {
        return true;
    }
    if (!constrain_cache_get(e->constraints, &r->constraint, &c, err)) {
        return false;
    }
    constrain_free(c); /* the cache has it until session_new() asks */
    return true;
}

bool session_check(const struct engine *e, const struct session_request *r,
                   struct engine_error *err)
{
    if (r->n < 1 || r->n > ENGINE_CHOICES_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "n", "'n' must be from 1 to %d",
                           ENGINE_CHOICES_MAX);
    }
    if (r->best_of < r->n || r->best_of > ENGINE_CHOICES_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "best_of", "'best_of' must be from 'n' to %d",
                           ENGINE_CHOICES_MAX);
    }
    if (!check_kind(r, err)) {
        return false;
    }
    if (r->max_tokens > 0 && r->sampling->min_tokens > r->max_tokens) {
        return engine_fail(err, ENGINE_BAD_PARAM, "min_tokens",
                           "'min_tokens' must not be above 'max_tokens'");
    }
    if (r->n_top_logprobs > (uint32_t)e->shape->n_vocab) {
        return engine_fail(err, ENGINE_BAD_PARAM, "top_logprobs",
                           "'top_logprobs' is above the vocabulary of %d tokens",
                           e->shape->n_vocab);
    }
    if (!check_prompt(e, r, err) || !sampler_config_check(r->sampling, e->shape->n_vocab, err) ||
        !check_room(e, r, err)) {
        return false;
    }
    struct stop *stop;
    if (!stop_new(&stop, r->stops, r->n_stops, err)) {
        return false;
    }
    stop_free(stop);
    return check_constraint(e, r, err);
}

static double row_cost(const struct engine *e)
{
    return e->speculation == ENGINE_SPECULATION_ALWAYS ? 0
           : e->weight_bytes > CACHED_BYTES            ? ROW_COST_READ
                                                       : ROW_COST_CACHED;
}

bool session_start(struct engine *e, const struct session_request *r, session_event_fn *fn,
                   void *ud, struct session **out, struct engine_error *err)
{
    if (!session_check(e, r, err)) {
        return false;
    }
    if (e->n_sessions == e->n_sessions_max) {
        return engine_fail(err, ENGINE_BUSY, "",
                           "%zu sessions are running, no more are possible: try again later",
                           e->n_sessions);
    }
    const struct session_engine parts = {.model = e->model,
                                         .tokenizer = e->tokenizer,
                                         .constraints = e->constraints,
                                         .pool = e->pool,
                                         .kv_type = e->kv_type,
                                         .context = e->context};
    struct session *s;
    if (!session_new(&s, r, &parts, err)) {
        return false;
    }
    if (e->speculation != ENGINE_SPECULATION_OFF && s->n_choices < GUESS_ROWS) {
        session_speculate(s, row_cost(e), e->draft);
    }
    s->engine = e;
    s->fn = fn;
    s->ud = ud;
    e->sessions[e->n_sessions++] = s;
    *out = s;
    return true;
}

static void remove_session(struct engine *e, size_t i)
{
    e->n_sessions--;
    memmove(&e->sessions[i], &e->sessions[i + 1], (e->n_sessions - i) * sizeof(e->sessions[0]));
    if (e->turn > i) {
        e->turn--;
    }
}

void session_free(struct session *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->engine->n_sessions; i++) {
        if (s->engine->sessions[i] == s) {
            remove_session(s->engine, i);
            break;
        }
    }
    session_release(s);
}

bool session_is_done(const struct session *s)
{
    return s->is_done;
}

/* ---- a step */

static bool is_prefilling(const struct session *s)
{
    return s->n_evaluated < s->n_prompt;
}

static void add_row(struct engine *e, struct session *s, struct session_choice *c,
                    struct kvcache *cache, int32_t token, bool wants_logits)
{
    assert(e->n_rows < ROWS);
    float *logits = wants_logits ? e->logits + e->n_wanted++ * (size_t)e->shape->n_vocab : NULL;
    e->rows[e->n_rows] = (struct model_row){.cache = cache, .token = token, .logits = logits};
    e->owners[e->n_rows++] = (struct owner){.session = s, .choice = c};
}

/* A row for each running choice of s; false when there is no room for the next one, which then is
 * the first next time. */
static bool add_choices(struct engine *e, struct session *s)
{
    uint32_t first = s->turn;
    for (uint32_t j = 0; j < s->n_choices; j++) {
        uint32_t i = (first + j) % s->n_choices;
        struct session_choice *c = &s->choices[i];
        if (c->is_done || c->is_idle) {
            continue;
        }
        if (e->n_rows == DECODE_ROWS) {
            s->turn = i;
            return false;
        }
        add_row(e, s, c, c->cache, c->last, true);
    }
    return true;
}

static void add_decode(struct engine *e)
{
    for (size_t k = 0; k < e->n_sessions; k++) {
        size_t i = (e->turn + k) % e->n_sessions;
        if (!is_prefilling(e->sessions[i]) && !add_choices(e, e->sessions[i])) {
            e->turn = i;
            return;
        }
    }
}

/* Whether a session before the i-th evaluates just now what this one needs next: then it is found
 * in the index soon. */
static bool is_coming(const struct engine *e, size_t i)
{
    const struct session *s = e->sessions[i];
    size_t n = s->n_evaluated + KVPOOL_TOKENS;
    if (s->n_evaluated % KVPOOL_TOKENS > 0 || n >= s->n_prompt) {
        return false;
    }
    for (size_t j = 0; j < i; j++) {
        const struct session *other = e->sessions[j];
        if (n <= other->n_prompt && is_prefilling(other) && other->n_evaluated >= s->n_evaluated &&
            other->n_evaluated < n &&
            memcmp(s->prompt, other->prompt, n * sizeof *s->prompt) == 0) {
            return true;
        }
    }
    return false;
}

/* Sessions that evaluate a part of their prompt now. */
static size_t find_prefilling(struct engine *e, bool *is_one)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n_sessions; i++) {
        is_one[i] = is_prefilling(e->sessions[i]);
        if (is_one[i]) {
            session_attach(e->sessions[i]);
            is_one[i] = e->sessions[i]->echo || !is_coming(e, i);
        }
        n += is_one[i];
    }
    return n;
}

/* What is left of GUESS_ROWS is shared evenly by the choices that have their row. These rows come
 * after all others of choices, so a guess costs nobody a row. */
static void add_guesses(struct engine *e)
{
    size_t n = e->n_rows;
    for (size_t i = 0; i < n && e->n_rows < GUESS_ROWS; i++) {
        struct owner o = e->owners[i];
        int32_t tokens[GUESS_ROWS];
        size_t n_guessed =
            session_guess(o.session, o.choice, tokens, (GUESS_ROWS - e->n_rows) / (n - i));
        for (size_t j = 0; j < n_guessed; j++) {
            add_row(e, o.session, o.choice, o.choice->cache, tokens[j], true);
            e->owners[e->n_rows - 1].is_guess = true;
        }
    }
}

static void add_prefill(struct engine *e)
{
    bool is_one[ENGINE_SESSIONS_MAX];
    size_t n_left = find_prefilling(e, is_one);
    size_t room = e->n_rows > 0 ? PREFILL_ROWS_BESIDE : PREFILL_ROWS;
    for (size_t i = 0; i < e->n_sessions; i++) {
        struct session *s = e->sessions[i];
        if (!is_one[i]) {
            continue;
        }
        size_t need = s->n_prompt - s->n_evaluated;
        size_t share = room > n_left ? room / n_left : (size_t)(room > 0);
        size_t n = need < share ? need : share;
        for (size_t j = s->n_evaluated; j < s->n_evaluated + n; j++) {
            add_row(e, s, NULL, s->choices[0].cache, s->prompt[j], session_wants_logits(s, j));
        }
        room -= n;
        n_left--;
    }
}

/* What is known of a prompt others may take over, before its own choices share it. */
static void publish_prompts(struct engine *e)
{
    for (size_t i = 0; i < e->n_sessions; i++) {
        if (is_prefilling(e->sessions[i])) {
            kvcache_publish(e->sessions[i]->choices[0].cache);
        }
    }
}

static void hand_out(struct engine *e)
{
    for (size_t i = 0; i < e->n_rows; i++) {
        struct session *s = e->owners[i].session;
        struct session_choice *c = e->owners[i].choice;
        const float *logits = e->rows[i].logits;
        if (!c) {
            s->n_evaluated++;
        }
        if (!logits || s->is_done) {
            continue;
        }
        if (e->owners[i].is_guess && !session_guess_holds(s, c, e->rows[i].token)) {
            continue;
        }
        if (c) {
            session_advance(s, c, logits);
        } else {
            session_prompted(s, logits);
        }
    }
}

bool engine_rest(struct engine *e)
{
    kvpool_trim(e->pool, true);
    return kvpool_n_stored(e->pool) == 0;
}

bool engine_step(struct engine *e)
{
    struct engine_error err = {.code = ENGINE_OK};
    e->n_rows = 0;
    e->n_wanted = 0;
    add_decode(e);
    add_guesses(e);
    add_prefill(e);
    if (e->n_rows == 0) {
        return false;
    }
    if (model_forward(e->worker, e->rows, e->n_rows, &err)) {
        publish_prompts(e);
        hand_out(e);
    } else {
        for (size_t i = 0; i < e->n_rows; i++) {
            session_fail(e->owners[i].session, &err);
        }
    }
    for (size_t i = e->n_sessions; i-- > 0;) {
        if (e->sessions[i]->is_done) {
            remove_session(e, i);
        }
    }
    return true;
}
