#include "engines/llm/text_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/processor.h"

namespace weir::llm {
namespace {

using base::Status;
using msg::DType;
using msg::ParamValue;

constexpr size_t kMaxStops = 64, kMaxStop = 1024, kMaxJson = 128 << 10, kDeepestJson = 100;

// Would change what is answered, and are not known here.
constexpr std::string_view kRefused[] = {
    "n",           "best_of",         "use_beam_search", "beam_width", "num_beams",      "length_penalty",
    "logprobs",    "prompt_logprobs", "logit_bias",      "bad_words",  "stop_token_ids", "guided_decoding",
    "guided_json", "guided_regex",    "response_format", "lora_name",  "details",        "top_n_tokens",
    "typical_p",   "truncate",        "suffix"};

Status bad(std::string_view field, std::string_view what) {
  return base::invalid("'" + std::string(field) + "' " + std::string(what));
}

// Parsed where the request came in, so short; and the library writes values by recursion, so shallow.
bool plain_json(std::string_view text) {
  return text.size() <= kMaxJson && !text::crowded(text, SIZE_MAX, kDeepestJson);
}

std::optional<double> number(const ParamValue& value) {
  if (auto* i = std::get_if<int64_t>(&value)) return double(*i);
  if (auto* u = std::get_if<uint64_t>(&value)) return double(*u);
  if (auto* d = std::get_if<double>(&value)) return *d;
  if (auto* s = std::get_if<std::string>(&value)) {
    double d = 0;
    auto [end, error] = std::from_chars(s->data(), s->data() + s->size(), d);
    if (error == std::errc() && end == s->data() + s->size()) return d;
  }
  return {};
}

// One parameter at a time; the first complaint stays.
class TextRequestReader {
 public:
  explicit TextRequestReader(TextRequest& request) : request_(request) {}

  Status take(const std::string& name, const ParamValue& value) {
    msg::Generation& g = request_.generation;
    msg::Sampling& s = g.sampling;
    if (name == "max_tokens") return whole(name, value, 1, UINT32_MAX / 2, g.max_tokens);
    if (name == "min_tokens") return whole(name, value, 0, UINT32_MAX / 2, g.min_tokens);
    if (name == "top_k") return top_k(value);
    if (name == "temperature") return real(name, value, 0, 100, s.temperature);
    if (name == "top_p") return real(name, value, 1e-9, 1, s.top_p);
    if (name == "min_p") return real(name, value, 0, 1, s.min_p);
    if (name == "presence_penalty") return real(name, value, -2, 2, s.presence_penalty);
    if (name == "frequency_penalty") return real(name, value, -2, 2, s.frequency_penalty);
    if (name == "repetition_penalty") return real(name, value, 1e-3, 100, s.repetition_penalty);
    if (name == "seed" || name == "random_seed") return seed(name, value);
    if (name == "ignore_eos") return flag(name, value, g.ignore_eos);
    if (name == "stream") return flag(name, value, request_.stream);
    if (name == "stop" || name == "stop_words") return stop(name, value);
    for (auto refused : kRefused)
      if (name == refused && !harmless(value))
        return base::failure(base::Code::kUnimplemented, "'" + name + "' is not supported");
    return {};
  }

  Status flag(std::string_view name, const ParamValue& value, bool& to) {
    if (auto* b = std::get_if<bool>(&value)) return to = *b, Status();
    if (auto* s = std::get_if<std::string>(&value); s && (*s == "true" || *s == "false"))
      return to = *s == "true", Status();
    if (auto n = number(value); n && (*n == 0 || *n == 1)) return to = *n == 1, Status();
    return bad(name, "is neither true nor false");
  }

 private:
  static bool harmless(const ParamValue& value) {
    if (auto* b = std::get_if<bool>(&value)) return !*b;
    if (auto* s = std::get_if<std::string>(&value)) return s->empty();
    auto n = number(value);
    return n && (*n == 0 || *n == 1);
  }
  static Status whole(std::string_view name, const ParamValue& value, uint32_t least, uint32_t most, uint32_t& to) {
    auto n = number(value);
    if (!n || std::floor(*n) != *n || *n < least || *n > most)
      return bad(name, "is not a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    to = uint32_t(*n);
    return {};
  }
  static Status real(std::string_view name, const ParamValue& value, double least, double most, float& to) {
    auto n = number(value);
    if (!n || !(*n >= least && *n <= most)) {
      char text[96];
      std::snprintf(text, sizeof text, "is not a number from %g to %g", least, most);
      return bad(name, text);
    }
    to = float(*n);
    return {};
  }
  Status top_k(const ParamValue& value) {
    auto n = number(value);
    if (n && *n == -1) return request_.generation.sampling.top_k = 0, Status();
    return whole("top_k", value, 0, UINT32_MAX / 2, request_.generation.sampling.top_k);
  }
  Status seed(std::string_view name, const ParamValue& value) {
    auto& to = request_.generation.sampling.seed;
    if (auto* i = std::get_if<int64_t>(&value)) return to = uint64_t(*i), Status();
    if (auto* u = std::get_if<uint64_t>(&value)) return to = *u, Status();
    auto n = number(value);
    if (!n || std::floor(*n) != *n || std::abs(*n) > 0x1p53) return bad(name, "is not a whole number");
    to = uint64_t(int64_t(*n));
    return {};
  }
  Status stop(std::string_view name, const ParamValue& value) {
    auto* text = std::get_if<std::string>(&value);
    if (!text) return bad(name, "is not a string");
    std::vector<std::string> stops{*text};
    if (text->starts_with('[') && plain_json(*text)) {
      auto list = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
      if (list.is_array()) {
        stops.clear();
        for (const auto& item : list) {
          if (!item.is_string()) return bad(name, "holds what is no string");
          stops.push_back(item.get<std::string>());
        }
      }
    }
    for (auto& s : stops) {
      if (s.empty()) continue;
      if (s.size() > kMaxStop || request_.stops.size() == kMaxStops) return bad(name, "is too long");
      request_.stops.push_back(std::move(s));
    }
    return {};
  }

  TextRequest& request_;
};

const msg::Tensor* input(const msg::Call& call, std::string_view name) {
  auto at = std::find_if(call.inputs.begin(), call.inputs.end(), [&](const auto& t) { return t.name == name; });
  return at == call.inputs.end() ? nullptr : &*at;
}

// The one element of a tensor of strings, whatever its rank.
base::Result<std::string> one_string(const msg::Tensor& tensor) {
  size_t n = 0;
  std::string out;
  bool whole = tensor.dtype == DType::kBytes && msg::for_each_string(tensor.data.view(), [&](std::string_view text) {
                 if (n++ == 0) out = text;
               });
  if (!whole || n != 1) return bad(tensor.name, "is not one string");
  return out;
}

Status one_flag(const msg::Tensor& tensor, bool& to) {
  if (tensor.dtype != DType::kBool || tensor.data.size() != 1) return bad(tensor.name, "is not one BOOL");
  to = tensor.data.view()[0] != 0;
  return {};
}

// Triton's vLLM back end takes its parameters as a JSON object in a tensor.
Status take_json(const msg::Tensor& tensor, TextRequestReader& reader) {
  auto text = one_string(tensor);
  if (!text) return text.error();
  if (text->empty()) return {};
  if (!plain_json(*text))
    return bad(tensor.name, "is longer than " + std::to_string(kMaxJson) + " bytes, or nested deeper than " +
                                std::to_string(kDeepestJson) + " levels");
  auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return bad(tensor.name, "is not a JSON object");
  for (const auto& [name, v] : json.items()) {
    ParamValue value;
    if (v.is_boolean())
      value = v.get<bool>();
    else if (v.is_number_unsigned())
      value = v.get<uint64_t>();
    else if (v.is_number_integer())
      value = v.get<int64_t>();
    else if (v.is_number())
      value = v.get<double>();
    else if (v.is_null())
      continue;
    else
      value = v.is_string() ? v.get<std::string>() : v.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (auto s = reader.take(name, value); !s.ok()) return s;
  }
  return {};
}

}  // namespace

std::vector<msg::TensorSpec> text_inputs() {
  return {{"text_input", DType::kBytes, {1}, false, {}},
          {"stream", DType::kBool, {1}, true, {}},
          {"sampling_parameters", DType::kBytes, {1}, true, {}},
          {"exclude_input_in_output", DType::kBool, {1}, true, {}}};
}

base::Result<TextRequest> read_text_request(const msg::Call& call, const msg::TextSpec& text) {
  TextRequest request;
  request.generation.sampling = text.defaults;
  request.generation.max_tokens = 20;
  TextRequestReader reader(request);
  auto* prompt = input(call, "text_input");
  if (!prompt) return bad("text_input", "is missing");
  auto read = one_string(*prompt);
  if (!read) return read.error();
  request.prompt = std::move(*read);
  if (auto* t = input(call, "sampling_parameters"))
    if (auto s = take_json(*t, reader); !s.ok()) return s;
  for (const auto& [name, value] : call.parameters)
    if (auto s = reader.take(name, value); !s.ok()) return s;
  bool exclude = true;
  if (auto* t = input(call, "stream"))
    if (auto s = one_flag(*t, request.stream); !s.ok()) return s;
  if (auto* t = input(call, "exclude_input_in_output"))
    if (auto s = one_flag(*t, exclude); !s.ok()) return s;
  request.with_prompt = !exclude && !request.stream;
  auto& g = request.generation;
  if (g.min_tokens > g.max_tokens) return bad("min_tokens", "is above max_tokens");
  return request;
}

}  // namespace weir::llm
