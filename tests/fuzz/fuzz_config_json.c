/* fuzz_config_json.c - any bytes as config.json: refused with one line that names the file, or a
 * shape within the limits that the forward pass was written for. */
#include "local-engine/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine_error err = {0};
    struct model_shape s = {0};
    if (!model_read_config((const char *)data, size, &s, &err)) {
        if (err.code == ENGINE_OK || strncmp(err.text, "config.json: ", 13) != 0 ||
            strpbrk(err.text, "\n\r\t") || s.n_layers != 0) {
            abort();
        }
        return 0;
    }
    if (s.family[0] == '\0' || s.n_vocab < 1 || s.n_layers < 1 || s.dim < 1 || s.ffn < 1 ||
        s.context < 1 || s.head_dim < 1 || s.n_heads < 1 || s.n_kv_heads < 1 ||
        s.n_heads % s.n_kv_heads != 0 || (int64_t)s.n_heads * s.head_dim > 1 << 20) {
        abort();
    }
    return 0;
}
