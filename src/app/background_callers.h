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
    if (const Left* left = find(request)) return live_.recall(left->caller, permission, protocol, left->as);
    return live_.admit(request, permission, protocol);
  }
  std::string name_of(const wire::Request& request) override {
    return find(request) ? std::string() : live_.name_of(request);
  }
  base::Status permit(const wire::Request& request, wire::Permission permission) override {
    return live_.permit(request, permission);
  }

  std::string remember(const wire::Request& request) override { return live_.remember(request); }
  void come_as(const wire::PeerInfo& peer, const std::string* caller, jobs::Requests requests) override {
    if (!caller) return void(left_.erase(&peer));
    left_[&peer] = {*caller, requests == jobs::Requests::kCounted ? Recalled::kCounted : Recalled::kRequest};
  }

 private:
  using Recalled = auth::Authenticator::Recalled;
  struct Left {
    std::string caller;
    Recalled as = Recalled::kRequest;
  };
  const Left* find(const wire::Request& request) const {
    if (left_.empty()) return nullptr;
    auto at = left_.find(request.peer);
    return at == left_.end() ? nullptr : &at->second;
  }

  auth::Authenticator& live_;
  std::unordered_map<const wire::PeerInfo*, Left> left_;  // by the peer of a request in the background
};

}  // namespace weir::app
