#include "dialects/openai/keys.h"

#include "marshal/tenant.h"

namespace weir::openai {
namespace {

std::string_view bearer(const wire::Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view value = request.fields.find("authorization");
  if (value.size() < kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i)
    if ((value[i] | 0x20) != (kScheme[i] | 0x20)) return {};
  value.remove_prefix(kScheme.size());
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return value;
}

bool same(std::string_view key, std::string_view shown) {
  size_t wrong = key.size() ^ shown.size();
  for (size_t i = 0; i < key.size(); ++i) {
    char other = shown.empty() ? '\0' : shown[i % shown.size()];
    wrong |= size_t(uint8_t(key[i] ^ other));
  }
  return wrong == 0;
}

uint64_t mix(uint64_t hash, std::string_view text) {
  for (char c : text) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return (hash ^ 0xff) * 0x100000001b3;  // no byte of UTF-8: where one text ends
}

}  // namespace

bool admits(const std::vector<std::string>& keys, const wire::Request& request) {
  if (keys.empty()) return true;
  std::string_view shown = bearer(request);
  unsigned good = 0;
  for (const auto& key : keys) good |= unsigned(same(key, shown));
  return good != 0;
}

uint64_t tenant(const wire::Request& request, const std::vector<std::string>& keys) {
  return marshal::tenant_of(request, keys.empty() ? std::string_view() : bearer(request));
}

uint64_t cache_salt(const wire::Request& request, const std::vector<std::string>& keys, std::string_view salt) {
  if (keys.empty() && salt.empty()) return 0;
  uint64_t hash = mix(0xcbf29ce484222325, keys.empty() ? std::string_view() : bearer(request));
  return mix(hash, salt) | 1;
}

}  // namespace weir::openai
