// The chat formats that are used where a model's folder has no template of its own.
#pragma once

#include <string_view>

namespace weir::text {

// <|im_start|>role … <|im_end|>
inline constexpr std::string_view kChatml = R"({%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%})";

// <|start_header_id|>role<|end_header_id|> … <|eot_id|>
inline constexpr std::string_view kLlama3 = R"({{- bos_token -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' -}}
{{- (message['content'] or '') | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%})";

}  // namespace weir::text
