// Client: who uses the server, and how much of what is scarce it holds, over all shards.
//
// The rule for everything that is shared: while there is room nobody is limited; once more than half of a resource is
// in use, one client may hold no more than its share of it (`limits.client_share`). So one client alone never gets past
// the half of a resource, and four of them are needed to exhaust it. A proxy that is trusted to name its clients is not
// limited itself.
//
// A client lives as long as somebody has a ClientRef to it or slabs are charged to it (base/clients.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/sip_hash.h"

namespace weir::base {

struct ShareRule {
  uint32_t percent = 25;  // of the whole, once it is scarce; 100: no limit
  uint64_t least = 0;     // that everybody may hold, however little there is in all

  bool on() const { return percent < 100; }
  uint64_t share(uint64_t total) const { return std::max(least, total / 100 * percent + total % 100 * percent / 100); }
  // Whether who holds `held` may have `more` of what there is `total` of, while `used` of it is out.
  bool allows(uint64_t held, uint64_t more, uint64_t used, uint64_t total) const {
    return !on() || used + more <= total / 2 || held + more <= share(total);
  }
};

enum class Held : uint8_t { kConnections, kSessions, kSessionBytes, kSlabBytes };

// One client. Any thread.
class Client {
 public:
  enum class Limited : bool { kNo, kYes };
  Client(std::string name, Limited limited)
      : name_(std::move(name)), name_hash_(hash64(process_key(), name_)), limited_(limited) {}

  // As client_name() of base/network.h.
  const std::string& name() const { return name_; }
  // hash64() of the name, with the key of this process.
  uint64_t name_hash() const { return name_hash_; }
  bool limited() const { return limited_ == Limited::kYes; }
  uint64_t held(Held what) const { return held_[size_t(what)].load(std::memory_order_relaxed); }
  void add(Held what, uint64_t n) { held_[size_t(what)].fetch_add(n, std::memory_order_relaxed); }
  // Nothing of this object is touched afterwards: of slabs it may be the last that keeps it.
  void take_off(Held what, uint64_t n) { held_[size_t(what)].fetch_sub(n, std::memory_order_acq_rel); }
  // Whether the client may have so much more.
  bool may_have(Held what, uint64_t more, const ShareRule& rule, uint64_t used, uint64_t total) const {
    return !limited() || rule.allows(held(what), more, used, total);
  }

 private:
  friend class ClientRef;
  friend class Clients;
  const std::string name_;
  const uint64_t name_hash_;
  const Limited limited_;
  std::array<std::atomic<uint64_t>, 4> held_{};
  std::atomic<uint64_t> refs_{0};
};

// Keeps a client in the table. One thread at a time.
class ClientRef {
 public:
  ClientRef() = default;
  ClientRef(const ClientRef& o) : client_(o.client_) {
    if (client_) client_->refs_.fetch_add(1, std::memory_order_relaxed);
  }
  ClientRef(ClientRef&& o) noexcept : client_(std::exchange(o.client_, nullptr)) {}
  ClientRef& operator=(ClientRef o) noexcept {
    std::swap(client_, o.client_);
    return *this;
  }
  ~ClientRef() {
    if (client_) client_->refs_.fetch_sub(1, std::memory_order_acq_rel);
  }

  Client* get() const { return client_; }
  Client* operator->() const { return client_; }
  explicit operator bool() const { return client_ != nullptr; }

 private:
  friend class Clients;
  explicit ClientRef(Client& counted) : client_(&counted) {}  // takes over a count
  Client* client_ = nullptr;
};

}  // namespace weir::base
