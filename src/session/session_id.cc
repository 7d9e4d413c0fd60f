#include "session/session_id.h"

#include "base/fnv.h"

namespace weir::session {
namespace {

constexpr size_t kDigits = 32;
constexpr int kHomeBits = 16, kTagBits = 32, kTagAt = 64 - kHomeBits - kTagBits;
constexpr uint64_t kTagMask = ((uint64_t(1) << kTagBits) - 1) << kTagAt;

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

NodeTag tag_of_node(std::string_view name) {
  base::Fnv hash;
  hash.add_bytes(name);
  const auto tag = uint32_t(hash.value() ^ hash.value() >> 32);
  return NodeTag(tag != 0 ? tag : 1);
}

NodeTag tag_of(base::SessionId id) { return NodeTag(uint32_t((id.high & kTagMask) >> kTagAt)); }

base::SessionId make_session_id(base::Env& env, base::ShardId home, size_t shards, NodeTag node) {
  base::SessionId id;
  do {
    id = {env.random(), env.random()};
    // The top bits are rounded down to a multiple of `shards`, plus `home`, so that home_of() finds it. Near the
    // largest number that may exceed kHomeBits, and home_of() finds another; then new random bits are drawn.
    uint64_t top = id.high >> (64 - kHomeBits);
    top = top - top % shards + size_t(home);
    id.high = (id.high & (UINT64_MAX >> kHomeBits)) | top << (64 - kHomeBits);
    if (node != NodeTag::kNone) id.high = (id.high & ~kTagMask) | uint64_t(node) << kTagAt;
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
