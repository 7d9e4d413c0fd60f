#include "dialects/openai/responses/items.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dialects/openai/responses/input.h"
#include "marshal/json_cursor.h"

namespace weir::openai::responses {
namespace {

using marshal::JsonCursor;

constexpr std::string_view kResponse = "resp_";

bool digits(std::string_view text, std::string_view which) {
  return !text.empty() && text.find_first_not_of(which) == text.npos;
}

std::vector<ClientTool> tools_of(std::string_view response) {
  OrderedJson body = OrderedJson::object();
  JsonCursor json(response);
  json.object([&](std::string_view name) {
    const bool tools = name == "tools";
    const size_t at = json.at();
    if (!json.skip()) return false;
    if (tools) body["tools"] = OrderedJson::parse(json.since(at), nullptr, false);
    return true;
  });
  OrderedJson functions = OrderedJson::object();
  Request request;
  if (!read_client_tools(body, functions, request).ok()) return {};
  return std::move(request.client_tools);
}

class InputItems {
 public:
  InputItems(std::string_view response_id, std::vector<ClientTool> tools,
             std::vector<std::pair<std::string, std::string>>& out)
      : response_id_(response_id), tools_(std::move(tools)), out_(out) {}

  void add(const OrderedJson& turn) {
    const std::string_view role = text_member(turn, "role");
    if (role == "tool") return result(turn);
    if (const std::string_view thoughts = text_member(turn, "reasoning_content"); !thoughts.empty())
      put("rs_", {{"type", "reasoning"},
                  {"summary", OrderedJson::array()},
                  {"content", {{{"type", "reasoning_text"}, {"text", thoughts}}}}});
    const bool answer = role == "assistant";
    OrderedJson content = parts(turn, answer ? "output_text" : "input_text");
    if (!content.empty())
      put("msg_", {{"type", "message"}, {"status", "completed"}, {"role", role}, {"content", std::move(content)}});
    if (const OrderedJson* calls = member(turn, "tool_calls"))
      for (const OrderedJson& one : *calls) call(one);
  }

 private:
  void call(const OrderedJson& from) {
    const std::string id = from.value("id", ""), name = from["function"].value("name", ""),
                      arguments = from["function"].value("arguments", "");
    const auto tool = std::find_if(tools_.begin(), tools_.end(), [&](const ClientTool& t) { return t.shown == name; });
    const bool known = tool != tools_.end(), custom = known && tool->custom;
    OrderedJson item{{"type", custom ? "custom_tool_call" : "function_call"},
                     {"status", "completed"},
                     {"call_id", id},
                     {"name", known ? tool->name : name}};
    if (known && !tool->name_space.empty()) item["namespace"] = tool->name_space;
    if (custom)
      item["input"] = custom_input(arguments), custom_.insert(id);
    else
      item["arguments"] = arguments;
    put(custom ? "ctc_" : "fc_", std::move(item));
  }

  void result(const OrderedJson& turn) {
    const std::string id = turn.value("tool_call_id", "");
    const bool custom = custom_.contains(id);
    put(custom ? "ctco_" : "fco_", {{"type", custom ? "custom_tool_call_output" : "function_call_output"},
                                    {"call_id", id},
                                    {"output", parts(turn, "input_text")}});
  }

  static OrderedJson parts(const OrderedJson& turn, std::string_view type) {
    OrderedJson out = OrderedJson::array();
    const OrderedJson* content = member(turn, "content");
    if (!content) return out;
    const auto text = [&](const OrderedJson& said) {
      out.push_back({{"type", type}, {"text", said}});
      if (type == "output_text") out.back()["annotations"] = OrderedJson::array();
    };
    if (content->is_string()) text(*content);
    if (!content->is_array()) return out;
    for (const OrderedJson& part : *content)
      if (part.contains("text"))
        text(part["text"]);
      else if (part.contains("image_url"))
        out.push_back({{"type", "input_image"}, {"detail", "auto"}, {"image_url", part["image_url"]["url"]}});
    return out;
  }

  void put(std::string_view prefix, OrderedJson members) {
    // No item of an output has such an id.
    const std::string id =
        item_id(prefix, response_id_, 0).substr(0, prefix.size() + kIdDigits) + "i" + std::to_string(out_.size());
    OrderedJson item{{"id", id}};
    item.update(members);
    out_.emplace_back(id, item.dump());
  }

  const std::string_view response_id_;
  const std::vector<ClientTool> tools_;
  std::set<std::string> custom_;  // ids of calls
  std::vector<std::pair<std::string, std::string>>& out_;
};

}  // namespace

std::string item_id(std::string_view prefix, std::string_view response_id, size_t number) {
  std::string count = std::to_string(number);
  if (count.size() < 4) count.insert(0, 4 - count.size(), '0');
  return std::string(prefix) + std::string(response_id.substr(kResponse.size())) + count;
}

std::string response_of(std::string_view item_id) {
  const size_t prefix = item_id.find('_');
  if (prefix == item_id.npos || item_id.size() <= prefix + 1 + kIdDigits) return {};
  const std::string_view response = item_id.substr(prefix + 1, kIdDigits),
                         number = item_id.substr(prefix + 1 + kIdDigits);
  if (!digits(response, "0123456789abcdef") || !digits(number, "0123456789") || number.size() > 9) return {};
  return std::string(kResponse) + std::string(response);
}

std::optional<OrderedJson> ReferencedItems::find(const std::string& id) {
  const std::string response_id = response_of(id);
  const auto response = responses_.find(response_id);
  if (response == responses_.end() || response->second.empty()) return std::nullopt;
  const Items& items = items_of(response_id, response->second.view());
  const auto item = items.find(id);
  if (item == items.end() || (bytes_ += item->second.size()) > kMostReferencedBytes) return std::nullopt;
  return OrderedJson::parse(item->second);
}

const ReferencedItems::Items& ReferencedItems::items_of(const std::string& response_id, std::string_view response) {
  const auto [place, fresh] = items_.try_emplace(response_id);
  Items& items = place->second;
  if (!fresh) return items;
  JsonCursor json(response);
  json.object([&](std::string_view name) {
    if (name != "output") return json.skip();
    return json.array([&] {
      const size_t at = json.at();
      std::string id;
      const bool good =
          json.object([&](std::string_view member) { return member == "id" ? json.string(id) : json.skip(); });
      items.emplace(std::move(id), json.since(at));
      return good;
    });
  });
  return items;
}

std::vector<std::pair<std::string, std::string>> input_items(std::string_view response_id, std::string_view turns,
                                                             std::string_view response) {
  std::vector<std::pair<std::string, std::string>> out;
  const OrderedJson all = OrderedJson::parse('[' + std::string(turns) + ']', nullptr, false);
  InputItems items(response_id, tools_of(response), out);
  for (size_t i = 0; i + 1 < all.size(); ++i) items.add(all[i]);
  return out;
}

}  // namespace weir::openai::responses
