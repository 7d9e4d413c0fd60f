#include "dialects/openai/turns.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace weir::openai {
namespace {

bool instructs(const TurnJson& message) { return message["role"] == "system" || message["role"] == "developer"; }

// The text of instructions; nothing for other messages, and for those with an image.
std::optional<std::string> instructions(const TurnJson& message) {
  if (!instructs(message)) return {};
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return {};
  std::string out;
  for (const TurnJson& part : *content) {
    const auto text = part.find("text");
    if (text == part.end()) return {};
    out += text->get_ref<const std::string&>();
  }
  return out;
}

// Templates trim what they are given.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\v\f";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// The longest part of a text that a template shows as it is, also one that writes JSON.
std::string_view plain_part(std::string_view text) {
  constexpr std::string_view kEscaped = "\"'\\/<>&\n\r\t\v\f\b";
  std::string_view longest;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(kEscaped, at), text.size());
    if (end - at > longest.size()) longest = text.substr(at, end - at);
    at = end + 1;
  }
  return trimmed(longest);
}

// A message of the user or the assistant that says something and has nothing else: no name, no calls, no thoughts.
bool is_turn(const TurnJson& message) {
  const auto content = message.find("content");
  return (message["role"] == "user" || message["role"] == "assistant") && message.size() == 2 &&
         content != message.end() && (content->is_string() || content->is_array());
}

TurnJson as_parts(const TurnJson& content) {
  if (!content.is_string()) return content;
  return TurnJson::array({TurnJson{{"type", "text"}, {"text", content}}});
}

std::string* text_of_part(TurnJson& part) {
  if (!part.is_object()) return nullptr;
  const auto text = part.find("text");
  return text == part.end() ? nullptr : text->get_ptr<std::string*>();
}

// `more` behind the content, with an empty line between texts. One that is a list of parts stays one, and texts that
// meet are one part: templates trim what is around the text of each.
void join_contents(TurnJson& content, const TurnJson& more) {
  constexpr const char* kBetween = "\n\n";
  if (content.is_string() && more.is_string()) {
    (content.get_ref<std::string&>() += kBetween) += more.get_ref<const std::string&>();
    return;
  }
  if (content.is_string()) content = as_parts(content);
  TurnJson behind = as_parts(more);
  auto first = behind.begin();
  std::string* const before = content.empty() ? nullptr : text_of_part(content.back());
  if (std::string* const after = first == behind.end() ? nullptr : text_of_part(*first); before && after) {
    (*before += kBetween) += *after;
    ++first;
  }
  for (; first != behind.end(); ++first) content.push_back(std::move(*first));
}

}  // namespace

TurnJson as_plain_turns(const TurnJson& messages) {
  TurnJson out = TurnJson::array();
  for (const TurnJson& from : messages) {
    const std::string& role = from["role"].get_ref<const std::string&>();
    TurnJson said{{"role", role == "tool" || role == "function" ? "user" : role}, {"content", ""}};
    if (auto content = from.find("content"); content != from.end() && !content->is_null()) said["content"] = *content;
    auto calls = from.find("tool_calls");
    if (calls != from.end() && calls->is_array() && said["content"].is_string())
      for (const TurnJson& call : *calls) {
        std::string& text = said["content"].get_ref<std::string&>();
        const auto function = call.is_object() ? call.find("function") : call.end();
        text += (text.empty() ? "" : "\n") + (function == call.end() ? call : *function).dump();
      }
    const bool joins = !out.empty() && out.back()["role"] == said["role"] && out.back()["content"].is_string() &&
                       said["content"].is_string() && said["role"] != "system";
    if (joins)
      out.back()["content"].get_ref<std::string&>() += "\n" + said["content"].get_ref<const std::string&>();
    else
      out.push_back(std::move(said));
  }
  return out;
}

bool has_tools(const TurnJson& messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [](const TurnJson& m) { return m["role"] == "tool" || m.contains("tool_calls"); });
}

bool has_later_instructions(const TurnJson& messages) {
  return messages.size() > 1 && std::any_of(std::next(messages.begin()), messages.end(), instructs);
}

// They are looked for in their order. std::string_view::find() takes the product of both lengths for texts that repeat
// themselves; memmem(3) is linear.
bool lacks_instructions(const TurnJson& messages, std::string_view prompt) {
  for (size_t i = 1; i < messages.size(); ++i) {
    const std::optional<std::string> said = instructions(messages[i]);
    const std::string_view text = said ? plain_part(*said) : std::string_view();
    if (text.empty()) continue;
    const void* found = memmem(prompt.data(), prompt.size(), text.data(), text.size());
    if (!found) return true;
    prompt.remove_prefix(size_t(static_cast<const char*>(found) - prompt.data()) + text.size());
  }
  return false;
}

std::vector<size_t> later_beginnings(const TurnJson& messages) {
  std::vector<size_t> out;
  bool first = true;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (instructs(messages[i])) continue;
    const bool last = i + 1 == messages.size();
    if (!first && (last || messages[i]["role"] == "user")) out.push_back(i);
    first = false;
  }
  return out;
}

TurnJson beginning_at(const TurnJson& messages, size_t message) {
  TurnJson out = TurnJson::array();
  for (size_t i = 0; i < messages.size(); ++i)
    if (i >= message || instructs(messages[i])) out.push_back(messages[i]);
  return out;
}

TurnJson last_turns(TurnJson messages, size_t most) {
  const auto has_role = [](const TurnJson& message) { return message.is_object() && message.contains("role"); };
  if (messages.size() <= most || !std::all_of(messages.begin(), messages.end(), has_role)) return messages;
  size_t at = 0, kept = 0;  // instructions before it
  for (const size_t beginning : later_beginnings(messages)) {
    for (; at < beginning; ++at) kept += instructs(messages[at]) ? 1 : 0;
    if (kept + messages.size() - beginning <= most) return beginning_at(messages, beginning);
  }
  return messages;
}

TurnJson as_alternating_turns(const TurnJson& messages) {
  TurnJson out = TurnJson::array();
  for (const TurnJson& message : messages) {
    const bool joins = !out.empty() && is_turn(message) && is_turn(out.back()) && message["role"] == out.back()["role"];
    joins ? join_contents(out.back()["content"], message["content"]) : out.push_back(message);
  }
  return out;
}

TurnJson with_instructions_first(const TurnJson& messages) {
  TurnJson out = TurnJson::array({TurnJson()}), role;
  std::string all;
  for (const TurnJson& message : messages) {
    const std::optional<std::string> said = instructions(message);
    if (!said) {
      out.push_back(message);
      continue;
    }
    if (role.is_null()) role = message["role"];
    if (!said->empty()) all += (all.empty() ? "" : "\n\n") + *said;
  }
  if (role.is_null()) return messages;
  out[0] = {{"role", std::move(role)}, {"content", std::move(all)}};
  return out;
}

}  // namespace weir::openai
