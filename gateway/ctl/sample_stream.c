/* sample_stream.c - the two streams beside the stages: random numbers, and text with stop strings.
 */
#include "gateway/ctl/sample_stream.h"

#include "gateway/ctl/sample_fields.h"
#include "local-engine/rng.h"
#include "local-engine/stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPAWN_MAX 8 /* of rng_init_spawn() */
#define STOPS_MAX 4096
#define RAW_SHOWN 5 /* random numbers that pcg64 lists */

/* ---- random numbers ---- */

static json_t *hex_of(uint64_t high, uint64_t low)
{
    char text[40];
    if (high) {
        (void)snprintf(text, sizeof text, "0x%" PRIx64 "%016" PRIx64, high, low);
    } else {
        (void)snprintf(text, sizeof text, "0x%" PRIx64, low);
    }
    return json_string(text);
}

/* As Python's float.hex(): always thirteen digits. */
static json_t *hex_of_double(double d)
{
    char text[40];
    (void)snprintf(text, sizeof text, d == 0.0 ? "0x0.0p+0" : "%.13a", d);
    return json_string(text);
}

json_t *sample_stream_pcg64(const json_t *in, struct engine_error *err)
{
    int64_t seed = 0;
    const json_t *spawn = sample_get_array(in, "spawn_key", SPAWN_MAX, err);
    if (!spawn || !sample_get_seed(in, "seed", &seed, err)) {
        return NULL;
    }
    uint32_t key[SPAWN_MAX] = {0};
    for (size_t i = 0; i < json_array_size(spawn); i++) {
        json_int_t k = json_integer_value(json_array_get(spawn, i));
        if (k < 0 || k > UINT32_MAX) {
            return sample_refuse(err, "spawn_key", "a list of 32-bit numbers");
        }
        key[i] = (uint32_t)k;
    }
    struct rng r;
    rng_init_spawn(&r, (uint64_t)seed, key, json_array_size(spawn));
    json_t *pool = json_array(), *words = json_array(), *raw = json_array();
    json_t *random = json_array(), *random_hex = json_array();
    for (size_t i = 0; i < 4; i++) {
        (void)json_array_append_new(pool, hex_of(0, r.pool[i]));
        (void)json_array_append_new(words, hex_of(0, r.words[i]));
    }
    json_t *state = hex_of((uint64_t)(r.state >> 64), (uint64_t)r.state);
    json_t *inc = hex_of((uint64_t)(r.inc >> 64), (uint64_t)r.inc);
    for (size_t i = 0; i < RAW_SHOWN; i++) {
        struct rng same = r;
        double d = rng_double(&same);
        (void)json_array_append_new(raw, hex_of(0, rng_next(&r)));
        (void)json_array_append_new(random, json_real(d));
        (void)json_array_append_new(random_hex, hex_of_double(d));
    }
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pool", pool, "state_words", words,
                     "pcg_state", state, "pcg_inc", inc, "raw", raw, "random", random, "random_hex",
                     random_hex);
}

/* ---- stop strings ---- */

static int nibble(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *p = c ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

/* Bytes of a piece: its text, or what its hex digits say. Yours to free. */
static char *piece_bytes(const json_t *v, bool is_hex, size_t *n, struct engine_error *err)
{
    const char *s = json_string_value(v);
    size_t len = json_string_length(v);
    if (!s || (is_hex && len % 2)) {
        return sample_refuse(err, is_hex ? "pieces_hex" : "pieces", "a list of strings");
    }
    char *bytes = malloc(len + 1);
    if (!bytes) {
        return sample_no_memory(err);
    }
    *n = is_hex ? len / 2 : len;
    for (size_t i = 0; i < *n; i++) {
        int high = is_hex ? nibble(s[2 * i]) : 0, low = is_hex ? nibble(s[2 * i + 1]) : 0;
        if (high < 0 || low < 0) {
            free(bytes);
            return sample_refuse(err, "pieces_hex", "a list of strings of lower-case hex digits");
        }
        bytes[i] = is_hex ? (char)(high << 4 | low) : s[i];
    }
    return bytes;
}

static struct stop *get_stops(const json_t *in, struct engine_error *err)
{
    const json_t *list = sample_get_array(in, "stops", STOPS_MAX, err);
    if (!list) {
        return NULL;
    }
    size_t n = json_array_size(list);
    const char **stops = calloc(n + 1, sizeof *stops);
    size_t *lens = calloc(n + 1, sizeof *lens);
    if (!stops || !lens) {
        free(stops);
        free(lens);
        return sample_no_memory(err);
    }
    struct stop *s = NULL;
    bool is_good = true;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        stops[i] = json_string_value(v);
        lens[i] = json_string_length(v);
        is_good &= stops[i] != NULL;
    }
    if (!is_good) {
        sample_refuse(err, "stop", "a list of strings");
    } else if (!stop_new_sized(&s, stops, lens, n, err)) {
        s = NULL;
    }
    free(stops);
    free(lens);
    return s;
}

struct stream {
    json_t *chunks;
    char *text; /* all chunks together */
    size_t len;
    int matched;
};

static bool take_chunk(struct stream *st, const char *text, size_t len, struct engine_error *err)
{
    char *p = realloc(st->text, st->len + len + 1);
    if (!p) {
        sample_no_memory(err);
        return false;
    }
    memcpy(p + st->len, text, len);
    st->text = p;
    st->len += len;
    return json_array_append_new(st->chunks, json_stringn(text, len)) == 0;
}

static bool run_stream(struct stop *s, const json_t *pieces, bool is_hex, struct stream *st,
                       struct engine_error *err)
{
    const char *text;
    size_t len;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        size_t n = 0;
        char *bytes = piece_bytes(json_array_get(pieces, i), is_hex, &n, err);
        bool is_good = bytes && stop_push(s, bytes, n, true, &text, &len, &st->matched, err) &&
                       take_chunk(st, text, len, err);
        free(bytes);
        if (!is_good || st->matched >= 0) {
            return is_good;
        }
    }
    return stop_finish(s, &text, &len, &st->matched, err) && take_chunk(st, text, len, err);
}

static json_t *stream(const json_t *in, const char *name, bool is_hex, struct engine_error *err)
{
    const json_t *pieces = sample_get_array(in, name, SAMPLE_LIST_MAX, err);
    struct stop *s = pieces ? get_stops(in, err) : NULL;
    if (!s) {
        return NULL;
    }
    struct stream st = {.chunks = json_array(), .matched = -1};
    json_t *out = NULL;
    if (run_stream(s, pieces, is_hex, &st, err)) {
        json_t *matched = st.matched < 0 ? json_null() : json_integer(st.matched);
        out = json_pack("{s:O,s:o,s:o}", "chunks", st.chunks, "text", json_stringn(st.text, st.len),
                        "matched", matched);
    }
    json_decref(st.chunks);
    free(st.text);
    stop_free(s);
    return out;
}

json_t *sample_stream_text(const json_t *in, struct engine_error *err)
{
    return stream(in, "pieces", false, err);
}

json_t *sample_stream_bytes(const json_t *in, struct engine_error *err)
{
    return stream(in, "pieces_hex", true, err);
}
