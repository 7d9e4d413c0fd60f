#include "dialects/openai/choice_delta.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/encoding.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"

namespace weir::openai {
namespace {

// Clients read either: vLLM's and OpenRouter's the first, DeepSeek's and older ones of vLLM the second.
constexpr std::array<std::string_view, 2> kThoughtNames{"reasoning", "reasoning_content"};
constexpr float kLeast = -9999;  // stands for minus infinity, as vLLM has it

uint64_t characters(std::string_view text) {
  return uint64_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

void write_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(uint8_t(bytes[i]));
  }
  out += ']';
}

// `"token":…,`
void begin_token(std::string& out, const TokenForm& form, uint32_t id, const msg::TokenDetails& details, size_t place) {
  out += "\"token\":";
  marshal::write_string(out, shown(form, id, details, place));
  out += ',';
}

// `"token":…,"logprob":…,"bytes":[…]`
void write_token(std::string& out, const TokenForm& form, msg::TokenLogprob token, const msg::TokenDetails& details,
                 size_t place) {
  begin_token(out, form, token.id, details, place);
  out += "\"logprob\":";
  write_logprob(out, token.logprob);
  out += ",\"bytes\":";
  write_bytes(out, bytes_of(form, token.id, details, place));
}

std::span<const msg::TokenLogprob> first_of(const std::vector<msg::TokenLogprob>& top, uint32_t most) {
  return std::span(top).first(std::min<size_t>(top.size(), most));
}

enum class Indexed : uint8_t { kNo, kYes };

// `"function_call":{…}`: a name where the call begins, and arguments.
void write_function(SplicedText& text, const std::vector<CallDelta>& calls) {
  std::string& out = text.own;
  out += "\"function_call\":{";
  if (!calls.front().name.empty()) {
    out += "\"name\":";
    marshal::write_string(out, calls.front().name);
    out += ',';
  }
  out += "\"arguments\":";
  text.splice_string(calls.front().arguments);
  out += '}';
}

// `"tool_calls":[…]`, or the older form.
void write_calls(SplicedText& text, const std::vector<CallDelta>& calls, Indexed indexed, CallForm form) {
  if (form == CallForm::kFunction) return write_function(text, calls);
  std::string& out = text.own;
  out += "\"tool_calls\":";
  out += '[';
  for (const CallDelta& call : calls) {
    if (out.back() != '[') out += ',';
    out += '{';
    if (indexed == Indexed::kYes) out += "\"index\":" + std::to_string(call.index) + ',';
    if (!call.name.empty()) {
      out += "\"id\":";
      marshal::write_string(out, call.id);
      out +=
          call.custom ? ",\"type\":\"custom\",\"custom\":{\"name\":" : ",\"type\":\"function\",\"function\":{\"name\":";
      marshal::write_string(out, call.name);
      out += ',';
    } else {
      out += "\"function\":{";
    }
    out += call.custom ? "\"input\":" : "\"arguments\":";
    text.splice_string(call.arguments);
    out += "}}";
  }
  out += ']';
}

}  // namespace

std::string_view bytes_of(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, size_t place) {
  return place < details.texts.size() ? std::string_view(details.texts[place]) : form.codec->bytes(id);
}

std::string shown(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, size_t place) {
  if (form.tokens_as_ids && details.texts.empty()) return "token_id:" + std::to_string(id);
  const std::string_view bytes = bytes_of(form, id, details, place);
  if (form.kind == Kind::kChat || marshal::valid_utf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (char c : bytes) out += "\\x" + base::hex({&c, 1});
  return out;
}

void write_token_with_id(std::string& out, const TokenForm& form, msg::TokenLogprob token,
                         const msg::TokenDetails& details, size_t place) {
  out += "{\"id\":" + std::to_string(token.id) + ',';
  write_token(out, form, token, details, place);
}

void write_token_share(std::string& out, const TokenForm& form, uint32_t id, float share,
                       const msg::TokenDetails& details, size_t place) {
  out += "{\"id\":" + std::to_string(id) + ',';
  begin_token(out, form, id, details, place);
  out += "\"prob\":";
  marshal::write_number(out, share);
  out += ",\"bytes\":";
  write_bytes(out, bytes_of(form, id, details, place));
}

void write_logprob(std::string& out, float logprob) {
  marshal::write_number(out, std::isnan(logprob) ? kLeast : std::max(logprob, kLeast));
}

void write_prompt_logprob(std::string& out, const TokenForm& form, uint32_t id, const msg::TokenDetails& details,
                          uint32_t alternatives) {
  if (!details.has_logprob) {
    out += "null";
    return;
  }
  bool own = false;
  out += '{';
  auto entry = [&](uint32_t token, float logprob, size_t rank) {  // 0: the position's own
    if (out.back() != '{') out += ',';
    out += '"' + std::to_string(token) + "\":{\"logprob\":";
    write_logprob(out, logprob);
    if (rank > 0) out += ",\"rank\":" + std::to_string(rank);
    out += ",\"decoded_token\":";
    marshal::write_string(out, shown(form, token, details, rank));
    out += '}';
  };
  const auto top = first_of(details.top, alternatives);
  for (size_t i = 0; i < top.size(); ++i) {
    own = own || top[i].id == id;
    entry(top[i].id, top[i].logprob, i + 1);
  }
  if (!own) entry(id, details.logprob, 0);
  out += '}';
}

void write_ids(std::string& out, std::span<const uint32_t> ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    marshal::write_number(out, uint64_t(ids[i]));
  }
  out += ']';
}

void write_ids(SplicedText& out, std::span<const uint32_t> ids) {
  out.own += '[';
  out.splice_ids(ids);
  out.own += ']';
}

void write_list(SplicedText& out, std::string_view opening, const JsonElements& elements) {
  out.own += opening;
  out.splice(elements);
  out.own += ']';
}

void write_usage(std::string& out, const Usage& usage) {
  out += "\"usage\":{\"prompt_tokens\":" + std::to_string(usage.prompt);
  out += ",\"completion_tokens\":" + std::to_string(usage.completion);
  out += ",\"total_tokens\":" + std::to_string(usage.prompt + usage.completion);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached) + '}';
  if (usage.thoughts > 0)
    out += ",\"completion_tokens_details\":{\"reasoning_tokens\":" + std::to_string(usage.thoughts) + '}';
  out += '}';
}

End::Why why_of(msg::Finish finish) {
  if (finish == msg::Finish::kFiltered) return End::Why::kFiltered;
  return finish == msg::Finish::kEos || finish == msg::Finish::kStopId ? End::Why::kStop : End::Why::kLength;
}

void write_end(std::string& out, const End& end) {
  if (end.why == End::Why::kNone) {
    out += "\"finish_reason\":null";
    return;
  }
  if (end.why == End::Why::kLength)
    out += "\"finish_reason\":\"length\"";
  else if (end.why == End::Why::kFiltered)
    out += "\"finish_reason\":\"content_filter\"";
  else
    out += !end.calls                        ? "\"finish_reason\":\"stop\""
           : end.form == CallForm::kFunction ? "\"finish_reason\":\"function_call\""
                                             : "\"finish_reason\":\"tool_calls\"";
  out += ",\"stop_reason\":";
  out += end.stop_reason.empty() ? "null" : std::string_view(end.stop_reason);
}

void ChoiceDelta::add_logprob(const TokenForm& form, uint32_t id, const msg::TokenDetails& details,
                              uint32_t alternatives) {
  const auto top = first_of(details.top, alternatives);
  if (form.kind == Kind::kChat)
    add_chat(form, id, details, top);
  else
    add_completion(form, id, details, top);
}

void ChoiceDelta::add_chat(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, Alternatives top) {
  std::string& out = tokens_.next();
  out += '{';
  write_token(out, form, {id, details.logprob}, details, 0);
  out += ",\"top_logprobs\":[";
  for (size_t i = 0; i < top.size(); ++i) {
    out += i > 0 ? ",{" : "{";
    write_token(out, form, top[i], details, i + 1);
    out += '}';
  }
  out += "]}";
}

void ChoiceDelta::add_completion(const TokenForm& form, uint32_t id, const msg::TokenDetails& details,
                                 Alternatives top) {
  const std::string own_text = shown(form, id, details, 0);
  marshal::write_string(tokens_.next(), own_text);
  marshal::write_number(offsets_.next(), at_);
  at_ += characters(bytes_of(form, id, details, 0));
  std::string& value = values_.next();
  std::string& tops = tops_.next();
  if (!details.has_logprob) {
    value += "null";
    tops += "null";
    return;
  }
  write_logprob(value, details.logprob);
  tops += '{';
  auto entry = [&](std::string_view text, float logprob) {
    if (tops.back() != '{') tops += ',';
    marshal::write_string(tops, text);
    tops += ':';
    write_logprob(tops, logprob);
  };
  // The token itself stands first, as clients of vLLM's expect it.
  entry(own_text, details.logprob);
  for (size_t i = 0; i < top.size(); ++i) {
    const std::string text = shown(form, top[i].id, details, i + 1);
    const bool own = details.texts.empty() ? top[i].id == id : text == own_text;
    if (!own) entry(text, top[i].logprob);
  }
  tops += '}';
}

void ChoiceDelta::add_readout(const TokenForm& form, const msg::Token& token) {
  std::string& out = readouts_.next();
  out += "{\"position\":" + std::to_string(token.position) + ",\"token_id\":" + std::to_string(token.id);
  out += ",\"values\":[";
  const auto& values = token.details->readout;
  size_t layers = std::max<size_t>(form.layers, 1), width = values.size() / layers;
  for (size_t layer = 0; layer < layers; ++layer) {
    out += layer > 0 ? ",[" : "[";
    for (size_t i = 0; i < width; ++i) {
      if (i > 0) out += ',';
      marshal::write_number(out, values[layer * width + i]);
    }
    out += ']';
  }
  out += "]}";
}

void ChoiceDelta::append(const ChoiceDelta& more) {
  text += more.text;
  reasoning += more.reasoning;
  for (const CallDelta& call : more.calls)
    if (call.name.empty() && !calls.empty() && calls.back().index == call.index)
      calls.back().arguments += call.arguments;
    else
      calls.push_back(call);
  calls_weight_ += more.calls_weight_;
  ids.insert(ids.end(), more.ids.begin(), more.ids.end());
  tokens_.append(more.tokens_);
  readouts_.append(more.readouts_);
}

void ChoiceDelta::clear() {
  text.clear(), reasoning.clear(), calls.clear(), ids.clear();
  calls_weight_ = 0;
  tokens_.clear(), values_.clear(), tops_.clear(), offsets_.clear(), readouts_.clear();
}

bool has_object(const CallDelta& call) {
  marshal::JsonCursor json(call.arguments);
  return json.peek() == marshal::JsonCursor::Kind::kObject && json.skip() && json.finish();
}

void ChoiceDelta::write_delta(std::string& out, CallForm form) const {
  const size_t begin = out.size();
  const auto part = [&] {
    if (out.size() > begin) out += ',';
  };
  const auto member = [&](std::string_view name) {
    part();
    ((out += '"') += name) += "\":";
  };
  if (!reasoning.empty())
    for (std::string_view name : kThoughtNames) member(name), marshal::write_string(out, reasoning);
  // A chunk that has nothing but the logprobs of a token has an empty text.
  if (!text.empty() || says_nothing()) member("content"), marshal::write_string(out, text);
  if (calls.empty()) return;
  part();
  SplicedText written;
  write_calls(written, calls, Indexed::kYes, form);
  written.append_to(out);
}

void ChoiceDelta::write_message(SplicedText& out, CallForm form) const {
  out.own += "\"role\":\"assistant\",\"content\":";
  if (text.empty() && !calls.empty())
    out.own += "null";
  else
    out.splice_string(text);
  out.own += ",\"refusal\":null";
  if (!reasoning.empty())
    for (std::string_view name : kThoughtNames) ((out.own += ",\"") += name) += "\":", out.splice_string(reasoning);
  if (!calls.empty()) out.own += ',', write_calls(out, calls, Indexed::kNo, form);
}

void ChoiceDelta::write_logprobs(SplicedText& out, Kind kind) const {
  out.own += "\"logprobs\":";
  if (tokens_.empty()) {
    out.own += "null";
  } else if (kind == Kind::kChat) {
    write_list(out, "{\"content\":[", tokens_);
    out.own += ",\"refusal\":null}";
  } else {
    write_list(out, "{\"text_offset\":[", offsets_);
    write_list(out, ",\"token_logprobs\":[", values_);
    write_list(out, ",\"tokens\":[", tokens_);
    write_list(out, ",\"top_logprobs\":[", tops_);
    out.own += '}';
  }
}

void ChoiceDelta::write_logprobs(std::string& out, Kind kind) const {
  SplicedText text;
  write_logprobs(text, kind);
  text.append_to(out);
}

void ChoiceDelta::write_extras(SplicedText& out) const {
  if (!ids.empty()) {
    out.own += ",\"token_ids\":";
    write_ids(out, ids);
  }
  if (!readouts_.empty()) write_list(out, ",\"readouts\":[", readouts_);
}

void ChoiceDelta::write_extras(std::string& out) const {
  SplicedText text;
  write_extras(text);
  text.append_to(out);
}

}  // namespace weir::openai
