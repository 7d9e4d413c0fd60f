#include "wire/trace_context.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/encoding.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kTraceparent = 55;  // 00-<32>-<16>-<2>
constexpr uint64_t kRandomSpan = uint64_t(1) << 56;
constexpr size_t kLongMember = 128;

// Lower-case digits only, as the grammar has them.
int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool read_hex(std::string_view text, uint8_t* out) {
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    int high = digit_of(text[i]), low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return false;
    *out++ = uint8_t(high << 4 | low);
  }
  return true;
}

void write_hex(std::string& out, const uint8_t* bytes, size_t n) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t i = 0; i < n; ++i) (out += kDigits[bytes[i] >> 4]) += kDigits[bytes[i] & 15];
}

template <size_t N>
bool is_zero(const std::array<uint8_t, N>& id) {
  return std::all_of(id.begin(), id.end(), [](uint8_t b) { return b == 0; });
}

// §3.3.1.3.1: a lower-case letter or digit, then those and _ - * / up to 256; with a tenant, 241 @ 14.
bool is_state_key(std::string_view key) {
  if (key.empty() || key.size() > 256 || std::count(key.begin(), key.end(), '@') > 1) return false;
  auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (!alnum(key[0])) return false;
  return std::all_of(key.begin(), key.end(),
                     [&](char c) { return alnum(c) || c == '_' || c == '-' || c == '*' || c == '/' || c == '@'; });
}

// Printable ASCII without , and =; at most 256, not ending with a blank (members are trimmed).
bool is_state_value(std::string_view value) {
  return !value.empty() && value.size() <= 256 &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != ',' && c != '='; });
}

constexpr std::string_view kThresholdKey = "th:", kRandomKey = "rv:";
constexpr size_t kRandomBytes = 7, kRandomDigits = 2 * kRandomBytes;
constexpr size_t kMostOwnState = 256;  // a value of a tracestate, and "ot="

// OpenTelemetry's member of a tracestate, without its key; "": there is none.
std::string_view ot_value(std::string_view state) {
  std::string_view out;
  for_each_element(state, [&](std::string_view member) {
    if (out.empty() && member.starts_with("ot=")) out = member.substr(3);
  });
  return out;
}

template <class Take>
void for_each_part(std::string_view value, Take take) {
  while (!value.empty()) {
    size_t end = std::min(value.find(';'), value.size());
    if (end > 0) take(value.substr(0, end));
    value.remove_prefix(std::min(end + 1, value.size()));
  }
}

// rv; nothing where it is missing or malformed.
std::optional<uint64_t> random_value(std::string_view state) {
  std::optional<uint64_t> out;
  for_each_part(ot_value(state), [&](std::string_view part) {
    std::array<uint8_t, kRandomBytes> bytes{};
    if (!part.starts_with(kRandomKey) || part.size() != kRandomKey.size() + kRandomDigits) return;
    if (!read_hex(part.substr(kRandomKey.size()), bytes.data())) return;
    out = 0;
    for (uint8_t byte : bytes) *out = *out << 8 | byte;
  });
  return out;
}

// "fd70a3d7" of 0xfd70a3d7000000; "0" of 0.
std::string threshold_text(uint64_t threshold) {
  std::array<uint8_t, kRandomBytes> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(threshold >> 8 * (bytes.size() - 1 - i));
  std::string out;
  write_hex(out, bytes.data(), bytes.size());
  out.resize(std::max<size_t>(out.find_last_not_of('0') + 1, 1));
  return out;
}

// The members of all fields of that name, in their order, up to `most` of them and one more.
std::vector<std::string_view> list_members(const Fields& fields, std::string_view name, size_t most) {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name != name) continue;
    for_each_element(fields[i].value, [&](std::string_view member) {
      if (out.size() <= most) out.push_back(member);
    });
  }
  return out;
}

size_t joined_size(const std::vector<std::string_view>& all) {
  size_t size = all.size();
  for (auto member : all) size += member.size();
  return size;
}

}  // namespace

std::string TraceContext::traceparent() const {
  std::string out = "00-";
  out.reserve(kTraceparent);
  write_hex(out, trace.data(), trace.size());
  out += '-';
  write_hex(out, span.data(), span.size());
  out += '-';
  write_hex(out, &flags, 1);
  return out;
}

std::optional<TraceContext> parse_traceparent(std::string_view t) {
  uint8_t version = 0;
  TraceContext out;
  if (t.size() < kTraceparent || t[2] != '-' || t[35] != '-' || t[52] != '-') return {};
  if (!read_hex(t.substr(0, 2), &version) || version == 0xff) return {};
  if (version == 0 ? t.size() != kTraceparent : t.size() > kTraceparent && t[kTraceparent] != '-') return {};
  if (!read_hex(t.substr(3, 32), out.trace.data()) || !read_hex(t.substr(36, 16), out.span.data()) ||
      !read_hex(t.substr(53, 2), &out.flags))
    return {};
  if (is_zero(out.trace) || is_zero(out.span)) return {};
  out.flags &= TraceContext::kSampled | TraceContext::kRandom;
  return out;
}

std::optional<TraceContext> context_of(const Fields& fields) {
  auto text = fields.find("traceparent");
  if (!text.data()) return {};
  size_t count = 0;
  for (size_t i = 0; i < fields.size(); ++i) count += fields[i].name == "traceparent";
  return count == 1 ? parse_traceparent(text) : std::nullopt;
}

std::string tracestate_of(const Fields& fields) {
  if (!fields.has("tracestate")) return {};
  auto all = list_members(fields, "tracestate", kMostTraceStateMembers);
  if (all.size() > kMostTraceStateMembers) return {};
  for (size_t i = 0; i < all.size(); ++i) {
    size_t equals = all[i].find('=');
    if (equals == std::string_view::npos || !is_state_key(all[i].substr(0, equals)) ||
        !is_state_value(all[i].substr(equals + 1)))
      return {};
    for (size_t k = 0; k < i; ++k)
      if (all[k].starts_with(all[i].substr(0, equals + 1))) return {};
  }
  while (joined_size(all) > kMostTraceState + 1) {
    auto longest = std::find_if(all.rbegin(), all.rend(), [](auto member) { return member.size() > kLongMember; });
    all.erase(longest == all.rend() ? all.end() - 1 : longest.base() - 1);
  }
  std::string out;
  for (auto member : all) (out += out.empty() ? "" : ",") += member;
  return out;
}

std::optional<std::string> baggage_value(const Fields& fields, std::string_view key) {
  if (!fields.has("baggage")) return {};
  auto all = list_members(fields, "baggage", kMostBaggageMembers);
  if (all.size() > kMostBaggageMembers) all.resize(kMostBaggageMembers);
  size_t size = 0;
  for (auto member : all) {
    if ((size += member.size() + 1) > kMostBaggage + 1) break;
    std::string_view pair = member.substr(0, member.find(';'));
    size_t equals = pair.find('=');
    if (equals == std::string_view::npos || trim(pair.substr(0, equals)) != key) continue;
    return base::percent_decode(trim(pair.substr(equals + 1)));
  }
  return {};
}

uint64_t sampling_threshold(double ratio) {
  ratio = std::clamp(ratio, 0.0, 1.0);
  return kRandomSpan - uint64_t(std::llround(ratio * double(kRandomSpan)));
}

bool sampled_by(uint64_t threshold, const TraceId& trace, std::string_view state) {
  if (auto random = random_value(state)) return *random >= threshold;
  uint64_t random = 0;
  for (size_t i = trace.size() - kRandomBytes; i < trace.size(); ++i) random = random << 8 | trace[i];
  return random >= threshold;
}

std::string with_threshold(std::string_view state, uint64_t threshold) {
  if (threshold >= kRandomSpan) return std::string(state);  // it takes nothing
  std::string own = "ot=" + std::string(kThresholdKey) + threshold_text(threshold);
  std::string_view theirs = ot_value(state);
  for_each_part(theirs, [&](std::string_view part) {
    if (!part.starts_with(kThresholdKey) && own.size() + part.size() < kMostOwnState) (own += ';') += part;
  });
  size_t members = 1;
  for_each_element(state, [&](std::string_view member) {
    if (!member.starts_with("ot=") && ++members <= kMostTraceStateMembers) (own += ',') += member;
  });
  return own;
}

}  // namespace weir::wire
