#include "stacks.h"

#include <algorithm>

namespace grammar {
namespace {

constexpr size_t kFewSeen = 24;
constexpr uint64_t kVisitSteps = 4;  // a visit costs about as much as so many plain steps

}  // namespace

FrameId Stacks::push(uint32_t call, uint32_t count, FrameId parent) {
  const Frame frame{call, count, parent, frames_[parent].depth + 1};
  auto [at, fresh] = ids_.try_emplace(frame, FrameId(frames_.size()));
  if (fresh) frames_.push_back(frame);
  return at->second;
}

void Stacks::shrink(size_t count) {
  for (; frames_.size() > count; frames_.pop_back()) ids_.erase(frames_.back());
}

void Stacks::collect(Position& position) {
  std::vector<Frame> old = std::move(frames_);
  std::vector<FrameId> to(old.size(), kRootFrame);
  std::vector<char> needed(old.size());
  for (const Item& item : position.items)
    for (FrameId f = item.frame; f > kUnknownFrame && !needed[f]; f = old[f].parent) needed[f] = 1;
  frames_.assign(old.begin(), old.begin() + 2);
  to[kUnknownFrame] = kUnknownFrame;
  ids_.clear();
  // Parents were pushed before their children.
  for (FrameId f = 2; f < old.size(); ++f)
    if (needed[f]) to[f] = push(old[f].call, old[f].count, to[old[f].parent]);
  for (Item& item : position.items) item.frame = to[item.frame];
}

void Stacks::enter(Item item, Position& out) {
  out.clear();
  open_.assign(1, item);
  close(out);
}

void Stacks::leave(FrameId frame, Position& out) {
  out.clear();
  open_.clear();
  pop(frame, out);
  close(out);
}

void Stacks::advance(const Position& from, uint8_t byte, Position& out) {
  out.clear();
  open_.clear();
  for (const Item& item : from.items) {
    const auto& state = automaton_.states[item.state];
    for (uint32_t e = state.edge; e < state.edges_end; ++e) {
      const auto& edge = automaton_.edges[e];
      if (byte >= edge.first && byte <= edge.last) open_.push_back({edge.target, item.frame});
    }
  }
  if (!take_steps(open_.size())) exhausted_ = true, open_.clear();
  if (open_.size() == 1 && automaton_.states[open_[0].state].plain())
    out.items.push_back(open_[0]);
  else if (!open_.empty())
    close(out);
}

bool Stacks::visit(Item item) {
  if (seen_.size() < kFewSeen) {
    if (std::find(seen_.begin(), seen_.end(), item) != seen_.end()) return false;
    seen_.push_back(item);
    return true;
  }
  if (std::find(seen_.begin(), seen_.end(), item) != seen_.end()) return false;
  return many_seen_.try_emplace(uint64_t(item.state) << 32 | item.frame, true).second;
}

// Follows calls, and ends of rules, until only states that take bytes are left.
void Stacks::close(Position& out) {
  seen_.clear();
  if (!many_seen_.empty()) many_seen_.clear();
  while (!open_.empty()) {
    const Item item = open_.back();
    open_.pop_back();
    if (!take_steps(kVisitSteps)) exhausted_ = true;
    if (exhausted_) return out.clear();
    if (!visit(item)) continue;
    const auto& state = automaton_.states[item.state];
    if (state.accepting) pop(item.frame, out);
    for (uint32_t c = state.call; c < state.calls_end; ++c) call(c, item.frame);
    if (state.edge == state.edges_end) continue;
    if (out.items.size() == kMostItems) exhausted_ = true;
    out.items.push_back(item);
  }
}

void Stacks::pop(FrameId id, Position& out) {
  if (id == kRootFrame) out.accepting = true;
  if (id == kUnknownFrame) out.leaves = true;
  if (id <= kUnknownFrame) return;
  const Frame frame = frames_[id];
  const auto& call = automaton_.calls[frame.call];
  if (!call.counts()) return open_.push_back({call.target, frame.parent});
  if (frame.count == kUncounted) {
    open_.push_back({call.target, frame.parent});
    return open_.push_back({automaton_.starts[call.rule], id});
  }
  uint32_t count = frame.count + 1;
  if (call.most == kUnbounded) count = std::min(count, call.least);
  if (count >= call.least) open_.push_back({call.target, frame.parent});
  if (count < call.most) open_.push_back({automaton_.starts[call.rule], push(frame.call, count, frame.parent)});
}

void Stacks::call(uint32_t index, FrameId frame) {
  const auto& call = automaton_.calls[index];
  if (call.last) return open_.push_back({automaton_.starts[call.rule], frame});
  if (call.counts() && call.least == 0) open_.push_back({call.target, frame});
  // Calls that are nested more deeply are not offered.
  if (frames_[frame].depth >= kDeepest) return;
  if (frames_.size() >= kMostFrames) exhausted_ = true;
  if (!exhausted_) open_.push_back({automaton_.starts[call.rule], push(index, 0, frame)});
}

}  // namespace grammar
