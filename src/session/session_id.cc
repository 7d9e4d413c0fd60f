#include "session/session_id.h"

namespace weir::session {
namespace {

constexpr size_t kDigits = 32;
constexpr int kHomeBits = 16;

// Reads 16 lower-case hexadecimal digits. False for any other byte.
bool parse(std::string_view digits, uint64_t& out) {
  for (char c : digits) {
    bool number = c >= '0' && c <= '9';
    if (!number && !(c >= 'a' && c <= 'f')) return false;
    out = out << 4 | uint64_t(number ? c - '0' : c - 'a' + 10);
  }
  return true;
}

}  // namespace

base::SessionId make_session_id(base::Env& env, base::ShardId home, size_t shards) {
  base::SessionId id;
  do {
    id = {env.random(), env.random()};
    // The top bits are rounded down to a multiple of `shards`, plus `home`, so that home_of() finds it. Near the
    // largest number that may exceed kHomeBits, and home_of() finds another; then new random bits are drawn.
    uint64_t top = id.high >> (64 - kHomeBits);
    top = top - top % shards + size_t(home);
    id.high = (id.high & (UINT64_MAX >> kHomeBits)) | top << (64 - kHomeBits);
  } while (!id || home_of(id, shards) != home);
  return id;
}

base::ShardId home_of(base::SessionId id, size_t shards) {
  return base::ShardId(uint16_t((id.high >> (64 - kHomeBits)) % shards));
}

std::string text(base::SessionId id) {
  std::string out;
  for (uint64_t half : {id.high, id.low})
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[half >> shift & 15];
  return out;
}

std::optional<base::SessionId> parse_session_id(std::string_view text) {
  base::SessionId id;
  if (text.size() != kDigits || !parse(text.substr(0, kDigits / 2), id.high) ||
      !parse(text.substr(kDigits / 2), id.low))
    return std::nullopt;
  return id;
}

}  // namespace weir::session
