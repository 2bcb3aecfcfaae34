/* fuzz_link.c - a stream of frames in pieces: the first byte says how long the pieces are. Each
 * frame is parsed as the engine does it, its parameters are read, and what is a JSON object must
 * come back from link_frame() equal.
 */
#include "local-engine/link.h"
#include "local-engine/link_params.h"

#include <assert.h>
#include <stdlib.h>

static void check_round_trip(const json_t *object)
{
    size_t len;
    char *frame = link_frame(object, &len);
    assert(frame); /* what fitted the input fits the limit */
    json_t *back = json_loadb(frame + 4, len - 4, JSON_ALLOW_NUL, NULL);
    assert(json_equal((json_t *)object, back)); /* jansson lacks the const */
    json_decref(back);
    free(frame);
}

static void on_frame(const char *p, size_t len)
{
    json_t *frame = json_loadb(p, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    struct link_params params;
    struct engine_error err = {.code = ENGINE_OK};
    if (frame) {
        if (link_params_parse(json_object_get(frame, "params"), &params, &err)) {
            link_params_release(&params);
        } else {
            assert(err.code != ENGINE_OK && err.text[0]);
        }
        if (json_is_object(frame)) {
            check_round_trip(frame);
        }
    }
    json_decref(frame);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct link_reader r;
    size_t piece = size ? (size_t)data[0] + 1 : 1;
    link_reader_init(&r);
    for (size_t i = 1; i < size; i += piece) {
        const char *frame;
        size_t len;
        int rc = 0;
        if (!link_reader_feed(&r, (const char *)data + i, size - i < piece ? size - i : piece,
                              NULL)) {
            break;
        }
        while ((rc = link_reader_next(&r, &frame, &len)) == 1) {
            on_frame(frame, len);
        }
        if (rc < 0) {
            break;
        }
    }
    link_reader_release(&r);
    return 0;
}
