// Lanes: two lines of those who wait for their turn on a shard. Of the heavy one goes after every kLightFirst light
// ones, so that neither line stands still. Who waits can leave in constant time.
#pragma once

#include <array>
#include <cstddef>

#include "net/client_load.h"

namespace weir::net {

// `Item` derives from Lanes<Item>::Link; it is in one Lanes at most.
template <class Item>
class Lanes {
 public:
  static constexpr size_t kLightFirst = 4;

  class Link {
   public:
    bool waits() const { return waits_; }

   private:
    friend class Lanes;
    Item *before_ = nullptr, *after_ = nullptr;
    Lane lane_ = Lane::kLight;
    bool waits_ = false;
  };

  bool empty() const { return !lines_[0].first && !lines_[1].first; }
  // At the end of its line. Does nothing to one that waits.
  void push(Item& item, Lane lane) {
    Link& link = item;
    if (link.waits_) return;
    Line& line = lines_[size_t(lane)];
    link.lane_ = lane, link.waits_ = true;
    link.before_ = line.last, link.after_ = nullptr;
    (line.last ? of(line.last).after_ : line.first) = &item;
    line.last = &item;
  }
  // Null: nobody waits.
  Item* pop() {
    Line &light = lines_[0], &heavy = lines_[1];
    const bool turn_of_heavy = heavy.first && (!light.first || light_in_a_row_ >= kLightFirst);
    Item* item = turn_of_heavy ? heavy.first : light.first;
    if (!item) return nullptr;
    light_in_a_row_ = turn_of_heavy ? 0 : light_in_a_row_ + 1;
    remove(*item);
    return item;
  }
  // Does nothing to one that does not wait.
  void remove(Item& item) {
    Link& link = item;
    if (!link.waits_) return;
    Line& line = lines_[size_t(link.lane_)];
    (link.before_ ? of(link.before_).after_ : line.first) = link.after_;
    (link.after_ ? of(link.after_).before_ : line.last) = link.before_;
    link.waits_ = false;
  }

 private:
  struct Line {
    Item *first = nullptr, *last = nullptr;
  };
  static Link& of(Item* item) { return *item; }

  std::array<Line, 2> lines_;  // by Lane
  size_t light_in_a_row_ = 0;
};

}  // namespace weir::net
