/* fuzz_config_json.c - any bytes as config.json: refused with one line that names the file, or a
 * shape within the limits that the forward pass was written for. */
#include "local-engine/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_refusal(const struct engine_error *err, const struct model_shape *untouched)
{
    return err->code != ENGINE_OK && strncmp(err->text, "config.json: ", 13) == 0 &&
           !strpbrk(err->text, "\n\r\t") && untouched->n_layers == 0;
}

static bool is_shape(const struct model_shape *s)
{
    const int32_t n[] = {s->n_vocab, s->n_layers, s->dim,     s->ffn,
                         s->context, s->head_dim, s->n_heads, s->n_kv_heads};
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) {
        if (n[i] < 1) {
            return false;
        }
    }
    return s->family[0] != '\0' && s->n_heads % s->n_kv_heads == 0 &&
           (int64_t)s->n_heads * s->head_dim <= 1 << 20;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine_error err = {0};
    struct model_shape s = {0};
    bool ok = model_read_config((const char *)data, size, &s, &err);
    if (ok ? !is_shape(&s) : !is_refusal(&err, &s)) {
        abort();
    }
    return 0;
}
