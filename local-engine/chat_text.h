/* chat_text.h - the text of a prompt while a template writes it: bytes, and which of them are the
 * spelling of a marker. Only what the template itself writes is ever a marker; what people wrote is
 * text, whatever it spells.
 */
#ifndef ISOTHERM_CHAT_TEXT_H
#define ISOTHERM_CHAT_TEXT_H

#include "engine_error.h"
#include <stddef.h>

/* A run of one kind; its bytes begin where those of the run before end. */
enum chat_run_kind {
    CHAT_RUN_TEXT,
    CHAT_RUN_MARK, /* the spelling of a special token, where the vocabulary has one */
    CHAT_RUN_BOS,
    CHAT_RUN_EOS
};
struct chat_run {
    enum chat_run_kind kind;
    size_t len;
};

struct chat_text {
    const char *bos, *eos; /* spellings, borrowed; "": there is none */
    char *p;
    size_t len, cap;
    struct chat_run *runs;
    size_t n_runs, runs_cap;
    struct engine_error *err;
};

/* A prompt longer than any that a request can bring. */
#define CHAT_TEXT_MAX (256u << 20)

/* `err` takes the first failure of all that follows. */
void chat_text_init(struct chat_text *o, const char *bos, const char *eos,
                    struct engine_error *err);
void chat_text_release(struct chat_text *o);
ENGINE_WARN_UNUSED bool chat_text_put(struct chat_text *o, const char *text, size_t len);
ENGINE_WARN_UNUSED bool chat_text_puts(struct chat_text *o, const char *text);
ENGINE_WARN_UNUSED bool chat_text_mark(struct chat_text *o, const char *spelling);
ENGINE_WARN_UNUSED bool chat_text_bos(struct chat_text *o);
ENGINE_WARN_UNUSED bool chat_text_eos(struct chat_text *o);

#endif
