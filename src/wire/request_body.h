// RequestBody: a BodyCollector with its place in the shard's BodyMemory. While it waits for a slab it stands in line;
// while it holds slabs that are not full it may have to give way to others.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "base/recycled.h"
#include "wire/body.h"
#include "wire/body_memory.h"
#include "wire/codec.h"

namespace weir::wire {

class RequestBody final : BodyMemory::Body, public base::Recycled<RequestBody> {
 public:
  using State = BodyCollector::State;

  // Starts a body; also after an earlier one. `wire` is asked for a tick() when there is memory to retry() with, and
  // when the memory is lost.
  void begin(Wire& wire, base::SlabSource& slabs, const BodyCollector::Shape& shape) {
    leave();
    wire_ = &wire;
    owner_ = shape.owner;
    collector_.begin(slabs, shape);
  }
  // As BodyCollector's.
  State put(std::span<const std::byte> piece) { return follow(collector_.put(piece)); }
  std::span<std::byte> receive_buffer() { return collector_.receive_buffer(); }
  State end() { return follow(collector_.end()); }
  State retry() { return follow(collector_.retry()); }
  State state() const { return collector_.state(); }
  bool paused() const { return collector_.paused(); }
  uint64_t reserved() const { return collector_.reserved(); }
  uint64_t expected() const { return collector_.expected(); }
  base::Bytes take() { return collector_.take(); }
  // Why its memory was lost since this was last asked: its owner refuses the request.
  std::optional<BodyMemory::Loss> take_loss() { return std::exchange(lost_, std::nullopt); }
  // Lets go of all memory, and waits for none.
  void clear() {
    collector_.clear();
    leave();
  }

 private:
  void leave() {
    lost_.reset();
    if (owner_.bodies) owner_.bodies->leave(*this);
  }
  State follow(State state);

  // BodyMemory::Body
  void on_memory_free() override { wire_->tick_soon(); }
  void on_memory_lost(BodyMemory::Loss why) override {
    lost_ = why;
    wire_->tick_soon();
  }
  uint64_t memory_held() const override { return collector_.reserved(); }

  BodyCollector collector_;
  BodyOwner owner_;
  Wire* wire_ = nullptr;
  std::optional<BodyMemory::Loss> lost_;
};

}  // namespace weir::wire
