#include "engines/llm/text_request.h"

#include <algorithm>
#include <limits>

#include "marshal/generation_params.h"
#include "marshal/neutral_value.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

using base::Status;
using marshal::JsonCursor;
using msg::DType;
using msg::ParamValue;

constexpr auto kTriton = marshal::Protocol::kTriton;
constexpr size_t kMaxJson = 128 << 10;  // parsed where the request came in, so short
constexpr uint32_t kMaxTokens = 20;     // of a request that does not say

// Would change the answer, and are not known here.
constexpr std::string_view kRefused[] = {
    "n",         "best_of",         "use_beam_search", "beam_width",      "num_beams",    "length_penalty", "logprobs",
    "bad_words", "prompt_logprobs", "guided_decoding", "guided_json",     "guided_regex", "lora_name",      "details",
    "typical_p", "top_n_tokens",    "truncate",        "response_format", "suffix"};

Status bad(std::string_view field, std::string_view what) {
  return base::invalid(std::string(field) + " " + std::string(what));
}

bool refuses(std::string_view name) {
  return std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
}
Status unsupported(std::string_view name) {
  return base::failure(base::Code::kUnimplemented, std::string(name) + " is not supported");
}

// As marshal::is_neutral_value(), which is for JSON.
bool is_neutral(const ParamValue& value) {
  if (auto* b = std::get_if<bool>(&value)) return !*b;
  if (auto* s = std::get_if<std::string>(&value)) return s->empty() || *s == "0" || *s == "1";
  if (auto* d = std::get_if<double>(&value)) return *d == 0 || *d == 1;
  if (auto* i = std::get_if<int64_t>(&value)) return *i == 0 || *i == 1;
  return std::get<uint64_t>(value) <= 1;
}

struct Asked {
  marshal::GenerationParams params;
  bool stream = false;
};

Status take(const std::string& name, const ParamValue& value, Asked& asked) {
  if (const auto* row = marshal::find_param(kTriton, name)) return marshal::read_param(value, *row, name, asked.params);
  if (name == "stream") return marshal::read_flag(value, name, asked.stream);
  return refuses(name) && !is_neutral(value) ? unsupported(name) : Status();
}

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
  if (!whole || n != 1) return bad(tensor.name, "must be one string");
  return out;
}

Status one_flag(const msg::Tensor& tensor, bool& to) {
  if (tensor.dtype != DType::kBool || tensor.data.size() != 1) return bad(tensor.name, "must be one BOOL");
  to = tensor.data.view()[0] != 0;
  return {};
}

// Triton's vLLM back end takes its parameters as a JSON object in a tensor.
Status take_json(const msg::Tensor& tensor, Asked& asked) {
  auto text = one_string(tensor);
  if (!text) return text.error();
  if (text->empty()) return {};
  if (text->size() > kMaxJson) return bad(tensor.name, "must have at most " + std::to_string(kMaxJson) + " bytes");
  JsonCursor json(*text);
  marshal::FieldReader fields(json);
  Status refused;
  bool good = json.object([&](std::string_view key) {
    const std::string name(key);
    if (const auto* row = marshal::find_param(kTriton, name))
      return marshal::read_param(fields, kTriton, *row, name, asked.params);
    if (name == "stream") return fields.flag(name, asked.stream);
    size_t at = json.at();
    if (!json.skip()) return false;
    if (refuses(name) && !marshal::is_neutral_value(json.since(at))) refused = unsupported(name);
    return refused.ok();
  }) && json.finish();
  if (good || !refused.ok()) return refused;
  return fields.param().empty() ? bad(tensor.name, "must be a JSON object: " + fields.error().text) : fields.error();
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
  Asked asked;
  auto* prompt = input(call, "text_input");
  if (!prompt) return bad("text_input", "is missing");
  auto read = one_string(*prompt);
  if (!read) return read.error();
  request.prompt = std::move(*read);
  if (auto* t = input(call, "sampling_parameters"))
    if (auto s = take_json(*t, asked); !s.ok()) return s;
  for (const auto& [name, value] : call.parameters)
    if (auto s = take(name, value, asked); !s.ok()) return s;
  bool exclude = true;
  if (auto* t = input(call, "stream"))
    if (auto s = one_flag(*t, asked.stream); !s.ok()) return s;
  if (auto* t = input(call, "exclude_input_in_output"))
    if (auto s = one_flag(*t, exclude); !s.ok()) return s;
  request.stream = asked.stream;
  request.with_prompt = !exclude && !request.stream;
  auto& g = request.generation;
  g.max_tokens = kMaxTokens;
  if (auto e = marshal::apply(asked.params, text, g); !e.status.ok()) return e.status;
  request.structured = std::move(asked.params.structured);
  request.end_ids = marshal::end_ids(asked.params, text);
  request.stops = std::move(asked.params.stop);
  request.skip_special = asked.params.skip_special, request.include_stop = asked.params.include_stop;
  if (auto e = marshal::check_min_tokens(asked.params, g); !e.status.ok()) return e.status;
  return request;
}

}  // namespace weir::llm
