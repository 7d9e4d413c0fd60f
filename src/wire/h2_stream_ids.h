// H2StreamIds: what is open on one HTTP/2 connection, by stream id. Ids come one after the other, so that most have a
// place of their own in the table. `Stream` is a pointer, its owner or not.
//
// A peer may leave ids out, and choose those that share a place. No search takes more than kMostSteps steps for that:
// where one would, places follow from a keyed hash from then on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/release.h"
#include "base/sip_hash.h"

namespace weir::wire {

template <class Stream>
class H2StreamIds {
 public:
  static constexpr uint32_t kMostSteps = 64;  // by ids alone; a few more by their hash

  H2StreamIds() = default;
  H2StreamIds(const H2StreamIds&) = delete;

  // Null: the stream is not open. Valid until the next change.
  const Stream* find(int32_t id) const {
    if (size_ == 0) return nullptr;
    const size_t first = home(id);
    for (size_t steps = 0; steps <= farthest_; ++steps) {
      const Place& at = places_[(first + steps) & mask_];
      if (!at.stream) break;
      if (at.id == id) return &at.stream;
    }
    return nullptr;
  }
  void put(int32_t id, Stream stream) {
    if (2 * (size_ + size_t(1)) > places_.size()) rebuild(places_.empty() ? kFirstPlaces : 2 * places_.size(), homes_);
    ++size_;
    place({id, std::move(stream)});
    if (farthest_ > kMostSteps && homes_ == Homes::kInOrder) rebuild(places_.size(), Homes::kHashed);
  }
  // The stream is open. Those behind it move up, so that no search ends at its place too early.
  Stream take_out(int32_t id) {
    size_t gap = home(id);
    if (places_[gap].id != id) went_home();
    while (places_[gap].id != id) gap = (gap + 1) & mask_;
    Stream out = std::exchange(places_[gap], {}).stream;
    for (size_t steps = 1; steps <= farthest_; ++steps) {
      const size_t i = (gap + steps) & mask_;
      if (!places_[i].stream) break;
      const size_t from_home = (i - home(places_[i].id)) & mask_;
      if (from_home < steps) continue;
      if (from_home == steps) went_home();
      places_[gap] = std::exchange(places_[i], {});
      gap = i, steps = 0;
    }
    --size_;
    return out;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The most places that a search looks at.
  size_t most_steps() const { return size_ == 0 ? 0 : farthest_ + size_t(1); }
  template <class Do>
  void each(Do&& act) const {
    for (const Place& at : places_)
      if (at.stream) act(at.id, at.stream);
  }
  // Gives memory back, while nothing is open.
  void shrink() {
    if (size_ > 0) return;
    base::release(places_);
    mask_ = 0, homes_ = Homes::kInOrder;
  }

 private:
  enum class Homes : uint8_t { kInOrder, kHashed };
  struct Place {
    int32_t id = 0;
    Stream stream{};
  };
  static constexpr size_t kFirstPlaces = 64;

  size_t home(int32_t id) const {
    if (homes_ == Homes::kInOrder) return size_t(id) >> 1 & mask_;
    return base::KeyedHash(base::process_key())(uint64_t(id)) & mask_;
  }
  void place(Place one) {
    const size_t first = home(one.id);
    size_t steps = 0;
    while (places_[(first + steps) & mask_].stream) ++steps;
    places_[(first + steps) & mask_] = std::move(one);
    if (steps == 0) return;
    ++astray_;
    farthest_ = std::max(farthest_, uint32_t(steps));
  }
  // One that was astray is at home, or gone.
  void went_home() {
    if (--astray_ == 0) farthest_ = 0;
  }
  void rebuild(size_t places, Homes homes) {
    std::vector<Place> all(places);
    all.swap(places_);
    homes_ = homes;
    mask_ = uint32_t(places - 1);
    astray_ = farthest_ = 0;
    for (Place& one : all)
      if (one.stream) place(std::move(one));
  }

  std::vector<Place> places_;  // linear probing, half of them free
  uint32_t mask_ = 0, size_ = 0;
  uint32_t astray_ = 0;    // those that are not at home
  uint32_t farthest_ = 0;  // steps from home, at most: of those that are, or were since the last was astray
  Homes homes_ = Homes::kInOrder;
};

}  // namespace weir::wire
