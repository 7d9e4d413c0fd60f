// SipHash: a keyed hash for tables whose keys peers choose, and for names that peers must not be able to forge.
//
// Without the key nobody can choose texts that collide, so a table that peers fill keeps its constant time per entry.
// Reference: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF" (2012). Tables use SipHash-1-3;
// hash128() is SipHash-2-4 with 128 bits of output, for names of contents. Hashing is a pure function; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/env.h"
#include "base/ids.h"

namespace weir::base {

struct HashKey {
  uint64_t first = 0, second = 0;

  // A new key from an Env: what deterministic rooms use.
  static HashKey drawn(Env& env) {
    uint64_t first = env.random();  // one after the other: the order in which arguments are evaluated is open
    return {first, env.random()};
  }
};

// The key of this process: from the kernel, at the first call; the same on all threads and until the process ends. It
// never leaves the process. Aborts if the kernel gives no random bytes.
const HashKey& process_key();

uint64_t hash64(const HashKey& key, std::string_view text);

struct Hash128 {
  uint64_t low = 0, high = 0;
};
Hash128 hash128(const HashKey& key, std::span<const std::byte> data);

// The hash of an unordered container whose keys peers choose. Make the container with one that has a secret key: the
// default is for tests.
class KeyedHash {
 public:
  using is_transparent = void;

  KeyedHash() = default;
  explicit KeyedHash(const HashKey& key) : key_(key) {}
  size_t operator()(std::string_view text) const { return size_t(hash64(key_, text)); }
  size_t operator()(SessionId id) const {
    const uint64_t words[2] = {id.high, id.low};
    return (*this)({reinterpret_cast<const char*>(words), sizeof words});
  }
  size_t operator()(uint64_t number) const { return (*this)({reinterpret_cast<const char*>(&number), sizeof number}); }

 private:
  HashKey key_;
};

// Text that peers choose → T. `Key` is std::string, or std::string_view where the text lives in T.
template <class Key, class T, class Equal = std::equal_to<>>
using PeerMap = std::unordered_map<Key, T, KeyedHash, Equal>;

}  // namespace weir::base
