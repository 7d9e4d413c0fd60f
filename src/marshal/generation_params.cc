#include "marshal/generation_params.h"

#include <algorithm>

namespace weir::marshal {
namespace {

constexpr float kBestAlone = 1e-9F;  // a top_p that only the likeliest token reaches

template <class T, class U>
void set(T& value, const std::optional<U>& given) {
  if (given) value = T(*given);
}

ParamError outside(uint32_t id, const msg::TextSpec& spec, std::string_view param) {
  return {base::invalid(std::string(param) + ": token id " + std::to_string(id) + " is not below " +
                        std::to_string(spec.vocabulary) + ", the size of the vocabulary"),
          param};
}

ParamError too_long(std::string text, const msg::TextSpec& spec, std::string_view param) {
  // OpenAI's and vLLM's words: agents and proxies look for them, and make room.
  text += ", and this model's maximum context length is " + std::to_string(spec.max_length) + " tokens";
  return {base::failure(base::Code::kOutOfRange, std::move(text)), param};
}

}  // namespace

const ParamRow* find_param(Protocol protocol, std::string_view name) {
  for (const ParamRow& row : kGenerationParams)
    if (row.named && (row.name == name || (protocol == Protocol::kTriton && row.triton == name && !name.empty())))
      return protocol != Protocol::kModelFile || row.model_file ? &row : nullptr;
  return nullptr;
}

const ParamRow* find_param(Protocol protocol, uint32_t field) {
  for (const ParamRow& row : kGenerationParams)
    if (field != 0 && row.field(protocol).number == field) return &row;
  return nullptr;
}

base::Status check_stop(const std::vector<std::string>& stops, std::string_view name, std::string_view one) {
  size_t bytes = one.size();
  for (const std::string& stop : stops) bytes += stop.size();
  const auto bad = [name](const std::string& what) { return base::invalid(std::string(name) + ": " + what); };
  if (one.empty()) return bad("a stop string is empty");
  if (stops.size() == kMaxStops) return bad("at most " + std::to_string(kMaxStops) + " strings");
  if (bytes > kMaxStopBytes) return bad("the strings have more than " + std::to_string(kMaxStopBytes) + " bytes");
  return {};
}

void apply(const GenerationParams& params, msg::Generation& generation) {
  msg::Sampling& s = generation.sampling;
  set(s.temperature, params.temperature);
  set(s.top_p, params.top_p);
  if (s.top_p <= 0) s.top_p = kBestAlone;
  set(s.min_p, params.min_p);
  if (params.top_k) s.top_k = uint32_t(std::max<int64_t>(*params.top_k, 0));
  set(s.presence_penalty, params.presence_penalty);
  set(s.frequency_penalty, params.frequency_penalty);
  set(s.repetition_penalty, params.repetition_penalty);
  if (params.seed) s.seed = params.seed;
  if (!params.logit_bias.empty()) s.logit_bias = params.logit_bias;
  generation.stop_ids = params.stop_ids;
  generation.ignore_eos = params.ignore_eos;
  set(generation.min_tokens, params.min_tokens);
  set(generation.top_logprobs, params.top_logprobs);
  set(generation.max_tokens, params.max_tokens);
}

ParamError apply(const GenerationParams& params, const msg::TextSpec& spec, msg::Generation& generation) {
  for (const auto& [id, bias] : params.logit_bias)
    if (id >= spec.vocabulary) return outside(id, spec, "logit_bias");
  for (uint32_t id : params.stop_ids)
    if (id >= spec.vocabulary) return outside(id, spec, "stop_token_ids");
  generation.sampling = spec.defaults;
  apply(params, generation);
  return {};
}

ParamError apply_length(const GenerationParams& params, const msg::TextSpec& spec, uint32_t usual,
                        msg::Generation& generation) {
  const size_t prompt = generation.length(), most = spec.max_length;
  if (prompt == 0) return {base::invalid("the prompt has no tokens"), "prompt"};
  for (uint32_t id : generation.append)
    if (id >= spec.vocabulary) return outside(id, spec, "prompt");
  const bool exact = params.max_tokens && !params.cut_max_tokens;
  const bool full = exact ? prompt > most : prompt >= most;
  if (full) return too_long("the prompt has " + std::to_string(prompt) + " tokens", spec, "prompt");
  if (exact && *params.max_tokens > most - prompt)
    return too_long(std::string(params.max_tokens_name) + " must be <= " + std::to_string(most - prompt) + ", not " +
                        std::to_string(*params.max_tokens) + ": the prompt has " + std::to_string(prompt) + " tokens",
                    spec, params.max_tokens_name);
  generation.max_tokens = uint32_t(std::min<size_t>(params.max_tokens.value_or(usual), most - prompt));
  return check_min_tokens(params, generation);
}

ParamError check_min_tokens(const GenerationParams& params, const msg::Generation& generation) {
  if (generation.min_tokens <= generation.max_tokens) return {};
  return {base::invalid("min_tokens must be <= " + std::string(params.max_tokens_name) + ", " +
                        std::to_string(generation.max_tokens) + ", not " + std::to_string(generation.min_tokens)),
          "min_tokens"};
}

std::vector<uint32_t> end_ids(const GenerationParams& params, const msg::TextSpec& spec) {
  std::vector<uint32_t> ids = params.stop_ids;
  if (!params.ignore_eos) ids.insert(ids.end(), spec.eos_ids.begin(), spec.eos_ids.end());
  return ids;
}

}  // namespace weir::marshal
