// WeightedQueue: items that wait for their turn on a shard, in two lines: light and heavy (LoadClass). One heavy item
// is taken after every kLightFirst light ones, so that neither line starves. An item can leave in constant time.
#pragma once

#include <array>
#include <cstddef>

#include "net/client_load.h"

namespace weir::net {

// `Item` derives from WeightedQueue<Item>::Link; it is in one WeightedQueue at most.
template <class Item>
class WeightedQueue {
 public:
  static constexpr size_t kLightFirst = 4;

  class Link {
   public:
    bool waits() const { return waits_; }

   private:
    friend class WeightedQueue;
    Item *before_ = nullptr, *after_ = nullptr;
    LoadClass load_class_ = LoadClass::kLight;
    bool waits_ = false;
  };

  bool empty() const { return !lines_[0].first && !lines_[1].first; }
  // Puts the item at the end of its line, unless it waits already.
  void push(Item& item, LoadClass load_class) {
    Link& link = item;
    if (link.waits_) return;
    Line& line = lines_[size_t(load_class)];
    link.load_class_ = load_class, link.waits_ = true;
    link.before_ = line.last, link.after_ = nullptr;
    (line.last ? of(line.last).after_ : line.first) = &item;
    line.last = &item;
  }
  // Takes the next item out. Null: none waits.
  Item* pop() {
    Line &light = lines_[0], &heavy = lines_[1];
    const bool turn_of_heavy = heavy.first && (!light.first || light_in_a_row_ >= kLightFirst);
    Item* item = turn_of_heavy ? heavy.first : light.first;
    if (!item) return nullptr;
    light_in_a_row_ = turn_of_heavy ? 0 : light_in_a_row_ + 1;
    remove(*item);
    return item;
  }
  // Takes the item out of its line, if it waits.
  void remove(Item& item) {
    Link& link = item;
    if (!link.waits_) return;
    Line& line = lines_[size_t(link.load_class_)];
    (link.before_ ? of(link.before_).after_ : line.first) = link.after_;
    (link.after_ ? of(link.after_).before_ : line.last) = link.before_;
    link.waits_ = false;
  }

 private:
  struct Line {
    Item *first = nullptr, *last = nullptr;
  };
  static Link& of(Item* item) { return *item; }

  std::array<Line, 2> lines_;  // by LoadClass
  size_t light_in_a_row_ = 0;
};

}  // namespace weir::net
