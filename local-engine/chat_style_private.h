/* chat_style_private.h - what chat_style.c and chat_style_more.c share. */
#ifndef ISOTHERM_CHAT_STYLE_PRIVATE_H
#define ISOTHERM_CHAT_STYLE_PRIVATE_H

#include "chat_style.h"

bool chat_style_is(const struct chat_message *m, const char *role);
bool chat_style_content(struct chat_text *o, const struct chat_message *m);
/* Without the white space at both ends. */
bool chat_style_trimmed(struct chat_text *o, const char *text, size_t len);
/* `why` follows "the model's chat template". Always false. */
bool chat_style_refuse(struct chat_text *o, size_t at, const char *why);
/* User, then anybody else, then user ...; `first` is the first of them. */
bool chat_style_check_turn(struct chat_text *o, const struct chat_message *m, size_t first,
                           size_t at);
/* bos, and the system message of the template where none comes first */
bool chat_style_chatml_begin(struct chat_text *o, const struct chat_variant *v,
                             const struct chat_message *m);
bool chat_style_chatml_turn(struct chat_text *o, const char *role, const char *text, size_t len);
bool chat_style_chatml_end(struct chat_text *o);
bool chat_style_llama3_head(struct chat_text *o, const char *role);
bool chat_style_llama3_turn(struct chat_text *o, const struct chat_message *m);

chat_style_fn chat_style_write_qwen25, chat_style_write_qwen3, chat_style_write_llama31;
chat_style_fn chat_style_write_mistral_v01, chat_style_write_mistral_v02;
chat_style_fn chat_style_write_mistral_v1, chat_style_write_mistral_v3;
chat_style_fn chat_style_write_mistral_v3_tekken;
chat_style_fn chat_style_write_mistral_v7, chat_style_write_mistral_v7_tekken;
chat_style_fn chat_style_write_deepseek_v2, chat_style_write_deepseek_v3;
chat_style_fn chat_style_write_deepseek_r1;

#endif
