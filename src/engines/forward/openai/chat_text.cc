#include "engines/forward/openai/chat_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/encoding.h"
#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"
#include "text/processor.h"

namespace weir::forward {
namespace {

constexpr std::string_view kChat = "<|weir_chat|>", kEnd = "<|weir_end|>";
constexpr std::string_view kImage = "<|weir_image|>", kPad = "<|weir_pad|>", kImageEnd = "<|weir_image_end|>";
constexpr std::array<std::string_view, 5> kSpecial{kChat, kEnd, kImage, kPad, kImageEnd};
constexpr uint32_t kBytes = 256;
static_assert(kNoText == kBytes + kSpecial.size());

// Tool calls of earlier answers have their arguments as values here, and as JSON text in a request. It names
// developers, and </think>: which roles there are, and who thinks, is the origin's to know.
constexpr std::string_view kTemplate =
    R"j({#- 'developer' </think> -#}<|weir_chat|>{"messages":[
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
{%- if elsewhere is defined %}{% for name, value in elsewhere.items() %},{{ name|tojson }}:{{ value|tojson }}{% endfor %}{% endif -%}
})j";

// Members that a prompt may have once each, and what they are.
using JsonKind = marshal::JsonCursor::Kind;
struct ChatMember {
  std::string_view name;
  JsonKind kind, or_kind;
};
constexpr std::array<ChatMember, 7> kChatMembers{{{"messages", JsonKind::kArray, JsonKind::kArray},
                                                  {"tools", JsonKind::kArray, JsonKind::kArray},
                                                  {"tool_choice", JsonKind::kString, JsonKind::kObject},
                                                  {"parallel_tool_calls", JsonKind::kBool, JsonKind::kBool},
                                                  {"reasoning_effort", JsonKind::kString, JsonKind::kString},
                                                  {"verbosity", JsonKind::kString, JsonKind::kString},
                                                  {"chat_template_kwargs", JsonKind::kObject, JsonKind::kObject}}};

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
  for (std::string_view special : kSpecial) {
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

// {"url":"data:…"}, or what it is already.
base::Bytes json_of(const msg::Image& image) {
  if (image.as_json) return image.data;
  std::string url = "data:" + image.mime + ";base64,", out = R"({"url":)";
  url += base::base64_encode(image.data.view());
  marshal::write_string(out, url);
  return base::Bytes::adopt(out + '}');
}

// Texts that have images in them become lists of parts. JSON is read no closer than to know its strings: it has been
// checked.
class ImageWriter {
 public:
  ImageWriter(std::string_view members, std::span<const msg::Image> images) : rest_(members), images_(images) {}

  base::Result<std::vector<base::Bytes>> write() {
    size_t raw = 0;
    for (const auto& image : images_) raw += image.as_json ? 0 : image.data.size();
    if (raw > kMostRawImages)
      return base::invalid("images: at most " + std::to_string(kMostRawImages) + " bytes of them can be forwarded");
    if (images_.empty()) text_ = std::exchange(rest_, {});
    const std::string place = std::string(kImage) + std::string(kPad) + std::string(kImageEnd);
    while (!rest_.empty()) {
      const size_t at = rest_.find(place);
      copy(rest_.substr(0, at));
      rest_.remove_prefix(std::min(at, rest_.size()));
      if (rest_.empty()) break;
      rest_.remove_prefix(place.size());
      if (next_ == images_.size() || !in_string_) return wrong();
      put(images_[next_++]);
    }
    if (next_ < images_.size()) return wrong();
    pieces_.push_back(base::Bytes::adopt(std::move(text_)));
    return std::move(pieces_);
  }

 private:
  static base::Status wrong() { return base::invalid("messages: a text that stands for an image, without one"); }

  void copy(std::string_view json) {
    for (char c : json) {
      const bool quote = c == '"' && !escaped_;
      escaped_ = c == '\\' && !escaped_;
      if (quote && in_string_ && split_) end_part();
      if (quote && !in_string_) begin_ = text_.size(), split_ = false;
      const bool closes_list = quote && in_string_ && split_;
      if (quote) in_string_ = !in_string_;
      if (closes_list)
        text_ += ']';
      else
        text_ += c;
    }
  }
  // The string so far is a part of type text, without its end.
  void put(const msg::Image& image) {
    if (!split_) text_.insert(begin_, "[" + std::string(kTextPart)), begin_ += 1, split_ = true;
    end_part();
    if (text_.back() == '}') text_ += ',';
    text_ += R"({"type":"image_url","image_url":)";
    pieces_.push_back(base::Bytes::adopt(std::move(text_)));
    pieces_.push_back(json_of(image));
    text_ = "},";
    begin_ = text_.size();
    (text_ += kTextPart) += '"';
  }
  // A part without text is left out, with the comma before it.
  void end_part() {
    if (text_.size() > begin_ + kTextPart.size() + 1) return void(text_ += "\"}");
    text_.resize(begin_);
    if (text_.back() == ',') text_.pop_back();
  }

  static constexpr std::string_view kTextPart = R"({"type":"text","text":)";
  std::string_view rest_;
  const std::span<const msg::Image> images_;
  size_t next_ = 0;
  std::vector<base::Bytes> pieces_;
  std::string text_;  // behind them
  size_t begin_ = 0;  // of the string, or of its last part, in `text_`
  bool in_string_ = false, escaped_ = false, split_ = false;
};

}  // namespace

base::Result<std::shared_ptr<const msg::TextSpec>> make_chat_text() {
  const std::string config = R"({"eos_token":")" + std::string(kEnd) + R"("})";
  auto processor = text::make_processor(tokenizer_of_bytes(), config, kTemplate, "hermes");
  if (!processor) return processor.error();
  auto spec = std::make_shared<msg::TextSpec>();
  spec->vocabulary = uint32_t((*processor)->tokenizer->size()) + 1;  // with kNoText
  spec->eos_ids = {kBytes + 1};
  spec->codec = *std::move(processor);
  spec->remote_chat = msg::TextSpec::RemoteChat{};
  return spec;
}

msg::TextSpec::Vision chat_vision() {
  const auto one = [](std::string_view, std::string_view) { return base::Result<uint32_t>(1); };
  return {.start_id = kBytes + 2, .pad_id = kBytes + 3, .end_id = kBytes + 4, .features = one};
}

bool is_chat(std::string_view prompt) { return prompt.starts_with(kChat); }

base::Result<std::string> members_of_prompt(std::string_view prompt) {
  std::string out;
  if (!prompt.starts_with(kChat)) {
    out = R"("messages":[{"role":"user","content":)";
    marshal::write_string(out, prompt);
    return out + "}]";
  }
  prompt.remove_prefix(kChat.size());
  marshal::JsonCursor json(prompt);
  std::array<bool, kChatMembers.size()> seen{};
  const bool ok = json.object([&](std::string_view name) {
    const auto* member =
        std::find_if(kChatMembers.begin(), kChatMembers.end(), [&](const ChatMember& m) { return m.name == name; });
    if (member == kChatMembers.end() || std::exchange(seen[size_t(member - kChatMembers.begin())], true)) return false;
    const JsonKind kind = json.peek();
    return (kind == member->kind || kind == member->or_kind) && json.skip();
  }) && json.finish();
  if (!ok || !seen[0])
    return base::invalid("a prompt that begins with " + std::string(kChat) + " is the JSON of messages and tools");
  const size_t first = prompt.find('{'), last = prompt.rfind('}');
  return std::string(prompt.substr(first + 1, last - first - 1));
}

base::Result<std::vector<base::Bytes>> put_images(std::string_view members, std::span<const msg::Image> images) {
  return ImageWriter(members, images).write();
}

}  // namespace weir::forward
