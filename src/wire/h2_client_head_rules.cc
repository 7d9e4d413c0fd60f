#include "wire/h2_client_head_rules.h"

#include <algorithm>

#include <nghttp2/nghttp2.h>

#include "wire/h2_head_rules.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

const uint8_t* octets(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

H2ClientHeadRules::Field H2ClientHeadRules::field(std::string_view name, std::string_view value) {
  if (malformed_) return Field::kMalformed;
  Field found = Field::kKept;
  if (!name.empty() && name[0] == ':') {
    const bool good = block_ == Block::kHead && !regular_ && name == ":status" && read_status(value);
    found = good ? Field::kKept : Field::kMalformed;
  } else {
    regular_ = true;
    found = regular_field(name, value);
  }
  malformed_ = found == Field::kMalformed;
  return found;
}

// 101 is HTTP/1.1's alone (§8.6).
bool H2ClientHeadRules::read_status(std::string_view value) {
  if (status_ != 0 || value.size() != 3 || !all_digits(value)) return false;
  status_ = int(parse_length(value));
  return status_ >= 100 && status_ != 101;
}

// RFC 9110 §8.6: not of 1xx and 204, though some servers send 0 with a 204.
bool H2ClientHeadRules::read_length(std::string_view value) {
  if (content_length_ != -1 || status_ / 100 == 1) return false;
  content_length_ = parse_length(value);
  return content_length_ != -1 && (status_ != 204 || value == "0");
}

H2ClientHeadRules::Field H2ClientHeadRules::regular_field(std::string_view name, std::string_view value) {
  const bool good = nghttp2_check_header_name(octets(name), name.size()) &&  // nor one with capitals (§8.2.1)
                    nghttp2_check_header_value(octets(value), value.size());
  if (!good) return Field::kMalformed;
  if (is_about_connection(name)) return Field::kMalformed;  // §8.2.2
  if (name == "te" && !same_text(value, "trailers")) return Field::kMalformed;
  if (name != "content-length") return Field::kKept;
  if (!read_length(value)) return Field::kMalformed;
  return status_ == 204 ? Field::kNeedless : Field::kKept;
}

}  // namespace weir::wire
