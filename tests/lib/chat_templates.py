"""For each style that the engine knows a template in a few lines, written for these tests in the expressions by which the published ones are known; the
special tokens of its vocabulary; whether its prompts begin with the begin token by themselves; and the tokens of a talk of one user message: special
ones, and the bytes of everything else but the message."""
from collections import namedtuple

Style = namedtuple("Style", "template specials begins n_special n_bytes")
LOOP, END = "{% for message in messages %}", "{% endfor %}"
CHATML = "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
OPEN = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
IM = ["<|im_start|>", "<|im_end|>"]
HEADERS = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
LLAMA3 = ("{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}"
          "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}")
INST = ["[INST]", "[/INST]"]
SYSTEM = "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"
TURN = ["<start_of_turn>", "<end_of_turn>"]
ROLES = ["<|user|>", "<|assistant|>", "<|system|>"]  # and <|end|>, the end token of the made vocabularies
BOS = "{{ bos_token }}"
FULL = "\uff5c"  # the bar of deepseek's marks
DEEPSEEK = [f"<{FULL}{w}{FULL}>" for w in ("User", "Assistant", "end\u2581of\u2581sentence")]
user, assistant, sentence = DEEPSEEK

STYLES = {
    "chatml": Style(LOOP + CHATML + END + OPEN, IM, False, 3, len("user\n\nassistant\n")),
    "qwen2.5": Style(LOOP + "{% if message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) %}" + CHATML +
                     "{% elif message.role == 'tool' %}{{ '\\n<tool_response>\\n' }}{% endif %}" + END + OPEN, IM, False, 3, len("user\n\nassistant\n")),
    "qwen3": Style(LOOP + CHATML + "{% if loop.index0 > ns.last_query_index %}{{ '\\n<tool_response>\\n' }}{% endif %}" + END + OPEN +
                   "{% if enable_thinking is defined and enable_thinking is false %}{{ '' }}{% endif %}", IM, False, 3, len("user\n\nassistant\n")),
    "llama2": Style("{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}" + LOOP +
                    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{{ ' ' + content.strip() + ' ' + eos_token }}" + END, [], True, 0,
                    len("[INST]  [/INST]")),
    "llama3": Style(BOS + LOOP + LLAMA3 + END, HEADERS, True, 5, len("user\n\nassistant\n\n")),
    "llama3.1": Style(BOS + "{% set date_string = '26 Jul 2024' %}{{ 'Cutting Knowledge Date: December 2023\\n' }}{{ 'Today Date: ' + date_string + '\\n\\n' }}"
                      "{{ system_message }}{{ '<|eot_id|>' }}" + LOOP + LLAMA3 + END, HEADERS, True, 8,
                      len("system\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nuser\n\nassistant\n\n")),
    "mistral-v0.1": Style(BOS + LOOP + "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token + ' ' }}" + END, INST, True, 2,
                          len("  ")),
    "mistral-v0.2": Style(BOS + LOOP + "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token }}" + END, INST, True, 2, len("  ")),
    "mistral-v1": Style(BOS + LOOP + "{% if loop.first and system_message is defined %}{{ ' [INST] ' + system_message + '\\n\\n' + message['content'] + "
                        "' [/INST]' }}{% endif %}{{ ' ' + message['content'] + eos_token }}" + END, INST, True, 2, len("   ")),
    "mistral-v3": Style(BOS + LOOP + "{% if loop.last and system_message is defined %}{{ '[INST] ' + system_message + '\\n\\n' + message['content'] + "
                        "'[/INST]' }}{% endif %}{{ ' ' + message['content'] + eos_token }}" + END, INST, True, 2, len(" ")),
    "mistral-v3-tekken": Style(BOS + LOOP + "{% if loop.last and system_message is defined %}{{ '[INST]' + system_message + '\\n\\n' + message['content'] + "
                               "'[/INST]' }}{% endif %}{{ message['content'] + eos_token }}" + END, INST, True, 2, 0),
    "mistral-v7": Style(BOS + LOOP + "{{ '[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]' }}{{ '[INST] ' + message['content'] + '[/INST]' }}"
                        "{{ ' ' + message['content'] + eos_token }}" + END, [*INST, *SYSTEM], True, 2, len(" ")),
    "mistral-v7-tekken": Style(BOS + LOOP + "{{ '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}{{ '[INST]' + message['content'] + '[/INST]' }}"
                               "{{ message['content'] + eos_token }}" + END, [*INST, *SYSTEM], True, 2, 0),
    "gemma": Style(BOS + "{{ raise_exception('System role not supported') }}" + LOOP + "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + "
                   "'<end_of_turn>\\n' }}" + END + "{{ '<start_of_turn>model\\n' }}", TURN, True, 3, len("user\n\nmodel\n")),
    "gemma3": Style(BOS + LOOP + "{{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else '') }}{{ message['content'] | trim }}"
                    "{{ '<end_of_turn>\\n' }}" + END + "{{ '<start_of_turn>model\\n' }}", TURN, True, 3, len("user\n\nmodel\n")),
    "phi3": Style(LOOP + "{{ '<|user|>\\n' + message['content'] + '<|end|>\\n' }}{{ '<|assistant|>\\n' + message['content'] + '<|end|>\\n' }}" + END +
                  "{{ '<|assistant|>\\n' }}", ROLES, False, 3, len("\n\n\n")),
    "phi3-v1": Style(BOS + LOOP + "{{ '<|user|>' + '\\n' + message['content'] + '<|end|>' + '\\n' + '<|assistant|>' + '\\n' }}"
                     "{{ message['content'] + '<|end|>' + '\\n' }}" + END, ROLES, True, 3, len("\n\n\n")),
    "zephyr": Style(LOOP + "{{ '<|user|>\\n' + message['content'] + eos_token }}\n{{ '<|system|>\\n' + message['content'] + eos_token }}\n"
                    "{{ '<|assistant|>\\n' + message['content'] + eos_token }}\n{{ '<|assistant|>' }}\n" + END, [], False, 1, len("<|user|>\n\n<|assistant|>\n")),
    "deepseek-v2": Style(BOS + LOOP + "{{ 'User: ' + message['content'] + '\\n\\n' }}{{ 'Assistant: ' + message['content'] + eos_token }}"
                         "{{ message['content'] + '\\n\\n' }}" + END + "{{ 'Assistant:' }}", [], True, 0, len("User: \n\nAssistant:")),
    "deepseek-v3": Style(BOS + "{% set ns.is_first_sp = true %}" + LOOP + "{{ '" + user + "' + message['content'] }}{{ '" + assistant +
                         "' + message['content'] + '" + sentence + "' }}" + END, DEEPSEEK, True, 2, 0),
    "deepseek-r1": Style(BOS + LOOP + "{% set ns.system_prompt = message['content'] %}{{ '" + user + "' + message['content'] }}"
                         "{% set content = content.split('</think>')[-1] %}{{ '" + assistant + "' + content + '" + sentence + "' }}" + END, DEEPSEEK, True, 2, 0),
}
UNKNOWN = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
