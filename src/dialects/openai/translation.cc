#include "dialects/openai/translation.h"

#include <algorithm>
#include <vector>

#include "base/encoding.h"
#include "marshal/json_cursor.h"
#include "text/processor.h"

namespace weir::openai {

ApiError parse_body(std::string_view body, OrderedJson& out) {
  marshal::JsonCursor check(body);  // bounds the depth, and says where the text is wrong
  if (check.peek() != marshal::JsonCursor::Kind::kObject) (void)check.fail("expected an object");
  if (!check.skip() || !check.finish()) return refuse(check.error());
  if (text::crowded(body))
    return refuse("", "an object with more than " + std::to_string(text::kMostMembers) + " members");
  out = OrderedJson::parse(body, nullptr, false);
  return out.is_discarded() ? refuse("", "a number that is out of range") : ApiError{};
}

// The library's texts: "[json.exception.out_of_range.403] key 'text' not found", "[json.exception.type_error.302] type
// must be string, but is number".
ApiError wrong_shape(const nlohmann::json::exception& error, std::string_view param, std::string_view place) {
  constexpr int kNoSuchKey = 403, kWrongType = 302;
  const std::string_view said = error.what();
  const std::string where = place.empty() ? "" : std::string(place) + ": ";
  const size_t open = said.find('\''), close = said.rfind('\'');
  if (error.id == kNoSuchKey && open < close) {
    const std::string_view key = said.substr(open + 1, close - open - 1);
    return refuse(param.empty() ? key : param, where + std::string(key) + ": it is missing");
  }
  std::string what = where + "a member has another type than it should";
  const size_t type = said.find("type must be ");
  if (error.id == kWrongType && type != said.npos) (what += ": its ") += said.substr(type);
  return refuse(param, what);
}

ApiError at_place(std::string_view param, size_t index, ApiError error) {
  std::string& text = error.status.text;
  if (error.param == param && text.starts_with(std::string(param) + ": "))
    text.insert(param.size(), '[' + std::to_string(index) + ']');
  return error;
}

ApiError read_translated(const OrderedJson& translated, Kind kind, Request& request) {
  request.translated = base::Bytes::adopt(translated.dump());
  return in_names(request.names, read_request(request.translated.view(), kind, request));
}

bool MemberLists::know(std::string_view name) const {
  const auto has = [name](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has(read) || has(ignored) ||
         std::any_of(carried.begin(), carried.end(), [name](const RenamedMember& m) { return m.name == name; });
}

ApiError MemberLists::refuse_unknown(std::string_view name) const {
  std::vector<std::string_view> known(read.begin(), read.end());
  for (const RenamedMember& m : carried) known.push_back(m.name);
  ApiError refused = unknown_member(name);
  const std::string_view near = base::near_miss(name.substr(0, 64), known);
  if (!near.empty()) refused.status.text += "; did you mean " + std::string(near) + "?";
  return refused;
}

void MemberLists::carry(const OrderedJson& body, OrderedJson& out) const {
  for (const RenamedMember& m : carried) openai::carry(body, m.name, out, m.openai);
}

const OrderedJson* member(const OrderedJson& object, std::string_view name) {
  auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

void carry(const OrderedJson& from, std::string_view name, OrderedJson& to, std::string_view new_name) {
  if (const OrderedJson* value = member(from, name)) to[std::string(new_name)] = *value;
}

std::string unknown_inside(const OrderedJson& object, std::span<const std::string_view> known) {
  for (const auto& [name, value] : object.items())
    if (!value.is_null() && std::find(known.begin(), known.end(), name) == known.end()) return name;
  return {};
}

ApiError unknown_member(std::string_view name) {
  return refuse(name.substr(0, 64), std::string(name.substr(0, 64)) + ": no such parameter");
}

void ignore_member(std::string_view name, std::string& ignored) {
  constexpr size_t kMostName = 64, kMostNames = 512;
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (!plain || name.empty() || name.size() > kMostName || ignored.size() + name.size() > kMostNames) return;
  (ignored += ignored.empty() ? "" : ", ") += name;
}

void ignore_member(std::string_view name, Request& out) { ignore_member(name, out.ignored); }

void ignore_unknown(const OrderedJson& body, const MemberLists& known, Request& out) {
  for (const auto& [name, value] : body.items())
    if (!value.is_null() && !known.know(name)) ignore_member(name, out);
}

}  // namespace weir::openai
