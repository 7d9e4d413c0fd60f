#include "marshal/call_parameters.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <string>

#include "base/sip_hash.h"

namespace weir::marshal {
namespace {

using base::Status;

// The same text is the same id, and no client can make two of them collide; whoever keys a table by it adds the model.
base::SessionId session_of(std::string_view text) {
  auto hash = base::hash128(base::process_key(), std::as_bytes(std::span(text)));
  return {hash.high, hash.low};
}

Status set_sequence(msg::Call& call, const msg::ParamValue& value) {
  if (auto* text = std::get_if<std::string>(&value)) {
    if (!text->empty()) call.session = session_of(*text);
    return {};
  }
  if (auto* i = std::get_if<int64_t>(&value)) {
    call.session = {0, uint64_t(*i)};
    return {};
  }
  auto id = whole_number(value);
  if (!id) return wrong_parameter("sequence_id", "a whole number or a string");
  call.session = {0, *id};
  return {};
}

}  // namespace

std::optional<uint64_t> whole_number(const msg::ParamValue& value) {
  if (auto* u = std::get_if<uint64_t>(&value)) return *u;
  if (auto* i = std::get_if<int64_t>(&value); i && *i >= 0) return uint64_t(*i);
  return std::nullopt;
}

Status wrong_parameter(std::string_view name, std::string_view expected) {
  return base::invalid_field("parameters[\"" + std::string(name) + "\"]",
                             "parameter '" + std::string(name) + "': expected " + std::string(expected));
}

Status get_flag(std::string_view name, const msg::ParamValue& value, bool& out) {
  auto* b = std::get_if<bool>(&value);
  if (!b) return wrong_parameter(name, "true or false");
  out = *b;
  return {};
}

Status apply_to_call(msg::Call& call, std::string_view name, const msg::ParamValue& value) {
  bool ignored;
  if (name == "sequence_id") return set_sequence(call, value);
  if (name == "sequence_start" || name == "sequence_end") return get_flag(name, value, ignored);
  if (name == "priority") {
    auto priority = whole_number(value);
    if (!priority) return wrong_parameter(name, "a whole number, 0 or more");
    call.priority = uint32_t(std::min<uint64_t>(*priority, std::numeric_limits<uint32_t>::max()));
  } else if (name == "timeout") {
    auto microseconds = whole_number(value);
    constexpr uint64_t kLongest = uint64_t(365) * 24 * 3600 * 1'000'000;
    if (!microseconds) return wrong_parameter(name, "microseconds as a whole number, 0 or more");
    call.queue_timeout = std::chrono::microseconds(std::min(*microseconds, kLongest));
  }
  return {};
}

}  // namespace weir::marshal
