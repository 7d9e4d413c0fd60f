#include "engines/forward/openai/chat_message.h"

#include <utility>

#include "engines/forward/openai/message_parts.h"
#include "engines/forward/refusal.h"
#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"

namespace weir::forward {
namespace {

using base::Bytes;
using marshal::FieldReader;
using marshal::JsonCursor;

constexpr size_t kLongestToolName = 256;

class ChatChunkReader {
 public:
  ChatChunkReader(std::string_view json, ToolCalls& calls) : json_(json), fields_(json_), calls_(calls) {}

  base::Result<CompletionChunk> read() {
    const bool ok = json_.object([&](std::string_view name) {
      if (name == "choices") return fields_.none() || choices();
      if (name == "usage") return fields_.none() || read_usage(json_, fields_, out_);
      if (name == "error") return fields_.none() || read_error(json_, fields_, out_);
      return json_.skip();
    }) && json_.finish();
    if (!ok) return broken_rule("its event is no chunk of a chat completion: " + fields_.error().text);
    return std::move(out_);
  }

 private:
  bool choices() {
    size_t count = 0;
    return json_.array([&] {
      if (++count > 1) return fields_.refuse("choices", "more than one");
      return json_.object([&](std::string_view name) {
        if (name == "delta" || name == "message") return fields_.none() || delta();
        if (name == "finish_reason") return fields_.text("finish_reason", 64, out_.finish);
        return json_.skip();
      });
    });
  }
  bool delta() {
    return json_.object([&](std::string_view name) {
      if (name == "content") return fields_.text("content", SIZE_MAX, out_.text);
      if (name == "tool_calls") return fields_.none() || tool_calls();
      return json_.skip();
    });
  }
  // A whole message has no `index`: its calls are counted.
  bool tool_calls() {
    size_t next = 0;
    return json_.array([&] {
      size_t index = next++;
      std::string name, arguments;
      const bool ok = json_.object([&](std::string_view member) {
        if (member == "index") return fields_.whole("index", 0, ToolCalls::kMost, index);
        if (member != "function" || fields_.none()) return member == "function" || json_.skip();
        return json_.object([&](std::string_view part) {
          if (part == "name") return fields_.text("name", kLongestToolName, name);
          return part == "arguments" ? fields_.text("arguments", ToolCalls::kMostText, arguments) : json_.skip();
        });
      });
      return ok && (calls_.add(index, name, arguments) || fields_.refuse("tool_calls", "too many, or too long"));
    });
  }

  JsonCursor json_;
  FieldReader fields_;
  ToolCalls& calls_;
  CompletionChunk out_;
};

}  // namespace

bool ToolCalls::add(size_t index, std::string_view name, std::string_view arguments) {
  size_ += name.size() + arguments.size();
  if (index >= kMost || index > calls_.size() || size_ > kMostText) return false;
  if (index == calls_.size()) calls_.emplace_back();
  calls_[index].name += name;
  calls_[index].arguments += arguments;
  return true;
}

base::Result<std::string> ToolCalls::text() const {
  std::string out;
  for (const Call& call : calls_) {
    JsonCursor json(call.arguments);
    const bool none = call.arguments.find_first_not_of(" \t\r\n") == std::string::npos;
    if (!none && (json.peek() != JsonCursor::Kind::kObject || !json.skip() || !json.finish()))
      return broken_rule("its call of a tool has arguments that are no object of JSON");
    out += out.empty() ? "<tool_call>\n{\"name\": " : "\n<tool_call>\n{\"name\": ";
    marshal::write_string(out, call.name);
    ((out += ", \"arguments\": ") += none ? "{}" : call.arguments) += "}\n</tool_call>";
  }
  return out;
}

base::Result<CompletionChunk> read_chat_chunk(std::string_view json, ToolCalls& calls) {
  return ChatChunkReader(json, calls).read();
}

Bytes write_chat(const msg::Call& call, std::string_view members, std::string_view model, uint32_t max_length) {
  const msg::Generation& params = *call.generation;
  MessageWriter out(256 + members.size());
  out.text("model", model);
  out.raw(members);
  const bool open = params.length() + params.max_tokens >= max_length;
  if (!open) out.whole("max_tokens", params.max_tokens);
  write_sampling(out, params.sampling, 0);
  if (params.constraint && params.constraint->form()) write_form(out, *params.constraint->form());
  out.flag("stream");
  out.member("stream_options") += R"({"include_usage":true})";
  return out.done();
}

}  // namespace weir::forward
