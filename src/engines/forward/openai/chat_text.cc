#include "engines/forward/openai/chat_text.h"

#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"
#include "text/processor.h"

namespace weir::forward {
namespace {

constexpr std::string_view kChat = "<|weir_chat|>", kEnd = "<|weir_end|>";
constexpr uint32_t kBytes = 256;

// Tool calls of earlier answers have their arguments as values here, and as JSON text in a request. It names
// developers: which roles there are is the origin's to know.
constexpr std::string_view kTemplate =
    R"j({#- 'developer' -#}<|weir_chat|>{"messages":[
{%- for m in messages -%}
{%- if not loop.first %},{% endif -%}
{"role":{{ m.role|tojson }},"content":{% if m.content is defined and m.content is not none %}{{ m.content|tojson }}{% else %}null{% endif -%}
{%- if m.name is defined and m.name %},"name":{{ m.name|tojson }}{% endif -%}
{%- if m.tool_call_id is defined and m.tool_call_id %},"tool_call_id":{{ m.tool_call_id|tojson }}{% endif -%}
{%- if m.tool_calls is defined and m.tool_calls %},"tool_calls":[
{%- for c in m.tool_calls -%}
{%- if not loop.first %},{% endif -%}
{"id":{% if c.id is defined and c.id %}{{ c.id|tojson }}{% else %}"call_{{ loop.index }}"{% endif %},"type":"function","function":{"name":{{ c.function.name|tojson }},"arguments":{% if c.function.arguments is string %}{{ c.function.arguments|tojson }}{% else %}{{ c.function.arguments|tojson|string|tojson }}{% endif %}}}
{%- endfor -%}
]{% endif -%}
}
{%- endfor -%}
]
{%- if tools is defined and tools %},"tools":{{ tools|tojson }}{% endif -%}
})j";

void append_utf8(std::string& out, uint32_t point) {
  if (point < 0x80) return void(out += char(point));
  out += char(0xc0 | (point >> 6));
  out += char(0x80 | (point & 0x3f));
}

// The character that stands for a byte in a vocabulary of bytes (GPT-2, encoder.py): itself where it can be seen, the
// others from U+0100 on.
std::string spelled(uint32_t byte, uint32_t& next) {
  const bool seen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  std::string out;
  append_utf8(out, seen ? byte : next++);
  return out;
}

std::string tokenizer_of_bytes() {
  std::string out = R"({"version":"1.0","added_tokens":[)";
  uint32_t id = kBytes;
  for (std::string_view special : {kChat, kEnd}) {
    out += id > kBytes ? R"(,{"id":)" : R"({"id":)";
    out += std::to_string(id) + R"(,"content":)";
    ++id;
    marshal::write_string(out, special);
    out += R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  }
  out += R"(],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,)"
         R"("use_regex":false},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE",)"
         R"("dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
         R"("fuse_unk":false,"byte_fallback":false,"merges":[],"vocab":{)";
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    if (byte > 0) out += ',';
    marshal::write_string(out, spelled(byte, next));
    out += ':' + std::to_string(byte);
  }
  return out + "}}}";
}

}  // namespace

base::Result<std::shared_ptr<const msg::TextSpec>> make_chat_text() {
  const std::string config = R"({"eos_token":")" + std::string(kEnd) + R"("})";
  auto processor = text::make_processor(tokenizer_of_bytes(), config, kTemplate, "hermes");
  if (!processor) return processor.error();
  auto spec = std::make_shared<msg::TextSpec>();
  spec->vocabulary = (*processor)->tokenizer->size();
  spec->eos_ids = {kBytes + 1};
  spec->codec = *std::move(processor);
  return spec;
}

base::Result<std::string> members_of_prompt(std::string_view prompt) {
  std::string out;
  if (!prompt.starts_with(kChat)) {
    out = R"("messages":[{"role":"user","content":)";
    marshal::write_string(out, prompt);
    return out + "}]";
  }
  prompt.remove_prefix(kChat.size());
  marshal::JsonCursor json(prompt);
  uint32_t messages = 0, tools = 0, others = 0;
  const auto list = [&](uint32_t& count) {
    ++count;
    return json.peek() == marshal::JsonCursor::Kind::kArray && json.skip();
  };
  const bool ok = json.object([&](std::string_view name) {
    return name == "messages" ? list(messages) : name == "tools" ? list(tools) : (++others, json.skip());
  }) && json.finish();
  if (!ok || messages != 1 || tools > 1 || others > 0)
    return base::invalid("a prompt that begins with " + std::string(kChat) + " is the JSON of messages and tools");
  const size_t first = prompt.find('{'), last = prompt.rfind('}');
  return std::string(prompt.substr(first + 1, last - first - 1));
}

}  // namespace weir::forward
