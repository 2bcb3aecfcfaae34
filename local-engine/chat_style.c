/* chat_style.c - the table, and the styles of a few lines; the others are in chat_style_more.c.
 *
 * Written from the published templates. Where one of them looks mistaken (a system message that is
 * left out, a tool's answer that nothing closes), the model was trained with the mistake.
 */
#include "chat_style_private.h"

#include <string.h>

/* ---- what styles share */

bool chat_style_is(const struct chat_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

bool chat_style_content(struct chat_text *o, const struct chat_message *m)
{
    return chat_text_put(o, m->content, m->content_len);
}

/* White space by Unicode as Python's str.strip() has it, in UTF-8; the single bytes are
 * in space_len(). */
static const char *const wide_spaces[] = {
    "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
    "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
    "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
    "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

/* Bytes of the white space that begins at p; 0: none. */
static size_t space_len(const unsigned char *p, size_t n)
{
    if (n > 0 && ((p[0] >= 0x09 && p[0] <= 0x0d) || (p[0] >= 0x1c && p[0] <= 0x20))) {
        return 1;
    }
    for (size_t i = 0; i < sizeof wide_spaces / sizeof *wide_spaces; i++) {
        size_t len = strlen(wide_spaces[i]);
        if (n >= len && memcmp(p, wide_spaces[i], len) == 0) {
            return len;
        }
    }
    return 0;
}

static size_t space_len_before(const unsigned char *p, size_t n)
{
    for (size_t len = 1; len <= 3 && len <= n; len++) {
        if (space_len(p + n - len, len) == len) {
            return len;
        }
    }
    return 0;
}

bool chat_style_trimmed(struct chat_text *o, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n;
    while ((n = space_len(p, len)) > 0) {
        p += n;
        len -= n;
    }
    while ((n = space_len_before(p, len)) > 0) {
        len -= n;
    }
    return chat_text_put(o, (const char *)p, len);
}

static bool put_trimmed(struct chat_text *o, const struct chat_message *m)
{
    return chat_style_trimmed(o, m->content, m->content_len);
}

bool chat_style_refuse(struct chat_text *o, size_t at, const char *why)
{
    return engine_fail(o->err, ENGINE_BAD_PARAM, "messages",
                       "messages[%zu]: the model's chat template %s", at, why);
}

bool chat_style_check_turn(struct chat_text *o, const struct chat_message *m, size_t first,
                           size_t at)
{
    return chat_style_is(&m[at], "user") == ((at - first) % 2 == 0) ||
           chat_style_refuse(o, at, "takes user and assistant in turn, user first");
}

static bool put_bos(struct chat_text *o, const struct chat_variant *v)
{
    return !v->has_bos || chat_text_bos(o);
}

/* ---- plain: no template at all */

static bool write_plain(struct chat_text *o, const struct chat_variant *v,
                        const struct chat_message *m, size_t n)
{
    (void)v;
    for (size_t i = n; i-- > 0;) {
        if (chat_style_is(&m[i], "user")) {
            return chat_style_content(o, &m[i]);
        }
    }
    return engine_fail(o->err, ENGINE_BAD_PARAM, "messages",
                       "no message has the role 'user'; this model continues the last one");
}

/* ---- chatml */

bool chat_style_chatml_turn(struct chat_text *o, const char *role, const char *text, size_t len)
{
    return chat_text_mark(o, "<|im_start|>") && chat_text_puts(o, role) &&
           chat_text_puts(o, "\n") && chat_text_put(o, text, len) &&
           chat_text_mark(o, "<|im_end|>") && chat_text_puts(o, "\n");
}

bool chat_style_chatml_begin(struct chat_text *o, const struct chat_variant *v,
                             const struct chat_message *m)
{
    return put_bos(o, v) && (v->system_len == 0 || chat_style_is(&m[0], "system") ||
                             chat_style_chatml_turn(o, "system", v->system, v->system_len));
}

bool chat_style_chatml_end(struct chat_text *o)
{
    return chat_text_mark(o, "<|im_start|>") && chat_text_puts(o, "assistant\n");
}

static bool write_chatml(struct chat_text *o, const struct chat_variant *v,
                         const struct chat_message *m, size_t n)
{
    bool ok = chat_style_chatml_begin(o, v, m);
    for (size_t i = 0; ok && i < n; i++) {
        ok = chat_style_chatml_turn(o, m[i].role, m[i].content, m[i].content_len);
    }
    return ok && chat_style_chatml_end(o);
}

/* ---- llama2: the system message goes into the first turn; each turn begins with bos */

/* The two together are trimmed as one text: an empty message leaves no line breaks behind. */
static bool put_llama2_system(struct chat_text *o, const struct chat_message *m)
{
    struct chat_text both;
    chat_text_init(&both, "", "", o->err);
    bool ok = chat_text_puts(&both, "<<SYS>>\n") && chat_style_content(&both, &m[0]) &&
              chat_text_puts(&both, "\n<</SYS>>\n\n") && chat_style_content(&both, &m[1]) &&
              chat_style_trimmed(o, both.p, both.len);
    chat_text_release(&both);
    return ok;
}

static bool write_llama2(struct chat_text *o, const struct chat_variant *v,
                         const struct chat_message *m, size_t n)
{
    (void)v;
    size_t first = chat_style_is(&m[0], "system");
    for (size_t i = first; i < n; i++) {
        if (!chat_style_check_turn(o, m, first, i)) {
            return false;
        }
        bool ok = true;
        if (chat_style_is(&m[i], "user")) {
            bool has_system = first == 1 && i == 1;
            ok = chat_text_bos(o) && chat_text_puts(o, "[INST] ");
            ok = ok && (has_system ? put_llama2_system(o, m) : put_trimmed(o, &m[i])) &&
                 chat_text_puts(o, " [/INST]");
        } else if (chat_style_is(&m[i], "assistant")) {
            ok = chat_text_puts(o, " ") && put_trimmed(o, &m[i]) && chat_text_puts(o, " ") &&
                 chat_text_eos(o);
        }
        if (!ok) {
            return false;
        }
    }
    return true;
}

/* ---- llama3 */

bool chat_style_llama3_head(struct chat_text *o, const char *role)
{
    return chat_text_mark(o, "<|start_header_id|>") && chat_text_puts(o, role) &&
           chat_text_mark(o, "<|end_header_id|>") && chat_text_puts(o, "\n\n");
}

bool chat_style_llama3_turn(struct chat_text *o, const struct chat_message *m)
{
    return chat_style_llama3_head(o, m->role) && put_trimmed(o, m) &&
           chat_text_mark(o, "<|eot_id|>");
}

static bool write_llama3(struct chat_text *o, const struct chat_variant *v,
                         const struct chat_message *m, size_t n)
{
    bool ok = put_bos(o, v);
    for (size_t i = 0; ok && i < n; i++) {
        ok = chat_style_llama3_turn(o, &m[i]);
    }
    return ok && chat_style_llama3_head(o, "assistant");
}

/* ---- gemma; gemma3 takes a system message into the first turn */

/* `system`: goes in front of the content, NULL: nothing. */
static bool put_gemma_turn(struct chat_text *o, const struct chat_message *system,
                           const struct chat_message *m)
{
    return chat_text_mark(o, "<start_of_turn>") &&
           chat_text_puts(o, chat_style_is(m, "assistant") ? "model" : m->role) &&
           chat_text_puts(o, "\n") &&
           (!system || (chat_style_content(o, system) && chat_text_puts(o, "\n\n"))) &&
           put_trimmed(o, m) && chat_text_mark(o, "<end_of_turn>") && chat_text_puts(o, "\n");
}

static bool write_gemma_turns(struct chat_text *o, const struct chat_variant *v,
                              const struct chat_message *m, size_t n, size_t first)
{
    bool ok = put_bos(o, v);
    for (size_t i = first; ok && i < n; i++) {
        ok = chat_style_check_turn(o, m, first, i) &&
             put_gemma_turn(o, first == 1 && i == 1 ? &m[0] : NULL, &m[i]);
    }
    return ok && chat_text_mark(o, "<start_of_turn>") && chat_text_puts(o, "model\n");
}

static bool write_gemma(struct chat_text *o, const struct chat_variant *v,
                        const struct chat_message *m, size_t n)
{
    return chat_style_is(&m[0], "system")
               ? chat_style_refuse(o, 0,
                                   "has no system messages: put its text into the first "
                                   "user message")
               : write_gemma_turns(o, v, m, n, 0);
}

static bool write_gemma3(struct chat_text *o, const struct chat_variant *v,
                         const struct chat_message *m, size_t n)
{
    return write_gemma_turns(o, v, m, n, chat_style_is(&m[0], "system"));
}

/* ---- phi3, zephyr: <|role|>, a line break, the content, an end mark, a line break */

static bool is_known_role(const struct chat_message *m)
{
    return chat_style_is(m, "system") || chat_style_is(m, "user") || chat_style_is(m, "assistant");
}

static bool put_role_mark(struct chat_text *o, const char *role)
{
    return chat_text_mark(o, strcmp(role, "system") == 0 ? "<|system|>"
                             : strcmp(role, "user") == 0 ? "<|user|>"
                                                         : "<|assistant|>") &&
           chat_text_puts(o, "\n");
}

static bool write_phi3(struct chat_text *o, const struct chat_variant *v,
                       const struct chat_message *m, size_t n)
{
    bool ok = put_bos(o, v);
    for (size_t i = 0; ok && i < n; i++) {
        bool is_left_out =
            v->skips_empty_system && chat_style_is(&m[i], "system") && m[i].content_len == 0;
        ok = !is_known_role(&m[i]) || is_left_out ||
             (put_role_mark(o, m[i].role) && chat_style_content(o, &m[i]) &&
              chat_text_mark(o, "<|end|>") && chat_text_puts(o, "\n"));
    }
    return ok && put_role_mark(o, "assistant");
}

/* The first phi3: every user message opens the answer, and most leave out system messages. */
static bool write_phi3_v1(struct chat_text *o, const struct chat_variant *v,
                          const struct chat_message *m, size_t n)
{
    bool ok = put_bos(o, v);
    for (size_t i = 0; ok && i < n; i++) {
        bool is_system = chat_style_is(&m[i], "system"), is_user = chat_style_is(&m[i], "user");
        if (!is_known_role(&m[i]) || (is_system && !v->has_system)) {
            continue;
        }
        ok = (!(is_system || is_user) || put_role_mark(o, m[i].role)) &&
             chat_style_content(o, &m[i]) && chat_text_mark(o, "<|end|>") &&
             chat_text_puts(o, "\n") && (!is_user || put_role_mark(o, "assistant"));
    }
    return ok;
}

static bool write_zephyr(struct chat_text *o, const struct chat_variant *v,
                         const struct chat_message *m, size_t n)
{
    bool ok = put_bos(o, v);
    for (size_t i = 0; ok && i < n; i++) {
        ok =
            !is_known_role(&m[i]) || (put_role_mark(o, m[i].role) && chat_style_content(o, &m[i]) &&
                                      chat_text_eos(o) && chat_text_puts(o, "\n"));
    }
    return ok && put_role_mark(o, "assistant");
}

/* ---- the table */

#define CHATML_MARKS                                                                               \
    {                                                                                              \
        "<|im_end|>", "<|im_start|>"                                                               \
    }
#define LLAMA3_MARKS                                                                               \
    {                                                                                              \
        "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"                                   \
    }
#define PHI3_MARKS                                                                                 \
    {                                                                                              \
        "<|end|>", "<|user|>", "<|assistant|>"                                                     \
    }
#define GEMMA_MARKS                                                                                \
    {                                                                                              \
        "<end_of_turn>", "<start_of_turn>"                                                         \
    }
#define DEEPSEEK                                                                                   \
    {                                                                                              \
        "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"                                 \
    }
#define CHATML_TURN "'<|im_start|>'+message.role+'\n'+message.content+'<|im_end|>"
#define LLAMA3_TURN                                                                                \
    "'<|start_header_id|>'+message.role+'<|end_header_id|>\n\n'+message.content|trim+'<|eot_id|>'"

const struct chat_style chat_styles[] = {
    {.name = "plain", .write = write_plain},
    {"chatml",
     write_chatml,
     false,
     {CHATML_TURN, "{{'<|im_start|>assistant\n'}}"},
     {"tool", "reasoning_content", "messages[-1]", "system_message"},
     CHATML_MARKS},
    {"qwen2.5",
     chat_style_write_qwen25,
     false,
     {CHATML_TURN, "(message.role=='assistant'andnotmessage.tool_calls)", "<tool_response>"},
     {"</think>", "macro", "image"},
     CHATML_MARKS},
    {"qwen3",
     chat_style_write_qwen3,
     false,
     {CHATML_TURN, "loop.index0>ns.last_query_index",
      "enable_thinkingisdefinedandenable_thinkingisfalse", "<tool_response>"},
     {"macro", "image"},
     CHATML_MARKS},
    {"llama2",
     write_llama2,
     true,
     {"{{bos_token+'[INST] '+content.strip()+' [/INST]'}}", "{{' '+content.strip()+' '+eos_token}}",
      "'<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message.content"},
     {NULL},
     {NULL}},
    {"llama3", write_llama3, true, {LLAMA3_TURN}, {"tool", "date_string", "image"}, LLAMA3_MARKS},
    {"llama3.1",
     chat_style_write_llama31,
     true,
     {"{{" LLAMA3_TURN "}}", "{{'Cutting Knowledge Date: December 2023\n'}}{{'Today Date: '+date_",
      "date_string='26 Jul 2024'", "{{system_message}}{{'<|eot_id|>'}}"},
     {"image", "enable_thinking"},
     LLAMA3_MARKS},
    {"mistral-v0.1",
     chat_style_write_mistral_v01,
     true,
     {"{{'[INST] '+message.content+' [/INST]'}}", "{{message.content+eos_token+' '}}"},
     {"system", "tool"},
     {NULL}},
    {"mistral-v0.2",
     chat_style_write_mistral_v02,
     true,
     {"{{'[INST] '+message.content+' [/INST]'}}", "{{message.content+eos_token}}"},
     {"system", "tool"},
     {NULL}},
    {"mistral-v1",
     chat_style_write_mistral_v1,
     true,
     {"loop.firstandsystem_messageisdefined",
      "{{' [INST] '+system_message+'\n\n'+message.content+' [/INST]'}}",
      "{{' '+message.content+eos_token}}"},
     {"tool"},
     {NULL}},
    {"mistral-v3",
     chat_style_write_mistral_v3,
     true,
     {"loop.lastandsystem_messageisdefined",
      "{{'[INST] '+system_message+'\n\n'+message.content+'[/INST]'}}",
      "{{' '+message.content+eos_token}}"},
     {NULL},
     {NULL}},
    {"mistral-v3-tekken",
     chat_style_write_mistral_v3_tekken,
     true,
     {"loop.lastandsystem_messageisdefined",
      "{{'[INST]'+system_message+'\n\n'+message.content+'[/INST]'}}",
      "{{message.content+eos_token}}"},
     {NULL},
     {NULL}},
    {"mistral-v7",
     chat_style_write_mistral_v7,
     true,
     {"{{'[SYSTEM_PROMPT] '+message.content+'[/SYSTEM_PROMPT]'}}",
      "{{'[INST] '+message.content+'[/INST]'}}", "{{' '+message.content+eos_token}}"},
     {"tool", "image"},
     {NULL}},
    {"mistral-v7-tekken",
     chat_style_write_mistral_v7_tekken,
     true,
     {"{{'[SYSTEM_PROMPT]'+message.content+'[/SYSTEM_PROMPT]'}}",
      "{{'[INST]'+message.content+'[/INST]'}}", "{{message.content+eos_token}}"},
     {"tool", "image"},
     {NULL}},
    {"gemma",
     write_gemma,
     true,
     {"'System role not supported'",
      "{{'<start_of_turn>'+role+'\n'+message.content|trim+'<end_of_turn>\n'}}"},
     {"tool"},
     GEMMA_MARKS},
    {"gemma3",
     write_gemma3,
     true,
     {"{{'<start_of_turn>'+role+'\n'+(first_user_prefixifloop.firstelse'')}}",
      "{{message.content|trim}}", "{{'<end_of_turn>\n'}}"},
     {"tool"},
     GEMMA_MARKS},
    {"phi3",
     write_phi3,
     false,
     {"{{'<|user|>\n'+message.content+'<|end|>\n'}}",
      "{{'<|assistant|>\n'+message.content+'<|end|>\n'}}", "{{'<|assistant|>\n'}}"},
     {"tool"},
     PHI3_MARKS},
    {"phi3-v1",
     write_phi3_v1,
     true,
     {"{{'<|user|>'+'\n'+message.content+'<|end|>'+'\n'+'<|assistant|>'+'\n'}}",
      "{{message.content+'<|end|>'+'\n'}}"},
     {"tool"},
     PHI3_MARKS},
    {"zephyr",
     write_zephyr,
     false,
     {"{{'<|user|>\n'+message.content+eos_token}}\n",
      "{{'<|system|>\n'+message.content+eos_token}}\n",
      "{{'<|assistant|>\n'+message.content+eos_token}}\n", "{{'<|assistant|>'}}\n"},
     {"tool"},
     {NULL}},
    {"deepseek-v2",
     chat_style_write_deepseek_v2,
     true,
     {"{{'User: '+message.content+'\n\n'}}", "{{'Assistant: '+message.content+eos_token}}",
      "{{message.content+'\n\n'}}", "{{'Assistant:'}}"},
     {"tool"},
     {NULL}},
    {"deepseek-v3",
     chat_style_write_deepseek_v3,
     true,
     {"is_first_sp=true", "{{'<｜User｜>'+message.content}}",
      "{{'<｜Assistant｜>'+message.content+'<｜end▁of▁sentence｜>'}}"},
     {"</think>", "thinking"},
     DEEPSEEK},
    {"deepseek-r1",
     chat_style_write_deepseek_r1,
     true,
     {"setns.system_prompt=message.content%}", "{{'<｜User｜>'+message.content}}",
      "setcontent=content.split('</think>')[-1]",
      "{{'<｜Assistant｜>'+content+'<｜end▁of▁sentence｜>'}}"},
     {"is_first_sp", "is_last_user", "{{'<｜Assistant｜><think>"},
     DEEPSEEK},
    {.name = NULL},
};
