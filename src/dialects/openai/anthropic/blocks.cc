#include "dialects/openai/anthropic/blocks.h"

#include <utility>

namespace weir::openai::anthropic {
namespace {

void add_text(std::string text, OrderedJson& parts) { parts.push_back({{"type", "text"}, {"text", std::move(text)}}); }

ApiError add_image(const OrderedJson& block, OrderedJson& parts) {
  const OrderedJson& source = block.at("source");
  const std::string_view type = type_of(source);
  std::string url;
  if (type == "url")  // for models whose chats another server has; others refuse it
    url = source.at("url").get_ref<const std::string&>();
  else if (type == "base64")
    url = "data:" + source.at("media_type").get<std::string>() + ";base64," +
          source.at("data").get_ref<const std::string&>();
  else
    return wrong_message("images come in base64; nothing is fetched from elsewhere");
  parts.push_back({{"type", "image_url"}, {"image_url", {{"url", std::move(url)}}}});
  return {};
}

// The lines above a text, each where the block has it.
std::string headed(const OrderedJson& block, std::initializer_list<std::string_view> names) {
  std::string out;
  for (std::string_view name : names)
    if (const OrderedJson* line = member(block, name)) (out += line->get_ref<const std::string&>()) += '\n';
  return out;
}

// {"title","context","source":{"type":"text","data"}}, or the source has blocks of its own as `content`. Clients leave
// the source's type out where it is text.
ApiError add_document(const OrderedJson& block, OrderedJson& parts) {
  const OrderedJson& source = block.at("source");
  const std::string_view type = type_of(source);
  std::string head = headed(block, {"title", "context"});
  if (type == "content") {
    const OrderedJson& said = source.at("content");
    if (said.is_string()) return add_text(head + said.get_ref<const std::string&>(), parts), ApiError{};
    if (!head.empty()) add_text(std::move(head), parts);
    for (const OrderedJson& inner : said)
      if (ApiError bad = add_block(inner, parts); !bad.ok()) return bad;
    return {};
  }
  const bool text = type == "text" || (type.empty() && source.value("media_type", "text/plain") == "text/plain");
  if (!text) return wrong_message("documents come as text; no PDF is read here, and nothing is fetched from elsewhere");
  add_text(head + source.at("data").get_ref<const std::string&>(), parts);
  return {};
}

// {"title","source","content":[{"type":"text","text"}]}
ApiError add_search_result(const OrderedJson& block, OrderedJson& parts) {
  std::string text;
  if (!read_text(block.at("content"), text)) return wrong_message("a search_result has a list of texts");
  add_text(headed(block, {"title", "source"}) + text, parts);
  return {};
}

}  // namespace

std::string_view type_of(const OrderedJson& block) {
  const OrderedJson* type = block.is_object() ? member(block, "type") : nullptr;
  const auto* text = type ? type->get_ptr<const std::string*>() : nullptr;
  return text ? std::string_view(*text) : std::string_view();
}

ApiError wrong_message(std::string what) { return refuse("messages", "messages: " + std::move(what)); }

ApiError add_block(const OrderedJson& block, OrderedJson& parts) {
  const std::string_view type = type_of(block);
  if (type == "text") return add_text(block.at("text").get<std::string>(), parts), ApiError{};
  if (type == "image") return add_image(block, parts);
  if (type == "document") return add_document(block, parts);
  if (type == "search_result") return add_search_result(block, parts);
  // A search for tools found it; the model has been shown all of them.
  if (type == "tool_reference") return add_text(block.at("tool_name").get<std::string>(), parts), ApiError{};
  if (type.empty()) return wrong_message("a block is an object with a type");
  return wrong_message("blocks of type '" + std::string(type.substr(0, 32)) + "' are not offered here");
}

OrderedJson content_of(OrderedJson parts) {
  if (parts.size() == 1 && parts[0]["type"] == "text") return std::move(parts[0]["text"]);
  return parts;
}

ApiError read_content(const OrderedJson& from, OrderedJson& out) {
  if (from.is_string()) return out = from, ApiError{};
  if (!from.is_array()) return wrong_message("content: expected a text or a list of blocks");
  OrderedJson parts = OrderedJson::array();
  for (const OrderedJson& block : from)
    if (ApiError bad = add_block(block, parts); !bad.ok()) return bad;
  out = content_of(std::move(parts));
  return {};
}

bool read_text(const OrderedJson& from, std::string& out) {
  if (from.is_string()) return out = from.get<std::string>(), true;
  if (!from.is_array()) return false;
  out.clear();
  for (const OrderedJson& block : from) {
    if (const std::string_view type = type_of(block); type != "text" && !type.empty()) return false;
    out += (out.empty() ? "" : "\n") + block.at("text").get_ref<const std::string&>();
  }
  return true;
}

}  // namespace weir::openai::anthropic
