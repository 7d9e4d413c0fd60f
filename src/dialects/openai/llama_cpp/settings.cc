// The parameters in force for a request, as llama.cpp's answers (`generation_settings`) and /props tell them.
#include <cmath>

#include "dialects/openai/llama_cpp/llama_cpp.h"
#include "marshal/generation_params.h"
#include "marshal/json_tensor.h"

namespace weir::openai::llama_cpp {
namespace {

template <class Number>
std::string number(Number value) {
  std::string out;
  marshal::write_number(out, value);
  return out;
}

std::string text_list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ',';
    marshal::write_string(out, text);
  }
  return out += ']';
}

// [{"bias", "token"}, …], the bias null where the token never comes. Tokens that end a text, and are to be ignored, are
// among them.
std::string bias_list(const msg::Sampling& sampling, bool ignore_eos, const msg::TextSpec& spec) {
  std::string out = "[";
  const auto add = [&out](uint32_t id, const std::string& bias) {
    out.append(out.size() > 1 ? "," : "").append("{\"bias\":").append(bias);
    out.append(",\"token\":").append(std::to_string(id)) += '}';
  };
  for (const auto& [id, bias] : sampling.logit_bias) add(id, std::isfinite(bias) ? number(bias) : "null");
  if (ignore_eos)
    for (uint32_t id : spec.eos_ids) add(id, "null");
  return out += ']';
}

std::string_view word(bool value) { return value ? "true" : "false"; }

}  // namespace

std::vector<Member> settings_of(const Request& request, const msg::TextSpec& spec) {
  constexpr uint64_t kRandomSeed = 4294967295;  // stands for a seed at random
  const marshal::GenerationParams& params = request.params;
  msg::Generation in_force;
  (void)marshal::apply(params, spec, in_force);  // it has been applied before: nothing is refused
  const msg::Sampling& sampling = in_force.sampling;
  const std::string most = params.max_tokens ? std::to_string(*params.max_tokens) : "-1";
  return {{"n_predict", most},
          {"max_tokens", most},
          {"n_ctx", std::to_string(spec.max_length)},
          {"seed", number(sampling.seed.value_or(kRandomSeed))},
          {"temperature", number(sampling.temperature)},
          {"top_k", std::to_string(sampling.top_k)},
          {"top_p", number(sampling.top_p)},
          {"min_p", number(sampling.min_p)},
          {"repeat_penalty", number(sampling.repetition_penalty)},
          {"presence_penalty", number(sampling.presence_penalty)},
          {"frequency_penalty", number(sampling.frequency_penalty)},
          {"stop", text_list(params.stop)},
          {"logit_bias", bias_list(sampling, params.ignore_eos, spec)},
          {"ignore_eos", std::string(word(params.ignore_eos))},
          {"stream", std::string(word(request.stream))},
          {"n_probs", std::to_string(request.logprobs.value_or(0))},
          {"timings_per_token", std::string(word(request.timings))},
          {"post_sampling_probs", std::string(word(request.native.final_shares))}};
}

}  // namespace weir::openai::llama_cpp
