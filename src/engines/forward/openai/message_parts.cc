#include "engines/forward/openai/message_parts.h"

#include <algorithm>
#include <charconv>

#include "base/encoding.h"
#include "engines/forward/refusal.h"

namespace weir::forward {
namespace {

constexpr size_t kLongestWords = 1000;  // of an origin's error that is shown
constexpr int64_t kMostCount = UINT32_MAX;

}  // namespace

void write_sampling(MessageWriter& out, const msg::Sampling& sampling, uint64_t draws) {
  marshal::write_number(out.member("temperature"), sampling.temperature);
  out.real("top_p", sampling.top_p, 1);
  out.real("min_p", sampling.min_p, 0);
  out.real("presence_penalty", sampling.presence_penalty, 0);
  out.real("frequency_penalty", sampling.frequency_penalty, 0);
  out.real("repetition_penalty", sampling.repetition_penalty, 1);
  if (sampling.top_k > 0) out.whole("top_k", sampling.top_k);
  if (sampling.seed) out.whole("seed", int64_t(later_seed(*sampling.seed, draws)));
  if (sampling.logit_bias.empty()) return;
  std::string& text = out.member("logit_bias");
  text += '{';
  for (auto [id, bias] : sampling.logit_bias) {
    if (text.back() != '{') text += ',';
    (text += '"') += std::to_string(id) + "\":";
    marshal::write_number(text, std::clamp(bias, -100.0f, 100.0f));
  }
  text += '}';
}

void write_form(MessageWriter& out, const msg::StructuredOutput& form) {
  using Kind = msg::StructuredOutput::Kind;
  const auto structured = [&](std::string_view name) {
    std::string& text = out.member("structured_outputs");
    ((text += "{\"") += name) += "\":";
    marshal::write_string(text, form.text);
    text += '}';
  };
  switch (form.kind) {
    case Kind::kJsonObject: out.member("response_format") += R"({"type":"json_object"})"; break;
    case Kind::kJsonSchema: {
      std::string& text = out.member("response_format");
      const bool strict = form.schema == msg::StructuredOutput::Schema::kStrict;
      text += R"({"type":"json_schema","json_schema":{"name":"answer","strict":)";
      ((text += strict ? "true" : "false") += ",\"schema\":") += form.text;
      text += "}}";
      break;
    }
    case Kind::kRegex: structured("regex"); break;
    case Kind::kGrammar: structured("grammar"); break;
    case Kind::kChoice: {
      std::string& text = out.member("structured_outputs");
      text += R"({"choice":[)";
      for (const auto& choice : form.choices) marshal::write_string(text, choice), text += ',';
      text.back() = ']';
      text += '}';
      break;
    }
    case Kind::kToolCalls: break;  // is not sent: Kind::fits()
  }
}

bool read_usage(marshal::JsonCursor& json, marshal::FieldReader& fields, CompletionChunk& out) {
  return json.object([&](std::string_view name) {
    if (name == "prompt_tokens") return fields.whole("prompt_tokens", 0, kMostCount, out.prompt_tokens);
    if (name == "completion_tokens") return fields.whole("completion_tokens", 0, kMostCount, out.completion_tokens);
    // DeepSeek's, and SGLang's, beside OpenAI's own.
    if (name == "prompt_cache_hit_tokens") return fields.whole(name, 0, kMostCount, out.cached_tokens);
    if (name == "reasoning_tokens") return fields.whole(name, 0, kMostCount, out.thought_tokens);
    const bool details = name == "prompt_tokens_details" || name == "completion_tokens_details";
    if (!details || fields.none()) return details || json.skip();
    return json.object([&](std::string_view detail) {
      if (detail == "cached_tokens") return fields.whole(detail, 0, kMostCount, out.cached_tokens);
      if (detail == "reasoning_tokens") return fields.whole(detail, 0, kMostCount, out.thought_tokens);
      return json.skip();
    });
  });
}

std::optional<uint32_t> id_in_name(std::string_view name) {
  constexpr std::string_view kPrefix = "token_id:";
  if (!name.starts_with(kPrefix)) return {};
  uint32_t id = 0;
  const char* end = name.data() + name.size();
  auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, id);
  return error == std::errc() && at == end ? std::optional(id) : std::nullopt;
}

bool LogprobReader::list(std::vector<NamedLogprob>& out) {
  return json_.array([&] {
    if (out.size() >= std::min(limits_.tokens, kMostChunkLogprobs))
      return fields_.refuse("logprobs", "too many entries");
    auto& one = out.emplace_back();
    return entry(one.token, &one.top);
  });
}

bool LogprobReader::number(float& out) {
  std::optional<float> value;
  if (!fields_.real("logprob", -1e30, 1e30, value)) return false;
  out = value.value_or(0);
  return true;
}

bool LogprobReader::entry(NamedToken& out, std::vector<NamedToken>* top) {
  std::string raw;
  const bool ok = json_.object([&](std::string_view name) {
    if (name == "token") return fields_.text("token", kMostTokenText, out.text);
    if (name == "id") return fields_.whole("id", 0, UINT32_MAX, out.id);
    if (name == "logprob") return number(out.logprob);
    if (name == "bytes") return fields_.none() || bytes(raw);
    if (name == "top_logprobs" && top) return fields_.none() || alternatives(*top);
    return json_.skip();
  });
  if (!out.id) out.id = id_in_name(out.text);
  if (!raw.empty()) out.text = std::move(raw);
  return ok;
}

bool LogprobReader::alternatives(std::vector<NamedToken>& out) {
  return json_.array([&] {
    if (out.size() >= limits_.top) return json_.skip();
    if (out.size() == kMostTop || ++tops_ > kMostChunkTops) return fields_.refuse("top_logprobs", "too many entries");
    return entry(out.emplace_back(), nullptr);
  });
}

bool LogprobReader::bytes(std::string& out) {
  return json_.array([&] {
    uint32_t byte = 0;
    if (out.size() == kMostTokenText) return fields_.refuse("bytes", "too many");
    return fields_.whole("bytes", 0, 255, byte) && (out += char(byte), true);
  });
}

bool read_error(marshal::JsonCursor& json, marshal::FieldReader& fields, CompletionChunk& out) {
  std::string text;
  int64_t code = 500;
  if (json.peek() == marshal::JsonCursor::Kind::kString) {
    if (!json.string(text)) return false;
  } else if (!json.object([&](std::string_view name) {
               if (name == "message") return fields.text("message", SIZE_MAX, text);
               if (name == "code" && json.at_number()) return fields.whole("code", INT32_MIN, INT32_MAX, code);
               return json.skip();
             })) {
    return false;
  }
  const int status = code >= 400 && code < 600 ? int(code) : 500;
  out.error = base::failure(code_of_status(status), base::presentable(text, kLongestWords));
  return true;
}

}  // namespace weir::forward
