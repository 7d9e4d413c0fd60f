#include "cluster/log_message.h"

#include "cluster/node.h"

namespace weir::cluster {
namespace {

constexpr size_t kLogMacDigits = 64;
constexpr std::string_view kLogMacOf = "weir log entry ";  // no other MAC of that key is one of a message

}  // namespace

std::string seal_message(std::string_view key, LogMessage kind, std::string_view body) {
  std::string out(kLogMacDigits, '0');
  (out += char(kind)) += body;
  if (!key.empty())
    out.replace(0, kLogMacDigits,
                mac_of(key, std::string(kLogMacOf).append(std::string_view(out).substr(kLogMacDigits))));
  return out;
}

std::string_view unseal_message(std::string_view key, LogMessage kind, std::string_view message) {
  if (message.size() <= kLogMacDigits || message[kLogMacDigits] != char(kind)) return {};
  const std::string_view text = message.substr(kLogMacDigits);
  const bool good =
      key.empty() || same_mac(message.substr(0, kLogMacDigits), mac_of(key, std::string(kLogMacOf).append(text)));
  return good ? text : std::string_view();
}

std::string number_bytes(uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += char(value >> (8 * i));
  return out;
}

uint64_t number_at(std::string_view bytes, size_t at) {
  uint64_t out = 0;
  for (size_t i = 0; i < 8; ++i) out |= uint64_t(uint8_t(bytes[at + i])) << (8 * i);
  return out;
}

}  // namespace weir::cluster
