#include "generation/queue_limit.h"

#include <algorithm>

namespace weir::generation {

// A Call that comes to a short queue waits for the end of a step, whatever its place.
void QueueLimit::began(size_t places, base::Duration waited) {
  if (places == 0 || places < policy_.max_running / 2) return;
  auto& oldest = waits_[count_++ % waits_.size()];
  sum_.places += places - oldest.places;
  sum_.waited += waited - oldest.waited;
  oldest = {places, waited};
}

size_t QueueLimit::calls() const {
  const size_t most = policy_.max_waiting, least = std::min<size_t>(policy_.max_running, most);
  if (policy_.max_wait <= base::Duration(0) || sum_.places == 0 || sum_.waited <= base::Duration(0)) return most;
  double places = double(policy_.max_wait.count()) * double(sum_.places) / double(sum_.waited.count());
  return size_t(std::clamp(places, double(least), double(most)));
}

}  // namespace weir::generation
