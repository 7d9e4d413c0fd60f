#include "cluster/log_message.h"

#include <openssl/sha.h>

#include "cluster/node.h"

namespace weir::cluster {
namespace {

constexpr size_t kLogMacDigits = 64, kDigest = SHA256_DIGEST_LENGTH;
constexpr std::string_view kLogMacOf = "weir log entry ";  // no other MAC of that key is one of a message

// A stream is named by digits, so that what is behind it begins with the space.
std::string mac_for(const Seal& seal, std::string_view text) {
  return mac_of(seal.key, std::string(kLogMacOf).append(seal.stream).append(" ").append(text));
}

}  // namespace

std::string seal_message(const Seal& seal, LogMessage kind, std::string_view body) {
  std::string out(kLogMacDigits, '0');
  (out += char(kind)) += body;
  if (!seal.key.empty()) out.replace(0, kLogMacDigits, mac_for(seal, std::string_view(out).substr(kLogMacDigits)));
  return out;
}

std::string_view unseal_message(const Seal& seal, LogMessage kind, std::string_view message) {
  if (message.size() <= kLogMacDigits || message[kLogMacDigits] != char(kind)) return {};
  const std::string_view text = message.substr(kLogMacDigits);
  const bool good = seal.key.empty() || same_mac(message.substr(0, kLogMacDigits), mac_for(seal, text));
  return good ? text : std::string_view();
}

std::string digest_of(std::string_view bytes) {
  std::string out(kDigest, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

std::string write_list(const PartList& list) {
  std::string out = number_bytes(list.bytes);
  for (const PartList::Part& part : list.parts) (out += number_bytes(part.sequence)) += part.digest;
  return out;
}

std::optional<PartList> read_list(std::string_view text) {
  if (text.size() <= 8 || text.size() % (8 + kDigest) != 8) return std::nullopt;
  PartList out{number_at(text, 0), {}};
  for (size_t at = 8; at < text.size(); at += 8 + kDigest)
    out.parts.push_back({number_at(text, at), std::string(text.substr(at + 8, kDigest))});
  return out;
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
