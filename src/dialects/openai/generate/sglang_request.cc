// SGLang's GenerateReqInput: {text | input_ids, sampling_params{…}, stream, return_logprob, …}.
#include <algorithm>
#include <array>
#include <limits>

#include "dialects/openai/generate/request.h"

namespace weir::openai::generate {
namespace {

constexpr uint32_t kUsualTokens = 128;
constexpr size_t kMaxRid = 128;

constexpr std::array<RenamedMember, 20> kSampling{{{"max_new_tokens", "max_tokens"},
                                                   {"min_new_tokens", "min_tokens"},
                                                   {"temperature", "temperature"},
                                                   {"top_p", "top_p"},
                                                   {"top_k", "top_k"},
                                                   {"min_p", "min_p"},
                                                   {"frequency_penalty", "frequency_penalty"},
                                                   {"presence_penalty", "presence_penalty"},
                                                   {"repetition_penalty", "repetition_penalty"},
                                                   {"stop", "stop"},
                                                   {"stop_token_ids", "stop_token_ids"},
                                                   {"n", "n"},
                                                   {"ignore_eos", "ignore_eos"},
                                                   {"skip_special_tokens", "skip_special_tokens"},
                                                   {"no_stop_trim", "include_stop_str_in_output"},
                                                   {"logit_bias", "logit_bias"},
                                                   {"sampling_seed", "seed"},
                                                   {"json_schema", "guided_json"},
                                                   {"regex", "guided_regex"},
                                                   {"ebnf", "guided_grammar"}}};
// Members of sampling_params that change nothing here.
constexpr std::array<std::string_view, 3> kSamplingNotes{"spaces_between_special_tokens", "stream_interval",
                                                         "custom_params"};
// These would change the answer.
constexpr std::array<std::string_view, 2> kSamplingRefused{"stop_regex", "structural_tag"};
constexpr std::array<std::string_view, 7> kRefused{"input_embeds",  "image_data",        "video_data",
                                                   "audio_data",    "token_ids_logprob", "custom_logit_processor",
                                                   "session_params"};
constexpr std::array<RenamedMember, 3> kCarried{
    {{"model", "model"}, {"lora_path", "model"}, {"cache_salt", "cache_salt"}}};
constexpr std::array<std::string_view, 19> kRead{"text",
                                                 "input_ids",
                                                 "sampling_params",
                                                 "stream",
                                                 "return_logprob",
                                                 "logprob_start_len",
                                                 "top_logprobs_num",
                                                 "return_text_in_logprobs",
                                                 "rid",
                                                 "input_embeds",
                                                 "image_data",
                                                 "video_data",
                                                 "audio_data",
                                                 "token_ids_logprob",
                                                 "custom_logit_processor",
                                                 "session_params",
                                                 "return_hidden_states",
                                                 "priority",
                                                 "extra_key"};
constexpr std::array<std::string_view, 8> kNotes{"log_metrics", "modalities",    "conversation_id", "session_id",
                                                 "no_logs",     "custom_labels", "background",      "return_bytes"};
constexpr std::array<RenamedMember, 10> kTextNames{{{"text", "prompt"},
                                                    {"sampling_params.max_new_tokens", "max_tokens"},
                                                    {"sampling_params.min_new_tokens", "min_tokens"},
                                                    {"sampling_params.no_stop_trim", "include_stop_str_in_output"},
                                                    {"sampling_params.sampling_seed", "seed"},
                                                    {"sampling_params.json_schema", "guided_json"},
                                                    {"sampling_params.regex", "guided_regex"},
                                                    {"sampling_params.ebnf", "guided_grammar"},
                                                    {"top_logprobs_num", "logprobs"},
                                                    {"rid", "request_id"}}};
constexpr auto kIdNames = [] {
  auto names = kTextNames;
  names[0] = {"input_ids", "prompt"};
  return names;
}();

// {} and "" ask for nothing.
ApiError refuse_any(const OrderedJson& from, std::span<const std::string_view> names, std::string_view place) {
  for (std::string_view name : names)
    if (const OrderedJson* value = member(from, name); value && !value->empty() && *value != "")
      return refuse(name, std::string(place) + std::string(name) + ": not offered");
  return {};
}

// A list of texts, or of lists of ids, has a list of answers, also where it has one element.
ApiError read_input(const OrderedJson& body, OrderedJson& out, Request& request) {
  const OrderedJson* text = member(body, "text");
  const OrderedJson* ids = member(body, "input_ids");
  if (text && ids) return refuse("input_ids", "input_ids: not with text");
  request.names = ids ? std::span<const RenamedMember>(kIdNames) : kTextNames;
  if (text && !text->is_string() && (!text->is_array() || (!text->empty() && !text->front().is_string())))
    return refuse("text", "text: expected a text or a list of texts");
  if (ids && (!ids->is_array() || ids->empty() || (!ids->front().is_number() && !ids->front().is_array())))
    return refuse("input_ids", "input_ids: expected a list of token ids, or a list of those");
  out["prompt"] = text ? *text : *ids;
  request.native.answers = true;
  request.native.list = text ? text->is_array() : ids->front().is_array();
  return {};
}

// A null is one that is not there, but for the length: as many tokens as the context has.
ApiError read_sampling(const OrderedJson& body, OrderedJson& out, Request& request) {
  static const OrderedJson kNone = OrderedJson::object();
  const OrderedJson* wanted = member(body, "sampling_params");
  const OrderedJson& params = wanted ? *wanted : kNone;
  if (!params.is_object())
    return refuse("sampling_params", "sampling_params: expected an object, which is that of every text");
  if (ApiError bad = refuse_any(params, kSamplingRefused, "sampling_params."); !bad.ok()) return bad;
  for (const auto& item : params.items()) {
    const std::string& name = item.key();
    const bool known = std::any_of(kSampling.begin(), kSampling.end(), [&](const auto& m) { return m.name == name; }) ||
                       std::find(kSamplingNotes.begin(), kSamplingNotes.end(), name) != kSamplingNotes.end();
    if (!known && !item.value().is_null()) ignore_member("sampling_params." + name, request);
  }
  carry_all(params, kSampling, out);
  request.params.cut_max_tokens = true;
  request.fill_context = params.contains("max_new_tokens") && params["max_new_tokens"].is_null();
  if (!out.contains("max_tokens") && !request.fill_context) out["max_tokens"] = kUsualTokens;
  return {};
}

// Those of the generated tokens, and of the prompt's from logprob_start_len on.
ApiError read_logprobs(const OrderedJson& body, OrderedJson& out, Request& request) {
  if (!flag(body, "return_logprob")) return {};
  const OrderedJson* top = member(body, "top_logprobs_num");
  out["logprobs"] = top ? *top : OrderedJson(0);
  request.native.token_texts = flag(body, "return_text_in_logprobs");
  const OrderedJson* start = member(body, "logprob_start_len");
  if (!start || *start == -1) return {};
  if (!start->is_number_unsigned() || *start > std::numeric_limits<uint32_t>::max())
    return refuse("logprob_start_len", "logprob_start_len: expected -1 or a position of the prompt");
  if (flag(body, "stream")) return refuse("logprob_start_len", "logprob_start_len: not in a stream");
  request.native.logprob_start = start->get<uint32_t>();
  out["prompt_logprobs"] = out["logprobs"];
  return {};
}

ApiError read_rid(const OrderedJson& body, OrderedJson& out, Request& request) {
  const OrderedJson* rid = member(body, "rid");
  if (!rid) return {};
  if (rid->is_string()) return out["request_id"] = *rid, ApiError{};
  const size_t prompts = request.native.list ? out["prompt"].size() : 1;
  if (!rid->is_array() || rid->size() != prompts)
    return refuse("rid", "rid: expected an id, or a list with one for every text");
  for (const OrderedJson& one : *rid) {
    const auto* id = one.get_ptr<const std::string*>();
    if (!id || id->size() > kMaxRid) return refuse("rid", "rid: expected texts of at most 128 bytes");
    request.native.ids.push_back(*id);
    if (request.native.ids.size() > kMaxChoices) break;  // which read_request() refuses
  }
  return {};
}

}  // namespace

ApiError translate_sglang(const OrderedJson& body, Request& out) {
  if (ApiError bad = refuse_any(body, kRefused, ""); !bad.ok()) return bad;
  if (const OrderedJson* hidden = member(body, "return_hidden_states"); hidden && *hidden != false)
    return refuse("return_hidden_states", "return_hidden_states: not offered");
  ignore_unknown(body, {kCarried, kRead, kNotes}, out);
  OrderedJson translated = OrderedJson::object();
  carry_all(body, kCarried, translated);
  // A level above the default; SGLang's order depends on how it was started.
  if (const OrderedJson* priority = member(body, "priority"); priority && *priority != 0)
    ignore_member("priority", out);
  if (member(body, "extra_key")) ignore_member("extra_key", out);
  if (ApiError bad = read_input(body, translated, out); !bad.ok()) return bad;
  if (ApiError bad = read_sampling(body, translated, out); !bad.ok()) return bad;
  if (ApiError bad = read_logprobs(body, translated, out); !bad.ok()) return bad;
  if (ApiError bad = read_rid(body, translated, out); !bad.ok()) return bad;
  translated["stream"] = flag(body, "stream");
  translated["return_token_ids"] = true;
  return read_translated(translated, Kind::kCompletion, out);
}

}  // namespace weir::openai::generate
