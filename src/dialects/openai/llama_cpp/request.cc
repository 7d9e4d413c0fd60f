// Bodies of /completion and /infill: {prompt, n_predict, …} and {input_prefix, input_suffix, input_extra, prompt, …}.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "dialects/openai/llama_cpp/llama_cpp.h"
#include "dialects/openai/translation.h"

namespace weir::openai::llama_cpp {
namespace {

constexpr size_t kMaxExtra = 256, kMaxFields = 64;
constexpr float kMostBias = 1e6F;          // so that sums are numbers
constexpr std::string_view kFile = "tmp";  // an extra text without a name

constexpr std::array<RenamedMember, 9> kCarried{{{"model", "model"},
                                                 {"top_k", "top_k"},
                                                 {"top_p", "top_p"},
                                                 {"min_p", "min_p"},
                                                 {"repeat_penalty", "repetition_penalty"},
                                                 {"presence_penalty", "presence_penalty"},
                                                 {"frequency_penalty", "frequency_penalty"},
                                                 {"json_schema", "json_schema"},
                                                 {"ignore_eos", "ignore_eos"}}};
constexpr std::string_view kRead[] = {"prompt",
                                      "n_predict",
                                      "max_tokens",
                                      "temperature",
                                      "seed",
                                      "stop",
                                      "stream",
                                      "n_probs",
                                      "n_cmpl",
                                      "n",
                                      "logit_bias",
                                      "grammar",
                                      "lora",
                                      "return_tokens",
                                      "post_sampling_probs",
                                      "response_fields",
                                      "input_prefix",
                                      "input_suffix",
                                      "input_extra",
                                      "cache_prompt",
                                      "t_max_predict_ms",
                                      "n_indent",
                                      "timings_per_token",
                                      "return_progress"};
// How a server with slots runs the request, the order of samplers, and parameters of samplers that are not offered.
constexpr std::string_view kNotes[] = {"id_slot",
                                       "n_keep",
                                       "n_discard",
                                       "n_cache_reuse",
                                       "samplers",
                                       "min_keep",
                                       "sse_ping_interval",
                                       "t_max_prompt_ms",
                                       "mirostat_tau",
                                       "mirostat_eta",
                                       "dry_base",
                                       "dry_allowed_length",
                                       "dry_penalty_last_n",
                                       "dry_sequence_breakers",
                                       "xtc_threshold",
                                       "dynatemp_exponent",
                                       "repeat_last_n",
                                       "penalize_nl",
                                       "api_key"};
// Samplers that are not offered, with the value that switches each off. As llama.cpp passes over what it does not know,
// those that are on are named in the answer's head.
struct Sampler {
  std::string_view name;
  double off;
};
constexpr Sampler kSamplers[] = {{"mirostat", 0},       {"typical_p", 1},       {"tfs_z", 1},
                                 {"dry_multiplier", 0}, {"xtc_probability", 0}, {"dynatemp_range", 0},
                                 {"top_n_sigma", -1},   {"adaptive_target", -1}};
constexpr std::array<RenamedMember, 4> kNames{
    {{"n_predict", "max_tokens"}, {"repeat_penalty", "repetition_penalty"}, {"n_probs", "logprobs"}, {"n_cmpl", "n"}}};
constexpr std::array<RenamedMember, 6> kInfillNames{{{"n_predict", "max_tokens"},
                                                     {"repeat_penalty", "repetition_penalty"},
                                                     {"n_probs", "logprobs"},
                                                     {"n_cmpl", "n"},
                                                     {"input_prefix", "prompt"},
                                                     {"input_suffix", "suffix"}}};

bool is_off(std::string_view name, const OrderedJson& value) {
  for (const Sampler& sampler : kSamplers)
    if (sampler.name == name) return value.is_number() && value.get<double>() == sampler.off;
  return false;
}

void ignore_others(const OrderedJson& body, Request& out) {
  const MemberLists known{kCarried, kRead, kNotes};
  for (const auto& [name, value] : body.items())
    if (!value.is_null() && !known.know(name) && !is_off(name, value)) ignore_member(name, out);
}

// {"prompt_string": …} is that text.
ApiError read_one(const OrderedJson& prompt, OrderedJson& out) {
  if (!prompt.is_object()) return out = prompt, ApiError{};
  const OrderedJson* media = member(prompt, "multimodal_data");
  if (media && !media->empty()) return refuse("prompt", "prompt: images are for /v1/chat/completions");
  return out = prompt.at("prompt_string"), ApiError{};
}

ApiError read_prompt(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* prompt = member(body, "prompt");
  if (!prompt) return refuse("prompt", "prompt: it is missing");
  const bool several = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!several) return read_one(*prompt, out["prompt"]);
  OrderedJson& list = out["prompt"] = OrderedJson::array();
  for (const OrderedJson& one : *prompt)
    if (ApiError bad = read_one(one, list.emplace_back()); !bad.ok()) return bad;
  return {};
}

ApiError read_extra(const OrderedJson& extra, Request& out) {
  if (!extra.is_array()) return refuse("input_extra", "input_extra: expected a list of {filename, text}");
  if (extra.size() > kMaxExtra)
    return refuse("input_extra", "input_extra: at most " + std::to_string(kMaxExtra) + " of them");
  for (size_t i = 0; i < extra.size(); ++i) {
    ApiError bad = read_at("input_extra", i, [&]() -> ApiError {
      const OrderedJson* file = extra[i].is_object() ? member(extra[i], "filename") : nullptr;
      out.infill.extra.emplace_back(file ? file->get<std::string>() : std::string(kFile),
                                    extra[i].at("text").get<std::string>());
      return {};
    });
    if (!bad.ok()) return bad;
  }
  return {};
}

ApiError read_infill(const OrderedJson& body, OrderedJson& out, Request& request) {
  request.infill.asked = true;
  out["prompt"] = body.at("input_prefix").get<std::string>();
  out["suffix"] = body.at("input_suffix").get<std::string>();
  if (const OrderedJson* begun = member(body, "prompt")) request.infill.begun = begun->get<std::string>();
  const OrderedJson* extra = member(body, "input_extra");
  return extra ? read_extra(*extra, request) : ApiError{};
}

// A number, or false: it never comes.
ApiError read_one_bias(const OrderedJson& value, TextBias& out) {
  const bool never = value == false;
  if (!never && !value.is_number()) return refuse("logit_bias", "logit_bias: a bias is a number, or false");
  out.bias = never ? -std::numeric_limits<float>::infinity() : std::clamp(value.get<float>(), -kMostBias, kMostBias);
  return {};
}

// Digits alone are a token's id, as in OpenAI's API.
void read_biased(const std::string& name, TextBias& out) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error == std::errc() && end == name.data() + name.size())
    out.id = id;
  else
    out.text = name;
}

// [[id or text, bias], …], or an object of these.
ApiError read_bias(const OrderedJson& body, Request& out) {
  const OrderedJson* biases = member(body, "logit_bias");
  if (!biases || biases->empty()) return {};
  if (!biases->is_structured()) return refuse("logit_bias", "logit_bias: expected a list of [token, bias]");
  if (biases->size() > marshal::kMaxBiases)
    return refuse("logit_bias", "logit_bias: at most " + std::to_string(marshal::kMaxBiases) + " of them");
  size_t bytes = 0;
  for (const auto& [name, entry] : biases->items()) {
    const bool listed = biases->is_array();
    const bool pair = listed && entry.is_array() && entry.size() == 2;
    if (listed && !(pair && (entry[0].is_number_unsigned() || entry[0].is_string())))
      return refuse("logit_bias", "logit_bias: expected [token id or text, bias]");
    TextBias& one = out.biases.emplace_back();
    if (!listed)
      read_biased(name, one);
    else if (entry[0].is_string())
      one.text = entry[0].get<std::string>();
    else
      one.id = entry[0].get<uint64_t>();
    if ((bytes += one.text.size()) > kMaxBiasBytes)
      return refuse("logit_bias", "logit_bias: the texts have more than " + std::to_string(kMaxBiasBytes) + " bytes");
    if (ApiError bad = read_one_bias(listed ? entry[1] : entry, one); !bad.ok()) return bad;
  }
  return {};
}

// As many tokens as the context has where it is below 0.
ApiError read_length(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* most = member(body, "n_predict");
  if (!most) most = member(body, "max_tokens");
  if (most && !most->is_number()) return refuse("n_predict", "n_predict must be a whole number");
  if (most && *most >= 0) out["max_tokens"] = *most;
  return {};
}

// A seed that is negative, or the largest of 32 bits, is drawn; a temperature below 0 is none.
void read_drawing(const OrderedJson& body, OrderedJson& out) {
  carry(body, "temperature", out, "temperature");
  if (OrderedJson& t = out["temperature"]; t.is_number() && t < 0) t = 0;
  const OrderedJson* seed = member(body, "seed");
  if (seed && !(seed->is_number() && (*seed < 0 || *seed == std::numeric_limits<uint32_t>::max()))) out["seed"] = *seed;
}

// Those that are "" stop nothing.
void read_stops(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* stop = member(body, "stop");
  if (!stop) return;
  OrderedJson kept = OrderedJson::array();
  for (const OrderedJson& one : stop->is_array() ? *stop : OrderedJson::array({*stop}))
    if (one != "") kept.push_back(one);
  if (!kept.empty()) out["stop"] = std::move(kept);
}

ApiError read_fields(const OrderedJson& body, Request& request) {
  const OrderedJson* fields = member(body, "response_fields");
  if (!fields) return {};
  if (!fields->is_array() || fields->size() > kMaxFields)
    return refuse("response_fields",
                  "response_fields: expected a list of names, " + std::to_string(kMaxFields) + " at most");
  for (const OrderedJson& field : *fields) request.native.fields.push_back(field.get<std::string>());
  return {};
}

// A limit below 0 is none.
ApiError read_limit(const OrderedJson& body, std::string_view name, uint32_t& out) {
  const OrderedJson* limit = member(body, name);
  if (!limit) return {};
  if (!limit->is_number_integer()) return refuse(name, std::string(name) + " must be a whole number");
  if (*limit > 0) out = uint32_t(std::min<uint64_t>(limit->get<uint64_t>(), std::numeric_limits<uint32_t>::max()));
  return {};
}

ApiError read_lora(const OrderedJson& body, Request& request) {
  const OrderedJson* lora = member(body, "lora");
  if (!lora) return {};
  const std::string text = lora->dump();
  marshal::JsonCursor json(text);
  marshal::FieldReader fields(json);
  if (!lora->is_array()) return refuse("lora", "lora must be a list of {id, scale}");
  return read_scales(fields, request.native.lora) ? ApiError{} : ApiError{fields.error(), "lora", {}};
}

bool asks(const OrderedJson& body, std::string_view name) {
  const OrderedJson* value = member(body, name);
  return value && value->get<bool>();
}

ApiError read_answer(const OrderedJson& body, OrderedJson& out, Request& request) {
  request.timings = asks(body, "timings_per_token"), request.progress = asks(body, "return_progress");
  request.native.final_shares = asks(body, "post_sampling_probs");
  if (ApiError bad = read_lora(body, request); !bad.ok()) return bad;
  carry(body, member(body, "n_cmpl") ? "n_cmpl" : "n", out, "n");
  if (const OrderedJson* probs = member(body, "n_probs"); probs && *probs != 0) out["logprobs"] = *probs;
  if (const OrderedJson* grammar = member(body, "grammar"); grammar && *grammar != "") out["grammar"] = *grammar;
  out["stream"] = asks(body, "stream");
  out["return_token_ids"] = asks(body, "stream") || asks(body, "return_tokens");
  request.native.answers = request.native.mixed_prompts = true;
  request.fill_context = true;
  request.params.cut_max_tokens = true;
  return read_fields(body, request);
}

ApiError translate_object(const OrderedJson& body, Route route, Request& out) {
  ignore_others(body, out);
  OrderedJson translated = OrderedJson::object();
  for (const RenamedMember& m : kCarried) carry(body, m.name, translated, m.openai);
  ApiError bad = route == Route::kInfill ? read_infill(body, translated, out) : read_prompt(body, translated);
  if (bad.ok()) bad = read_bias(body, out);
  if (bad.ok()) bad = read_length(body, translated);
  if (bad.ok()) bad = read_limit(body, "t_max_predict_ms", out.native.predict_ms);
  if (bad.ok()) bad = read_limit(body, "n_indent", out.native.indent);
  if (bad.ok()) bad = read_answer(body, translated, out);
  if (!bad.ok()) return bad;
  read_drawing(body, translated);
  read_stops(body, translated);
  out.names = route == Route::kInfill ? std::span<const RenamedMember>(kInfillNames) : kNames;
  return read_translated(translated, Kind::kCompletion, out);
}

}  // namespace

ApiError read_body_of(std::string_view body, Route route, Request& out) {
  return translate(body, [&](const OrderedJson& object) { return translate_object(object, route, out); });
}

}  // namespace weir::openai::llama_cpp
