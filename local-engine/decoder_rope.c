/* decoder_rope.c - rotary positions as config.json describes them: rope_theta, and rope_scaling or
 * (newer files) rope_parameters, which may hold an object for each kind of layer. Where a file says
 * the same field twice, the one that transformers 5 reads counts. */
#include "decoder.h"

#include "rope.h"

#include <stdio.h>
#include <string.h>

#define FACTOR_MAX 1e6

struct description {
    const json_t *config;
    char where[64]; /* "rope_scaling.": what a field's name begins with */
    double theta;
    double *frequency; /* [n] */
    size_t n;
    double gain;
    int32_t *context; /* of the model's shape */
};

static const char *path_of(const struct description *d, const char *field, char buf[128])
{
    (void)snprintf(buf, 128, "%s%s", d->where, field);
    return buf;
}

static const json_t *find(const struct description *d, const char *field)
{
    char path[128];
    const json_t *v = model_config_find(d->config, path_of(d, field, path));
    return json_is_null(v) ? NULL : v;
}

static bool real(const struct description *d, const char *field, double min, double max,
                 double fallback, double *out, struct engine_error *err)
{
    char path[128];
    return model_config_real(d->config, path_of(d, field, path), min, max, fallback, out, err);
}

static bool factor(const struct description *d, double *out, struct engine_error *err)
{
    return real(d, "factor", 1.0, FACTOR_MAX, MODEL_CONFIG_REAL_REQUIRED, out, err);
}

/* The context that the model was trained on: in the file itself (phi3), else beside the scaling. */
static bool original(const struct description *d, double fallback, double *out,
                     struct engine_error *err)
{
    static const char *const field = "original_max_position_embeddings";
    const json_t *own = json_object_get(d->config, field);
    return !own || json_is_null(own)
               ? real(d, field, 2.0, MODEL_CONTEXT_MAX, fallback, out, err)
               : model_config_real(d->config, field, 2.0, MODEL_CONTEXT_MAX, fallback, out, err);
}

static bool scale_linear(struct description *d, struct engine_error *err)
{
    double by;
    if (!factor(d, &by, err)) {
        return false;
    }
    rope_scale_linear(d->frequency, d->n, by);
    return true;
}

static bool scale_llama3(struct description *d, struct engine_error *err)
{
    struct rope_llama3 s;
    if (!factor(d, &s.factor, err) ||
        !real(d, "low_freq_factor", 1e-6, FACTOR_MAX, MODEL_CONFIG_REAL_REQUIRED, &s.low_factor,
              err) ||
        !real(d, "high_freq_factor", 1e-6, FACTOR_MAX, MODEL_CONFIG_REAL_REQUIRED, &s.high_factor,
              err) ||
        !original(d, MODEL_CONFIG_REAL_REQUIRED, &s.original, err)) {
        return false;
    }
    if (s.high_factor <= s.low_factor) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: '%shigh_freq_factor' is %g, more than low_freq_factor %g "
                           "expected",
                           model_config_file(d->config), d->where, s.high_factor, s.low_factor);
    }
    rope_scale_llama3(d->frequency, d->n, &s);
    return true;
}

static bool yarn_gain(struct description *d, double by, struct engine_error *err)
{
    double mscale, mscale_all;
    if (!real(d, "mscale", 0.0, FACTOR_MAX, 0.0, &mscale, err) ||
        !real(d, "mscale_all_dim", 0.0, FACTOR_MAX, 0.0, &mscale_all, err)) {
        return false;
    }
    bool has_both = mscale > 0.0 && mscale_all > 0.0;
    double gain = has_both ? rope_yarn_gain(by, mscale) / rope_yarn_gain(by, mscale_all)
                           : rope_yarn_gain(by, 1.0);
    return real(d, "attention_factor", 1e-6, FACTOR_MAX, gain, &d->gain, err);
}

/* The files that hold YaRN's fields often keep max_position_embeddings at what it was before: the
 * context grows to what the scaling is made for. */
static bool scale_yarn(struct description *d, struct engine_error *err)
{
    struct rope_yarn s = {.theta = d->theta};
    char path[128];
    if (d->theta <= 1.0) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: 'rope_theta' is 1, yarn needs more",
                           model_config_file(d->config));
    }
    if (!factor(d, &s.factor, err) || !original(d, (double)*d->context, &s.original, err) ||
        !real(d, "beta_fast", 1e-6, FACTOR_MAX, 32.0, &s.fast, err) ||
        !real(d, "beta_slow", 1e-6, FACTOR_MAX, 1.0, &s.slow, err) ||
        !model_config_bool(d->config, path_of(d, "truncate", path), true, &s.is_whole, err) ||
        !yarn_gain(d, s.factor, err)) {
        return false;
    }
    rope_scale_yarn(d->frequency, d->n, &s);
    double reach = s.original * s.factor;
    reach = reach < MODEL_CONTEXT_MAX ? reach : MODEL_CONTEXT_MAX;
    *d->context = reach > (double)*d->context && find(d, "original_max_position_embeddings")
                      ? (int32_t)reach
                      : *d->context;
    return true;
}

/* Frequency i is divided by element i of a list. */
static bool divide_by_list(struct description *d, const char *field, struct engine_error *err)
{
    const json_t *list = find(d, field);
    if (!json_is_array(list) || json_array_size(list) != d->n) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: '%s%s' must be a list of %zu numbers",
                           model_config_file(d->config), d->where, field, d->n);
    }
    for (size_t i = 0; i < d->n; i++) {
        double x = json_number_value(json_array_get(list, i)); /* 0 for what is none */
        if (!(x >= 1e-6 && x <= FACTOR_MAX)) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "%s: '%s%s' has %g at %zu, 1e-6 to %g expected",
                               model_config_file(d->config), d->where, field, x, i, FACTOR_MAX);
        }
        d->frequency[i] /= x;
    }
    return true;
}

/* Dynamic scaling changes nothing within max_position_embeddings, and beyond it every frequency
 * with every token. Sequences end there. */
static bool scale_dynamic(struct description *d, struct engine_error *err)
{
    double by;
    return factor(d, &by, err);
}

/* LongRoPE has one list for texts within the original context and another for longer ones, and a
 * text that grows past it would change all its keys. Sequences end at the original context here,
 * so the short list is always the right one. */
static bool scale_long(struct description *d, struct engine_error *err)
{
    double first, by;
    if (!original(d, (double)*d->context, &first, err)) {
        return false;
    }
    bool has_original = find(d, "original_max_position_embeddings") ||
                        model_config_find(d->config, "original_max_position_embeddings");
    bool needs_factor = !has_original && !find(d, "attention_factor");
    by = (double)*d->context / first;
    if (((find(d, "factor") || needs_factor) && !factor(d, &by, err)) ||
        !real(d, "attention_factor", 1e-6, FACTOR_MAX, rope_long_gain(by, first), &d->gain, err) ||
        !divide_by_list(d, "short_factor", err)) {
        return false;
    }
    *d->context = first < (double)*d->context ? (int32_t)first : *d->context;
    return true;
}

static bool scale_factors(struct description *d, struct engine_error *err)
{
    return divide_by_list(d, "factors", err);
}

static bool scale_none(struct description *d, struct engine_error *err)
{
    (void)d, (void)err;
    return true;
}

static const struct {
    const char *type;
    bool (*scale)(struct description *d, struct engine_error *err);
} TYPES[] = {{"default", scale_none},    {"linear", scale_linear},  {"llama3", scale_llama3},
             {"yarn", scale_yarn},       {"longrope", scale_long},  {"su", scale_long},
             {"dynamic", scale_dynamic}, {"factors", scale_factors}};

static bool scale(struct description *d, struct engine_error *err)
{
    const json_t *type = find(d, "rope_type");
    type = type ? type : find(d, "type"); /* the older name */
    const char *word = type ? json_string_value(type) : "default";
    for (size_t i = 0; word && i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (strcmp(word, TYPES[i].type) == 0) {
            return TYPES[i].scale(d, err);
        }
    }
    return engine_fail(err, ENGINE_BAD_FILE, "",
                       "%s: '%srope_type' is '%.40s': default, linear, dynamic, llama3, yarn or "
                       "longrope expected",
                       model_config_file(d->config), d->where, word ? word : "no text");
}

/* Where the rotary positions of that kind are described; "" for nowhere. */
static bool find_description(struct description *d, enum model_rope_kind kind,
                             struct engine_error *err)
{
    static const char *const by_layer[MODEL_ROPES] = {"rope_parameters.full_attention",
                                                      "rope_parameters.sliding_attention"};
    const json_t *scaling = json_object_get(d->config, "rope_scaling");
    const json_t *parameters = json_object_get(d->config, "rope_parameters");
    const json_t *found = model_config_find(d->config, by_layer[kind]);
    const char *where = by_layer[kind];
    if (!found && kind == MODEL_ROPE_GLOBAL) {
        bool is_new = (!scaling || json_is_null(scaling)) && parameters;
        found = is_new ? parameters : scaling;
        where = is_new ? "rope_parameters" : "rope_scaling";
    }
    if (found && !json_is_null(found) && !json_is_object(found)) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: '%s' must be an object",
                           model_config_file(d->config), where);
    }
    (void)snprintf(d->where, sizeof d->where, "%s.", where);
    return true;
}

bool decoder_configure_rope(struct model *m, enum model_rope_kind kind, const json_t *config,
                            const char *theta_field, double theta, struct engine_error *err)
{
    struct description d = {
        .config = config, .n = (size_t)m->n_rotated / 2, .gain = 1.0, .context = &m->shape.context};
    char path[128];
    if (!find_description(&d, kind, err)) {
        return false;
    }
    const char *field = find(&d, "rope_theta") ? path_of(&d, "rope_theta", path) : theta_field;
    d.frequency = model_own(m, d.n, sizeof *d.frequency, err);
    if (!d.frequency || !model_config_real(config, field, 1.0, 1e12, theta, &d.theta, err)) {
        return false;
    }
    rope_frequencies(d.theta, m->n_rotated, d.frequency);
    if (!scale(&d, err)) {
        return false;
    }
    m->rope[kind] = (struct model_rope){d.frequency, d.gain};
    m->n_ropes = (size_t)kind + 1;
    return true;
}
