// Fifo: a queue in one vector. Unlike std::deque it owns nothing until it is used and keeps its memory when it empties.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/release.h"

namespace weir::wire {

template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == items_.size(); }
  size_t size() const { return items_.size() - first_; }
  T& front() { return items_[first_]; }
  T& back() { return items_.back(); }
  T& operator[](size_t i) { return items_[first_ + i]; }
  void push(T item) { items_.push_back(std::move(item)); }
  void pop() {
    items_[first_] = T();
    if (++first_ == items_.size()) return clear();
    if (first_ < 64 || first_ * 2 < items_.size()) return;
    items_.erase(items_.begin(), items_.begin() + std::ptrdiff_t(first_));
    first_ = 0;
  }
  void clear() {
    items_.clear();
    first_ = 0;
  }
  void shrink() {
    if (empty()) base::release(items_);
  }

 private:
  std::vector<T> items_;
  size_t first_ = 0;
};

}  // namespace weir::wire
