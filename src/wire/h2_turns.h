// H2Turns: which answer of one HTTP/2 connection sends its next DATA frame, by their urgency (RFC 9218): those of one
// urgency that are better had whole go one after the other, and behind each of them one of those that come piece by
// piece. Those take turns by bytes, not by frames (start-time fair queueing, Goyal 1996): whose last frame was large
// waits until the others have sent as much, and one that had nothing to send goes before those that have had their
// turn.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "wire/fifo.h"

namespace weir::wire {

class H2Turns {
 public:
  enum class Kind : uint8_t { kWhole, kIncremental };

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // `after`: of the stream's last turn, from sends(); 0: it has had none.
  void push(int32_t stream, uint32_t urgency, Kind kind, uint64_t after = 0) {
    if (!lists_) lists_ = std::make_unique<Lists>();
    ++size_;
    if (kind == Kind::kWhole) return lists_->whole[urgency].push(stream);
    auto& pieces = lists_->pieces[urgency];
    const uint64_t soonest = lists_->now - std::min(lists_->now, kCredit);
    pieces.push_back({std::max(after, soonest), lists_->pushed++, stream});
    std::push_heap(pieces.begin(), pieces.end());
  }
  // The stream whose turn it is; there is one. It leaves its place with pop().
  int32_t front() const {
    const size_t list = first();
    return list % 2 == 0 ? lists_->whole[list / 2].front() : lists_->pieces[list / 2].front().stream;
  }
  // It sends `n` bytes. Returns what push() wants to know.
  uint64_t sends(size_t n) {
    const size_t list = first();
    if (list % 2 == 0) return 0;
    const uint64_t at = lists_->pieces[list / 2].front().at;
    lists_->now = std::max(lists_->now, at);
    return at + n;
  }
  void pop() {
    const size_t list = first();
    if (list % 2 == 0) {
      lists_->whole[list / 2].pop();
    } else {
      auto& pieces = lists_->pieces[list / 2];
      std::pop_heap(pieces.begin(), pieces.end());
      pieces.pop_back();
    }
    shares_[list / 2] = list % 2 == 0;
    --size_;
  }
  // Forgets those for which `keep` is false.
  template <class Keep>
  void filter(Keep&& keep) {
    if (!lists_) return;
    size_ = 0;
    for (Fifo<int32_t>& list : lists_->whole) {
      for (size_t n = list.size(); n > 0; --n) {
        const int32_t stream = list.front();
        list.pop();
        if (keep(stream)) list.push(stream);
      }
      size_ += list.size();
    }
    for (auto& pieces : lists_->pieces) {
      std::erase_if(pieces, [&](const Turn& turn) { return !keep(turn.stream); });
      std::make_heap(pieces.begin(), pieces.end());
      size_ += pieces.size();
    }
  }
  // Gives memory back, while nobody waits, and no stream that has had a turn is open.
  void shrink() {
    if (size_ == 0) lists_.reset();
  }

 private:
  static constexpr size_t kUrgencies = 8;
  static constexpr uint64_t kCredit = 16 << 10;  // bytes by which one that had nothing to send goes before others
  struct Turn {
    uint64_t at;     // bytes that each stream should have sent before, if all had something to send
    uint64_t order;  // among those of the same `at`
    int32_t stream;
    // The first one is the largest, for std::push_heap().
    bool operator<(const Turn& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
  };
  struct Lists {
    std::array<Fifo<int32_t>, kUrgencies> whole;
    std::array<std::vector<Turn>, kUrgencies> pieces;
    uint64_t now = 0;  // Turn::at of the last turn
    uint64_t pushed = 0;
  };

  // Twice an urgency, and one more for those in pieces.
  size_t first() const {
    size_t i = 0;
    while (lists_->whole[i].empty() && lists_->pieces[i].empty()) ++i;
    if (lists_->whole[i].empty()) return 2 * i + 1;
    return shares_[i] && !lists_->pieces[i].empty() ? 2 * i + 1 : 2 * i;
  }

  std::unique_ptr<Lists> lists_;
  std::bitset<kUrgencies> shares_;  // by urgency: the last turn was of one had whole
  size_t size_ = 0;
};

}  // namespace weir::wire
