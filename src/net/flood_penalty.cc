#include "net/flood_penalty.h"

#include <algorithm>

namespace weir::net {

bool FloodPenalty::add(const base::ClientRef& client, base::Time now) {
  if (!client || !client->limited()) return false;
  Offender& one = offender(client, now);
  if (now - one.since > kWindow) one.since = now, one.floods = 0;
  return ++one.floods == kAllowed;
}

bool FloodPenalty::applies(const base::Client* client, base::Time now) const {
  auto barred = [&](const Offender& one) {
    return one.client.get() == client && one.floods >= kAllowed && now - one.since <= kWindow;
  };
  return !offenders_.empty() && std::any_of(offenders_.begin(), offenders_.end(), barred);
}

// Where the table is full, the one whose window began first makes way.
FloodPenalty::Offender& FloodPenalty::offender(const base::ClientRef& client, base::Time now) {
  auto same = [&](const Offender& one) { return one.client.get() == client.get(); };
  if (auto known = std::find_if(offenders_.begin(), offenders_.end(), same); known != offenders_.end()) return *known;
  if (offenders_.size() < kClients) return offenders_.emplace_back(Offender{client, now});
  auto earlier = [](const Offender& a, const Offender& b) { return a.since < b.since; };
  Offender& oldest = *std::min_element(offenders_.begin(), offenders_.end(), earlier);
  return oldest = Offender{client, now};
}

}  // namespace weir::net
