/* tokenizer.c - opening, closing and looking at a tokenizer; how text is encoded stands in
 * tokenizer_encode.c. */
#include "tokenizer_private.h"

#include "filemap.h"
#include "jsontree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading files */

static bool read_all(int fd, char *buf, size_t len)
{
    for (size_t n = 0; n < len;) {
        ssize_t k = read(fd, buf + n, len - n);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            errno = k == 0 ? EIO : errno; /* it became shorter */
            return false;
        }
        n += (size_t)k;
    }
    return true;
}

static bool read_fd(int fd, const char *path, char **out, size_t *len, struct engine_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return engine_fail(err, ENGINE_IO, "", "%s: not a regular file", path);
    }
    if (st.st_size < 0 || st.st_size > TOKENIZER_CONFIG_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: larger than %d MiB", path,
                           TOKENIZER_CONFIG_MAX >> 20);
    }
    size_t n = (size_t)st.st_size;
    char *buf = malloc(n + 1);
    if (!buf) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    if (!read_all(fd, buf, n)) {
        free(buf);
        return engine_fail(err, ENGINE_IO, "", "%s: %s", path, strerror(errno));
    }
    *out = buf;
    *len = n;
    return true;
}

static bool make_path(char path[PATH_MAX], const char *folder, const char *name,
                      struct engine_error *err)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return (n > 0 && n < PATH_MAX) ||
           engine_fail(err, ENGINE_IO, "", "the folder's name is longer than %d bytes", PATH_MAX);
}

/* Reads FOLDER/NAME whole. *out stays NULL where it is not there. */
static bool read_optional(const char *folder, const char *name, char **out, size_t *len,
                          struct engine_error *err)
{
    char path[PATH_MAX];
    if (!make_path(path, folder, name, err)) {
        return false;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT || engine_fail(err, ENGINE_IO, "", "%s: %s", path, strerror(errno));
    }
    bool done = read_fd(fd, path, out, len, err);
    (void)close(fd); /* was only read */
    return done;
}

/* Some have 33 MB, which would be copied only to be looked at once. */
static bool map_json(struct filemap *map, const char *folder, struct engine_error *err)
{
    char path[PATH_MAX];
    if (!make_path(path, folder, "tokenizer.json", err) ||
        !filemap_open(map, path, path, 1, "JSON", err)) {
        return false;
    }
    return map->n <= TOKENIZER_FILE_MAX ||
           engine_fail(err, ENGINE_BAD_FILE, "", "%s: larger than %d MiB", path,
                       TOKENIZER_FILE_MAX >> 20);
}

/* Of a file that may list 100,000 added tokens, what is asked for here. */
static bool parse_config(const char *text, size_t len, const char *name, json_t **out,
                         struct engine_error *err)
{
    static const char *const names[] = {"bos_token",    "eos_token",    "add_bos_token",
                                        "bos_token_id", "eos_token_id", NULL};
    *out = jsontree_pick(text, len, names, name, err);
    return *out != NULL;
}

static bool open_config(const char *folder, const char *name, json_t **out,
                        struct engine_error *err)
{
    char *text = NULL;
    size_t len = 0;
    if (!read_optional(folder, name, &text, &len, err)) {
        return false;
    }
    bool done = !text || parse_config(text, len, name, out, err);
    free(text);
    return done;
}

struct configs {
    json_t *tokenizer, *generation, *model;
};

static void release_configs(struct configs *c)
{
    json_decref(c->tokenizer);
    json_decref(c->generation);
    json_decref(c->model);
}

struct tokenizer_files {
    struct filemap json;
    struct configs configs;
};

bool tokenizer_files_open(struct tokenizer_files **out, const char *folder,
                          struct engine_error *err)
{
    struct tokenizer_files *f = calloc(1, sizeof *f);
    if (!f) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    struct configs *c = &f->configs;
    if (!map_json(&f->json, folder, err) ||
        !open_config(folder, "tokenizer_config.json", &c->tokenizer, err) ||
        !open_config(folder, "generation_config.json", &c->generation, err) ||
        !open_config(folder, "config.json", &c->model, err)) {
        tokenizer_files_close(f);
        return false;
    }
    *out = f;
    return true;
}

void tokenizer_files_close(struct tokenizer_files *f)
{
    if (f) {
        release_configs(&f->configs);
        filemap_close(&f->json);
        free(f);
    }
}

const unsigned char *tokenizer_files_json(const struct tokenizer_files *f, size_t *n)
{
    *n = f->json.n;
    return f->json.bytes;
}

void tokenizer_files_forget(const struct tokenizer_files *f)
{
    filemap_forget(&f->json);
}

/* ---- building */

static bool read_unk(struct tokenizer *t, const struct tokenizer_parts *p, struct engine_error *err)
{
    const char *field = t->is_unigram ? "model.unk_id" : "model.unk_token";
    json_t *j;
    if (!tokenizer_json_value(t->is_unigram ? &p->unk_id : &p->unk_token, field, &j, err)) {
        return false;
    }
    bool is_there = !json_is_null(j);
    int32_t id = -1;
    if (json_is_string(j) && !t->is_unigram) {
        id = vocab_find(&t->vocab, json_string_value(j), json_string_length(j));
    } else if (json_is_integer(j) && vocab_spelling(&t->vocab, json_integer_value(j), NULL)) {
        id = (int32_t)json_integer_value(j);
    }
    t->unk = id;
    json_decref(j);
    return !is_there || id >= 0 ||
           engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: %s is not in the vocabulary",
                       field);
}

static bool read_tokens(struct tokenizer *t, const struct tokenizer_parts *p,
                        struct engine_error *err)
{
    if (t->is_unigram) {
        return tokenizer_unigram_make(t, "tokenizer.json: model.vocab", err);
    }
    if (!tokenizer_json_merges(t, p, err)) {
        return false;
    }
    tokenizer_encode_prepare(t);
    return true;
}

/* Ids of model.vocab without a token, but where an added one fills the place. Behind the model's
 * own ids added ones may leave some out, as those of phi-4 do. */
static bool check_holes(const struct tokenizer *t, size_t n_model, struct engine_error *err)
{
    for (size_t id = 0; id < n_model; id++) {
        if (!vocab_spelling(&t->vocab, (int64_t)id, NULL)) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "tokenizer.json: model.vocab: no token has the id %zu, but one has "
                               "%zu",
                               id, n_model - 1);
        }
    }
    return true;
}

static bool read_vocab(struct tokenizer *t, const struct tokenizer_parts *p,
                       struct engine_error *err)
{
    if (!tokenizer_json_vocab(t, p, err)) {
        return false;
    }
    size_t n_model = t->vocab.n_ids;
    return tokenizer_added_register(t, &p->added_tokens, err) && check_holes(t, n_model, err);
}

static bool build_parts(struct tokenizer *t, const struct tokenizer_parts *p,
                        const struct configs *c, struct engine_error *err)
{
    bool has_template = false;
    return read_vocab(t, p, err) && read_unk(t, p, err) &&
           tokenizer_steps_read(t, p, &has_template, err) &&
           tokenizer_config_apply(t, has_template, c->tokenizer, c->generation, c->model, err) &&
           read_tokens(t, p, err) && tokenizer_added_index(t, &p->added_tokens, err) &&
           tokenizer_pieces_make(t, err);
}

static bool build(struct tokenizer **out, const char *json, size_t len, const struct configs *c,
                  struct engine_error *err)
{
    struct tokenizer_parts p = {0};
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    t->unk = t->bos = -1;
    bool done = tokenizer_json_split(&p, json, len, err) && build_parts(t, &p, c, err);
    if (!done) {
        tokenizer_close(t);
        return false;
    }
    *out = t;
    return true;
}

bool tokenizer_files_read(const struct tokenizer_files *f, struct tokenizer **out,
                          struct engine_error *err)
{
    return build(out, (const char *)f->json.bytes, f->json.n, &f->configs, err);
}

bool tokenizer_open(struct tokenizer **out, const char *folder, struct engine_error *err)
{
    struct tokenizer_files *f;
    if (!tokenizer_files_open(&f, folder, err)) {
        return false;
    }
    bool done = tokenizer_files_read(f, out, err);
    tokenizer_files_close(f);
    return done;
}

bool tokenizer_parse(struct tokenizer **out, const char *json, size_t len, const char *config,
                     size_t config_len, struct engine_error *err)
{
    struct configs c = {0};
    if (len > TOKENIZER_FILE_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: larger than %d MiB",
                           TOKENIZER_FILE_MAX >> 20);
    }
    if (config && !parse_config(config, config_len, "tokenizer_config.json", &c.tokenizer, err)) {
        return false;
    }
    c.generation = json_incref(c.tokenizer); /* so that one config can hold ids, too */
    bool done = build(out, json, len, &c, err);
    release_configs(&c);
    return done;
}

void tokenizer_close(struct tokenizer *t)
{
    if (t) {
        vocab_release(&t->vocab);
        bpe_release(&t->bpe);
        unigram_release(&t->unigram);
        pretokenize_release(&t->pre);
        added_release(&t->added);
        added_release(&t->added_normalized);
        free(t->scores);
        free(t->flags);
        free(t->pieces);
        free(t->pieces_at);
        free(t);
    }
}

/* ---- looking */

int32_t tokenizer_n_vocab(const struct tokenizer *t)
{
    return (int32_t)t->vocab.n_ids;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
    return t->adds_bos;
}

const int32_t *tokenizer_eos(const struct tokenizer *t, size_t *n)
{
    *n = t->n_eos;
    return t->eos;
}

static bool is_id(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->vocab.n_ids;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return is_id(t, id) && (t->flags[id] & TOKENIZER_SPECIAL);
}

int32_t tokenizer_find_special(const struct tokenizer *t, const char *spelling)
{
    int32_t id = vocab_find(&t->vocab, spelling, strlen(spelling));
    return tokenizer_is_special(t, id) ? id : -1;
}

bool tokenizer_spaces_after_special(const struct tokenizer *t)
{
    return t->prefix == TOKENIZER_PREFIX_ALWAYS;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, bool is_first, size_t *len)
{
    if (!is_id(t, id)) {
        *len = 0;
        return "";
    }
    const char *s = t->pieces + t->pieces_at[id];
    size_t n = t->pieces_at[id + 1] - t->pieces_at[id];
    size_t n_cut =
        is_first && t->strips_first && n > 0 && s[0] == ' ' && !(t->flags[id] & TOKENIZER_ADDED);
    *len = n - n_cut;
    return s + n_cut;
}

const char *tokenizer_spelling(const struct tokenizer *t, int32_t id)
{
    return vocab_spelling(&t->vocab, id, NULL);
}
