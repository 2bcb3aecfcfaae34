/* fuzz_schema.c - the first byte says what the text is: a schema, a pattern, or a list of choices.
 * What compiles is written at random: every prefix can be completed, and only bytes that lead
 * somewhere are allowed.
 */
#include "local-engine/constrain.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 300 };

/* Bytes drawn from the input's own, so that a run can be repeated. */
static uint32_t draw(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return *s >> 16;
}

static void write_text(struct constrain *c, uint32_t seed)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    if (!constrain_state_new(&s, c, NULL, &err)) {
        abort();
    }
    for (int i = 0; i < BYTES_MAX && !constrain_is_final(s); i++) {
        uint32_t first = draw(&seed) & 255, tried = 0;
        for (; tried < 256; tried++) {
            char byte = (char)((first + tried) & 255);
            struct engine_error refused = {.code = ENGINE_OK};
            if (constrain_advance(s, &byte, 1, &refused)) {
                break;
            }
            if (refused.code == ENGINE_NOMEM) {
                constrain_state_free(s);
                return;
            }
        }
        if (tried == 256 && !constrain_is_complete(s)) {
            abort(); /* a prefix that cannot be completed */
        }
    }
    constrain_state_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum constrain_kind kinds[] = {CONSTRAIN_JSON_SCHEMA, CONSTRAIN_REGEX,
                                                CONSTRAIN_CHOICE};
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain *c;
    if (size < 2) {
        return 0;
    }
    struct constrain_spec spec = {.kind = kinds[data[0] % 3], .param = "response_format"};
    json_t *value =
        spec.kind == CONSTRAIN_REGEX
            ? json_stringn((const char *)data + 1, size - 1)
            : json_loadb((const char *)data + 1, size - 1, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!value) {
        return 0;
    }
    spec.value = value;
    if (constrain_new(&c, &spec, &err)) {
        write_text(c, data[size - 1]);
        write_text(c, data[size / 2] + 256u);
        constrain_free(c);
    } else if (err.code == ENGINE_OK || !memchr(err.text, '\0', sizeof err.text) || !err.text[0]) {
        abort();
    }
    json_decref(value);
    return 0;
}
