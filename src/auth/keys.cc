#include "auth/keys.h"

#include <openssl/sha.h>

namespace weir::auth {

Digest digest_of(std::string_view secret) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), digest.data());
  return digest;
}

KeyTable::KeyTable(const std::vector<Key>& keys, Limiters& limiters) {
  for (const Key& key : keys) identities_.emplace(key.digest, make_identity(key.grant, limiters));
}

const IdentityRef* KeyTable::find(const Digest& digest) const {
  auto found = identities_.find(digest);
  return found == identities_.end() ? nullptr : &found->second;
}

const IdentityRef* KeyTable::find_named(std::string_view name) const {
  for (const auto& [digest, identity] : identities_)
    if (identity->name == name) return &identity;
  return nullptr;
}

void KeyTable::revoke_missing(const KeyTable& newer) const {
  for (const auto& [digest, identity] : identities_)
    if (!newer.find(digest)) identity->revoked.store(true, std::memory_order_relaxed);
}

void Keys::use(const std::vector<Key>& keys) {
  auto table = std::make_shared<const KeyTable>(keys, limiters_);
  std::lock_guard lock(mutex_);
  table_->revoke_missing(*table);
  table_ = std::move(table);
  version_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const KeyTable> Keys::table() const {
  std::lock_guard lock(mutex_);
  return table_;
}

}  // namespace weir::auth
