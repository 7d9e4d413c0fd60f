#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "dialects/openai/responses/compaction.h"
#include "dialects/openai/responses/input.h"
#include "dialects/openai/responses/responses.h"

namespace weir::openai::responses {
namespace {

ApiError wrong(size_t item, const std::string& what) {
  return refuse("input", "input[" + std::to_string(item) + "]: " + what);
}

// Calls of tools that clients run and that have no name of their own: where the item has what the tool was asked.
struct OwnCall {
  std::string_view type, tool, asked;
};
constexpr std::array<OwnCall, 3> kOwnCalls{{{"local_shell_call", "local_shell", "action"},
                                            {"shell_call", "shell", "action"},
                                            {"apply_patch_call", "apply_patch", "operation"}}};
const OwnCall* own_call(std::string_view type) {
  auto row = std::find_if(kOwnCalls.begin(), kOwnCalls.end(), [type](const OwnCall& one) { return one.type == type; });
  return row == kOwnCalls.end() ? nullptr : &*row;
}
bool is_own_call(std::string_view type) { return own_call(type) != nullptr; }

std::string asked_text(const OrderedJson& item, std::string_view name) {
  const OrderedJson* asked = member(item, name);
  return asked ? asked->dump() : "{}";
}

constexpr std::string_view kOutput = "_output";
bool is_output(std::string_view type) {
  if (!type.ends_with(kOutput)) return false;
  const std::string_view call = type.substr(0, type.size() - kOutput.size());
  return call == "function_call" || call == "custom_tool_call" || is_own_call(call);
}

// They say that a server ran a tool, or had one to offer; the message behind them says what came of it.
constexpr std::array<std::string_view, 9> kPassedOver{
    "web_search_call",      "file_search_call",      "code_interpreter_call", "image_generation_call", "mcp_list_tools",
    "mcp_approval_request", "mcp_approval_response", "tool_search_call",      "tool_search_output"};

// More than the messages of a chat, for calls and thoughts are items, too. They are counted before they are read.
constexpr size_t kMostItems = 16'384;

// The items of a conversation as messages: calls and thoughts that stand alone become part of one message of the
// assistant.
class Conversation {
 public:
  Conversation(OrderedJson& messages, const Referenced* referenced, Request& request)
      : messages_(messages), request_(request) {
    if (referenced) referenced_.emplace(*referenced);
  }

  // `name`: of the list, for errors of what its items lack.
  ApiError add_all(std::string_view name, const OrderedJson& items) {
    if ((items_ += items.size()) > kMostItems)
      return refuse(name, std::string(name) + ": at most " + std::to_string(kMostItems) +
                              " items, with those of the conversation");
    for (size_t i = 0; i < items.size(); ++i)
      if (ApiError bad = read_at(name, i, [&] { return add(items[i], i); }); !bad.ok()) return bad;
    return {};
  }
  ApiError add(const OrderedJson& item, size_t at) {
    if (!item.is_object()) return wrong(at, "expected an object");
    const std::string_view type = text_member(item, "type");
    if (type == "message" || (type.empty() && item.contains("role"))) return message(item, at);
    if (is_reference(item)) return reference(item, at);
    if (type == "function_call" || type == "custom_tool_call" || is_own_call(type)) return call(item, type, at);
    if (is_output(type)) return result(item, type, at);
    if (type == "reasoning") return thoughts(item, at);
    if (type == "compaction") return summary(item, at);
    if (type == "mcp_call") return remote_call(item, at);
    if (std::find(kPassedOver.begin(), kPassedOver.end(), type) != kPassedOver.end()) return {};
    if (type.empty()) return wrong(at, "an item has a type, and a message a role");
    return wrong(at, "items of type '" + std::string(type.substr(0, 64)) + "' are not offered");
  }

 private:
  ApiError message(const OrderedJson& item, size_t at) {
    const std::string_view role = text_member(item, "role");
    if (role != "system" && role != "developer" && role != "user" && role != "assistant")
      return wrong(at, "a role is user, assistant, system or developer");
    OrderedJson text;
    if (ApiError bad = content(item.value("content", OrderedJson()), text, at); !bad.ok()) return bad;
    if (role != "assistant" || !open_)
      return messages_.push_back({{"role", role}, {"content", std::move(text)}}), close();
    // Behind thoughts.
    OrderedJson& last = messages_.back();
    if (!last["content"].is_null())
      return messages_.push_back({{"role", role}, {"content", std::move(text)}}), ApiError{};
    last["content"] = std::move(text);
    return {};
  }

  ApiError content(const OrderedJson& from, OrderedJson& out, size_t at) {
    if (from.is_string()) return out = from, ApiError{};
    if (!from.is_array()) return wrong(at, "content: expected a text or a list of parts");
    OrderedJson parts = OrderedJson::array();
    for (const OrderedJson& part : from) {
      const std::string_view type = part.is_object() ? text_member(part, "type") : std::string_view();
      if (type == "input_text" || type == "output_text" || type == "text")
        parts.push_back({{"type", "text"}, {"text", part.at("text")}});
      else if (type == "refusal")
        parts.push_back({{"type", "text"}, {"text", part.at("refusal")}});
      else if (type == "input_image" && member(part, "image_url"))
        parts.push_back(image(part));
      else if (type == "input_image")
        return wrong(at, "an input_image has an image_url; no image is stored here as a file");
      else if (type.empty())
        return wrong(at, "a part has a type");
      else
        return wrong(at, "parts of type '" + std::string(type.substr(0, 64)) + "' are not offered");
    }
    // A text alone is content as a string, which every template takes.
    const bool alone = parts.size() == 1 && parts[0]["type"] == "text";
    out = alone ? OrderedJson(parts[0]["text"]) : std::move(parts);
    return {};
  }

  static OrderedJson image(const OrderedJson& part) {
    OrderedJson url{{"url", part.at("image_url")}};
    if (const OrderedJson* detail = member(part, "detail")) url["detail"] = *detail;
    return {{"type", "image_url"}, {"image_url", std::move(url)}};
  }

  // A call of any tool that the client runs is one of a function to the model.
  ApiError call(const OrderedJson& item, std::string_view type, size_t at) {
    const OwnCall* own = own_call(type);
    const std::string_view name = own ? own->tool : text_member(item, "name");
    if (name.empty() || text_member(item, "call_id").empty())
      return wrong(at, "a " + std::string(type) + " has a name and a call_id");
    OrderedJson arguments = item.value("arguments", "");
    if (type == "custom_tool_call") arguments = custom_arguments(text_member(item, "input"));
    if (own) arguments = asked_text(item, own->asked);
    add_call(item.at("call_id"), shown_name(text_member(item, "namespace"), name), std::move(arguments));
    return {};
  }
  void add_call(const OrderedJson& id, std::string name, OrderedJson arguments) {
    OrderedJson& calls = assistant()["tool_calls"];
    if (calls.is_null()) calls = OrderedJson::array();
    calls.push_back({{"id", id},
                     {"type", "function"},
                     {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}});
  }

  // A call that a server ran, and what it was answered, in one item.
  ApiError remote_call(const OrderedJson& item, size_t at) {
    const std::string_view id = text_member(item, "id"), name = text_member(item, "name");
    if (id.empty() || name.empty()) return wrong(at, "an mcp_call has an id and a name");
    add_call(id, std::string(name), item.value("arguments", ""));
    std::string_view said = text_member(item, "output");
    if (said.empty()) said = text_member(item, "error");
    messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", said}});
    return close();
  }

  ApiError result(const OrderedJson& item, std::string_view type, size_t at) {
    std::string_view id = text_member(item, "call_id");
    if (type == "local_shell_call_output" && id.empty()) id = text_member(item, "id");
    if (id.empty()) return wrong(at, "a " + std::string(type) + " has a call_id");
    OrderedJson said("");
    if (const OrderedJson* output = member(item, "output"); output && type == "shell_call_output")
      said = output->dump();
    else if (output || !is_own_call(type.substr(0, type.size() - kOutput.size())))
      if (ApiError bad = content(output ? *output : OrderedJson(), said, at); !bad.ok()) return bad;
    messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(said)}});
    return close();
  }

  ApiError thoughts(const OrderedJson& item, size_t at) {
    std::string text;
    for (const char* list : {"content", "summary"})
      if (const OrderedJson* parts = member(item, list); parts && text.empty()) {
        if (!parts->is_array()) return wrong(at, std::string(list) + ": expected a list");
        for (const OrderedJson& part : *parts) text += part.value("text", "");
      }
    if (!text.empty()) assistant()["reasoning_content"] = std::move(text);
    return {};
  }

  // The user's messages before it become one, for templates take no two of a role; the summary is the assistant's.
  ApiError summary(const OrderedJson& item, size_t at) {
    auto text = summary_in(text_member(item, "encrypted_content"));
    if (!text) return wrong(at, "its encrypted_content was not made here");
    join_users_texts();
    const bool begins = messages_.empty() || messages_.back()["role"] != "user";
    messages_.push_back({{"role", begins ? "user" : "assistant"}, {"content", *std::move(text)}});
    return close();
  }

  // Those at the end, as long as their content is a text.
  void join_users_texts() {
    const auto is_text = [&](size_t i) {
      return messages_[i]["role"] == "user" && messages_[i]["content"].is_string();
    };
    size_t first = messages_.size();
    while (first > 0 && is_text(first - 1)) --first;
    if (first == messages_.size()) return;
    std::string& joined = messages_[first]["content"].get_ref<std::string&>();
    for (size_t i = first + 1; i < messages_.size(); ++i)
      (joined += "\n\n") += messages_[i]["content"].get_ref<const std::string&>();
    messages_.erase(messages_.begin() + ptrdiff_t(first) + 1, messages_.end());
  }

  // An item of a stored response stands in its place.
  ApiError reference(const OrderedJson& item, size_t at) {
    const std::string id(text_member(item, "id"));
    if (referenced_) {
      const auto found = referenced_->find(id);
      return found ? add(*found, at) : no_item(id);
    }
    std::string response = response_of(id);
    if (response.empty()) return no_item(id);
    auto& all = request_.references;
    if (std::find(all.begin(), all.end(), response) == all.end()) all.push_back(std::move(response));
    return all.size() <= kMostReferenced ? ApiError{} : wrong(at, "it refers to too many responses");
  }
  static ApiError no_item(std::string_view id) {
    const std::string text = "input: there is no item '" + std::string(base::cut_text(id, 64)) +
                             "' of a stored response, or no more; send it whole, or use store: false";
    return {base::failure(base::Code::kNotFound, text), "input", "item_not_found"};
  }

  // The assistant's message that is being put together.
  OrderedJson& assistant() {
    if (!open_ && !messages_.empty() && messages_.back()["role"] == "assistant") open_ = true;
    if (!std::exchange(open_, true)) messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
    return messages_.back();
  }
  ApiError close() { return open_ = false, ApiError{}; }

  OrderedJson& messages_;
  Request& request_;
  std::optional<ReferencedItems> referenced_;
  bool open_ = false;
  size_t items_ = 0;
};

OrderedJson kept_list(const base::Bytes& items) { return OrderedJson::parse('[' + std::string(items.view()) + ']'); }

// Without the oldest of more than `most` items: what is left begins with a message of the user. Instructions stay.
OrderedJson newest(OrderedJson items, size_t most) {
  if (items.size() <= most) return items;
  OrderedJson out = OrderedJson::array();
  const auto role = [&](size_t i) { return text_member(items[i], "role"); };
  size_t at = 0;
  const auto begins = [&] { return out.size() + items.size() - at <= most && role(at) == "user"; };
  for (; at < items.size() && !begins(); ++at)
    if (role(at) == "system" || role(at) == "developer") out.push_back(std::move(items[at]));
  for (; at < items.size(); ++at) out.push_back(std::move(items[at]));
  return out;
}

}  // namespace

std::string_view text_member(const OrderedJson& object, std::string_view name) {
  const OrderedJson* value = member(object, name);
  const auto* text = value ? value->get_ptr<const std::string*>() : nullptr;
  return text ? std::string_view(*text) : std::string_view();
}

bool is_reference(const OrderedJson& item) {
  if (!item.is_object()) return false;
  const std::string_view type = text_member(item, "type");
  return type == "item_reference" || (type.empty() && !item.contains("role") && item.contains("id"));
}

ApiError read_input(const OrderedJson& body, const StoredView& stored, OrderedJson& out, Request& request) {
  OrderedJson& messages = out["messages"] = OrderedJson::array();
  if (const OrderedJson* said = member(body, "instructions")) {
    if (!said->is_string()) return refuse("instructions", "instructions: expected a text");
    messages.push_back({{"role", "system"}, {"content", *said}});
  }
  Conversation items(messages, stored.referenced.get(), request);
  const OrderedJson* input = member(body, "input");
  if (stored.conversation) {
    OrderedJson kept = kept_list(*stored.conversation);
    const size_t more = input && input->is_array() ? std::min(input->size(), kMostItems) : 0;
    if (request.overlong == Overlong::kTurnsGo) kept = newest(std::move(kept), kMostItems - more);
    if (ApiError bad = items.add_all("conversation", kept); !bad.ok()) return bad;
  }
  if (!input && (member(body, "previous_response_id") || stored.conversation)) return {};
  if (!input) return refuse("input", "input: it is missing");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return {};
  }
  if (!input->is_array()) return refuse("input", "input: expected a text or a list of items");
  return items.add_all("input", *input);
}

}  // namespace weir::openai::responses
