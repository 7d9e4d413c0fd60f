#include <array>
#include <utility>

#include "dialects/openai/conversations/conversations.h"
#include "dialects/openai/responses/input.h"

namespace weir::openai::conversations {
namespace {

using responses::text_member;

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPrefixes{{{"message", "msg_"},
                                                                                  {"function_call", "fc_"},
                                                                                  {"function_call_output", "fco_"},
                                                                                  {"custom_tool_call", "ctc_"},
                                                                                  {"custom_tool_call_output", "ctco_"},
                                                                                  {"reasoning", "rs_"}}};

// A letter parts the digits from the number: the id leads to no response (responses/items.h).
std::string new_id(std::string_view type, std::string_view ids, size_t number) {
  std::string out = "item_";
  for (const auto& [name, prefix] : kPrefixes)
    if (name == type) out = prefix;
  return (out += ids) += 'i' + std::to_string(number);
}

OrderedJson parts_of(const OrderedJson& item) {
  const OrderedJson* content = member(item, "content");
  if (!content || !content->is_string()) return content ? *content : OrderedJson::array();
  const bool answer = text_member(item, "role") == "assistant";
  OrderedJson part{{"type", answer ? "output_text" : "input_text"}, {"text", *content}};
  if (answer) part["annotations"] = OrderedJson::array();
  return OrderedJson::array({std::move(part)});
}

OrderedJson kept_item(const OrderedJson& item, std::string_view ids, size_t number) {
  std::string type(text_member(item, "type"));
  if (type.empty()) type = "message";
  OrderedJson out{{"id", new_id(type, ids, number)}, {"type", type}, {"status", "completed"}};
  if (type == "reasoning") out.erase("status");
  for (const auto& [name, value] : item.items())
    if (name != "id" && name != "type" && !value.is_null()) out[name] = value;
  if (type == "message") out["content"] = parts_of(item);
  return out;
}

}  // namespace

std::string kept_items(const OrderedJson& items, std::string_view ids) {
  if (items.is_string()) return kept_item({{"role", "user"}, {"content", items}}, ids, 0).dump();
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    out += kept_item(items[i], ids, i).dump();
  }
  return out;
}

}  // namespace weir::openai::conversations
