/* weights_gguf.c - the tensors of a .gguf file under Hugging Face's names. */
#include "weights_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *translate(const char *arch, const char *name, unsigned *flags)
{
    char buf[2 * GGUF_NAME_MAX];
    (void)weights_gguf_name(arch, name, buf, sizeof buf, flags);
    return strdup(buf);
}

static bool add_tensor(struct weights *w, const char *arch, const struct gguf_tensor *from,
                       struct engine_error *err)
{
    struct weights_tensor t = {.type_name = from->type_name,
                               .n_dims = from->n_dims,
                               .n_elements = from->n_elements,
                               .data = from->data,
                               .n_bytes = from->n_bytes,
                               .file = w->label};
    char *name = translate(arch, from->name, &t.flags);
    if (!name) {
        return engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory for the tensors", w->label);
    }
    w->names[w->n_names++] = name;
    t.name = name;
    memcpy(t.dim, from->dim, sizeof from->dim);
    t.is_computable = weights_type(t.type_name, &t.type);
    w->tensor[w->n_tensors++] = t;
    return true;
}

static bool add_tensors(struct weights *w, const char *arch, struct engine_error *err)
{
    size_t n;
    const struct gguf_tensor *t = gguf_tensors(w->gguf, &n);
    w->names = calloc(n + 1, sizeof(w->names[0]));
    if (!w->names) {
        return engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory for the tensors", w->label);
    }
    if (!weights_reserve(w, n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!weights_gguf_is_config(t[i].name) && !add_tensor(w, arch, &t[i], err)) {
            return false;
        }
    }
    return true;
}

bool weights_open_gguf(struct weights *w, const char *path, struct engine_error *err)
{
    if (!gguf_open(&w->gguf, path, err)) {
        return false;
    }
    (void)snprintf(w->label, sizeof w->label, "%s", gguf_label(w->gguf));
    w->config = weights_gguf_config(w->gguf, err);
    if (!w->config) {
        return false;
    }
    struct gguf_string s = {"", 0, false};
    if (!gguf_get_string(w->gguf, "general.architecture", &s, err)) {
        return false;
    }
    char arch[32];
    (void)snprintf(arch, sizeof arch, "%.*s", (int)(s.len < sizeof arch ? s.len : 0), s.text);
    return add_tensors(w, arch, err);
}
