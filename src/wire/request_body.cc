#include "wire/request_body.h"

namespace weir::wire {

RequestBody::State RequestBody::follow(State state) {
  if (!owner_.bodies) return state;
  const bool open = state == State::kOpen || collector_.paused();
  if (state == State::kStalled && !open)
    owner_.bodies->wait(*this, owner_.client, collector_.wanted());
  else if (open && collector_.reserved() > 0)
    owner_.bodies->hold(*this, owner_.client);
  else
    owner_.bodies->leave(*this);
  return state;
}

}  // namespace weir::wire
