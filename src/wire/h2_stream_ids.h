// H2StreamIds: what is open on one HTTP/2 connection, by stream id. Ids come one after the other, so that most have a
// place of their own in the table. `Stream` is a pointer, its owner or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::wire {

template <class Stream>
class H2StreamIds {
 public:
  H2StreamIds() = default;
  H2StreamIds(const H2StreamIds&) = delete;

  // Null: the stream is not open. Valid until the next change.
  const Stream* find(int32_t id) const {
    if (size_ == 0) return nullptr;
    for (size_t i = home(id); places_[i].stream; i = (i + 1) & mask_) {
      if (places_[i].id == id) return &places_[i].stream;
      if (astray_ == 0) break;  // one that has gone is not looked for among all that are open
    }
    return nullptr;
  }
  void put(int32_t id, Stream stream) {
    if (2 * (size_ + 1) > places_.size()) grow();
    ++size_;
    place({id, std::move(stream)});
  }
  // The stream is open. Those behind it move up, so that no search ends at its place too early.
  Stream take_out(int32_t id) {
    size_t gap = home(id);
    if (places_[gap].id != id) --astray_;
    while (places_[gap].id != id) gap = (gap + 1) & mask_;
    Stream out = std::exchange(places_[gap], {}).stream;
    for (size_t i = (gap + 1) & mask_; astray_ > 0 && places_[i].stream; i = (i + 1) & mask_) {
      const size_t from_home = (i - home(places_[i].id)) & mask_, from_gap = (i - gap) & mask_;
      if (from_home < from_gap) continue;
      if (from_home == from_gap) --astray_;
      places_[gap] = std::exchange(places_[i], {});
      gap = i;
    }
    --size_;
    return out;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  template <class Do>
  void each(Do&& act) const {
    for (const Place& at : places_)
      if (at.stream) act(at.id, at.stream);
  }
  // Gives memory back, while nothing is open.
  void shrink() {
    if (size_ == 0) places_ = {}, mask_ = 0;
  }

 private:
  struct Place {
    int32_t id = 0;
    Stream stream{};
  };
  static constexpr size_t kFirstPlaces = 64;

  size_t home(int32_t id) const { return size_t(id) >> 1 & mask_; }
  void place(Place one) {
    size_t i = home(one.id);
    if (places_[i].stream) ++astray_;
    while (places_[i].stream) i = (i + 1) & mask_;
    places_[i] = std::move(one);
  }
  void grow() {
    auto all = std::move(places_);
    places_ = std::vector<Place>(all.empty() ? kFirstPlaces : 2 * all.size());
    mask_ = places_.size() - 1;
    astray_ = 0;
    for (Place& one : all)
      if (one.stream) place(std::move(one));
  }

  std::vector<Place> places_;  // linear probing, half of them free
  size_t mask_ = 0, size_ = 0;
  size_t astray_ = 0;  // those that are not at home
};

}  // namespace weir::wire
