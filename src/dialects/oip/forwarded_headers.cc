#include "dialects/oip/forwarded_headers.h"

#include <algorithm>
#include <iterator>

#include "marshal/json_cursor.h"

namespace weir::oip {
namespace {

using base::Status;

bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; }

// A client's credentials, which nobody means by "*".
bool is_secret(std::string_view name) {
  constexpr std::string_view kSecret[] = {"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key"};
  return std::find(std::begin(kSecret), std::end(kSecret), name) != std::end(kSecret);
}

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return !is_secret(name) && name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

}  // namespace

Status check_header_pattern(std::string_view pattern) {
  std::string_view name = pattern;
  if (name.ends_with('*')) name.remove_suffix(1);
  if (!pattern.empty() && pattern.size() <= 256 && std::all_of(name.begin(), name.end(), is_plain)) return {};
  return base::invalid(
      "expected the name of a header in small letters, or the beginning of one and a '*': x-request-*");
}

Status forward_headers(const std::vector<std::string>& patterns, const wire::Fields& fields,
                       msg::Parameters& parameters) {
  if (patterns.empty()) return {};
  msg::Parameters found;
  size_t bytes = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields[i];
    const std::string_view name = field.name;
    if (!std::all_of(name.begin(), name.end(), is_plain) || name == "priority" || name == "timeout") continue;
    if (std::none_of(patterns.begin(), patterns.end(), [&](const auto& p) { return matches(p, name); })) continue;
    if (msg::find(parameters, name) || msg::find(found, name)) continue;
    bytes += name.size() + field.value.size();
    if (found.size() == kMostForwarded || bytes > kMostForwardedBytes)
      return base::invalid("the headers that are parameters of a request (oip.forward_headers) are " +
                           std::to_string(kMostForwarded) + " at most, of " + std::to_string(kMostForwardedBytes) +
                           " bytes together");
    if (!marshal::valid_utf8(field.value))
      return base::invalid("header '" + std::string(name) + "' is to be a parameter, and its value is not UTF-8");
    found.emplace_back(std::string(name), std::string(field.value));
  }
  std::move(found.begin(), found.end(), std::back_inserter(parameters));
  return {};
}

}  // namespace weir::oip
