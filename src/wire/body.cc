#include "wire/body.h"

#include <algorithm>
#include <utility>

#include "base/release.h"
#include "wire/body_growth.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr uint64_t kFew = 1 << 20;  // a body of unknown length that has come to this may have the most at once

}  // namespace

void BodyCollector::begin(base::SlabSource& slabs, const Shape& shape) {
  clear();
  slabs_ = &slabs;
  shape_ = shape;
  if (shape.coding != Coding::kIdentity) {
    if (auto* ledger = slabs.ledger()) inflater_charge_ = {*ledger, base::MemoryKind::kInput};
    if (!inflater_charge_.grow(kInflaterBytes)) {
      state_ = State::kNoMemory;
      return;
    }
    inflater_.emplace(shape.coding, shape.limits);
  }
  if (shape.content_length > 0 && !inflater_ && uint64_t(shape.content_length) > shape.limits.bytes)
    state_ = State::kTooBig;
}

void BodyCollector::clear() {
  block_.clear();
  inflater_.reset();
  inflater_charge_.clear();
  if (aside_.capacity() > 4096)
    base::release(aside_);
  else
    aside_.clear();
  state_ = State::kOpen;
  aside_charge_.clear();
  ended_ = paused_ = false;
  slice_ = kInflateSlice;
}

BodyCollector::State BodyCollector::put(std::span<const std::byte> piece) {
  if (state_ == State::kStalled) {
    state_ = keep(piece);
  } else if (state_ == State::kOpen) {
    state_ = advance(piece);
  }
  return state_;
}

std::span<std::byte> BodyCollector::receive_buffer() {
  if (state_ != State::kOpen || inflater_ || !block_ || block_.moving()) return {};
  return {block_.end(), block_.room()};
}

BodyCollector::State BodyCollector::end() {
  ended_ = true;
  if (state_ == State::kOpen) state_ = settle();
  return state_;
}

BodyCollector::State BodyCollector::retry() {
  if (state_ != State::kStalled) return state_;
  std::string waiting = std::exchange(aside_, {});
  state_ = State::kOpen;
  paused_ = false;
  slice_ = kInflateSlice;
  state_ = advance(std::as_bytes(std::span(waiting)));
  if (state_ != State::kStalled) aside_charge_.clear();
  if (state_ == State::kOpen && ended_) state_ = settle();
  return state_;
}

base::Bytes BodyCollector::take() { return block_.freeze(); }

// The rest of `piece` is kept aside when there is no slab.
BodyCollector::State BodyCollector::advance(std::span<const std::byte> piece) {
  State did = block_.moving() ? move() : State::kOpen;
  if (did == State::kOpen) did = inflater_ ? inflate(piece) : copy(piece);
  return did == State::kStalled ? keep(piece) : did;
}

// The charge is for twice the bytes, because a string that grows takes up to twice its size. It stays when retry()
// fails: otherwise each failure would look like freed memory, and waiting bodies would wake each other for ever.
BodyCollector::State BodyCollector::keep(std::span<const std::byte> piece) {
  if (aside_charge_.bytes() == 0)
    if (auto* ledger = slabs_->ledger()) aside_charge_ = {*ledger, base::MemoryKind::kInput};
  if (!aside_charge_.resize(2 * uint64_t(aside_.size() + piece.size()))) return State::kNoMemory;
  aside_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return State::kStalled;
}

BodyCollector::State BodyCollector::copy(std::span<const std::byte>& piece) {
  uint64_t total = block_.size() + uint64_t(piece.size());
  if (total > shape_.limits.bytes) return State::kTooBig;
  if (piece.empty()) return State::kOpen;
  if (total > block_.capacity())
    if (State grown = grow(total); grown != State::kOpen) return grown;
  block_.append(piece.data(), piece.size());
  return State::kOpen;
}

BodyCollector::State BodyCollector::inflate(std::span<const std::byte>& piece) {
  size_t& slice = shape_.share ? shape_.share->left : slice_;
  while (true) {
    const Inflate did = inflate_into(*inflater_, block_, piece, slice);
    if (did == Inflate::kCorrupt) return State::kCorrupt;
    if (did == Inflate::kTooBig) return State::kTooBig;
    if (did == Inflate::kOverRatio) return State::kOverRatio;
    if (did == Inflate::kMore && piece.empty()) return State::kOpen;
    if (slice == 0) return paused_ = true, State::kStalled;
    if (did == Inflate::kMore) continue;
    if (State grown = grow(uint64_t(block_.size()) + 1); grown != State::kOpen) return grown;
  }
}

// Grows the block to at least `to` bytes. Returns kOpen, or why it could not.
BodyCollector::State BodyCollector::grow(uint64_t to) {
  State widened = widen(to);
  return widened == State::kOpen ? move() : widened;
}

// Takes the larger slab, into which move() copies.
BodyCollector::State BodyCollector::widen(uint64_t to) {
  base::Slab* slab = more(to);
  if (!slab) return base::wait_in_vain(*slabs_, size_t(wanted_)) ? State::kNoMemory : State::kStalled;
  block_.widen(slab);
  return State::kOpen;
}

BodyCollector::State BodyCollector::make_room(size_t n) {
  if (n <= block_.room()) return State::kOpen;
  State widened = widen(uint64_t(block_.size()) + n);
  if (widened == State::kOpen) block_.move(block_.size());
  return widened;
}

// Moves as much as this turn has time for. kOpen: all is in the larger slab.
BodyCollector::State BodyCollector::move() {
  size_t most = kMovedSlice;
  size_t* slice = shape_.share ? &shape_.share->left : inflater_ ? &slice_ : nullptr;
  if (slice) most = std::min(most, *slice * kMovedPerInflated);
  const size_t moved = block_.move(most);
  if (slice) *slice -= moved / kMovedPerInflated;
  paused_ = block_.moving();
  return paused_ ? State::kStalled : State::kOpen;
}

// A body of declared length grows by what has come of it (wire/body_growth.h), in parts until it has its final size. Of
// unknown length: by doubling, in parts; where there are no more of those, to the most that it can become, after which
// it never waits again.
base::Slab* BodyCollector::more(uint64_t to) {
  using Size = BodyOwner::Size;
  const BodyOwner& owner = shape_.owner;
  if (!inflater_ && shape_.content_length >= 0) {
    uint64_t all = std::max(to, uint64_t(shape_.content_length));
    wanted_ = grown(*slabs_, to, all);
    return owner.take(*slabs_, wanted_, wanted_ < all ? Size::kPart : Size::kWhole);
  }
  // A byte more than the limit: an inflated body of exactly the limit must find out that it has ended.
  uint64_t most = std::max(to, shape_.limits.bytes + 1);
  uint64_t want = std::min(most, std::max({to, kFirstSlab, uint64_t(block_.capacity()) * 2}));
  if (want < most)
    if (base::Slab* slab = owner.take(*slabs_, want, Size::kPart)) return slab;
  wanted_ = want < kFew ? want : most;
  return owner.take(*slabs_, wanted_, Size::kWhole);
}

uint64_t BodyCollector::expected() const {
  bool all = !inflater_ && shape_.content_length >= 0 && block_.capacity() >= uint64_t(shape_.content_length);
  return all && state_ == State::kOpen ? uint64_t(shape_.content_length) - block_.size() : 0;
}

BodyCollector::State BodyCollector::settle() {
  // An empty body is in every coding.
  if (inflater_ && !inflater_->complete() && !inflater_->fresh()) return State::kCorrupt;
  return State::kDone;
}

std::optional<Coding> body_coding(std::string_view content_encoding) { return coding_of(trim(content_encoding)); }

}  // namespace weir::wire
