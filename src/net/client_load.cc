#include "net/client_load.h"

#include <algorithm>

namespace weir::net {

void ClientLoad::add(const base::ClientRef* client, base::Duration spent, base::Time now) {
  if (now - since_ >= kPeriod) decay(now);
  if (!client || !*client || !(*client)->limited()) return;
  auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.client.get() == client->get(); });
  if (at == known_.end()) {
    at = std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) { return a.spent < b.spent; });
    at->client = *client;
  }
  at->spent += spent;
  heavy_ = heavy_ || at->spent >= kMuch;
}

void ClientLoad::decay(base::Time now) {
  const auto periods = (now - since_) / kPeriod;
  since_ = now;
  heavy_ = false;
  for (Known& one : known_) {
    one.spent = periods < 32 ? one.spent / (int64_t(1) << periods) : base::Duration(0);
    if (one.spent < std::chrono::microseconds(1)) one = {};
    heavy_ = heavy_ || one.spent >= kMuch;
  }
}

Lane ClientLoad::lane(const base::Client* client) const {
  if (!heavy_ || !client) return Lane::kLight;
  auto is_heavy = [&](const Known& k) { return k.client.get() == client && k.spent >= kMuch; };
  return std::any_of(known_.begin(), known_.end(), is_heavy) ? Lane::kHeavy : Lane::kLight;
}

}  // namespace weir::net
