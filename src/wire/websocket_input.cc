#include "wire/websocket_input.h"

#include <utility>

#include "base/release.h"

namespace weir::wire {
namespace {

constexpr size_t kIdleSocketBytes = 4096;  // that a WebSocket keeps allocated while nothing comes

}  // namespace

WebSocketInput::Left WebSocketInput::read() {
  const size_t used = socket_.feed(std::as_bytes(std::span(held_)).subspan(taken_));
  taken_ += used;
  if (taken_ > held_.size() / 2) held_.erase(0, std::exchange(taken_, 0));
  if (held_.empty() && held_.capacity() > kIdleSocketBytes) base::release(held_);
  socket_.keep_aside(held_.empty() ? 0 : held_.capacity());
  if (used > 0) exchange_.consume(used);
  if (waits_for_memory()) return Left::kWaitsForMemory;
  return held_.empty() ? Left::kNothing : Left::kFull;
}

// Tells the budget of bodies what the message that comes holds. True: it has no slab yet and waits for one;
// on_memory_free() follows.
bool WebSocketInput::waits_for_memory() {
  if (!bodies_) return false;
  if (socket_.wanted() > 0) {
    bodies_->wait(*this, client(), socket_.wanted());
    return true;
  }
  if (socket_.reserved() > 0)
    bodies_->hold(*this, client());
  else
    bodies_->leave(*this);
  return false;
}

base::Client* WebSocketInput::client() const {
  const PeerInfo* peer = exchange_.request().peer;
  return peer ? peer->client.get() : nullptr;
}

void WebSocketInput::on_memory_lost(BodyMemory::Loss why) {
  socket_.refuse_memory(why == BodyMemory::Loss::kWaited ? kNoMemoryInTime : kMemoryGivenAway);
}

}  // namespace weir::wire
