#include "marshal/text_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace weir::marshal {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxStops = 16, kMaxStop = 256, kMaxStopIds = 64, kMaxBias = 1024;
constexpr float kBestAlone = 1e-9F;  // a top_p that only the likeliest token reaches

bool read_seed(FieldReader& reader, std::string_view name, std::optional<uint64_t>& out) {
  if (reader.none()) return true;
  JsonCursor& json = reader.json();
  size_t at = json.at();
  JsonNumber number;
  int64_t negative;
  uint64_t value;
  if (json.at_number() && json.number(number)) {
    if (number.to(value)) return out = value, true;
    if (number.to(negative)) return out = uint64_t(negative), true;
  }
  if (json.ok()) json.rewind(at);
  return reader.unexpected(name, "a whole number of 64 bits");
}

bool read_stop(FieldReader& reader, std::string_view name, std::vector<std::string>& out) {
  if (reader.none()) return true;
  JsonCursor& json = reader.json();
  out.clear();
  auto one = [&] {
    if (out.size() == kMaxStops) return reader.refuse(name, "at most " + std::to_string(kMaxStops) + " strings");
    if (json.peek() != JsonCursor::Kind::kString) return reader.unexpected(name, "a string or a list of strings");
    if (!reader.text(name, kMaxStop, out.emplace_back())) return false;
    return !out.back().empty() || reader.refuse(name, "a stop string is empty");
  };
  return json.peek() == JsonCursor::Kind::kArray ? json.array(one) : one();
}

bool read_bias(FieldReader& reader, std::string_view name, std::vector<std::pair<uint32_t, float>>& out) {
  if (reader.none()) return true;
  JsonCursor& json = reader.json();
  if (json.peek() != JsonCursor::Kind::kObject) return reader.unexpected(name, "an object");
  out.clear();
  return json.object([&](std::string_view key) {
    if (out.size() == kMaxBias) return reader.refuse(name, "at most " + std::to_string(kMaxBias) + " tokens");
    uint32_t id = 0;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || key.empty())
      return reader.refuse(name, "a key is no token id");
    std::optional<float> bias;
    if (!reader.real(name, -100, 100, bias)) return false;
    if (!bias) return true;
    auto same = std::find_if(out.begin(), out.end(), [&](const auto& entry) { return entry.first == id; });
    if (same != out.end()) return reader.refuse(name, "token " + std::to_string(id) + " twice");
    out.emplace_back(id, *bias);
    return true;
  });
}

FieldError outside(uint32_t id, const msg::TextSpec& spec, std::string_view param) {
  return {base::invalid(std::string(param) + ": token id " + std::to_string(id) + " is not below " +
                        std::to_string(spec.vocabulary) + ", the size of the vocabulary"),
          param};
}

template <class T, class U>
void over(T& value, const std::optional<U>& wish) {
  if (wish) value = T(*wish);
}

FieldError too_long(size_t prompt, std::string_view rest, const msg::TextSpec& spec, std::string_view param) {
  std::string text = "the model's context is " + std::to_string(spec.max_length) + " tokens, but the prompt has " +
                     std::to_string(prompt) + std::string(rest);
  return {base::failure(base::Code::kOutOfRange, std::move(text)), param};
}

}  // namespace

bool read_text_field(FieldReader& reader, std::string_view name, TextFields& out, bool& ok) {
  if (name == "max_tokens")
    ok = reader.whole(name, 0, kMost, out.max_tokens);
  else if (name == "temperature")
    ok = reader.real(name, 0, 2, out.temperature);
  else if (name == "top_p")
    ok = reader.real(name, 0, 1, out.top_p);
  else if (name == "top_k")
    ok = reader.whole(name, -1, kMost, out.top_k);
  else if (name == "min_p")
    ok = reader.real(name, 0, 1, out.min_p);
  else if (name == "stop")
    ok = read_stop(reader, name, out.stop);
  else if (name == "seed")
    ok = read_seed(reader, name, out.seed);
  else if (name == "presence_penalty")
    ok = reader.real(name, -2, 2, out.presence_penalty);
  else if (name == "frequency_penalty")
    ok = reader.real(name, -2, 2, out.frequency_penalty);
  else if (name == "repetition_penalty")
    ok = reader.real(name, 0.01, 100, out.repetition_penalty);
  else if (name == "logit_bias")
    ok = read_bias(reader, name, out.logit_bias);
  else if (name == "min_tokens")
    ok = reader.whole(name, 0, kMost, out.min_tokens);
  else if (name == "stop_token_ids")
    ok = reader.ids(name, kMaxStopIds, out.stop_ids);
  else if (name == "ignore_eos")
    ok = reader.flag(name, out.ignore_eos);
  else if (name == "include_stop_str_in_output")
    ok = reader.flag(name, out.include_stop);
  else if (name == "skip_special_tokens")
    ok = reader.flag(name, out.skip_special);
  else
    return false;
  return true;
}

FieldError place(const TextFields& fields, const msg::TextSpec& spec, msg::Generation& generation) {
  msg::Sampling& s = generation.sampling = spec.defaults;
  over(s.temperature, fields.temperature);
  over(s.top_p, fields.top_p);
  if (s.top_p <= 0) s.top_p = kBestAlone;
  over(s.min_p, fields.min_p);
  if (fields.top_k) s.top_k = uint32_t(std::max<int64_t>(*fields.top_k, 0));
  over(s.presence_penalty, fields.presence_penalty);
  over(s.frequency_penalty, fields.frequency_penalty);
  over(s.repetition_penalty, fields.repetition_penalty);
  if (fields.seed) s.seed = fields.seed;
  for (const auto& [id, bias] : fields.logit_bias)
    if (id >= spec.vocabulary) return outside(id, spec, "logit_bias");
  if (!fields.logit_bias.empty()) s.logit_bias = fields.logit_bias;
  for (uint32_t id : fields.stop_ids)
    if (id >= spec.vocabulary) return outside(id, spec, "stop_token_ids");
  generation.stop_ids = fields.stop_ids;
  generation.ignore_eos = fields.ignore_eos;
  generation.min_tokens = fields.min_tokens.value_or(0);
  return {};
}

std::vector<uint32_t> end_ids(const TextFields& fields, const msg::TextSpec& spec) {
  std::vector<uint32_t> ids = fields.stop_ids;
  if (!fields.ignore_eos) ids.insert(ids.end(), spec.eos_ids.begin(), spec.eos_ids.end());
  return ids;
}

FieldError place_length(const TextFields& fields, const msg::TextSpec& spec, uint32_t usual,
                        msg::Generation& generation) {
  size_t prompt = generation.length();
  if (prompt == 0) return {base::invalid("the prompt has no tokens"), "prompt"};
  for (uint32_t id : generation.append)
    if (id >= spec.vocabulary) return outside(id, spec, "prompt");
  size_t most = spec.max_length;
  if (fields.max_tokens) {
    if (prompt > most || *fields.max_tokens > most - prompt)
      return too_long(prompt, ", and max_tokens asks for " + std::to_string(*fields.max_tokens) + " more", spec,
                      prompt > most ? "prompt" : "max_tokens");
    generation.max_tokens = *fields.max_tokens;
  } else {
    if (prompt >= most) return too_long(prompt, "", spec, "prompt");
    generation.max_tokens = uint32_t(std::min<size_t>(usual, most - prompt));
  }
  if (generation.min_tokens > generation.max_tokens)
    return {base::invalid("min_tokens: " + std::to_string(generation.min_tokens) + " is above max_tokens, " +
                          std::to_string(generation.max_tokens)),
            "min_tokens"};
  return {};
}

}  // namespace weir::marshal
