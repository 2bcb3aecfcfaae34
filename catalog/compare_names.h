/* compare_names.h - how another catalog spells what ours has. Data, read by compare.c only. */
#ifndef ISOTHERM_CATALOG_COMPARE_NAMES_H
#define ISOTHERM_CATALOG_COMPARE_NAMES_H

/* Their provider, ours; what their model ids begin with and ours in its place ("": nothing is
 * exchanged). The first line whose beginning fits counts. Not listed: no counterpart. */
#define COMPARE_PROVIDERS(X)                                                                       \
    X("alibaba", "alibaba-dashscope", "", "")                                                      \
    X("anthropic", "anthropic", "", "")                                                            \
    X("cohere", "cohere", "", "")                                                                  \
    X("deepseek", "deepseek", "", "")                                                              \
    X("google", "google-gemini", "", "")                                                           \
    X("meta", "meta-llama", "", "")                                                                \
    X("minimax", "minimax", "minimax-m", "MiniMax-M")                                              \
    X("minimax", "minimax", "", "")                                                                \
    X("mistral", "mistral", "", "")                                                                \
    X("moonshot", "moonshot", "", "")                                                              \
    X("nvidia", "nvidia-nim", "", "")                                                              \
    X("openai", "openai", "", "")                                                                  \
    X("perplexity", "perplexity", "", "")                                                          \
    X("xai", "xai", "", "")                                                                        \
    X("z-ai", "zhipu-glm", "", "")

/* Their path, our parameter; the listed value that stands for it where a path has several meanings
 * ("": the path as it is). */
#define COMPARE_PARAMS(X)                                                                          \
    X("temperature", "temperature", "")                                                            \
    X("generationConfig.temperature", "temperature", "")                                           \
    X("top_p", "top_p", "")                                                                        \
    X("p", "top_p", "")                                                                            \
    X("generationConfig.topP", "top_p", "")                                                        \
    X("top_k", "top_k", "")                                                                        \
    X("k", "top_k", "")                                                                            \
    X("extra_body.top_k", "top_k", "")                                                             \
    X("generationConfig.topK", "top_k", "")                                                        \
    X("min_p", "min_p", "")                                                                        \
    X("seed", "seed", "")                                                                          \
    X("random_seed", "seed", "")                                                                   \
    X("generationConfig.seed", "seed", "")                                                         \
    X("stop", "stop", "")                                                                          \
    X("stop_sequences", "stop", "")                                                                \
    X("generationConfig.stopSequences", "stop", "")                                                \
    X("max_tokens", "max_tokens", "")                                                              \
    X("max_completion_tokens", "max_tokens", "")                                                   \
    X("max_output_tokens", "max_tokens", "")                                                       \
    X("generationConfig.maxOutputTokens", "max_tokens", "")                                        \
    X("n", "n", "")                                                                                \
    X("presence_penalty", "presence_penalty", "")                                                  \
    X("frequency_penalty", "frequency_penalty", "")                                                \
    X("repetition_penalty", "repetition_penalty", "")                                              \
    X("logprobs", "logprobs", "")                                                                  \
    X("top_logprobs", "top_logprobs", "")                                                          \
    X("tool_choice", "tool_choice", "")                                                            \
    X("parallel_tool_calls", "parallel_tool_calls", "")                                            \
    X("reasoning_effort", "reasoning_effort", "")                                                  \
    X("reasoning.effort", "reasoning_effort", "")                                                  \
    X("output_config.effort", "reasoning_effort", "")                                              \
    X("verbosity", "verbosity", "")                                                                \
    X("text.verbosity", "verbosity", "")                                                           \
    X("service_tier", "service_tier", "")                                                          \
    X("response_format.type", "response_format_json_object", "json_object")                        \
    X("response_format.type", "response_format_json_schema", "json_schema")                        \
    X("text.format.type", "response_format_json_object", "json_object")                            \
    X("text.format.type", "response_format_json_schema", "json_schema")                            \
    X("generationConfig.responseMimeType", "response_format_json_object", "application/json")

#endif
