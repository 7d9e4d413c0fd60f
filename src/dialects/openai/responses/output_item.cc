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

void write_part(std::string& out, const Item& item, std::string_view text) {
  out += "{\"type\":\"";
  out += names_of(item).part;
  out += '"';
  add_string(out, "text", text);
  if (item.kind == Item::Kind::kMessage)
    out += ",\"annotations\":[],\"logprobs\":[" + (text.empty() ? std::string() : item.logprobs) + ']';
  out += '}';
}

std::string_view client_name(const Item& item) { return item.tool ? item.tool->name : item.name; }

void write_item(std::string& out, const Item& item, Progress progress) {
  constexpr std::string_view kStatus[] = {"in_progress", "incomplete", "completed"};
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
      add_string(out, "input", item.input);
    else
      add_string(out, "arguments", progress == Progress::kBegun ? std::string_view() : item.text);
  } else {
    out +=
        item.kind == Item::Kind::kMessage ? ",\"role\":\"assistant\",\"content\":[" : ",\"summary\":[],\"content\":[";
    if (progress != Progress::kBegun) write_part(out, item, item.text);
    out += ']';
  }
  out += '}';
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
