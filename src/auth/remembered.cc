#include "auth/remembered.h"

#include <charconv>
#include <vector>

#include "base/encoding.h"

namespace weir::auth {
namespace {

constexpr std::string_view kKey = "key", kGrant = "grant", kModels = "models";
constexpr size_t kBeforeModels = 8;  // lines of a grant

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    out.push_back(base::percent_decode(line).value_or(""));
  }
  return out;
}

template <class T>
bool read_number(const std::string& text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// The shortest text that reads back as the same number.
std::string show_number(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace

std::string show_remembered(const wire::Identity& identity, RememberedBy by) {
  std::string out(by == RememberedBy::kKey ? kKey : kGrant);
  auto line = [&](std::string_view text) { (out += '\n') += base::percent_encode(text); };
  line(identity.name);
  line(identity.tenant);
  if (by == RememberedBy::kKey) return out;
  const base::UsageLimits limits = identity.limiter ? identity.limiter->limits() : base::UsageLimits();
  line(identity.protocol);
  line(show_number(limits.requests_per_second));
  line(std::to_string(limits.concurrent));
  line(std::to_string(limits.tokens_per_minute));
  line(std::to_string(limits.bytes_per_minute));
  if (!identity.models) return out;
  line(kModels);
  for (std::string_view rest = identity.models->text(); !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
    line(rest.substr(0, rest.find('\n')));
  return out;
}

std::optional<Remembered> read_remembered(std::string_view text) {
  const std::vector<std::string> lines = lines_of(text);
  if (lines.size() < 3) return std::nullopt;
  Remembered out;
  out.grant.name = lines[1], out.grant.tenant = lines[2];
  if (lines[0] == kKey) return out;
  if (lines[0] != kGrant || lines.size() < kBeforeModels) return std::nullopt;
  out.by = RememberedBy::kGrant;
  Grant& grant = out.grant;
  grant.protocol = lines[3];
  grant.roles = {wire::Role::kInfer};
  grant.limits_of = Grant::LimitsOf::kTenant;
  if (!read_number(lines[4], grant.limits.requests_per_second) || !read_number(lines[5], grant.limits.concurrent) ||
      !read_number(lines[6], grant.limits.tokens_per_minute) || !read_number(lines[7], grant.limits.bytes_per_minute))
    return std::nullopt;
  if (lines.size() > kBeforeModels && lines[kBeforeModels] == kModels)
    grant.models.emplace(lines.begin() + kBeforeModels + 1, lines.end());
  return out;
}

}  // namespace weir::auth
