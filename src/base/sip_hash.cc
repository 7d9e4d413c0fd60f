#include "base/sip_hash.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace weir::base {
namespace {

// The four words of state and their rounds (section 2 of the paper).
struct SipState {
  explicit SipState(const HashKey& key)
      : v0(key.first ^ 0x736f6d6570736575),
        v1(key.second ^ 0x646f72616e646f6d),
        v2(key.first ^ 0x6c7967656e657261),
        v3(key.second ^ 0x7465646279746573) {}

  void round() {
    v0 += v1, v1 = std::rotl(v1, 13), v1 ^= v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16), v3 ^= v2;
    v0 += v3, v3 = std::rotl(v3, 21), v3 ^= v0;
    v2 += v1, v1 = std::rotl(v1, 17), v1 ^= v2, v2 = std::rotl(v2, 32);
  }
  template <int kRounds>
  void rounds() {
    for (int i = 0; i < kRounds; ++i) round();
  }
  template <int kRounds>
  void take(uint64_t word) {
    v3 ^= word;
    rounds<kRounds>();
    v0 ^= word;
  }
  // Little-endian words; the last one ends with the length modulo 256.
  template <int kRounds>
  void take_all(const char* data, size_t size) {
    static_assert(std::endian::native == std::endian::little);
    uint64_t word = 0;
    const char* const end = data + size / 8 * 8;
    for (; data != end; data += 8) {
      std::memcpy(&word, data, 8);
      take<kRounds>(word);
    }
    word = 0;
    if (size % 8 != 0) std::memcpy(&word, data, size % 8);
    take<kRounds>(word | uint64_t(size) << 56);
  }
  uint64_t sum() const { return v0 ^ v1 ^ v2 ^ v3; }

  uint64_t v0, v1, v2, v3;
};

HashKey kernels_key() {
  HashKey key;
  char* at = reinterpret_cast<char*>(&key);
  for (size_t left = sizeof key; left != 0;) {
    ssize_t n = ::getrandom(at + (sizeof key - left), left, 0);
    check(n > 0 || errno == EINTR, "the kernel gives random bytes");
    if (n > 0) left -= size_t(n);
  }
  return key;
}

}  // namespace

const HashKey& process_key() {
  static const HashKey key = kernels_key();
  return key;
}

uint64_t hash64(const HashKey& key, std::string_view text) {
  SipState state(key);
  state.take_all<1>(text.data(), text.size());
  state.v2 ^= 0xff;
  state.rounds<3>();
  return state.sum();
}

Hash128 hash128(const HashKey& key, std::span<const std::byte> data) {
  SipState state(key);
  state.v1 ^= 0xee;
  state.take_all<2>(reinterpret_cast<const char*>(data.data()), data.size());
  state.v2 ^= 0xee;
  state.rounds<4>();
  Hash128 out;
  out.low = state.sum();
  state.v1 ^= 0xdd;
  state.rounds<4>();
  out.high = state.sum();
  return out;
}

}  // namespace weir::base
