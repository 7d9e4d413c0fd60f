#include "engines/forward/openai/message.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/encoding.h"
#include "engines/forward/openai/message_parts.h"
#include "engines/forward/passed_on.h"
#include "engines/forward/refusal.h"
#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"

namespace weir::forward {
namespace {

using base::Bytes;
using base::Code;
using base::failure;
using base::Status;
using marshal::FieldReader;
using marshal::JsonCursor;

constexpr size_t kMostListed = 10'000, kMostNamed = 5;

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15, kFirst = 0xbf58476d1ce4e5b9, kSecond = 0x94d049bb133111eb;

// The finalizer of splitmix64, and its inverse.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * kFirst;
  x = (x ^ (x >> 27)) * kSecond;
  return x ^ (x >> 31);
}
constexpr uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 5; ++i) x *= 2 - odd * x;  // Newton: each step doubles the bits that are right
  return x;
}
uint64_t unmix(uint64_t x) {
  x = (x ^ (x >> 31) ^ (x >> 62)) * inverse(kSecond);
  x = (x ^ (x >> 27) ^ (x >> 54)) * inverse(kFirst);
  return x ^ (x >> 30) ^ (x >> 60);
}

// --- answers ---------------------------------------------------------------------------------------------------------

std::optional<uint32_t> id_of(std::string_view name) {
  constexpr std::string_view kPrefix = "token_id:";
  if (!name.starts_with(kPrefix)) return {};
  uint32_t id = 0;
  const char* end = name.data() + name.size();
  auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, id);
  return error == std::errc() && at == end ? std::optional(id) : std::nullopt;
}

class ChunkReader {
 public:
  ChunkReader(std::string_view json, size_t most_logprobs)
      : json_(json), fields_(json_), most_logprobs_(std::min(most_logprobs, kMostChunkLogprobs)) {}

  base::Result<CompletionChunk> read() {
    if (!document()) return broken_rule("its event is no chunk of a completion: " + fields_.error().text);
    return std::move(out_);
  }

 private:
  bool document() {
    return json_.object([&](std::string_view name) {
      if (name == "choices") return choices();
      if (name == "usage") return fields_.none() || read_usage(json_, fields_, out_);
      if (name == "error") return fields_.none() || read_error(json_, fields_, out_);
      return json_.skip();
    }) && json_.finish();
  }

  bool choices() {
    size_t count = 0;
    return json_.array([&] {
      if (++count > 1) return fields_.refuse("choices", "more than one");
      return json_.object([&](std::string_view name) { return choice(name); });
    });
  }

  bool choice(std::string_view name) {
    if (name == "text") return fields_.text("text", SIZE_MAX, out_.text);
    if (name == "token_ids") return fields_.ids("token_ids", kMostChunkTokens, out_.ids);
    if (name == "finish_reason") return fields_.text("finish_reason", 64, out_.finish);
    if (name == "logprobs") return fields_.none() || logprobs();
    return json_.skip();
  }

  // OpenAI's of completions: lists side by side. Those of chats, which llama.cpp has here too: a list of objects.
  bool logprobs() {
    std::vector<std::string> tokens;
    std::vector<float> values;
    std::vector<std::vector<NamedToken>> tops;
    const bool ok = json_.object([&](std::string_view name) {
      if (name == "content") return fields_.none() || content();
      if (name == "tokens")
        return list(tokens, [&](std::string& token) { return fields_.text("tokens", 4096, token); });
      if (name == "token_logprobs") return list(values, [&](float& value) { return number(value); });
      if (name == "top_logprobs") return list(tops, [&](auto& top) { return fields_.none() || named(top); });
      return json_.skip();
    });
    if (!ok) return false;
    if (tokens.size() != values.size()) return fields_.refuse("logprobs", "lists of different lengths");
    for (size_t i = 0; i < tokens.size(); ++i) {
      auto& one = out_.logprobs.emplace_back();
      one.token = {id_of(tokens[i]), std::move(tokens[i]), values[i]};
      if (i < tops.size()) one.top = std::move(tops[i]);
    }
    return true;
  }

  template <class T, class F>
  bool list(std::vector<T>& out, F&& read) {
    return fields_.none() || json_.array([&] {
      if (out.size() == most_logprobs_) return fields_.refuse("logprobs", "too many entries");
      return read(out.emplace_back());
    });
  }

  bool number(float& out) {
    std::optional<float> value;
    if (!fields_.real("logprob", -1e30, 1e30, value)) return false;
    out = value.value_or(0);
    return true;
  }

  // {"token": logprob, …}
  bool named(std::vector<NamedToken>& out) {
    return json_.object([&](std::string_view name) {
      if (out.size() == kMostTop) return fields_.refuse("top_logprobs", "too many entries");
      auto& one = out.emplace_back();
      one.id = id_of(name), one.text = name;
      return number(one.logprob);
    });
  }

  // [{"token", "id", "logprob", "top_logprobs": [the same]}, …]
  bool content() {
    return json_.array([&] {
      if (out_.logprobs.size() >= most_logprobs_) return fields_.refuse("logprobs", "too many entries");
      auto& one = out_.logprobs.emplace_back();
      return entry(one.token, &one.top);
    });
  }
  bool entry(NamedToken& out, std::vector<NamedToken>* top) {
    return json_.object([&](std::string_view name) {
      if (name == "token") {
        if (!fields_.text("token", 4096, out.text)) return false;
        if (!out.id) out.id = id_of(out.text);
        return true;
      }
      if (name == "id") return fields_.whole("id", 0, UINT32_MAX, out.id);
      if (name == "logprob") return number(out.logprob);
      if (name != "top_logprobs" || !top) return json_.skip();
      return json_.array([&] {
        if (top->size() == kMostTop) return fields_.refuse("top_logprobs", "too many entries");
        return entry(top->emplace_back(), nullptr);
      });
    });
  }

  JsonCursor json_;
  FieldReader fields_;
  const size_t most_logprobs_;
  CompletionChunk out_;
};

}  // namespace

uint64_t later_seed(uint64_t seed, uint64_t draws) {
  return draws == 0 ? seed : unmix(mix(seed + kGolden) + draws * kGolden) - kGolden;
}

Bytes write_completion(const msg::Call& call, std::span<const uint32_t> generated, std::string_view model) {
  const msg::Generation& params = *call.generation;
  const auto done = uint32_t(generated.size());
  MessageWriter out(512 + 7 * (params.length() + done));
  out.text("model", model);
  out.ids<std::span<const uint32_t>>("prompt", {params.history, params.append, generated});
  out.whole("max_tokens", params.max_tokens - std::min(done, params.max_tokens));
  if (params.min_tokens > done) out.whole("min_tokens", params.min_tokens - done);
  write_sampling(out, params.sampling, done);
  if (!params.stop_ids.empty()) out.ids<std::span<const uint32_t>>("stop_token_ids", {params.stop_ids});
  if (params.ignore_eos) out.flag("ignore_eos");
  if (!params.logprobs.empty()) {
    out.whole("logprobs", params.top_logprobs);
    out.flag("return_tokens_as_token_ids");
  }
  // Prefixes that are not shared here are not shared there.
  if (const uint64_t salt = params.cache_salt ^ call.cache_scope; salt != 0) out.text("cache_salt", hex_digits(salt));
  if (params.constraint && params.constraint->form()) write_form(out, *params.constraint->form());
  out.flag("return_token_ids");
  out.flag("stream");
  out.member("stream_options") += R"({"include_usage":true})";
  return out.done();
}

Bytes write_embedding_request(const msg::Call& call, std::string_view model) {
  const msg::Generation& params = *call.generation;
  MessageWriter out(128 + 7 * params.length());
  out.text("model", model);
  out.ids<std::span<const uint32_t>>("input", {params.history, params.append});
  out.text("encoding_format", "base64");
  return out.done();
}

base::Result<msg::Outputs> read_embedding(std::string_view text, uint32_t hidden_size) {
  std::string coded;
  std::vector<float> values;
  size_t count = 0;
  JsonCursor json(text);
  FieldReader fields(json);
  auto value = [&] {
    if (values.size() == hidden_size) return fields.refuse("embedding", "too many numbers");
    marshal::JsonNumber number;
    return json.plain(values.emplace_back()) || (json.number(number) && number.to(values.back()));
  };
  auto embedding = [&] {
    return json.peek() == JsonCursor::Kind::kArray ? json.array(value) : fields.text("embedding", SIZE_MAX, coded);
  };
  auto one = [&] {
    if (++count > 1) return fields.refuse("data", "more than one embedding");
    return json.object([&](std::string_view name) { return name == "embedding" ? embedding() : json.skip(); });
  };
  const bool ok = json.object([&](std::string_view name) { return name == "data" ? json.array(one) : json.skip(); });
  if (!ok || !json.finish()) return broken_rule("its embedding: " + fields.error().text);
  auto bytes = base::base64_decode(coded);
  if (!values.empty()) bytes.emplace(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  if (!bytes || bytes->size() != size_t(hidden_size) * sizeof(float))
    return broken_rule("its embedding is not " + std::to_string(hidden_size) + " floats, in base64 or as a list");
  msg::Outputs out;
  out.tensors.push_back({"embedding", msg::DType::kFp32, {int64_t(hidden_size)}, Bytes::copy_of(*bytes)});
  return out;
}

base::Result<CompletionChunk> read_chunk(std::string_view json, size_t most_logprobs) {
  return ChunkReader(json, most_logprobs).read();
}

base::Result<ListedModel> read_models(std::string_view text, std::string_view model) {
  ListedModel out;
  size_t count = 0;
  JsonCursor json(text);
  FieldReader fields(json);
  auto length = [&](std::string_view name, uint32_t& to) { return fields.whole(name, 0, 1 << 24, to); };
  auto one = [&] {
    std::string id;
    uint32_t own = 0, meta = 0, width = 0;
    if (++count > kMostListed) return fields.refuse("data", "too many models");
    const bool ok = json.object([&](std::string_view name) {
      if (name == "id") return fields.text("id", 4096, id);
      if (name == "max_model_len") return length(name, own);
      if (name == "embedding_size") return length(name, width);
      if (name != "meta" || fields.none()) return name == "meta" || json.skip();
      return json.object([&](std::string_view member) {
        if (member == "n_embd") return length(member, width);
        if (member == "n_ctx" || (member == "n_ctx_train" && meta == 0)) return length(member, meta);
        return json.skip();
      });
    });
    if (id == model) out.found = true, out.max_length = own > 0 ? own : meta, out.embedding_size = width;
    if (count <= kMostNamed) out.others += (out.others.empty() ? "'" : ", '") + base::presentable(id, 64) + "'";
    return ok;
  };
  const bool ok = json.object([&](std::string_view name) {
    if (name != "data") return json.skip();
    return fields.none() || json.array(one);
  });
  if (!ok || !json.finish()) return broken_rule("its list of models: " + fields.error().text);
  return out;
}

}  // namespace weir::forward
