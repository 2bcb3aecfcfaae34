/* constrain_path.c - JSON pointers for error texts, put together only when there is an error. */
#include "constrain_private.h"
#include "room.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint32_t add(struct constrain_compiler *c, struct constrain_path p)
{
    if (!room_for(&c->paths, &c->paths_cap, c->n_paths + 1, sizeof p)) {
        return 0;
    }
    c->paths[c->n_paths++] = p;
    return (uint32_t)c->n_paths;
}

uint32_t constrain_below(struct constrain_compiler *c, uint32_t path, const char *name)
{
    return add(c, (struct constrain_path){.above = path, .name = name});
}

uint32_t constrain_below_index(struct constrain_compiler *c, uint32_t path, size_t index)
{
    return add(c, (struct constrain_path){.above = path, .index = index});
}

/* Writes a step in front of what is at out[*at] and after; what does not fit is left out, and then
 * the pointer begins with an ellipsis. false: full. */
static bool put_step(char *out, size_t *at, const struct constrain_path *p)
{
    char step[CONSTRAIN_POINTER_MAX];
    size_t n = 0;
    step[n++] = '/';
    if (!p->name) {
        n += (size_t)snprintf(step + n, sizeof step - n, "%zu", p->index);
    }
    for (const char *s = p->name ? p->name : ""; *s; s++) {
        if (n + 3 > sizeof step) {
            return false;
        }
        if (*s == '~' || *s == '/') {
            step[n++] = '~';
            step[n++] = *s == '~' ? '0' : '1';
        } else {
            step[n++] = *s;
        }
    }
    if (n > *at - 3) {
        return false;
    }
    *at -= n;
    memcpy(out + *at, step, n);
    return true;
}

static const char *pointer(const struct constrain_compiler *c, uint32_t path, const char *name,
                           char out[CONSTRAIN_POINTER_MAX])
{
    size_t at = CONSTRAIN_POINTER_MAX - 1;
    out[at] = '\0';
    bool fits = !name || put_step(out, &at, &(struct constrain_path){.name = name});
    for (; fits && path != 0; path = c->paths[path - 1].above) {
        fits = put_step(out, &at, &c->paths[path - 1]);
    }
    if (!fits) {
        at -= 3;
        memcpy(out + at, "...", 3);
    }
    return out + at;
}

bool constrain_bad(struct constrain_compiler *c, uint32_t path, const char *name, const char *fmt,
                   ...)
{
    char where[CONSTRAIN_POINTER_MAX], what[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return engine_fail(c->err, ENGINE_BAD_PARAM, c->param, "'%s': schema at '%s': %s", c->param,
                       pointer(c, path, name, where), what);
}

bool constrain_bad_inner(struct constrain_compiler *c, uint32_t path, const char *name,
                         const struct engine_error *inner)
{
    if (inner->code != ENGINE_BAD_PARAM) {
        return engine_fail(c->err, inner->code, "", "%s", inner->text);
    }
    return constrain_bad(c, path, name, "%s", inner->text);
}

bool constrain_no_memory(struct constrain_compiler *c)
{
    return engine_fail(c->err, ENGINE_NOMEM, "", "out of memory for a schema");
}

bool constrain_works(struct constrain_compiler *c, size_t n)
{
    c->work += n;
    return c->work <= CONSTRAIN_WORK_MAX ||
           engine_fail(
               c->err, ENGINE_BAD_PARAM, c->param,
               "'%s': the schema is too large or has too many combinations: make it simpler",
               c->param);
}
