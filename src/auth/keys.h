// Keys: the API keys that are known, over all shards, and what each of them allows. Only their SHA-256 digests are
// kept; a digest is compared with the digest of what was shown in constant time.
#pragma once

#include <openssl/crypto.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "auth/grant.h"
#include "base/sip_hash.h"

namespace weir::auth {

using Digest = std::array<unsigned char, 32>;
Digest digest_of(std::string_view secret);  // SHA-256

struct Key {
  Grant grant;
  Digest digest;
};

// An immutable set of keys. Any thread.
class KeyTable {
 public:
  KeyTable() = default;
  KeyTable(const std::vector<Key>& keys, Limiters& limiters);

  // Null: there is none of that digest.
  const IdentityRef* find(const Digest& digest) const;
  // The same by the key's name; of several of that name, any.
  const IdentityRef* find_named(std::string_view name) const;
  bool empty() const { return identities_.empty(); }
  size_t size() const { return identities_.size(); }
  // Marks the Identities of keys that `newer` has not as revoked: requests that go on ask (wire::admit_another()).
  void revoke_missing(const KeyTable& newer) const;

 private:
  struct Hash {
    size_t operator()(const Digest& d) const {
      return base::hash64(base::process_key(), {reinterpret_cast<const char*>(d.data()), d.size()});
    }
  };
  struct Same {
    bool operator()(const Digest& a, const Digest& b) const { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }
  };
  std::unordered_map<Digest, IdentityRef, Hash, Same> identities_;
};

// The set of keys of now. Any thread.
class Keys {
 public:
  // From now on these are the keys; those that are not among them stop working at once.
  void use(const std::vector<Key>& keys);
  // Counts the calls of use(): a shard takes table() again when it has changed.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::shared_ptr<const KeyTable> table() const;

 private:
  Limiters limiters_;
  mutable std::mutex mutex_;
  std::shared_ptr<const KeyTable> table_ = std::make_shared<const KeyTable>();  // under mutex_
  std::atomic<uint64_t> version_{0};
};

}  // namespace weir::auth
