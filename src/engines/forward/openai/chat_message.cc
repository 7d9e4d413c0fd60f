#include "engines/forward/openai/chat_message.h"

#include <algorithm>
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
  ChatChunkReader(std::string_view json, ToolCalls& calls, LogprobLimits limits)
      : json_(json), fields_(json_), calls_(calls), limits_(limits), logprobs_(json_, fields_, limits) {}

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
        if (name == "logprobs" && limits_.tokens > 0) return fields_.none() || logprobs();
        return json_.skip();
      });
    });
  }
  bool logprobs() {
    return json_.object([&](std::string_view name) {
      return name == "content" ? fields_.none() || logprobs_.list(out_.logprobs) : json_.skip();
    });
  }
  bool delta() {
    return json_.object([&](std::string_view name) {
      if (name == "content") return fields_.text("content", SIZE_MAX, out_.text);
      if (name == "refusal") return fields_.text("refusal", SIZE_MAX, out_.refusal);
      if (name == "tool_calls") return fields_.none() || tool_calls();
      if (name == "reasoning_content" || name == "reasoning") return thoughts();
      return json_.skip();
    });
  }
  // Origins write them under either name, or the same under both; some have other things than texts there.
  bool thoughts() {
    std::string_view text;
    if (json_.peek() != JsonCursor::Kind::kString) return json_.skip();
    if (!json_.string(text)) return false;
    if (text.size() > out_.thoughts.size()) out_.thoughts = text;
    return true;
  }
  bool tool_calls() {
    return json_.array([&] {
      ToolCalls::Part piece;
      const bool ok = json_.object([&](std::string_view member) {
        if (member == "index") return fields_.whole("index", 0, ToolCalls::kMost, piece.index);
        if (member == "id" && json_.peek() == JsonCursor::Kind::kString) return json_.string(piece.id);
        if (member != "function" || fields_.none()) return member == "function" || json_.skip();
        return json_.object([&](std::string_view part) {
          if (part == "name") return fields_.text("name", kLongestToolName, piece.name);
          return part == "arguments" ? fields_.text("arguments", ToolCalls::kMostText, piece.arguments) : json_.skip();
        });
      });
      out_.unseen += piece.name.size() + piece.arguments.size();
      return ok && (calls_.add(piece) || fields_.refuse("tool_calls", "too many, or too long"));
    });
  }

  JsonCursor json_;
  FieldReader fields_;
  ToolCalls& calls_;
  const LogprobLimits limits_;
  LogprobReader logprobs_;
  CompletionChunk out_;
};

}  // namespace

// The last one with its index; without an index the last one of all, unless the part begins a call. Null: a new one.
ToolCalls::Call* ToolCalls::call_of(const Part& part) {
  const auto last = std::find_if(calls_.rbegin(), calls_.rend(),
                                 [&](const Call& call) { return !part.index || call.index == part.index; });
  if (last == calls_.rend() || (!part.index && !part.name.empty())) return nullptr;
  return part.id.empty() || last->id.empty() || part.id == last->id ? &*last : nullptr;
}

bool ToolCalls::add(const Part& part) {
  Call* call = call_of(part);
  if (!call && (calls_.size() == kMost || part.index.value_or(0) > calls_.size())) return false;
  if (!call) call = &calls_.emplace_back(Call{part.index, {}, {}, {}});
  if (call->id.empty()) call->id = part.id, size_ += part.id.size();
  size_ += part.name.size() + part.arguments.size();
  if (size_ > kMostText) return false;
  call->name += part.name;
  call->arguments += part.arguments;
  return true;
}

bool ToolCalls::Call::has_object() const {
  JsonCursor json(arguments);
  return json.peek() == JsonCursor::Kind::kObject && json.skip() && json.finish();
}

base::Result<std::string> ToolCalls::text(Ending ending) const {
  std::string out;
  for (const Call& call : calls_) {
    const bool none = call.arguments.find_first_not_of(" \t\r\n") == std::string::npos;
    if (ending == Ending::kCut && &call == &calls_.back() && !call.has_object()) break;
    if (!none && !call.has_object()) return broken_rule("its call of a tool has arguments that are no object of JSON");
    out += out.empty() ? "<tool_call>\n{\"name\": " : "\n<tool_call>\n{\"name\": ";
    marshal::write_string(out, call.name);
    ((out += ", \"arguments\": ") += none ? "{}" : call.arguments) += "}\n</tool_call>";
  }
  return out;
}

base::Result<CompletionChunk> read_chat_chunk(std::string_view json, ToolCalls& calls, LogprobLimits limits) {
  return ChatChunkReader(json, calls, limits).read();
}

std::vector<Bytes> write_chat(const msg::Call& call, std::vector<Bytes> members, const Options& options,
                              uint32_t max_length) {
  const msg::Generation& params = *call.generation;
  MessageWriter out(512);
  out.text("model", options.model);
  const bool open = params.length() + params.max_tokens >= max_length;
  const bool of_all = options.token_limit == TokenLimit::kMaxCompletionTokens;
  if (!open) out.whole(of_all ? "max_completion_tokens" : "max_tokens", params.max_tokens);
  write_sampling(out, params.sampling, 0);
  if (params.constraint && params.constraint->form()) write_form(out, *params.constraint->form());
  if (!params.logprobs.empty()) {
    out.flag("logprobs");
    if (params.top_logprobs > 0) out.whole("top_logprobs", params.top_logprobs);
  }
  out.flag("stream");
  out.member("stream_options") += R"({"include_usage":true},)";
  members.insert(members.begin(), out.open());
  members.push_back(Bytes::constant("}"));
  return members;
}

}  // namespace weir::forward
