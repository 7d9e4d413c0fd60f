#include "wire/h2_head_rules.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "wire/text.h"

namespace weir::wire {
namespace {

const uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

// RFC 3986 §3.1.
bool is_scheme(std::string_view text) {
  auto letter = [](char c) { return lower(c) >= 'a' && lower(c) <= 'z'; };
  return letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
         });
}

}  // namespace

int64_t parse_length(std::string_view digits) {
  int64_t n = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-' ? n : -1;
}

bool H2HeadRules::field(std::string_view name, std::string_view value) {
  if (malformed_) return false;
  const bool pseudo = !name.empty() && name[0] == ':';
  malformed_ = !(pseudo ? pseudo_field(name, value) : regular_field(name, value));
  regular_ |= !pseudo;
  return !malformed_;
}

// True: the name comes for the first time.
bool H2HeadRules::first(Seen name) {
  const bool again = seen_ & name;
  seen_ |= name;
  return !again;
}

bool H2HeadRules::pseudo_field(std::string_view name, std::string_view value) {
  if (block_ == Block::kTrailers || regular_ || value.empty()) return false;
  if (name == ":method") {
    connect_ = value == "CONNECT", options_ = value == "OPTIONS";
    return first(kMethod) && nghttp2_check_method(bytes_of(value), value.size());
  }
  if (name == ":scheme") {
    http_ = same_text(value, "http") || same_text(value, "https");
    return first(kScheme) && is_scheme(value);
  }
  if (name == ":path") {
    slash_ = value[0] == '/', asterisk_ = value == "*";
    return first(kPath) && nghttp2_check_path(bytes_of(value), value.size());
  }
  if (name == ":authority") return first(kAuthority) && nghttp2_check_authority(bytes_of(value), value.size());
  return name == ":protocol" && first(kProtocol) && !trim(value).empty() &&
         nghttp2_check_header_value(bytes_of(value), value.size());
}

bool H2HeadRules::regular_field(std::string_view name, std::string_view value) {
  if (!nghttp2_check_header_name(bytes_of(name), name.size())) return false;  // nor one with capitals (§8.2.1)
  if (!nghttp2_check_header_value(bytes_of(value), value.size()) || is_about_connection(name)) return false;
  if (name == "te") return same_text(value, "trailers");
  if (block_ == Block::kTrailers) return true;
  if (name == "host") return first(kHost) && !value.empty() && nghttp2_check_authority(bytes_of(value), value.size());
  if (name == "content-length") return !std::exchange(has_length_, true) && parse_length(value) >= 0;
  if (name == "priority") read_priority(value);
  return true;
}

bool H2HeadRules::well_formed() const {
  if (malformed_ || block_ == Block::kTrailers) return !malformed_;
  if (connect_ && !seen(kProtocol)) return seen(kAuthority) && !seen(kScheme) && !seen(kPath);
  if (!seen(kMethod | kScheme | kPath) || !(seen(kAuthority) || seen(kHost))) return false;
  if (seen(kProtocol) && !(connect_ && seen(kAuthority))) return false;
  return !http_ || slash_ || (options_ && asterisk_);
}

// `u` and `i` of a dictionary (RFC 8941 §3.2); members of other names say nothing.
void H2HeadRules::read_priority(std::string_view value) {
  asks_priority_ = true;
  for_each_element(value, [&](std::string_view member) {
    member = trim(member.substr(0, member.find(';')));
    if (member.starts_with("u=") && member.size() == 3 && member[2] >= '0' && member[2] <= '7')
      priority_.urgency = uint32_t(member[2] - '0');
    else if (member == "i" || member == "i=?1" || member == "i=?0")
      priority_.inc = member != "i=?0";
    else if (member.starts_with("u=") || member.starts_with("i="))
      bad_priority_ = true;
  });
}

std::optional<nghttp2_extpri> H2HeadRules::priority() const {
  if (!asks_priority_ || bad_priority_) return std::nullopt;
  return priority_;
}

}  // namespace weir::wire
