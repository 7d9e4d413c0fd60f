#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "matcher_parts.h"

namespace grammar {
namespace {

constexpr uint64_t kStepsPerByte = 100'000;  // of one byte that is accepted
constexpr size_t kManyFrames = 4096;         // the unused ones are looked for

}  // namespace

bool Matcher::Parts::accept(std::string_view bytes) {
  shared.cache().steps.give(std::min(stacks.steps_left, kStepsPerToken));
  for (char byte : bytes) {
    stacks.steps_left = kStepsPerByte;
    stacks.advance(position, uint8_t(byte), next);
    std::swap(position, next);
    if (position.dead() || stacks.exhausted()) return false;
  }
  stacks.steps_left = kStepsPerToken;
  std::sort(position.items.begin(), position.items.end());
  if (stacks.frames() > kManyFrames) stacks.collect(position);
  return !bytes.empty();
}

// `base`: the frame below what is local: the body of a counted call is local to whoever has called it.
LocalKey Matcher::Parts::key_of(const Item& item, FrameId& base) const {
  LocalKey key{item.state};
  base = item.frame;
  if (item.frame <= kUnknownFrame) return key;
  const Frame& frame = stacks.frame(item.frame);
  if (!shared.automaton().calls[frame.call].counts()) return key;
  base = frame.parent;
  return counted_key(item.state, frame.call, frame.count);
}

void Matcher::Parts::add_local(const LocalMask& local, std::span<uint32_t> words) const {
  for (uint32_t id : local.tokens) words[id / 32] |= 1u << id % 32;
  for (size_t i = 0; i < local.words.size(); ++i) words[i] |= local.words[i];
}

// Tokens that go on behind the rule.
void Matcher::Parts::add_leaves(const LocalMask& local, FrameId base, std::span<uint32_t> words) {
  if (local.leaves.empty() || base == kRootFrame) return;
  const auto& nodes = shared.vocabulary().nodes();
  const auto& tokens = shared.vocabulary().tokens();
  const size_t frames = stacks.frames();
  stacks.leave(base, next);
  auto set = [&](uint32_t id) { words[id / 32] |= 1u << id % 32; };
  if (!next.items.empty()) {
    for (uint32_t leaf : local.rests ? local.wide : local.leaves) {
      walk.run(nodes, leaf + 1, nodes[leaf].end, next, [&](uint32_t i, const Position&) {
        for (uint32_t t = nodes[i].token; t < nodes[i].tokens_end; ++t) set(tokens[t]);
      });
      if (stacks.exhausted()) break;
    }
    if (local.rests) {
      const Vocabulary& rests = local.rests->rests;
      walk.run(rests.nodes(), 0, uint32_t(rests.nodes().size()), next, [&](uint32_t i, const Position&) {
        const auto& node = rests.nodes()[i];
        for (uint32_t t = node.token; t < node.tokens_end; ++t) set(local.rests->tokens[rests.tokens()[t]]);
      });
    }
  }
  stacks.shrink(frames);
}

bool Matcher::Parts::mask(std::span<uint32_t> words) {
  std::fill(words.begin(), words.end(), 0);
  if (stacks.exhausted()) return false;
  auto& cache = shared.cache();
  stacks.more_steps = &cache.steps, stacks.steps_wanted = 0;
  const bool found = add_masks(words);
  stacks.more_steps = nullptr;
  cache.steps_taken.fetch_add(stacks.steps_wanted, std::memory_order_relaxed);
  if (stacks.steps_left > kStepsPerToken) {
    cache.steps.give(stacks.steps_left - kStepsPerToken);
    stacks.steps_left = kStepsPerToken;
  }
  return found;
}

bool Matcher::Parts::add_masks(std::span<uint32_t> words) {
  for (size_t i = 0; i < position.items.size(); ++i) {
    const Item item = position.items[i];
    FrameId base = kRootFrame;
    const LocalKey key = key_of(item, base);
    auto local = local_mask(key, stacks.frame(item.frame).count);
    if (!local) return false;
    add_local(*local, words);
    add_leaves(*local, base, words);
    if (stacks.exhausted()) return false;
  }
  return true;
}

Matcher::Matcher(std::shared_ptr<const TokenAutomaton> shared)
    : shared_(std::move(shared)), parts_(std::make_unique<Parts>(*shared_)) {}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

bool Matcher::accept(std::string_view bytes) { return parts_->accept(bytes); }
bool Matcher::mask(std::span<uint32_t> words) { return parts_->mask(words); }
bool Matcher::accepting() const { return parts_->position.accepting; }
bool Matcher::complete() const { return parts_->position.accepting && parts_->position.items.empty(); }

}  // namespace grammar
