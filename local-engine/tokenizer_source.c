/* tokenizer_source.c - see tokenizer_source.h. */
#include "tokenizer_source.h"

#include "tokenizer_gguf.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

/* The metadata's ids in the words of tokenizer_config.json; yours. */
static json_t *config_of(const struct gguf *g, struct engine_error *err)
{
    static const char *const ids[][2] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                         {"eos_token_id", "tokenizer.ggml.eos_token_id"}};
    json_t *config = json_object();
    bool ok = config != NULL, adds_bos;
    for (size_t i = 0; ok && i < 2; i++) {
        int64_t id;
        ok = gguf_get_int(g, ids[i][1], 0, INT32_MAX, -1, &id, err) &&
             (id < 0 || json_object_set_new(config, ids[i][0], json_integer(id)) == 0);
    }
    ok = ok && gguf_get_bool(g, "tokenizer.ggml.add_bos_token", false, &adds_bos, err) &&
         json_object_set_new(config, "add_bos_token", json_boolean(adds_bos)) == 0;
    if (!ok) {
        json_decref(config);
        (void)engine_fail(err, ENGINE_NOMEM, "", "out of memory for the tokenizer");
        return NULL;
    }
    return config;
}

static bool from_json(struct tokenizer **out, const struct gguf *g, struct engine_error *err)
{
    struct gguf_string text, config;
    if (!gguf_get_string(g, TOKENIZER_SOURCE_JSON, &text, err) ||
        !gguf_get_string(g, TOKENIZER_SOURCE_CONFIG, &config, err)) {
        return false;
    }
    if (config.is_there) {
        return tokenizer_parse(out, text.text, text.len, config.text, config.len, err);
    }
    json_t *ids = config_of(g, err);
    char *words = ids ? json_dumps(ids, JSON_COMPACT) : NULL;
    bool ok = words && tokenizer_parse(out, text.text, text.len, words, strlen(words), err);
    free(words);
    json_decref(ids);
    return ok || engine_fail(err, ENGINE_NOMEM, "", "out of memory for the tokenizer");
}

bool tokenizer_source_open(struct tokenizer_source *out, const struct weights *w,
                           struct engine_error *err)
{
    const struct gguf *g = weights_gguf(w);
    struct tokenizer_files *files = NULL;
    bool is_own = g && (gguf_has(g, TOKENIZER_SOURCE_JSON) || gguf_has(g, "tokenizer.ggml.model"));
    if (!is_own && !tokenizer_files_open(&files, weights_folder(w), err)) {
        return false;
    }
    *out = (struct tokenizer_source){w, files};
    return true;
}

void tokenizer_source_close(struct tokenizer_source *s)
{
    tokenizer_files_close(s->files);
    *s = (struct tokenizer_source){NULL, NULL};
}

void tokenizer_source_forget(const struct tokenizer_source *s)
{
    if (s->files) {
        tokenizer_files_forget(s->files);
    }
}

bool tokenizer_source_read(const struct tokenizer_source *s, struct tokenizer **out,
                           struct engine_error *err)
{
    if (s->files) {
        return tokenizer_files_read(s->files, out, err);
    }
    const struct gguf *g = weights_gguf(s->weights);
    return gguf_has(g, TOKENIZER_SOURCE_JSON) ? from_json(out, g, err)
                                              : tokenizer_from_gguf(out, g, err);
}

bool tokenizer_source_tokenizer(struct tokenizer **out, const struct weights *w,
                                struct engine_error *err)
{
    struct tokenizer_source s;
    if (!tokenizer_source_open(&s, w, err)) {
        return false;
    }
    bool ok = tokenizer_source_read(&s, out, err);
    tokenizer_source_close(&s);
    return ok;
}
