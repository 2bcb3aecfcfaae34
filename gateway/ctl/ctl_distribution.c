/* ctl_distribution.c - one session that generates nothing, and two tables: the stages, and the
 * tokens with a column for every stage that changed something. */
#include "gateway/ctl/ctl_distribution.h"

#include "gateway/base/jsonio.h"
#include "gateway/ctl/ctl_local.h"
#include "gateway/ctl/table.h"
#include "local-engine/distribution_json.h"
#include "local-engine/token_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BYTES_MAX (16u << 20)
#define TOP_DEFAULT      20
#define BAR_CELLS        24
#define FULL_BLOCK       "\xe2\x96\x88"

static const char usage[] =
    "usage: isothermctl distribution [-m MODEL] --prompt TEXT [options]\n"
    "Shows the distribution of the next token and what each stage of the sampler makes of it: "
    "which\n"
    "tokens it cuts, the probabilities after it, entropy in nats and the effective number of "
    "choices.\n" CTL_LOCAL_HELP_MODEL
    "      --generated TEXT       follows the prompt as if the model had said it: penalties count "
    "it\n"
    "      --top N                tokens to show (default 20, at most "
    "1000)\n" CTL_LOCAL_HELP_SAMPLING CTL_LOCAL_HELP_END;

struct show {
    struct ctl_local_options o;
    struct ctl_local local;
    struct engine_error err;
    const char *generated;
    size_t n_given;
    long top;
    bool is_printed;
};

/* ---- tables */

static bool cell(struct table *t, const char *fmt, double x)
{
    char text[40];
    (void)snprintf(text, sizeof text, fmt, x);
    return table_cell(t, text);
}

static bool print_stages(const struct distribution *d)
{
    static const struct table_column columns[] = {
        {"stage", false, 0, 0},  {"tokens", true, 0, 0},    {"kept", true, 0, 1},
        {"entropy", true, 0, 0}, {"effective", true, 0, 0}, {"", false, 0, 2},
    };
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    bool ok = true;
    for (size_t i = 0; ok && i < d->n_stages; i++) {
        const struct distribution_stage *s = &d->stages[i];
        ok = table_cell(&t, s->name) && cell(&t, "%.0f", (double)s->n_tokens) &&
             cell(&t, "%.6f", s->kept) && cell(&t, "%.4f", s->entropy) &&
             cell(&t, "%.2f", s->n_effective) &&
             table_cell(&t, i > 0 && !s->has_changed ? "no change" : "");
    }
    ok = ok && table_print(&t, stdout, table_terminal_width());
    table_release(&t);
    return ok;
}

static bool token_cell(struct table *t, const struct tokenizer *tokenizer, int32_t id,
                       bool is_first)
{
    json_t *named = token_json(tokenizer, id, is_first);
    char *text = json_dumps(json_object_get(named, "token"), JSON_ENCODE_ANY);
    bool ok = text && table_cell(t, text);
    free(text);
    json_decref(named);
    return ok;
}

static bool bar_cell(struct table *t, double p, double most)
{
    char text[BAR_CELLS * sizeof FULL_BLOCK] = "";
    size_t n = most > 0 ? (size_t)(p / most * BAR_CELLS + 0.5) : 0;
    n = n == 0 && p > 0 ? 1 : n;
    for (size_t i = 0; i < n; i++) {
        memcpy(text + i * (sizeof FULL_BLOCK - 1), FULL_BLOCK, sizeof FULL_BLOCK);
    }
    return table_cell(t, text);
}

/* Stages with a column: the first, and those that changed something. */
static size_t shown_stages(const struct distribution *d, size_t shown[DISTRIBUTION_STAGES_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_stages && n < TABLE_COLUMNS_MAX - 5; i++) {
        if (i == 0 || d->stages[i].has_changed) {
            shown[n++] = i;
        }
    }
    return n;
}

static bool token_row(struct table *t, const struct distribution *d, size_t k, const size_t *shown,
                      size_t n_shown, double most, const struct tokenizer *tokenizer, bool is_first)
{
    const struct distribution_token *token = &d->tokens[k];
    bool ok = token_cell(t, tokenizer, token->id, is_first) && cell(t, "%.0f", token->id) &&
              cell(t, "%.4f", token->logit);
    for (size_t i = 0; ok && i < n_shown; i++) {
        ok = cell(t, "%.6f", token->p[shown[i]]);
    }
    return ok && table_cell(t, token->cut_by ? token->cut_by : "") &&
           bar_cell(t, token->p[d->n_stages - 1], most);
}

static bool print_tokens(const struct distribution *d, const struct tokenizer *tokenizer,
                         bool is_first)
{
    struct table_column columns[TABLE_COLUMNS_MAX] = {
        {"token", false, 8, 0}, {"id", true, 0, 2}, {"logit", true, 0, 1}};
    size_t shown[DISTRIBUTION_STAGES_MAX], n_shown = shown_stages(d, shown), n = 3;
    double most = 0.0;
    struct table t;
    for (size_t i = 0; i < n_shown; i++) {
        columns[n++] = (struct table_column){d->stages[shown[i]].name, true, 0, 0};
    }
    columns[n++] = (struct table_column){"cut by", false, 0, 0};
    columns[n++] = (struct table_column){"", false, 0, 3};
    for (size_t k = 0; k < d->n_tokens; k++) {
        double p = d->tokens[k].p[d->n_stages - 1];
        most = p > most ? p : most;
    }
    table_init(&t, columns, n);
    bool ok = true;
    for (size_t k = 0; ok && k < d->n_tokens; k++) {
        ok = token_row(&t, d, k, shown, n_shown, most, tokenizer, is_first);
    }
    ok = ok && table_print(&t, stdout, table_terminal_width());
    table_release(&t);
    return ok;
}

/* ---- the session */

static bool print_json(const struct show *s, const struct session_event *ev)
{
    json_t *o =
        distribution_json(ev->distribution, engine_tokenizer(s->local.engine), ev->is_first);
    struct buf out;
    buf_init(&out, OUTPUT_BYTES_MAX);
    bool ok =
        o &&
        json_object_set_new(o, "prompt_tokens", json_integer((json_int_t)s->local.n_prompt)) == 0 &&
        json_object_set_new(o, "fingerprint", json_string(engine_fingerprint(s->local.engine))) ==
            0 &&
        jsonio_write(&out, o) && buf_puts(&out, "\n") &&
        fwrite(out.p, 1, out.len, stdout) == out.len;
    buf_release(&out);
    json_decref(o);
    return ok;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct show *s = ud;
    if (ev->kind == SESSION_ERROR) {
        s->err = *ev->error;
    } else if (ev->kind == SESSION_DISTRIBUTION) {
        const struct tokenizer *t = engine_tokenizer(s->local.engine);
        s->is_printed = s->o.is_json ? print_json(s, ev)
                                     : print_stages(ev->distribution) && putchar('\n') != EOF &&
                                           print_tokens(ev->distribution, t, ev->is_first);
    }
}

static bool run(struct show *s)
{
    struct session *session;
    if (!ctl_local_open(&s->local, &s->o, &s->err) ||
        (s->generated && !ctl_local_append(&s->local, s->generated, &s->n_given, &s->err))) {
        return false;
    }
    struct session_request r =
        link_params_request(&s->local.params, s->local.prompt, s->local.n_prompt);
    r.n_distribution = (uint32_t)s->top;
    r.n_given = s->n_given;
    if (!session_start(s->local.engine, &r, on_event, s, &session, &s->err)) {
        return false;
    }
    while (!session_is_done(session)) {
        (void)engine_step(s->local.engine);
    }
    session_free(session);
    if (s->err.code == ENGINE_OK && !s->is_printed) {
        (void)engine_fail(&s->err, ENGINE_IO, "", "the distribution cannot be written");
    }
    return s->err.code == ENGINE_OK;
}

static bool take_top(const char *value, void *ud)
{
    struct show *s = ud;
    char *end;
    s->top = strtol(value, &end, 10);
    return end != value && !*end && s->top >= 1 && s->top <= DISTRIBUTION_TOP_MAX;
}

static bool take_generated(const char *value, void *ud)
{
    ((struct show *)ud)->generated = value;
    return true;
}

int ctl_distribution(int argc, char **argv)
{
    static const struct ctl_local_own own[] = {
        {"top", "a whole number from 1 to 1000", take_top},
        {"generated", "a text", take_generated},
    };
    struct show s = {.o = {.verb = "distribution", .usage = usage}, .top = TOP_DEFAULT};
    int status = ctl_local_parse(&s.o, argc, argv, own, sizeof own / sizeof *own, &s);
    if (status < 0) {
        status = run(&s) ? 0 : s.err.code == ENGINE_BAD_PARAM ? 2 : 1;
        if (status) {
            (void)fprintf(stderr, "isothermctl distribution: %s\n", s.err.text);
        }
        ctl_local_close(&s.local);
    }
    ctl_local_options_release(&s.o);
    return status;
}
