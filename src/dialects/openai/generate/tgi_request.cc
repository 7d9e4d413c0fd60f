// TGI's GenerateRequest: {inputs, parameters{…}}; CompatGenerateRequest has `stream` as well.
#include <array>

#include "dialects/openai/generate/request.h"

namespace weir::openai::generate {
namespace {

constexpr std::array<RenamedMember, 10> kParameters{{{"max_new_tokens", "max_tokens"},
                                                     {"temperature", "temperature"},
                                                     {"top_p", "top_p"},
                                                     {"top_k", "top_k"},
                                                     {"repetition_penalty", "repetition_penalty"},
                                                     {"frequency_penalty", "frequency_penalty"},
                                                     {"seed", "seed"},
                                                     {"stop", "stop"},
                                                     {"truncate", "truncate_prompt_tokens"},
                                                     {"adapter_id", "model"}}};
constexpr std::array<std::string_view, 9> kReadParameters{
    "do_sample",    "best_of",   "details", "decoder_input_details", "return_full_text",
    "top_n_tokens", "typical_p", "grammar", "stop_sequences"};
constexpr std::array<std::string_view, 1> kParameterNotes{"return_text"};
constexpr std::array<RenamedMember, 1> kModel{{{"model", "model"}}};
constexpr std::array<std::string_view, 3> kTgiRead{"inputs", "parameters", "stream"};
constexpr std::array<std::string_view, 2> kTgiNotes{"options", "add_special_tokens"};
constexpr std::array<RenamedMember, 7> kTgiNames{{{"inputs", "prompt"},
                                                  {"parameters.max_new_tokens", "max_tokens"},
                                                  {"parameters.truncate", "truncate_prompt_tokens"},
                                                  {"parameters.top_n_tokens", "logprobs"},
                                                  {"parameters.grammar", "guided_json"},
                                                  {"parameters.grammar", "guided_regex"},
                                                  {"parameters.adapter_id", "model"}}};

// TGI draws where it is told to, or where a parameter of drawing is there; else it takes the likeliest token. What is
// not said is neutral, whatever the model's files say.
void read_drawing(const OrderedJson& params, OrderedJson& out) {
  const bool draws =
      flag(params, "do_sample") || member(params, "temperature") || member(params, "top_p") || member(params, "top_k");
  if (!out.contains("temperature")) out["temperature"] = draws ? 1 : 0;
  if (!out.contains("top_p")) out["top_p"] = 1;
  if (!out.contains("top_k")) out["top_k"] = -1;
  if (!out.contains("repetition_penalty")) out["repetition_penalty"] = 1;
}

// {"type": "json" | "regex" | "json_schema", "value"}
ApiError read_grammar(const OrderedJson& params, OrderedJson& out) {
  const OrderedJson* grammar = member(params, "grammar");
  if (!grammar) return {};
  const OrderedJson* type = grammar->is_object() ? member(*grammar, "type") : nullptr;
  const OrderedJson* value = grammar->is_object() ? member(*grammar, "value") : nullptr;
  if (!type || !value) return refuse("grammar", "grammar: expected an object with type and value");
  if (*type == "json")
    out["guided_json"] = *value;
  else if (*type == "regex")
    out["guided_regex"] = *value;
  else if (*type == "json_schema")
    out["guided_json"] = value->at("schema");
  else
    return refuse("grammar", "grammar: its type is \"json\", \"regex\" or \"json_schema\"");
  return {};
}

ApiError read_details(const OrderedJson& params, Route route, OrderedJson& out, Request& request) {
  const bool stream = out["stream"] == true;
  const OrderedJson* best = member(params, "best_of");
  if (stream && best && *best != 1) return refuse("best_of", "best_of: not in a stream");
  if (best) out["best_of"] = *best;
  const bool prompt = flag(params, "decoder_input_details");
  if (stream && prompt) return refuse("decoder_input_details", "decoder_input_details: not in a stream");
  if (prompt) out["prompt_logprobs"] = 0;
  request.native.details = flag(params, "details") || prompt;
  request.native.full_text = flag(params, "return_full_text");
  request.native.list = route == Route::kInvocations;
  const OrderedJson* top = member(params, "top_n_tokens");
  if (request.native.details || stream) out["logprobs"] = top ? *top : OrderedJson(0);
  return {};
}

ApiError read_parameters(const OrderedJson& body, Route route, OrderedJson& out, Request& request) {
  static const OrderedJson kNone = OrderedJson::object();
  const OrderedJson* wanted = member(body, "parameters");
  const OrderedJson& params = wanted ? *wanted : kNone;
  if (!params.is_object()) return refuse("parameters", "parameters: expected an object");
  if (flag(params, "watermark")) return refuse("watermark", "watermark: not offered");
  if (const OrderedJson* typical = member(params, "typical_p"); typical && *typical != 1)
    return refuse("typical_p", "typical_p: not offered");
  const MemberLists known{kParameters, kReadParameters, kParameterNotes};
  for (const auto& [name, value] : params.items())
    if (!value.is_null() && name != "watermark" && !known.know(name)) ignore_member("parameters." + name, request);
  carry_all(params, kParameters, out);
  if (!out.contains("stop")) carry(params, "stop_sequences", out, "stop");
  read_drawing(params, out);
  if (ApiError bad = read_grammar(params, out); !bad.ok()) return bad;
  return read_details(params, route, out, request);
}

}  // namespace

// The text ends with the stop string that ended it, as TGI's does.
ApiError translate_tgi(const OrderedJson& body, Route route, Request& out) {
  const OrderedJson* inputs = member(body, "inputs");
  if (!inputs || !inputs->is_string()) return refuse("inputs", "inputs: expected a text");
  if (*inputs == "") return refuse("inputs", "inputs: it is empty");
  ignore_unknown(body, {kModel, kTgiRead, kTgiNotes}, out);
  out.names = kTgiNames;
  out.fill_context = true;
  out.native.answers = true;
  OrderedJson translated{{"prompt", *inputs}, {"stream", route == Route::kStream || flag(body, "stream")}};
  if (ApiError bad = read_parameters(body, route, translated, out); !bad.ok()) return bad;
  carry(body, "model", translated, "model");
  carry(body, "add_special_tokens", translated, "add_special_tokens");
  translated["include_stop_str_in_output"] = true;
  translated["return_token_ids"] = true;
  return read_translated(translated, Kind::kCompletion, out);
}

}  // namespace weir::openai::generate
