#include "text/python_call.h"

#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace weir::text {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kDeepest = 64, kMostMembers = 512;

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  bool calls(std::vector<std::pair<std::string, Json>>& out) {
    if (!take('[')) return false;
    for (space(); !take(']'); space()) {
      if (!out.empty() && !take(',')) return false;
      space();
      if (take(']')) break;
      auto& [name, arguments] = out.emplace_back(word(), Json::object());
      if (name.empty() || !take('(') || !members(arguments, ')', '=')) return false;
    }
    space();
    return !out.empty() && text_.empty();
  }

 private:
  bool take(char c) {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void space() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_[0]))) text_.remove_prefix(1);
  }
  std::string word() {
    size_t end = 0;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_' ||
                                  text_[end] == '.' || text_[end] == '-'))
      ++end;
    std::string out(text_.substr(0, end));
    text_.remove_prefix(end);
    return out;
  }

  // A list with commas up to `end`; `read_one` reads each item.
  template <class ReadOne>
  bool list(char end, ReadOne read_one) {
    for (bool first = true;; first = false) {
      space();
      if (take(end)) return true;
      if (!first && !take(',')) return false;
      space();
      if (take(end)) return true;
      if (!read_one()) return false;
    }
  }
  // Names or texts, each with a value behind `sign`, up to `end`.
  bool members(Json& out, char end, char sign) {
    return list(end, [&] { return member(out, sign); });
  }
  bool member(Json& out, char sign) {
    Json key;
    if (sign == '=')
      key = word();
    else if (!value(key) || !key.is_string())
      return false;
    space();
    if (key.get_ref<const std::string&>().empty() || !take(sign) || out.size() >= kMostMembers) return false;
    return value(out[key.get<std::string>()]);
  }
  bool elements(Json& out, char end) {
    out = Json::array();
    return list(end, [&] { return value(out.emplace_back()); });
  }

  bool value(Json& out) {
    space();
    if (text_.empty() || depth_ == kDeepest) return false;
    ++depth_;
    const bool good = value_of(text_[0], out);
    --depth_;
    return good;
  }
  bool value_of(char first, Json& out) {
    if (first == '"' || first == '\'') return string(out);
    if (take('{')) return out = Json::object(), members(out, '}', ':');
    if (take('[')) return elements(out, ']');
    if (take('(')) return elements(out, ')');
    if (first == '-' || first == '+' || std::isdigit(static_cast<unsigned char>(first))) return number(out);
    const std::string name = word();
    if (name == "True" || name == "true") return out = true, true;
    if (name == "False" || name == "false") return out = false, true;
    return out = nullptr, name == "None" || name == "null";
  }
  bool number(Json& out) {
    size_t end = 0;
    while (end < text_.size() && std::string_view("+-.0123456789eE_").find(text_[end]) != std::string_view::npos) ++end;
    std::string digits(text_.substr(0, end));
    std::erase(digits, '_');
    if (digits.starts_with('+')) digits.erase(0, 1);
    text_.remove_prefix(end);
    out = Json::parse(digits, nullptr, false);
    return out.is_number();
  }
  bool string(Json& out) {
    const char quote = text_[0];
    std::string said;
    for (text_.remove_prefix(1); !text_.empty(); text_.remove_prefix(1)) {
      const char c = text_[0];
      if (c == quote) {
        text_.remove_prefix(1);
        return out = std::move(said), true;
      }
      if (c != '\\' || text_.size() == 1) {
        said += c;
        continue;
      }
      text_.remove_prefix(1);
      constexpr std::string_view kNames = "nrtbf0", kMeant("\n\r\t\b\f\0", 6);
      const size_t known = kNames.find(text_[0]);
      if (text_[0] != '\\' && text_[0] != '"' && text_[0] != '\'' && known == kNames.npos) said += '\\';
      said += known == kNames.npos ? text_[0] : kMeant[known];
    }
    return false;
  }

  std::string_view text_;
  size_t depth_ = 0;
};

}  // namespace

bool PythonListEnd::push(char c) {
  if (quote_ != 0) {
    if (std::exchange(escaped_, false)) return false;
    escaped_ = c == '\\';
    if (c == quote_) quote_ = 0;
    return false;
  }
  if (c == '"' || c == '\'') return quote_ = c, false;
  if (c == '[' || c == '(' || c == '{') return ++depth_, false;
  if (c != ']' && c != ')' && c != '}') return false;
  return depth_ > 0 && --depth_ == 0;
}

bool read_python_calls(std::string_view list, AnswerSink& sink) {
  std::vector<std::pair<std::string, Json>> calls;
  if (!PythonReader(list).calls(calls)) return false;
  for (auto& [name, arguments] : calls) {
    sink.begin_call(name);
    sink.arguments(arguments.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return true;
}

}  // namespace weir::text
