#include "net/client_load.h"

#include <algorithm>

namespace weir::net {

void ClientLoad::add(const base::ClientRef* client, base::Duration spent, base::Time now) {
  if (now - since_ >= kPeriod) decay(now);
  all_ += spent;
  if (!client || !*client || !(*client)->limited()) return;
  auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.client.get() == client->get(); });
  if (at == known_.end()) {
    at = std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) { return a.spent < b.spent; });
    at->client = *client;
  }
  at->spent += spent;
  heavy_ = heavy_ || is_heavy(*at);
}

void ClientLoad::decay(base::Time now) {
  const auto periods = (now - since_) / kPeriod;
  since_ = now;
  heavy_ = false;
  const int64_t by = int64_t(1) << std::min<int64_t>(periods, 32);
  all_ /= by;
  for (Known& one : known_) {
    one.spent /= by;
    if (one.spent < std::chrono::microseconds(1)) one = {};
    heavy_ = heavy_ || is_heavy(one);
  }
}

LoadClass ClientLoad::load_class(const base::Client* client) const {
  if (!heavy_ || !client) return LoadClass::kLight;
  auto heavy = [&](const Known& k) { return k.client.get() == client && is_heavy(k); };
  return std::any_of(known_.begin(), known_.end(), heavy) ? LoadClass::kHeavy : LoadClass::kLight;
}

}  // namespace weir::net
