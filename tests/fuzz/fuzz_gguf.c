/* fuzz_gguf.c - any bytes as a .gguf file: refused, or every value and every tensor can be read to
 * its last byte, and the metadata become a configuration or a line that says why not. */
#include "local-engine/gguf.h"
#include "local-engine/weights_private.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_failure(const struct engine_error *err)
{
    if (err->code == ENGINE_OK || err->text[0] == '\0' || strchr(err->text, '\n')) {
        abort(); /* a failure says what is wrong, on one line */
    }
}

static unsigned read_pairs(const struct gguf *g)
{
    unsigned sum = 0;
    struct gguf_pair pair;
    for (size_t i = 0; gguf_pair(g, i, &pair); i++) {
        struct gguf_array a;
        struct gguf_string s;
        double x;
        size_t at = 0;
        if (!gguf_has(g, pair.key)) {
            abort();
        }
        if (gguf_get_string(g, pair.key, &s, NULL) && s.len > 0) {
            sum += (unsigned char)s.text[s.len - 1];
        }
        if (gguf_get_real(g, pair.key, 0.0, &x, NULL)) {
            sum += x > 0.0;
        }
        if (gguf_get_array(g, pair.key, GGUF_STRING, &a, NULL)) {
            for (size_t k = 0; k < a.n; k++) {
                s = gguf_array_string(&a, &at);
                sum += s.len ? (unsigned char)s.text[s.len - 1] : 0;
            }
        }
        if (gguf_get_array(g, pair.key, GGUF_INTEGER, &a, NULL)) {
            for (size_t k = 0; k < a.n; k++) {
                sum += (unsigned)gguf_array_int(&a, k);
            }
        }
    }
    return sum;
}

static unsigned read_tensors(const struct gguf *g)
{
    size_t n;
    unsigned sum = 0;
    const struct gguf_tensor *t = gguf_tensors(g, &n);
    for (size_t i = 0; i < n; i++) {
        char name[2 * GGUF_NAME_MAX], back[2 * GGUF_NAME_MAX];
        unsigned flags, flags_back;
        for (uint64_t b = 0; b < t[i].n_bytes; b++) {
            sum += t[i].data[b];
        }
        if (gguf_find(g, t[i].name) != &t[i]) {
            abort();
        }
        if (weights_gguf_name("llama", t[i].name, name, sizeof name, &flags) &&
            (!weights_gguf_name_back("llama", name, back, sizeof back, &flags_back) ||
             strcmp(back, t[i].name) != 0 || flags != flags_back)) {
            abort(); /* the names go both ways */
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g = NULL;
    struct engine_error err = {0}, config_err = {0};
    if (!gguf_parse(&g, data, size, "fuzz", &err)) {
        check_failure(&err);
        return 0;
    }
    unsigned sum = read_pairs(g) + read_tensors(g);
    json_t *config = weights_gguf_config(g, &config_err);
    if (!config) {
        check_failure(&config_err);
    }
    json_decref(config);
    gguf_close(g);
    return (int)(sum & 0); /* the sum keeps the reads */
}
