#include "json_document.h"

#include <vector>

#include "grammar/readers.h"

namespace grammar {
namespace {

// Objects with too many members, or too many values inside each other; before the document is built.
bool crowded(std::string_view text) {
  std::vector<size_t> members{0};
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
        break;
      case '{':
      case '[':
        if (members.size() > kMostNested) return true;
        members.push_back(0);
        break;
      case '}':
      case ']':
        if (members.size() > 1) members.pop_back();
        break;
      case ':':
        if (++members.back() > kMostMembers) return true;
        break;
      default: break;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_document(std::string_view text) {
  if (text.size() > kMostText) return Error{"it has more than " + std::to_string(kMostText) + " bytes"};
  if (crowded(text))
    return Error{"an object has more than " + std::to_string(kMostMembers) +
                 " members, or values are nested deeper than " + std::to_string(kMostNested) + " levels"};
  Json out = Json::parse(text, nullptr, false);
  if (out.is_discarded()) return Error{"it is not JSON"};
  return out;
}

std::string below(std::string_view pointer, std::string_view key) {
  std::string out(pointer);
  out += '/';
  for (char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

Error wrong(std::string_view pointer, std::string_view why) {
  std::string out(pointer.substr(0, 200));
  if (pointer.size() > 200) out += "…";
  out += out.empty() ? "the schema: " : ": ";
  out += why.substr(0, 250);
  return Error{std::move(out)};
}

std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace grammar
