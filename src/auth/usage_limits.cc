#include "auth/usage_limits.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/units.h"

namespace weir::auth {
namespace {

base::Status set_rate(double& rate, std::string_view text) {
  double wanted = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  if (error != std::errc() || rest != text.data() + text.size() || !std::isfinite(wanted) || wanted < 1e-6 ||
      wanted > 1e9)
    return base::invalid("expected a number above 0, such as 20 or 0.5");
  rate = wanted;
  return {};
}

}  // namespace

base::Status set_limit(base::UsageLimits& limits, std::string_view name, std::string_view text) {
  if (name == "requests_per_second") return set_rate(limits.requests_per_second, text);
  auto number = name == "bytes_per_minute" ? base::parse_size(text) : base::parse_count(text, uint64_t(1) << 40);
  if (!number || *number == 0) return base::invalid("expected a number above 0");
  if (name == "concurrent")
    limits.concurrent = uint32_t(std::min<uint64_t>(*number, UINT32_MAX));
  else
    (name == "tokens_per_minute" ? limits.tokens_per_minute : limits.bytes_per_minute) = *number;
  return {};
}

void read_limits(const base::Yaml& node, base::Complaints& complaints, base::UsageLimits& limits) {
  if (node.kind != base::Yaml::Kind::kMap) return complaints.at(node, "expected a map of limits");
  for (const auto& member : node.entries) {
    if (std::find(kLimitNames.begin(), kLimitNames.end(), member.key) == kLimitNames.end()) {
      complaints.unknown_key(member, "limits", {kLimitNames.begin(), kLimitNames.end()});
      continue;
    }
    auto status = member.value.kind == base::Yaml::Kind::kScalar ? set_limit(limits, member.key, member.value.scalar)
                                                                 : base::invalid("expected a number");
    if (!status.ok()) complaints.at(member.value, status.text);
  }
}

std::string show_limits(const base::UsageLimits& limits) {
  std::string out = "{";
  auto add = [&out](std::string_view name, const std::string& value) {
    ((((out += out.size() > 1 ? ", " : "") += name) += ": ") += value);
  };
  char digits[32];
  if (limits.requests_per_second > 0)
    add(kLimitNames[0], {digits, std::to_chars(digits, digits + sizeof digits, limits.requests_per_second).ptr});
  if (limits.concurrent > 0) add(kLimitNames[1], std::to_string(limits.concurrent));
  if (limits.tokens_per_minute > 0) add(kLimitNames[2], std::to_string(limits.tokens_per_minute));
  if (limits.bytes_per_minute > 0) add(kLimitNames[3], std::to_string(limits.bytes_per_minute));
  return out += "}";
}

}  // namespace weir::auth
