// BackgroundCallers: the Authenticator of a shard, which also knows who the requests of the journal come from: their
// clients are gone, and have left a text (auth/remembered.h). On the shard.
#pragma once

#include <string>
#include <unordered_map>

#include "auth/authenticator.h"
#include "jobs/shard_jobs.h"
#include "wire/authenticator.h"

namespace weir::app {

class BackgroundCallers final : public wire::Authenticator, public jobs::Callers {
 public:
  explicit BackgroundCallers(auth::Authenticator& live) : live_(live) {}  // outlives this

  base::Result<wire::Caller> admit(const wire::Request& request, wire::Permission permission,
                                   std::string_view protocol) override {
    if (const std::string* caller = find(request)) return live_.recall(*caller, permission, protocol);
    return live_.admit(request, permission, protocol);
  }
  std::string name_of(const wire::Request& request) override {
    return find(request) ? std::string() : live_.name_of(request);
  }
  base::Status permit(const wire::Request& request, wire::Permission permission) override {
    return live_.permit(request, permission);
  }

  std::string remember(const wire::Request& request) override { return live_.remember(request); }
  void come_as(const wire::PeerInfo& peer, const std::string* caller) override {
    if (caller)
      callers_[&peer] = *caller;
    else
      callers_.erase(&peer);
  }

 private:
  const std::string* find(const wire::Request& request) const {
    if (callers_.empty()) return nullptr;
    auto at = callers_.find(request.peer);
    return at == callers_.end() ? nullptr : &at->second;
  }

  auth::Authenticator& live_;
  std::unordered_map<const wire::PeerInfo*, std::string> callers_;  // by the peer of a request in the background
};

}  // namespace weir::app
