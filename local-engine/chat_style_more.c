/* chat_style_more.c - the styles of several versions, or with more to remember than one message:
 * qwen, llama3.1, mistral, deepseek.
 */
#include "chat_style_private.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Part of a message. */
struct part {
    const char *p;
    size_t len;
};

static bool put_part(struct chat_text *o, struct part s)
{
    return chat_text_put(o, s.p, s.len);
}

/* ---- qwen2.5, qwen3: answers of tools are gathered into one user turn */

static bool put_tool_answer(struct chat_text *o, const struct chat_message *m, size_t n, size_t i)
{
    bool is_first = i == 0 || !chat_style_is(&m[i - 1], "tool"),
         is_last = i + 1 == n || !chat_style_is(&m[i + 1], "tool");
    return (!is_first || (chat_text_mark(o, "<|im_start|>") && chat_text_puts(o, "user"))) &&
           chat_text_puts(o, "\n<tool_response>\n") && chat_style_content(o, &m[i]) &&
           chat_text_puts(o, "\n</tool_response>") &&
           (!is_last || (chat_text_mark(o, "<|im_end|>") && chat_text_puts(o, "\n")));
}

static bool put_qwen(struct chat_text *o, const struct chat_message *m, size_t n, size_t i)
{
    if (chat_style_is(&m[i], "tool")) {
        return put_tool_answer(o, m, n, i);
    }
    bool is_written = chat_style_is(&m[i], "user") || chat_style_is(&m[i], "system") ||
                      chat_style_is(&m[i], "assistant");
    return !is_written || chat_style_chatml_turn(o, m[i].role, m[i].content, m[i].content_len);
}

bool chat_style_write_qwen25(struct chat_text *o, const struct chat_variant *v,
                             const struct chat_message *m, size_t n)
{
    bool ok = chat_style_chatml_begin(o, v, m);
    for (size_t i = 0; ok && i < n; i++) {
        ok = put_qwen(o, m, n, i);
    }
    return ok && chat_style_chatml_end(o);
}

static struct part strip_left(struct part s)
{
    while (s.len > 0 && s.p[0] == '\n') {
        s.p++;
        s.len--;
    }
    return s;
}

static struct part strip_right(struct part s)
{
    while (s.len > 0 && s.p[s.len - 1] == '\n') {
        s.len--;
    }
    return s;
}

/* What is before the first `mark`; all of it where there is none. */
static struct part before_first(struct part s, const char *mark)
{
    const char *at = s.len > 0 ? memmem(s.p, s.len, mark, strlen(mark)) : NULL;
    return at ? (struct part){s.p, (size_t)(at - s.p)} : s;
}

static struct part after_last(struct part s, const char *mark)
{
    size_t len = strlen(mark);
    const char *at;
    while (s.len > 0 && (at = memmem(s.p, s.len, mark, len))) {
        s.len -= (size_t)(at - s.p) + len;
        s.p = at + len;
    }
    return s;
}

static bool is_tool_response(const struct chat_message *m)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    size_t n_open = sizeof open - 1, n_close = sizeof close - 1;
    return m->content_len >= n_close && memcmp(m->content, open, n_open) == 0 &&
           memcmp(m->content + m->content_len - n_close, close, n_close) == 0;
}

/* The last thing that the user asked. */
static size_t find_last_query(const struct chat_message *m, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (chat_style_is(&m[i], "user") && !is_tool_response(&m[i])) {
            return i;
        }
    }
    return n - 1;
}

/* Thoughts are kept behind the last question only. */
static bool put_qwen3_answer(struct chat_text *o, const struct chat_message *m, size_t n, size_t i,
                             size_t last_query)
{
    struct part all = {m[i].content, m[i].content_len}, content = all, thought = {"", 0};
    if (before_first(all, "</think>").len < all.len) {
        content = strip_left(after_last(all, "</think>"));
        thought = strip_right(before_first(all, "</think>"));
        thought = strip_left(after_last(thought, "<think>"));
    }
    bool is_kept = i > last_query && (i + 1 == n || thought.len > 0);
    bool ok = chat_text_mark(o, "<|im_start|>") && chat_text_puts(o, "assistant\n");
    if (is_kept) {
        ok = ok && chat_text_puts(o, "<think>\n") && put_part(o, strip_right(thought)) &&
             chat_text_puts(o, "\n</think>\n\n");
        content = strip_left(content);
    }
    return ok && put_part(o, content) && chat_text_mark(o, "<|im_end|>") && chat_text_puts(o, "\n");
}

bool chat_style_write_qwen3(struct chat_text *o, const struct chat_variant *v,
                            const struct chat_message *m, size_t n)
{
    size_t last_query = find_last_query(m, n);
    bool ok = chat_style_chatml_begin(o, v, m);
    for (size_t i = 0; ok && i < n; i++) {
        ok = chat_style_is(&m[i], "assistant") ? put_qwen3_answer(o, m, n, i, last_query)
                                               : put_qwen(o, m, n, i);
    }
    return ok && chat_style_chatml_end(o);
}

/* ---- llama3.1: a system turn always, with dates; the day is the one that the template falls back
 * on, since the same request must give the same bytes on any day */

static bool put_json_text(struct chat_text *o, const struct chat_message *m)
{
    json_t *s = json_stringn(m->content, m->content_len);
    char *text = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    bool ok = text ? chat_text_puts(o, text)
                   : engine_fail(o->err, ENGINE_NOMEM, "", "out of memory for a tool's answer");
    free(text);
    json_decref(s);
    return ok;
}

bool chat_style_write_llama31(struct chat_text *o, const struct chat_variant *v,
                              const struct chat_message *m, size_t n)
{
    (void)v;
    bool has_system = chat_style_is(&m[0], "system");
    bool ok = chat_text_bos(o) && chat_style_llama3_head(o, "system") &&
              chat_text_puts(o, "Cutting Knowledge Date: December 2023\n"
                                "Today Date: 26 Jul 2024\n\n") &&
              (!has_system || chat_style_trimmed(o, m[0].content, m[0].content_len)) &&
              chat_text_mark(o, "<|eot_id|>");
    for (size_t i = has_system; ok && i < n; i++) {
        bool is_tool = chat_style_is(&m[i], "tool") || chat_style_is(&m[i], "ipython");
        ok = is_tool ? chat_style_llama3_head(o, "ipython") && put_json_text(o, &m[i]) &&
                           chat_text_mark(o, "<|eot_id|>")
                     : chat_style_llama3_turn(o, &m[i]);
    }
    return ok && chat_style_llama3_head(o, "assistant");
}

/* ---- mistral: the versions differ in spaces, and in where the system message goes */

enum mistral_system { MISTRAL_REFUSED, MISTRAL_FIRST, MISTRAL_LAST };
struct mistral {
    const char *open, *open_space, *close_space; /* around a user's message */
    const char *answer_before, *answer_after;    /* around an answer; eos follows the first */
    enum mistral_system system;                  /* into which user message */
};

static bool put_mistral_user(struct chat_text *o, const struct mistral *s,
                             const struct chat_message *system, const struct chat_message *m)
{
    return chat_text_puts(o, s->open) && chat_text_mark(o, "[INST]") &&
           chat_text_puts(o, s->open_space) &&
           (!system || (chat_style_content(o, system) && chat_text_puts(o, "\n\n"))) &&
           chat_style_content(o, m) && chat_text_puts(o, s->close_space) &&
           chat_text_mark(o, "[/INST]");
}

static bool put_mistral_answer(struct chat_text *o, const struct mistral *s,
                               const struct chat_message *m)
{
    return chat_text_puts(o, s->answer_before) && chat_style_content(o, m) && chat_text_eos(o) &&
           chat_text_puts(o, s->answer_after);
}

static bool write_mistral(struct chat_text *o, const struct mistral *s,
                          const struct chat_message *m, size_t n)
{
    size_t first = s->system != MISTRAL_REFUSED && chat_style_is(&m[0], "system");
    bool ok = chat_text_bos(o);
    for (size_t i = first; ok && i < n; i++) {
        if (!chat_style_check_turn(o, m, first, i)) {
            return false;
        }
        bool has_system = first == 1 && (s->system == MISTRAL_FIRST ? i == 1 : i + 1 == n);
        ok = chat_style_is(&m[i], "user") ? put_mistral_user(o, s, has_system ? m : NULL, &m[i])
             : chat_style_is(&m[i], "assistant")
                 ? put_mistral_answer(o, s, &m[i])
                 : chat_style_refuse(o, i,
                                     s->system == MISTRAL_REFUSED
                                         ? "takes messages of user and assistant only"
                                         : "takes one system message, at the beginning, and "
                                           "messages of user and assistant");
    }
    return ok;
}

bool chat_style_write_mistral_v01(struct chat_text *o, const struct chat_variant *v,
                                  const struct chat_message *m, size_t n)
{
    static const struct mistral s = {"", " ", " ", "", " ", MISTRAL_REFUSED};
    (void)v;
    return write_mistral(o, &s, m, n);
}

bool chat_style_write_mistral_v02(struct chat_text *o, const struct chat_variant *v,
                                  const struct chat_message *m, size_t n)
{
    static const struct mistral s = {"", " ", " ", "", "", MISTRAL_REFUSED};
    (void)v;
    return write_mistral(o, &s, m, n);
}

bool chat_style_write_mistral_v1(struct chat_text *o, const struct chat_variant *v,
                                 const struct chat_message *m, size_t n)
{
    static const struct mistral s = {" ", " ", " ", " ", "", MISTRAL_FIRST};
    (void)v;
    return write_mistral(o, &s, m, n);
}

bool chat_style_write_mistral_v3(struct chat_text *o, const struct chat_variant *v,
                                 const struct chat_message *m, size_t n)
{
    static const struct mistral s = {"", " ", "", " ", "", MISTRAL_LAST};
    (void)v;
    return write_mistral(o, &s, m, n);
}

bool chat_style_write_mistral_v3_tekken(struct chat_text *o, const struct chat_variant *v,
                                        const struct chat_message *m, size_t n)
{
    static const struct mistral s = {"", "", "", "", "", MISTRAL_LAST};
    (void)v;
    return write_mistral(o, &s, m, n);
}

/* From version 7 on a system message has marks of its own, and any order will do. */
static bool write_mistral_v7(struct chat_text *o, const char *space, const struct chat_message *m,
                             size_t n)
{
    const struct mistral s = {"", space, "", space, "", MISTRAL_REFUSED};
    bool ok = chat_text_bos(o);
    for (size_t i = 0; ok && i < n; i++) {
        ok = chat_style_is(&m[i], "user")        ? put_mistral_user(o, &s, NULL, &m[i])
             : chat_style_is(&m[i], "assistant") ? put_mistral_answer(o, &s, &m[i])
             : chat_style_is(&m[i], "system")
                 ? chat_text_mark(o, "[SYSTEM_PROMPT]") && chat_text_puts(o, space) &&
                       chat_style_content(o, &m[i]) && chat_text_mark(o, "[/SYSTEM_PROMPT]")
                 : chat_style_refuse(o, i, "takes messages of system, user and assistant only");
    }
    return ok;
}

bool chat_style_write_mistral_v7(struct chat_text *o, const struct chat_variant *v,
                                 const struct chat_message *m, size_t n)
{
    (void)v;
    return write_mistral_v7(o, " ", m, n);
}

bool chat_style_write_mistral_v7_tekken(struct chat_text *o, const struct chat_variant *v,
                                        const struct chat_message *m, size_t n)
{
    (void)v;
    return write_mistral_v7(o, "", m, n);
}

/* ---- deepseek */

bool chat_style_write_deepseek_v2(struct chat_text *o, const struct chat_variant *v,
                                  const struct chat_message *m, size_t n)
{
    (void)v;
    bool ok = chat_text_bos(o);
    for (size_t i = 0; ok && i < n; i++) {
        if (chat_style_is(&m[i], "assistant")) {
            ok = chat_text_puts(o, "Assistant: ") && chat_style_content(o, &m[i]) &&
                 chat_text_eos(o);
        } else if (chat_style_is(&m[i], "user") || chat_style_is(&m[i], "system")) {
            ok = chat_text_puts(o, chat_style_is(&m[i], "user") ? "User: " : "") &&
                 chat_style_content(o, &m[i]) && chat_text_puts(o, "\n\n");
        }
    }
    return ok && chat_text_puts(o, "Assistant:");
}

/* v3: all system messages with an empty line between; r1: the last one. */
static bool put_deepseek_system(struct chat_text *o, const struct chat_message *m, size_t n,
                                bool is_r1)
{
    const struct chat_message *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!chat_style_is(&m[i], "system")) {
            continue;
        }
        if (!is_r1 && ((last && !chat_text_puts(o, "\n\n")) || !chat_style_content(o, &m[i]))) {
            return false;
        }
        last = &m[i];
    }
    return !is_r1 || !last || chat_style_content(o, last);
}

/* Where the conversation is among answers of tools. */
struct deepseek {
    bool is_r1, is_tool, had_output;
};

static bool put_deepseek(struct chat_text *o, struct deepseek *s, const struct chat_message *m)
{
    if (chat_style_is(m, "user")) {
        s->is_tool = false;
        return chat_text_mark(o, "<｜User｜>") && chat_style_content(o, m);
    }
    if (chat_style_is(m, "assistant")) {
        struct part content = {m->content, m->content_len};
        const char *mark = s->is_tool ? "<｜tool▁outputs▁end｜>" : "<｜Assistant｜>";
        if (s->is_r1 && !s->is_tool) {
            content = after_last(content, "</think>");
        }
        s->is_tool = false;
        return chat_text_mark(o, mark) && put_part(o, content) &&
               chat_text_mark(o, "<｜end▁of▁sentence｜>");
    }
    if (!chat_style_is(m, "tool")) {
        return true;
    }
    bool is_first = !s->had_output;
    s->is_tool = s->had_output = true;
    return (is_first ? chat_text_mark(o, "<｜tool▁outputs▁begin｜>") : chat_text_puts(o, "\n")) &&
           chat_text_mark(o, "<｜tool▁output▁begin｜>") && chat_style_content(o, m) &&
           chat_text_mark(o, "<｜tool▁output▁end｜>");
}

static bool write_deepseek(struct chat_text *o, bool is_r1, const struct chat_message *m, size_t n)
{
    struct deepseek s = {.is_r1 = is_r1};
    bool ok = chat_text_bos(o) && put_deepseek_system(o, m, n, is_r1);
    for (size_t i = 0; ok && i < n; i++) {
        ok = put_deepseek(o, &s, &m[i]);
    }
    return ok && chat_text_mark(o, s.is_tool ? "<｜tool▁outputs▁end｜>" : "<｜Assistant｜>");
}

bool chat_style_write_deepseek_v3(struct chat_text *o, const struct chat_variant *v,
                                  const struct chat_message *m, size_t n)
{
    (void)v;
    return write_deepseek(o, false, m, n);
}

bool chat_style_write_deepseek_r1(struct chat_text *o, const struct chat_variant *v,
                                  const struct chat_message *m, size_t n)
{
    (void)v;
    return write_deepseek(o, true, m, n);
}
