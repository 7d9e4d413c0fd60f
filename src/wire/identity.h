// Identity: the caller of a request and its rights. An Authenticator (wire/authenticator.h) makes it before the request
// is routed; dialects read the tenant and the models from it, and nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "base/client.h"
#include "base/env.h"
#include "base/model_scope.h"
#include "base/status.h"
#include "base/usage_limiter.h"

namespace weir::wire {

enum class Role : uint8_t {
  kHealth = 1,   // whether the server and its models are well
  kInfer = 2,    // sees and runs models, and has sessions
  kAdmin = 4,    // changes what is served, and the settings of the server; sees models
  kMetrics = 8,  // reads metrics
};

class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(std::initializer_list<Role> roles) {
    for (Role role : roles) bits_ |= uint8_t(role);
  }
  constexpr bool has(Role role) const { return (bits_ & uint8_t(role)) != 0; }
  constexpr void add(Role role) { bits_ |= uint8_t(role); }
  constexpr void remove(Role role) { bits_ &= uint8_t(~uint8_t(role)); }
  constexpr bool none() const { return bits_ == 0; }
  friend constexpr bool operator==(Roles, Roles) = default;

 private:
  uint8_t bits_ = 0;
};

// The identity of a key, a token or a certificate, or of all clients without one. Immutable but for `revoked`; any
// thread.
struct Identity {
  std::string name;    // of the key or the certificate, for logs and errors: never a secret
  std::string tenant;  // whose it is: sessions, caches, queues and quotas are apart by this
  // A number of the tenant, even and keyed (msg::Call::tenant). 0: nobody in particular, told apart by the address.
  uint64_t tenant_number = 0;
  Roles roles;
  std::string protocol;                            // whose routes it is for, "openai ollama"; empty: all
  std::shared_ptr<const base::ModelScope> models;  // null: all
  std::shared_ptr<base::UsageLimiter> limiter;     // null: no limits
  base::WallTime expires = base::WallTime::max();  // from then on it is nobody's
  mutable std::atomic<bool> revoked{false};        // what it was made from is gone: for requests that go on
};

// One request's reference to its Identity, and its place among the requests that the identity may have at once.
class Caller {
 public:
  Caller() = default;
  // Errors: RESOURCE_EXHAUSTED of the limits.
  static base::Result<Caller> enter(std::shared_ptr<const Identity> identity, base::Time now);
  // The same for a request that was counted when its client asked, and runs now.
  static base::Result<Caller> enter_counted(std::shared_ptr<const Identity> identity, base::Time now);
  Caller(Caller&&) = default;
  Caller& operator=(Caller&& o) noexcept {
    std::swap(identity_, o.identity_);
    std::swap(client_, o.client_);
    std::swap(holds_place_, o.holds_place_);
    return *this;
  }
  ~Caller() { give_back_place(); }

  const Identity* identity() const { return identity_.get(); }

  // Gives up the place among the requests at once; the identity stays. For a WebSocket that waits for requests, each of
  // which takes a place of its own.
  void give_back_place() {
    if (identity_ && identity_->limiter && std::exchange(holds_place_, false)) identity_->limiter->leave();
  }

  // A peer that may say so has named its client, whose shares the request uses in the place of the peer's.
  void name_client(base::ClientRef client) { client_ = std::move(client); }
  const base::ClientRef& client() const { return client_; }

 private:
  explicit Caller(std::shared_ptr<const Identity> identity) : identity_(std::move(identity)) {}

  std::shared_ptr<const Identity> identity_;
  base::ClientRef client_;  // empty: nobody is named
  bool holds_place_ = true;
};

// Admits a further request within one that was admitted: a message of a stream, an action of a session. Errors: those
// of the limits; UNAUTHENTICATED if the key has expired or was revoked since. `identity` null: no authentication.
base::Status admit_another(const Identity* identity, base::Time now, base::WallTime wall);

}  // namespace weir::wire
