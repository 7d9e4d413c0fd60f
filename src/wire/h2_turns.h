// H2Turns: which answer of one HTTP/2 connection sends its next DATA frame, by their urgency (RFC 9218): those of one
// urgency that are better had whole go one after the other, and behind each of them one of those that come piece by
// piece, which take turns.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "wire/fifo.h"

namespace weir::wire {

class H2Turns {
 public:
  enum class Kind : uint8_t { kWhole, kIncremental };

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  void push(int32_t stream, uint32_t urgency, Kind kind) {
    if (!lists_) lists_ = std::make_unique<Lists>();
    (*lists_)[2 * urgency + (kind == Kind::kIncremental ? 1 : 0)].push(stream);
    ++size_;
  }
  // The stream whose turn it is; there is one. It leaves its place with pop().
  int32_t front() { return (*lists_)[first()].front(); }
  void pop() {
    const size_t list = first();
    (*lists_)[list].pop();
    shares_[list / 2] = list % 2 == 0;
    --size_;
  }
  // Forgets those for which `keep` is false.
  template <class Keep>
  void filter(Keep&& keep) {
    for (size_t i = 0; lists_ && i < lists_->size(); ++i) {
      Fifo<int32_t>& list = (*lists_)[i];
      for (size_t n = list.size(); n > 0; --n) {
        const int32_t stream = list.front();
        list.pop();
        if (keep(stream))
          list.push(stream);
        else
          --size_;
      }
    }
  }
  // Gives memory back, while nobody waits.
  void shrink() {
    if (size_ == 0) lists_.reset();
  }

 private:
  using Lists = std::array<Fifo<int32_t>, 16>;

  size_t first() const {
    size_t i = 0;
    while ((*lists_)[i].empty()) ++i;
    const bool shares = i % 2 == 0 && shares_[i / 2] && !(*lists_)[i + 1].empty();
    return shares ? i + 1 : i;
  }

  std::unique_ptr<Lists> lists_;  // of each urgency: those had whole, those in pieces
  std::bitset<8> shares_;         // by urgency: the last turn was of one had whole
  size_t size_ = 0;
};

}  // namespace weir::wire
