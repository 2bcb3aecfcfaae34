/* ctl_model_info.c - everything is gathered into one JSON object, which is printed as it is or as
 * lines. A model that the engine cannot use is described as far as its files go. */
#include "ctl_model.h"

#include "gateway/ctl/ctl_options.h"
#include "local-engine/gguf.h"
#include "local-engine/model.h"
#include "local-engine/weights.h"

#include <getopt.h> /* optind */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: isothermctl model info PATH [--json]\n"
    "\n"
    "What the model's files say: family, shape, tensors by type, tokenizer, chat template, and the "
    "memory that\n"
    "running it needs: the weights stay in the file, which is mapped; keys and values of a whole "
    "context are on top.\n";

/* ---- gathering */

static bool has_file(const struct weights *w, const char *name)
{
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/%s", weights_folder(w), name);
    return n > 0 && n < (int)sizeof path && access(path, R_OK) == 0;
}

static json_t *tokenizer_of(const struct weights *w)
{
    struct gguf_string s = {"", 0, false};
    const struct gguf *g = weights_gguf(w);
    if (g && gguf_get_string(g, "tokenizer.ggml.model", &s, NULL) && s.is_there) {
        json_t *name = json_stringn(s.text, s.len < 64 ? s.len : 64);
        return name ? name : json_string("unknown");
    }
    if (g && gguf_has(g, "tokenizer.huggingface.json")) {
        return json_string("tokenizer.json in the file");
    }
    return has_file(w, "tokenizer.json") ? json_string("tokenizer.json") : json_null();
}

static bool has_template(const struct weights *w)
{
    if (weights_gguf(w) && gguf_has(weights_gguf(w), "tokenizer.chat_template")) {
        return true;
    }
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/tokenizer_config.json", weights_folder(w));
    json_t *j = n > 0 && n < (int)sizeof path ? json_load_file(path, 0, NULL) : NULL;
    bool has = json_object_get(j, "chat_template") != NULL || has_file(w, "chat_template.jinja");
    json_decref(j);
    return has;
}

/* {"type": {"tensors", "bytes", "elements"}} */
static json_t *types_of(const struct weights *w)
{
    size_t n;
    const struct weights_tensor *t = weights_all(w, &n);
    json_t *types = json_object();
    for (size_t i = 0; i < n; i++) {
        json_t *was = json_object_get(types, t[i].type_name);
        json_int_t n_tensors = json_integer_value(json_object_get(was, "tensors"));
        json_int_t n_bytes = json_integer_value(json_object_get(was, "bytes"));
        json_int_t n_elements = json_integer_value(json_object_get(was, "elements"));
        (void)json_object_set_new(types, t[i].type_name,
                                  json_pack("{s:I,s:I,s:I}", "tensors", n_tensors + 1, "bytes",
                                            n_bytes + (json_int_t)t[i].n_bytes, "elements",
                                            n_elements + (json_int_t)t[i].n_elements));
    }
    return types;
}

/* Keys and values of a whole context, float32 (kvcache.h). */
static json_int_t cache_bytes(const struct model_shape *s)
{
    return (json_int_t)2 * s->n_layers * s->n_kv_heads * s->head_dim * 4 * s->context;
}

static void add_shape(json_t *o, const struct model_shape *s)
{
    json_t *shape = json_pack("{s:s,s:I,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:I}", "family",
                              s->family, "parameters", (json_int_t)s->n_params, "dtype", s->dtype,
                              "layers", (int)s->n_layers, "width", (int)s->dim, "heads",
                              (int)s->n_heads, "kv_heads", (int)s->n_kv_heads, "head_width",
                              (int)s->head_dim, "ffn", (int)s->ffn, "vocabulary", (int)s->n_vocab,
                              "context", (int)s->context, "cache_bytes", cache_bytes(s));
    (void)json_object_update(o, shape);
    json_decref(shape);
}

static json_t *gather(const char *path, const struct weights *w)
{
    struct model *m = NULL;
    struct engine_error err = {0};
    const struct gguf *g = weights_gguf(w);
    bool is_usable = model_open(&m, path, &err);
    json_t *o = json_pack(
        "{s:s,s:s,s:I,s:o,s:o,s:b,s:b}", "path", path, "format", g ? "gguf" : "safetensors",
        "file_bytes", (json_int_t)weights_file_bytes(w), "types", types_of(w), "tokenizer",
        tokenizer_of(w), "has_chat_template", has_template(w), "is_usable", is_usable);
    if (g) {
        (void)json_object_set_new(o, "gguf_version", json_integer(gguf_version(g)));
    }
    if (is_usable) {
        add_shape(o, model_get_shape(m));
    } else {
        const char *family = json_string_value(json_object_get(weights_config(w), "model_type"));
        (void)json_object_set_new(o, "family", json_string(family ? family : "unknown"));
        (void)json_object_set_new(o, "why_not", json_string(err.text));
    }
    model_close(m);
    return o;
}

/* ---- printing */

static const char *format_bytes(json_int_t n, char buf[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)n;
    int u = 0;
    for (; x >= 1024.0 && u < 4; u++) {
        x /= 1024.0;
    }
    (void)snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", x, units[u]);
    return buf;
}

static void print_types(const json_t *types)
{
    const char *name;
    json_t *t;
    char buf[32];
    json_object_foreach ((json_t *)(uintptr_t)types, name, t) {
        json_int_t n = json_integer_value(json_object_get(t, "tensors"));
        (void)printf("  %-12s %" JSON_INTEGER_FORMAT " tensor%s, %s\n", name, n, n == 1 ? "" : "s",
                     format_bytes(json_integer_value(json_object_get(t, "bytes")), buf));
    }
}

static json_int_t number(const json_t *o, const char *field)
{
    return json_integer_value(json_object_get(o, field));
}

static void print_text(const json_t *o)
{
    char buf[32], cache[32];
    const json_t *tokenizer = json_object_get(o, "tokenizer");
    const char *why = json_string_value(json_object_get(o, "why_not"));
    (void)printf("family         %s\n", json_string_value(json_object_get(o, "family")));
    (void)printf("format         %s", json_string_value(json_object_get(o, "format")));
    if (json_object_get(o, "gguf_version")) {
        (void)printf(" version %" JSON_INTEGER_FORMAT, number(o, "gguf_version"));
    }
    (void)printf(", %s\n", format_bytes(number(o, "file_bytes"), buf));
    if (!why) {
        (void)printf("parameters     %" JSON_INTEGER_FORMAT ", most in %s\n",
                     number(o, "parameters"), json_string_value(json_object_get(o, "dtype")));
        (void)printf("shape          %" JSON_INTEGER_FORMAT " layers of %" JSON_INTEGER_FORMAT
                     ", ffn %" JSON_INTEGER_FORMAT "\n",
                     number(o, "layers"), number(o, "width"), number(o, "ffn"));
        (void)printf("heads          %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                     ", %" JSON_INTEGER_FORMAT " for keys and values\n",
                     number(o, "heads"), number(o, "head_width"), number(o, "kv_heads"));
        (void)printf("vocabulary     %" JSON_INTEGER_FORMAT "\n", number(o, "vocabulary"));
        (void)printf("context        %" JSON_INTEGER_FORMAT "\n", number(o, "context"));
    }
    (void)printf("tokenizer      %s\n",
                 json_is_string(tokenizer) ? json_string_value(tokenizer) : "none");
    (void)printf("chat template  %s\n",
                 json_is_true(json_object_get(o, "has_chat_template")) ? "yes" : "none");
    (void)printf("tensors\n");
    print_types(json_object_get(o, "types"));
    if (why) {
        (void)printf("not usable     %s\n", why);
    } else {
        (void)printf(
            "memory         %s of mapped file, %s for keys and values of a whole context\n", buf,
            format_bytes(number(o, "cache_bytes"), cache));
    }
}

int ctl_model_info(int argc, char **argv)
{
    bool is_json = false;
    struct weights *w = NULL;
    struct engine_error err = {0};
    const struct ctl_option options[] = {{.name = "json", .flag = &is_json}};
    const struct ctl_verb verb = {"model info", usage, 1, "one PATH is needed", options, 1};
    int status = ctl_options_parse(&verb, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (!weights_open(&w, argv[optind], &err)) {
        (void)fprintf(stderr, "isothermctl model info: %s\n", err.text);
        return 1;
    }
    json_t *o = gather(argv[optind], w);
    weights_close(w);
    if (!o) {
        (void)fputs("isothermctl model info: out of memory, or the path is no UTF-8\n", stderr);
        return 1;
    }
    if (is_json) {
        (void)json_dumpf(o, stdout, JSON_INDENT(2));
        (void)putchar('\n');
    } else {
        print_text(o);
    }
    json_decref(o);
    return 0;
}
