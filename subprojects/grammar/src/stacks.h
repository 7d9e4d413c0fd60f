// Stacks: the calls that the states of one matcher are inside of, as a graph of frames that grows at its top. Equal
// frames are one. Steps are counted: whoever walks gives up at a limit.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"

namespace grammar {

using FrameId = uint32_t;
inline constexpr FrameId kRootFrame = 0;     // below it there is nothing: the text ends
inline constexpr FrameId kUnknownFrame = 1;  // below it is what a local walk does not know
// The count of a frame whose call may be repeated, and may be over, at any time.
inline constexpr uint32_t kUncounted = UINT32_MAX;

struct Frame {
  uint32_t call = 0;   // of the automaton's
  uint32_t count = 0;  // how often a counted call has been matched
  FrameId parent = 0;
  uint32_t depth = 0;
  bool operator==(const Frame& other) const {
    return call == other.call && count == other.count && parent == other.parent;
  }
};

// A state, and the calls that it is inside of.
struct Item {
  uint32_t state = 0;
  FrameId frame = 0;
  bool operator==(const Item&) const = default;
  bool operator<(const Item& other) const { return state != other.state ? state < other.state : frame < other.frame; }
};

// All states that a text may have led to; those that take a byte.
struct Position {
  std::vector<Item> items;
  bool accepting = false;  // the text may end here
  bool leaves = false;     // of a local walk: what is not known may go on here

  void clear() { items.clear(), accepting = leaves = false; }
  bool dead() const { return items.empty() && !accepting && !leaves; }
};

// Steps that the texts of one grammar take together, beyond those that each of them has. Any thread.
class SharedSteps {
 public:
  static constexpr uint64_t kMost = 4'000'000;
  static constexpr uint64_t kPart = 1 << 16;  // how many a text takes at a time, so that others find some, too
  uint64_t left() const { return left_.load(std::memory_order_relaxed); }
  uint64_t take(uint64_t most) {
    uint64_t left = this->left();
    while (!left_.compare_exchange_weak(left, left - std::min(left, most), std::memory_order_relaxed)) {
    }
    return std::min(left, most);
  }
  void give(uint64_t steps) {
    uint64_t left = this->left();
    while (!left_.compare_exchange_weak(left, std::min(left + steps, kMost), std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<uint64_t> left_{kMost};
};

class Stacks {
 public:
  static constexpr size_t kMostItems = 512;
  static constexpr uint32_t kDeepest = 500;
  static constexpr size_t kMostFrames = size_t(1) << 17;

  explicit Stacks(const Automaton& automaton) : automaton_(automaton), frames_(2) {}

  // The position of a state, and that behind a byte. Both replace `out`.
  void enter(Item item, Position& out);
  void advance(const Position& from, uint8_t byte, Position& out);
  // The position behind the rule that `frame` is inside of.
  void leave(FrameId frame, Position& out);
  FrameId push(uint32_t call, uint32_t count, FrameId parent);
  const Frame& frame(FrameId id) const { return frames_[id]; }

  size_t frames() const { return frames_.size(); }
  // Forgets the frames from `count` on.
  void shrink(size_t count);
  // Forgets the frames that the position does not need; its own get other ids.
  void collect(Position& position);

  uint64_t steps_left = 0;
  uint64_t steps_wanted = 0;          // so far: those that were taken, and those that were not there
  SharedSteps* more_steps = nullptr;  // where more are taken from; null: from nowhere
  uint64_t steps_there() const { return steps_left + (more_steps ? more_steps->left() : 0); }
  // Takes so many steps. False: they are not there, and now none is left.
  bool take_steps(uint64_t steps) {
    steps_wanted += steps;
    while (steps_left < steps) {
      const uint64_t more = more_steps ? more_steps->take(std::max(SharedSteps::kPart, steps - steps_left)) : 0;
      if (more == 0) return steps_left = 0, false;
      steps_left += more;
    }
    steps_left -= steps;
    return true;
  }
  // A limit was met: what was walked is of no use.
  bool exhausted() const { return exhausted_; }
  void set_exhausted(bool is) { exhausted_ = is; }

 private:
  struct Hash {
    size_t operator()(const Frame& f) const {
      uint64_t x = (uint64_t(f.call) << 32 | f.parent) * 0x9e3779b97f4a7c15ull;
      return size_t((x ^ (x >> 29) ^ f.count) * 0xbf58476d1ce4e5b9ull >> 16);
    }
  };
  void close(Position& out);
  bool visit(Item item);
  void pop(FrameId frame, Position& out);
  void call(uint32_t index, FrameId frame);

  const Automaton& automaton_;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, FrameId, Hash> ids_;
  std::vector<Item> open_, seen_;
  std::unordered_map<uint64_t, bool> many_seen_;  // beside seen_, once that is long
  bool exhausted_ = false;
};

}  // namespace grammar
