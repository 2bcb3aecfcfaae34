/* ctl_degeneration.c - all settings at once, a session each, so that the engine evaluates them in
 * one batch; tokens are counted as they come.
 */
#include "gateway/ctl/ctl_degeneration.h"

#include "gateway/base/jsonio.h"
#include "gateway/ctl/ctl_local.h"
#include "gateway/ctl/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BYTES_MAX (1u << 20)
#define TOKENS_DEFAULT   256
#define RUNS_DEFAULT     8
#define NGRAM_DEFAULT    4
#define RUNS_MAX         32
#define NGRAM_MAX        32

static const char usage[] =
    "usage: isothermctl degeneration [-m MODEL] --prompt TEXT [options]\n"
    "How much a model repeats itself: the share of 4-grams of tokens that were said before, under "
    "greedy decoding,\n"
    "beam search, sampling and each penalty.\n" CTL_LOCAL_HELP_MODEL
    "      --max-tokens N         of each answer (default 256)\n"
    "      --runs N               answers for each kind of sampling (default 8, at most 32)\n"
    "      --ngram N              tokens in a row (default 4, at most 32)\n"
    "      --seed N               default 1\n" CTL_LOCAL_HELP_END;

static const struct setting {
    const char *name, *params;
} settings[] = {
    {"greedy", "{\"temperature\":0}"},
    {"greedy, repetition_penalty 1.1", "{\"temperature\":0,\"repetition_penalty\":1.1}"},
    {"greedy, repetition_penalty 1.3", "{\"temperature\":0,\"repetition_penalty\":1.3}"},
    {"greedy, frequency_penalty 0.5", "{\"temperature\":0,\"frequency_penalty\":0.5}"},
    {"greedy, presence_penalty 0.5", "{\"temperature\":0,\"presence_penalty\":0.5}"},
    {"greedy, no_repeat_ngram_size 4", "{\"temperature\":0,\"no_repeat_ngram_size\":4}"},
    {"beam search, num_beams 4", "{\"use_beam_search\":true,\"num_beams\":4}"},
    {"temperature 1", "{\"temperature\":1}"},
    {"temperature 0.7", "{\"temperature\":0.7}"},
    {"temperature 1, top_p 0.9", "{\"temperature\":1,\"top_p\":0.9}"},
    {"temperature 1, min_p 0.05", "{\"temperature\":1,\"min_p\":0.05}"},
    {"temperature 0.7, repetition_penalty 1.1", "{\"temperature\":0.7,\"repetition_penalty\":1.1}"},
    {"temperature 0.7, frequency_penalty 0.5", "{\"temperature\":0.7,\"frequency_penalty\":0.5}"},
    {"temperature 0.7, presence_penalty 0.5", "{\"temperature\":0.7,\"presence_penalty\":0.5}"},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/* One answer. */
struct said {
    int32_t *ids;
    size_t n, cap;
    double logprob;
};

struct trial {
    struct measure *measure;
    json_t *params;
    struct link_params link;
    struct session *session;
    struct said said[RUNS_MAX];
    double repeated, distinct, logprob; /* means over the answers */
    size_t n_tokens;
};

struct measure {
    struct ctl_local_options o;
    struct ctl_local local;
    struct engine_error err;
    long runs, ngram;
    struct trial trials[N_SETTINGS];
};

/* ---- counting */

static const int32_t *sorting;
static size_t sorting_n;

/* n-grams by their tokens. */
static int by_tokens(const void *a, const void *b)
{
    const int32_t *x = sorting + *(const size_t *)a, *y = sorting + *(const size_t *)b;
    for (size_t i = 0; i < sorting_n; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}

double ctl_degeneration_repeated(const int32_t *ids, size_t n_ids, size_t n)
{
    if (n_ids < n) {
        return 0.0;
    }
    size_t n_all = n_ids - n + 1, n_repeated = 0;
    size_t *at = malloc(n_all * sizeof *at);
    if (!at) {
        return -1.0;
    }
    for (size_t i = 0; i < n_all; i++) {
        at[i] = i;
    }
    sorting = ids;
    sorting_n = n;
    qsort(at, n_all, sizeof *at, by_tokens);
    for (size_t i = 1; i < n_all; i++) {
        n_repeated += by_tokens(&at[i - 1], &at[i]) == 0;
    }
    free(at);
    return (double)n_repeated / (double)n_all;
}

static bool count(struct trial *t, struct engine_error *err)
{
    size_t n_runs = (size_t)t->link.n;
    double logprob = 0.0;
    for (size_t i = 0; i < n_runs; i++) {
        const struct said *s = &t->said[i];
        double repeated = ctl_degeneration_repeated(s->ids, s->n, (size_t)t->measure->ngram);
        double again = ctl_degeneration_repeated(s->ids, s->n, 1);
        if (repeated < 0 || again < 0) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
        }
        t->repeated += repeated / (double)n_runs;
        t->distinct += (1 - again) / (double)n_runs;
        t->n_tokens += s->n;
        logprob += s->logprob;
    }
    t->logprob = t->n_tokens ? logprob / (double)t->n_tokens : 0.0;
    return true;
}

/* ---- sessions */

static bool add_token(struct said *s, const struct session_token *token)
{
    if (s->n == s->cap) {
        size_t cap = s->cap * 2 + 256;
        int32_t *p = realloc(s->ids, cap * sizeof *p);
        if (!p) {
            return false;
        }
        s->ids = p;
        s->cap = cap;
    }
    s->ids[s->n++] = token->id;
    s->logprob += token->logprob;
    return true;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct trial *t = ud;
    struct engine_error *err = &t->measure->err;
    if (ev->kind == SESSION_ERROR) {
        (void)engine_fail(err, ev->error->code, ev->error->param, "%s", ev->error->text);
    }
    for (size_t i = 0; ev->kind == SESSION_TEXT && i < ev->n_tokens; i++) {
        if (!add_token(&t->said[ev->choice], &ev->tokens[i])) {
            (void)engine_fail(err, ENGINE_NOMEM, "", "out of memory for an answer");
        }
    }
}

static bool start(struct measure *m, size_t i)
{
    struct trial *t = &m->trials[i];
    const json_t *max = json_object_get(m->o.params, "max_tokens");
    t->measure = m;
    sampler_config_init(&t->link.sampling);
    t->params = json_loads(settings[i].params, 0, NULL);
    bool has_runs = json_number_value(json_object_get(t->params, "temperature")) > 0;
    if (!t->params ||
        json_object_set(t->params, "seed", json_object_get(m->o.params, "seed")) != 0 ||
        json_object_set_new(t->params, "max_tokens",
                            json_integer(max ? json_integer_value(max) : TOKENS_DEFAULT)) != 0 ||
        json_object_set_new(t->params, "n", json_integer(has_runs ? m->runs : 1)) != 0 ||
        json_object_set_new(t->params, "logprobs", json_true()) != 0) {
        return engine_fail(&m->err, ENGINE_NOMEM, "", "out of memory");
    }
    if (!link_params_parse(t->params, &t->link, &m->err)) {
        return false;
    }
    struct session_request r = link_params_request(&t->link, m->local.prompt, m->local.n_prompt);
    return session_start(m->local.engine, &r, on_event, t, &t->session, &m->err);
}

static bool run_all(struct measure *m)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (!start(m, i)) {
            return false;
        }
    }
    while (m->err.code == ENGINE_OK && engine_step(m->local.engine)) {
    }
    for (size_t i = 0; m->err.code == ENGINE_OK && i < N_SETTINGS; i++) {
        (void)count(&m->trials[i], &m->err);
    }
    return m->err.code == ENGINE_OK;
}

static void release(struct measure *m)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        struct trial *t = &m->trials[i];
        session_free(t->session);
        for (size_t k = 0; k < RUNS_MAX; k++) {
            free(t->said[k].ids);
        }
        link_params_release(&t->link);
        json_decref(t->params);
    }
    ctl_local_close(&m->local);
}

/* ---- output */

static bool number_cell(struct table *t, const char *fmt, double x)
{
    char text[40];
    (void)snprintf(text, sizeof text, fmt, x);
    return table_cell(t, text);
}

static bool print_table(const struct measure *m)
{
    char title[40];
    (void)snprintf(title, sizeof title, "repeated %ld-grams", m->ngram);
    const struct table_column columns[] = {
        {"setting", false, 20, 0}, {"answers", true, 0, 1},         {"tokens", true, 0, 2},
        {title, true, 0, 0},       {"distinct tokens", true, 0, 3}, {"mean log-prob", true, 0, 4},
    };
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    bool ok = true;
    for (size_t i = 0; ok && i < N_SETTINGS; i++) {
        const struct trial *r = &m->trials[i];
        ok = table_cell(&t, settings[i].name) && number_cell(&t, "%.0f", (double)r->link.n) &&
             number_cell(&t, "%.0f", (double)r->n_tokens) && number_cell(&t, "%.4f", r->repeated) &&
             number_cell(&t, "%.4f", r->distinct) && number_cell(&t, "%.4f", r->logprob);
    }
    ok = ok && table_print(&t, stdout, table_terminal_width());
    table_release(&t);
    return ok;
}

static bool print_json(const struct measure *m)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < N_SETTINGS; i++) {
        const struct trial *r = &m->trials[i];
        (void)json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "setting", settings[i].name,
                            "answers", (json_int_t)r->link.n, "tokens", (json_int_t)r->n_tokens,
                            "repeated", r->repeated, "distinct", r->distinct, "mean_logprob",
                            r->logprob)); /* a missing one shows in the count below */
    }
    bool is_whole = json_array_size(list) == N_SETTINGS;
    json_t *o = json_pack("{s:i, s:O, s:o, s:s}", "ngram", (int)m->ngram, "seed",
                          json_object_get(m->o.params, "seed"), "settings", list, "fingerprint",
                          engine_fingerprint(m->local.engine));
    struct buf out;
    buf_init(&out, OUTPUT_BYTES_MAX);
    bool ok = is_whole && o && jsonio_write(&out, o) && buf_puts(&out, "\n") &&
              fwrite(out.p, 1, out.len, stdout) == out.len;
    buf_release(&out);
    json_decref(o);
    return ok;
}

static bool measure(struct measure *m)
{
    if (!json_object_get(m->o.params, "seed") &&
        json_object_set_new(m->o.params, "seed", json_integer(1)) != 0) {
        return engine_fail(&m->err, ENGINE_NOMEM, "", "out of memory");
    }
    return ctl_local_open(&m->local, &m->o, &m->err) && run_all(m) &&
           ((m->o.is_json ? print_json(m) : print_table(m)) ||
            engine_fail(&m->err, ENGINE_IO, "", "the table cannot be written"));
}

static bool take_number(const char *value, long max, long *out)
{
    char *end;
    *out = strtol(value, &end, 10);
    return end != value && !*end && *out >= 1 && *out <= max;
}

static bool take_runs(const char *value, void *ud)
{
    return take_number(value, RUNS_MAX, &((struct measure *)ud)->runs);
}

static bool take_ngram(const char *value, void *ud)
{
    return take_number(value, NGRAM_MAX, &((struct measure *)ud)->ngram);
}

/* What the verb sets itself may not be given. */
static const char *foreign_param(const json_t *params)
{
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)params, name, v) {
        if (strcmp(name, "seed") != 0 && strcmp(name, "max_tokens") != 0) {
            return name;
        }
    }
    return NULL;
}

int ctl_degeneration(int argc, char **argv)
{
    static const struct ctl_local_own own[] = {
        {"runs", "a whole number from 1 to 32", take_runs},
        {"ngram", "a whole number from 1 to 32", take_ngram},
    };
    static struct measure m; /* large */
    memset(&m, 0, sizeof m);
    m.o = (struct ctl_local_options){.verb = "degeneration", .usage = usage};
    m.runs = RUNS_DEFAULT;
    m.ngram = NGRAM_DEFAULT;
    int status = ctl_local_parse(&m.o, argc, argv, own, sizeof own / sizeof *own, &m);
    const char *foreign = status < 0 ? foreign_param(m.o.params) : NULL;
    if (foreign) {
        status = ctl_local_usage_error(&m.o,
                                       "'%s' is what the settings compared differ in: leave "
                                       "it out",
                                       foreign);
    }
    if (status < 0) {
        status = measure(&m) ? 0 : m.err.code == ENGINE_BAD_PARAM ? 2 : 1;
        if (status) {
            (void)fprintf(stderr, "isothermctl degeneration: %s\n", m.err.text);
        }
        release(&m);
    }
    ctl_local_options_release(&m.o);
    return status;
}
