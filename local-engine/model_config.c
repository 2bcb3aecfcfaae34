/* model_config.c - reads config.json: every field has a type and a range, and what we do not
 * compute is refused by name. */
#include "model_private.h"

#include "jsontree.h"

#include <math.h>
#include <string.h>

const char *model_config_file(const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "_file"));
    return name ? name : "config.json";
}

json_t *model_config_parse(const char *text, size_t n, struct engine_error *err)
{
    json_error_t je = {.text = "too many values"};
    json_t *config =
        jsontree_fits(text, n) ? json_loadb(text, n, JSON_REJECT_DUPLICATES, &je) : NULL;
    if (!json_is_object(config)) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "config.json: is no JSON object: %.100s",
                          config ? "another kind of value" : je.text);
        json_decref(config);
        return NULL;
    }
    (void)json_object_del(config, "_file"); /* not the file's own word */
    return config;
}

static bool fail(const json_t *config, struct engine_error *err, const char *field,
                 const char *what)
{
    return engine_fail(err, ENGINE_BAD_FILE, "", "%s: '%s' %s", model_config_file(config), field,
                       what);
}

static const json_t *get(const json_t *config, const char *field)
{
    const json_t *v = model_config_find(config, field);
    return json_is_null(v) ? NULL : v;
}

const json_t *model_config_find(const json_t *config, const char *field)
{
    const char *dot = strchr(field, '.');
    for (; config && dot; dot = strchr(field, '.')) {
        char part[40];
        (void)snprintf(part, sizeof part, "%.*s", (int)(dot - field), field);
        config = json_object_get(config, part);
        field = dot + 1;
    }
    return json_object_get(config, field);
}

bool model_config_int(const json_t *config, const char *field, int64_t min, int64_t max,
                      int64_t fallback, int32_t *out, struct engine_error *err)
{
    const json_t *v = get(config, field);
    if (!v && fallback == MODEL_CONFIG_REQUIRED) {
        return fail(config, err, field, "is missing");
    }
    if (v && !json_is_integer(v)) {
        return fail(config, err, field, "must be a whole number");
    }
    int64_t n = v ? json_integer_value(v) : fallback;
    if (n < min || n > max) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: '%s' is %lld, %lld to %lld expected",
                           model_config_file(config), field, (long long)n, (long long)min,
                           (long long)max);
    }
    *out = (int32_t)n;
    return true;
}

bool model_config_real(const json_t *config, const char *field, double min, double max,
                       double fallback, double *out, struct engine_error *err)
{
    const json_t *v = get(config, field);
    if (!v && isnan(fallback)) {
        return fail(config, err, field, "is missing");
    }
    if (v && !json_is_number(v)) {
        return fail(config, err, field, "must be a number");
    }
    double x = v ? json_number_value(v) : fallback;
    if (!(x >= min && x <= max)) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: '%s' is %g, %g to %g expected",
                           model_config_file(config), field, x, min, max);
    }
    *out = x;
    return true;
}

bool model_config_bool(const json_t *config, const char *field, bool fallback, bool *out,
                       struct engine_error *err)
{
    const json_t *v = get(config, field);
    if (v && !json_is_boolean(v)) {
        return fail(config, err, field, "must be true or false");
    }
    *out = v ? json_is_true(v) : fallback;
    return true;
}

bool model_config_word(const json_t *config, const char *field, const char *want,
                       struct engine_error *err)
{
    const json_t *v = get(config, field);
    const char *word = json_string_value(v);
    if (v && (!word || strcmp(word, want) != 0)) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: '%s' is '%.60s', only '%s' is supported",
                           model_config_file(config), field, word ? word : "no text", want);
    }
    return true;
}

bool model_config_flag(const json_t *config, const char *field, bool want, struct engine_error *err)
{
    bool is = want;
    if (!model_config_bool(config, field, want, &is, err)) {
        return false;
    }
    return is == want ||
           engine_fail(err, ENGINE_BAD_FILE, "", "%s: '%s' is %s, which is not supported",
                       model_config_file(config), field, is ? "true" : "false");
}

bool model_config_absent(const json_t *config, const char *field, const char *why,
                         struct engine_error *err)
{
    return !get(config, field) || fail(config, err, field, why);
}
