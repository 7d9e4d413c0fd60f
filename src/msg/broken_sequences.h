// BrokenSequences: sequences that lack a request, so that those behind it are refused until the next start
// (ends_sequence()). At most kMost; the one that has been idle longest is forgotten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <utility>

namespace weir::msg {

// `Why` is what is kept of the request that is lacking.
template <class Key, class Why>
class BrokenSequences {
 public:
  static constexpr size_t kMost = 256;

  // Null: it lacks none. Until the next add() or erase().
  const Why* find(const Key& sequence) {
    auto found = lookup(sequence);
    if (found == all_.end()) return nullptr;
    all_.splice(all_.end(), all_, found);
    return &found->second;
  }
  // The first reason stays.
  void add(const Key& sequence, Why why) {
    if (find(sequence)) return;
    if (all_.size() >= kMost) all_.pop_front();
    all_.emplace_back(sequence, std::move(why));
  }
  void erase(const Key& sequence) {
    if (auto found = lookup(sequence); found != all_.end()) all_.erase(found);
  }

 private:
  using All = std::list<std::pair<Key, Why>>;
  typename All::iterator lookup(const Key& sequence) {
    return std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return one.first == sequence; });
  }

  All all_;  // the last of them had a request last
};

}  // namespace weir::msg
