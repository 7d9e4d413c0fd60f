#include "engines/forward/openai/message.h"

#include <algorithm>
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

class ChunkReader {
 public:
  ChunkReader(std::string_view json, size_t most_logprobs)
      : json_(json),
        fields_(json_),
        most_logprobs_(std::min(most_logprobs, kMostChunkLogprobs)),
        entries_(json_, fields_, {.tokens = most_logprobs_, .top = SIZE_MAX}) {}

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
      if (name == "content") return fields_.none() || entries_.list(out_.logprobs);
      if (name == "tokens")
        return list(tokens, [&](std::string& token) { return fields_.text("tokens", kMostTokenText, token); });
      if (name == "token_logprobs") return list(values, [&](float& value) { return entries_.number(value); });
      if (name == "top_logprobs") return list(tops, [&](auto& top) { return fields_.none() || named(top); });
      return json_.skip();
    });
    if (!ok) return false;
    if (tokens.size() != values.size()) return fields_.refuse("logprobs", "lists of different lengths");
    for (size_t i = 0; i < tokens.size(); ++i) {
      auto& one = out_.logprobs.emplace_back();
      one.token = {id_in_name(tokens[i]), std::move(tokens[i]), values[i]};
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

  // {"token": logprob, …}
  bool named(std::vector<NamedToken>& out) {
    return json_.object([&](std::string_view name) {
      if (out.size() == kMostTop) return fields_.refuse("top_logprobs", "too many entries");
      auto& one = out.emplace_back();
      one.id = id_in_name(name), one.text = name;
      return entries_.number(one.logprob);
    });
  }

  JsonCursor json_;
  FieldReader fields_;
  const size_t most_logprobs_;
  LogprobReader entries_;
  CompletionChunk out_;
};

// --- the list of models ----------------------------------------------------------------------------------------------

// {"data": [{"id", …}, …]}; llama.cpp names what a model can do in a list of its own, `models`.
class ModelListReader {
 public:
  ModelListReader(std::string_view text, std::string_view model) : json_(text), fields_(json_), model_(model) {}

  base::Result<ListedModel> read() {
    const bool ok = json_.object([&](std::string_view name) {
      if (name != "data" && name != "models") return json_.skip();
      if (name == "data") return fields_.none() || list(List::kData);
      return json_.peek() == JsonCursor::Kind::kArray ? list(List::kModels) : json_.skip();
    });
    if (!ok || !json_.finish()) return broken_rule("its list of models: " + fields_.error().text);
    return std::move(out_);
  }

 private:
  enum class List : uint8_t { kData, kModels };
  struct One {
    List in = List::kData;
    std::string id, owner;
    uint32_t own = 0, meta = 0, width = 0;
    bool images = false;
  };

  bool list(List which) {
    size_t count = 0;
    return json_.array([&] {
      if (++count > kMostListed) return fields_.refuse("data", "too many models");
      if (which == List::kModels && json_.peek() != JsonCursor::Kind::kObject) return json_.skip();
      One one;
      one.in = which;
      if (!json_.object([&](std::string_view name) { return member(name, one); })) return false;
      if (one.id == model_) out_.images = out_.images || one.images;
      if (which == List::kModels) return true;
      if (one.id == model_) {
        out_.found = true, out_.max_length = one.own > 0 ? one.own : one.meta, out_.embedding_size = one.width;
        out_.owner = std::move(one.owner);
      }
      if (count <= kMostNamed) out_.others += (out_.others.empty() ? "'" : ", '") + base::presentable(one.id, 64) + "'";
      return true;
    });
  }
  bool member(std::string_view name, One& one) {
    if (one.in == List::kModels) return name == "model" ? string(one.id) : tells_images(name, one.images);
    if (name == "id") return fields_.text("id", 4096, one.id);
    if (name == "owned_by") return string(one.owner);
    if (name == "max_model_len") return length(name, one.own);
    if (name == "embedding_size") return length(name, one.width);
    if (name == "meta") return fields_.none() || meta(one);
    if (name == "architecture" && json_.peek() == JsonCursor::Kind::kObject)
      return json_.object([&](std::string_view part) { return tells_images(part, one.images); });
    return tells_images(name, one.images);
  }
  bool meta(One& one) {
    return json_.object([&](std::string_view name) {
      if (name == "n_embd") return length(name, one.width);
      if (name == "n_ctx" || (name == "n_ctx_train" && one.meta == 0)) return length(name, one.meta);
      return json_.skip();
    });
  }
  bool length(std::string_view name, uint32_t& to) { return fields_.whole(name, 0, 1 << 24, to); }
  bool string(std::string& to) { return json_.peek() == JsonCursor::Kind::kString ? json_.string(to) : json_.skip(); }

  // "images": true (weir), "capabilities": ["multimodal"] (llama.cpp) or {"vision": true} (Mistral),
  // "input_modalities":
  // ["image"] (OpenRouter). Whoever means something else by such a name has told nothing.
  bool tells_images(std::string_view name, bool& images) {
    const auto kind = json_.peek();
    if (name == "images" && kind == JsonCursor::Kind::kBool) return json_.boolean(images);
    if (name != "capabilities" && name != "input_modalities") return json_.skip();
    if (kind == JsonCursor::Kind::kArray)
      return json_.array([&] {
        std::string_view word;
        if (json_.peek() != JsonCursor::Kind::kString) return json_.skip();
        if (!json_.string(word)) return false;
        images = images || word == "vision" || word == "multimodal" || word == "image";
        return true;
      });
    if (kind != JsonCursor::Kind::kObject) return json_.skip();
    return json_.object([&](std::string_view what) {
      return what == "vision" && json_.peek() == JsonCursor::Kind::kBool ? json_.boolean(images) : json_.skip();
    });
  }

  JsonCursor json_;
  FieldReader fields_;
  const std::string_view model_;
  ListedModel out_;
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
  if (const uint64_t salt = params.cache_salt ^ call.cache_scope; salt != 0) {
    const auto digits = hex_digits(salt);
    out.text("cache_salt", {digits.data(), digits.size()});
  }
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
  return ModelListReader(text, model).read();
}

}  // namespace weir::forward
