#include "dialects/openai/responses/output_item.h"

#include "marshal/json_tensor.h"

namespace weir::openai::responses {
namespace {

constexpr ItemNames kItemNames[] = {{"rs_", "reasoning", "reasoning_text", "response.reasoning_text"},
                                    {"msg_", "message", "output_text", "response.output_text"},
                                    {"fc_", "function_call", "", "response.function_call_arguments"},
                                    {"ctc_", "custom_tool_call", "", "response.custom_tool_call_input"}};
}  // namespace

const ItemNames& names_of(const Item& item) { return kItemNames[size_t(item.kind)]; }

void add_string(std::string& out, std::string_view name, std::string_view value) {
  ((out += ",\"") += name) += "\":";
  marshal::write_string(out, value);
}

void add_string(SplicedText& out, std::string_view name, std::string_view value) {
  ((out.own += ",\"") += name) += "\":";
  out.splice_string(value);
}

void write_part(SplicedText& out, const Item& item, std::string_view text) {
  static const JsonElements kNone;
  out.own += "{\"type\":\"";
  out.own += names_of(item).part;
  out.own += '"';
  add_string(out, "text", text);
  if (item.kind == Item::Kind::kMessage)
    write_list(out, ",\"annotations\":[],\"logprobs\":[", text.empty() ? kNone : item.logprobs);
  out.own += '}';
}

std::string_view client_name(const Item& item) { return item.tool ? item.tool->name : item.name; }

void write_item(SplicedText& text, const Item& item, Progress progress) {
  constexpr std::string_view kStatus[] = {"in_progress", "incomplete", "completed"};
  std::string& out = text.own;
  out += "{\"type\":\"";
  out += names_of(item).type;
  out += '"';
  add_string(out, "id", item.id);
  add_string(out, "status", kStatus[size_t(progress)]);
  if (item.calls()) {
    add_string(out, "call_id", item.call_id);
    add_string(out, "name", client_name(item));
    if (item.tool && !item.tool->name_space.empty()) add_string(out, "namespace", item.tool->name_space);
    if (item.kind == Item::Kind::kCustomCall)
      add_string(text, "input", item.input);
    else
      add_string(text, "arguments", progress == Progress::kBegun ? std::string_view() : item.text);
  } else {
    out +=
        item.kind == Item::Kind::kMessage ? ",\"role\":\"assistant\",\"content\":[" : ",\"summary\":[],\"content\":[";
    if (progress != Progress::kBegun) write_part(text, item, item.text);
    out += ']';
  }
  out += '}';
}

std::string assistant_turn(std::span<const Item> items) {
  std::string text, thoughts, calls;
  for (const Item& item : items) {
    if (item.kind == Item::Kind::kMessage) text += item.text;
    if (item.kind == Item::Kind::kThoughts) thoughts += item.text;
    if (!item.calls()) continue;
    calls += calls.empty() ? "{\"type\":\"function\"" : ",{\"type\":\"function\"";
    add_string(calls, "id", item.call_id);
    calls += ",\"function\":{\"name\":";
    marshal::write_string(calls, item.name);
    add_string(calls, "arguments", item.text);
    calls += "}}";
  }
  std::string out = "{\"role\":\"assistant\"";
  if (text.empty() && !calls.empty())
    out += ",\"content\":null";
  else
    add_string(out, "content", text);
  if (!thoughts.empty()) add_string(out, "reasoning_content", thoughts);
  if (!calls.empty()) out += ",\"tool_calls\":[" + calls + ']';
  return out += '}';
}

void ResponseView::write(size_t piece, SplicedText& out) const {
  if (piece == 0) write_head(out);
  if (piece < items.size()) {
    if (piece > 0) out.own += ',';
    return write_item(out, items[piece], piece + 1 == items.size() ? last : Progress::kDone);
  }
  out.own += "],\"usage\":";
  if (status == "in_progress")
    out.own += "null";
  else
    write_response_usage(out.own, usage);
  out.own += '}';
}

std::string ResponseView::json() const {
  SplicedText text;
  for (size_t piece = 0; piece < pieces(); ++piece) write(piece, text);
  std::string out;
  text.append_to(out);
  return out;
}

void ResponseView::write_head(SplicedText& text) const {
  std::string& out = text.own;
  ((out += "{\"id\":\"") += id) += "\",\"object\":\"response\",\"created_at\":" + std::to_string(created);
  out += ",\"completed_at\":" + (status == "completed" ? std::to_string(now) : "null");
  add_string(out, "status", status);
  out += ",\"error\":";
  if (error.empty()) {
    out += "null";
  } else {
    out += "{\"code\":\"server_error\"";
    add_string(out, "message", error);
    out += '}';
  }
  out += status != "incomplete" ? R"(,"incomplete_details":null)"
         : filtered             ? R"(,"incomplete_details":{"reason":"content_filter"})"
                                : R"(,"incomplete_details":{"reason":"max_output_tokens"})";
  add_string(out, "model", model);
  out += ',';
  text.splice(echoed);
  out += ",\"output\":[";
}

void write_response_usage(std::string& out, const Usage& usage) {
  out += "{\"input_tokens\":" + std::to_string(usage.prompt);
  out += ",\"input_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached);
  out += ",\"cache_write_tokens\":0},\"output_tokens\":" + std::to_string(usage.completion);
  out += ",\"output_tokens_details\":{\"reasoning_tokens\":" + std::to_string(usage.thoughts);
  out += "},\"total_tokens\":";
  out += std::to_string(usage.prompt + usage.completion) + '}';
}

}  // namespace weir::openai::responses
