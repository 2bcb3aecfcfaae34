/* sample_beam.c - a table of log-probabilities in place of a model. */
#include "gateway/ctl/sample_beam.h"

#include "gateway/ctl/sample_fields.h"
#include "local-engine/beam.h"

#include <stdlib.h>

#define RANKED_MIN 5
#define STEPS_MAX  4096

struct search {
    int64_t order, n_vocab, eos;
    const json_t *rows;
    double **scores; /* [rows], each [n_vocab] */
    size_t n_rows;
    struct beam_config config;
    struct beam *beam;
};

static void search_release(struct search *s)
{
    for (size_t i = 0; s->scores && i < s->n_rows; i++) {
        free(s->scores[i]);
    }
    free(s->scores);
    beam_free(s->beam);
}

/* Every row that a sequence can lead to. */
static bool read_rows(struct search *s, struct engine_error *err)
{
    size_t n_states = (size_t)s->n_vocab + 1;
    s->n_rows = json_array_size(s->rows);
    if (s->n_rows != (s->order == 1 ? n_states : n_states * n_states)) {
        sample_refuse(err, "logprobs", "a row for each token, or pair, before");
        return false;
    }
    s->scores = calloc(s->n_rows, sizeof(*s->scores));
    for (size_t i = 0; s->scores && i < s->n_rows; i++) {
        const json_t *row = json_array_get(s->rows, i);
        if (json_array_size(row) != (size_t)s->n_vocab) {
            sample_refuse(err, "logprobs", "rows of the vocabulary's size");
            return false;
        }
        s->scores[i] = sample_numbers_of(row, "logprobs", err);
        if (!s->scores[i]) {
            return false;
        }
    }
    return s->scores || sample_no_memory(err);
}

static bool check(const struct search *s, int64_t width, struct engine_error *err)
{
    const char *field = NULL, *must = NULL;
    if (s->order != 1 && s->order != 2) {
        field = "order", must = "1 or 2";
    } else if (s->n_vocab < 1 || s->n_vocab > SAMPLE_LIST_MAX) {
        field = "vocab", must = "a possible size";
    } else if (s->eos < 0 || s->eos >= s->n_vocab) {
        field = "eos", must = "a token id of the vocabulary";
    } else if (width < 1 || width > BEAM_WIDTH_MAX) {
        field = "beam_width", must = "between 1 and 64";
    } else if (s->config.len_max < 0 || s->config.len_max > STEPS_MAX) {
        field = "max_len", must = "between 0 and 4096";
    } else if (!(s->config.length_penalty >= -100 && s->config.length_penalty <= 100)) {
        field = "alpha", must = "between -100 and 100";
    }
    if (field) {
        sample_refuse(err, field, must);
    }
    return !field;
}

static bool search_init(struct search *s, const json_t *in, struct engine_error *err)
{
    int64_t width = 1;
    s->order = 1;
    s->config.length_penalty = 1.0;
    s->rows = sample_get_array(in, "logprobs", SAMPLE_LIST_MAX, err);
    if (!s->rows || !sample_get_int(in, "order", &s->order, err) ||
        !sample_get_int(in, "vocab", &s->n_vocab, err) ||
        !sample_get_int(in, "eos", &s->eos, err) ||
        !sample_get_int(in, "beam_width", &width, err) ||
        !sample_get_int(in, "max_len", &s->config.len_max, err) ||
        !sample_get_number(in, "alpha", &s->config.length_penalty, err) || !check(s, width, err) ||
        !read_rows(s, err)) {
        return false;
    }
    s->config.width = (uint32_t)width;
    s->config.n_best = (uint32_t)(width > RANKED_MIN ? width : RANKED_MIN);
    return beam_new(&s->beam, &s->config, err);
}

static const double *row_after(const struct search *s, int32_t node)
{
    int32_t tokens[STEPS_MAX];
    size_t n = beam_depth(s->beam, node);
    beam_tokens(s->beam, node, tokens, NULL);
    size_t last = n > 0 ? (size_t)tokens[n - 1] + 1 : 0;
    size_t previous = n > 1 ? (size_t)tokens[n - 2] + 1 : 0;
    return s->scores[s->order == 1 ? last : previous * ((size_t)s->n_vocab + 1) + last];
}

static bool on_new(const struct beam *b, int32_t node, uint32_t parent, bool *ends, void *ud,
                   struct engine_error *err)
{
    const struct search *s = ud;
    (void)parent;
    (void)err;
    *ends = beam_token(b, node) == s->eos;
    return true;
}

static json_t *tokens_list(const struct search *s, int32_t node)
{
    int32_t tokens[STEPS_MAX];
    json_t *list = json_array();
    beam_tokens(s->beam, node, tokens, NULL);
    for (size_t i = 0; i < beam_depth(s->beam, node); i++) {
        (void)json_array_append_new(list, json_integer(tokens[i]));
    }
    return list;
}

static json_t *search_results(const struct search *s)
{
    const struct beam_result *r;
    size_t n = beam_results(s->beam, &r);
    json_t *ranked = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(
            ranked, json_pack("[o,f,f]", tokens_list(s, r[i].node), r[i].score, r[i].total));
    }
    return json_pack("{s:o,s:o}", "best", tokens_list(s, n > 0 ? r[0].node : -1), "ranked", ranked);
}

json_t *sample_beam_search(const json_t *in, struct engine_error *err)
{
    struct search s = {.order = 1};
    bool ok = search_init(&s, in, err);
    while (ok && beam_n_alive(s.beam) > 0) {
        for (uint32_t i = 0; i < beam_n_alive(s.beam); i++) {
            beam_offer(s.beam, i, row_after(&s, beam_node(s.beam, i)), (int32_t)s.n_vocab);
        }
        ok = beam_step(s.beam, on_new, &s, err);
    }
    json_t *out = ok ? search_results(&s) : NULL;
    search_release(&s);
    return out;
}
