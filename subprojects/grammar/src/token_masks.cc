#include "token_masks.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "matcher_parts.h"

namespace grammar {
namespace {

constexpr uint32_t kLongestToken = 254;  // that Vocabulary::TrieNode::longest tells from longer ones
constexpr uint32_t kMostCounts = 4096;   // of one call whose masks are found ahead
constexpr size_t kManyLeaves = 64;
constexpr uint32_t kWideLeaf = 256;   // nodes of the trie
constexpr size_t kMostCostly = 1024;  // masks that were not found, of one automaton
constexpr uint64_t kLookUpSteps = 8;  // a mask that is there already costs about as much as so many steps

// Everything that a text may come to: the rules, in the order of their numbers, and the counted calls.
struct Reachable {
  std::vector<uint32_t> plain_rules, counted_calls;
};

Reachable find_reachable(const Automaton& automaton) {
  Reachable out;
  std::vector<bool> seen(automaton.states.size()), plain(automaton.starts.size());
  std::vector<uint32_t> open{automaton.start};
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const auto& state = automaton.states[at];
    for (uint32_t e = state.edge; e < state.edges_end; ++e) open.push_back(automaton.edges[e].target);
    for (uint32_t c = state.call; c < state.calls_end; ++c) {
      const auto& call = automaton.calls[c];
      open.push_back(call.target), open.push_back(automaton.starts[call.rule]);
      if (call.counts())
        out.counted_calls.push_back(c);
      else
        plain[call.rule] = true;
    }
  }
  for (uint32_t rule = 0; rule < plain.size(); ++rule)
    if (plain[rule] || automaton.starts[rule] == automaton.start) out.plain_rules.push_back(rule);
  return out;
}

// The states of each rule that take bytes, found when they are first asked for.
class RuleStates {
 public:
  explicit RuleStates(const Automaton& automaton)
      : automaton_(automaton), of_(automaton.starts.size()), seen_(automaton.states.size(), UINT32_MAX) {}

  const std::vector<uint32_t>& of(uint32_t rule) {
    std::vector<uint32_t>& out = of_[rule];
    std::vector<uint32_t> open{automaton_.starts[rule]};
    if (seen_[open[0]] == rule) open.clear();
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (std::exchange(seen_[at], rule) == rule) continue;
      const auto& state = automaton_.states[at];
      if (state.edge != state.edges_end) out.push_back(at);
      for (uint32_t e = state.edge; e < state.edges_end; ++e) open.push_back(automaton_.edges[e].target);
      for (uint32_t c = state.call; c < state.calls_end; ++c) open.push_back(automaton_.calls[c].target);
    }
    return out;
  }

 private:
  const Automaton& automaton_;
  std::vector<std::vector<uint32_t>> of_;
  std::vector<uint32_t> seen_;  // per state: the rule that it is of
};

}  // namespace

// ---- What matchers share

TokenAutomaton::TokenAutomaton(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
                               std::shared_ptr<MaskBudget> budget)
    : automaton_(std::move(automaton)),
      vocabulary_(std::move(vocabulary)),
      cache_(std::make_unique<Cache>(budget ? std::move(budget) : std::make_shared<MaskBudget>(kMostMaskBytes))) {}

TokenAutomaton::~TokenAutomaton() = default;

size_t TokenAutomaton::bytes() const {
  return cache_->kept() + automaton_->states.size() * sizeof(Automaton::State) +
         automaton_->edges.size() * sizeof(Automaton::Edge) + automaton_->calls.size() * sizeof(Automaton::Call);
}

std::shared_ptr<const LocalMask> TokenAutomaton::Cache::find(const LocalKey& key) {
  std::lock_guard lock(mutex);
  auto at = masks.find(key);
  return at == masks.end() ? nullptr : at->second;
}

// Where there is no room among its own, these go; where there is none in the budget, those of one that has many.
void TokenAutomaton::Cache::put(const LocalKey& key, std::shared_ptr<const LocalMask> mask) {
  const size_t more = mask->bytes() + 64;
  if (kept() + more > kMostMaskBytes) drop();
  if (!budget->take_from_large(more)) return;
  std::unique_lock lock(mutex);
  if (masks.emplace(key, std::move(mask)).second) return void(bytes += more);
  lock.unlock();
  budget->give(more);
}

std::shared_ptr<const void> TokenAutomaton::Cache::drop() {
  auto gone = std::make_shared<Masks>();
  std::lock_guard lock(mutex);
  gone->swap(masks);
  budget->give(bytes.exchange(0));
  return gone;
}

// ---- What they may keep together

void MaskBudget::join(Holder& holder) {
  std::lock_guard lock(mutex_);
  holders_.push_back(&holder);
}

void MaskBudget::leave(Holder& holder) {
  std::lock_guard lock(mutex_);
  std::erase(holders_, &holder);
}

// One of them at random: the largest alone would lose its masks again and again where many are almost as large.
bool MaskBudget::drop_large() {
  std::shared_ptr<const void> gone;
  std::lock_guard lock(mutex_);
  std::vector<size_t> kept;
  for (const Holder* holder : holders_) kept.push_back(holder->kept());
  const size_t sum = std::accumulate(kept.begin(), kept.end(), size_t(0));
  if (sum == 0) return false;
  std::vector<Holder*> large;
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] > 0 && kept[i] >= sum / kept.size()) large.push_back(holders_[i]);
  draw_ = draw_ * 6364136223846793005 + 1442695040888963407;
  gone = large[(draw_ >> 33) % large.size()]->drop();
  return true;
}

uint64_t TokenAutomaton::Cache::too_few(const LocalKey& key) {
  std::lock_guard lock(mutex);
  auto at = costly.find(key);
  return at == costly.end() ? 0 : at->second;
}

void TokenAutomaton::Cache::put_too_few(const LocalKey& key, uint64_t few) {
  std::lock_guard lock(mutex);
  if (costly.size() >= kMostCostly && !costly.contains(key)) costly.clear();
  auto& at = costly[key];
  at = std::max(at, few);
}

uint64_t TokenAutomaton::steps() const { return cache_->steps_taken.load(std::memory_order_relaxed); }

// ---- The mask of one state

LocalKey Matcher::Parts::counted_key(uint32_t state, uint32_t index, uint32_t count) const {
  const auto& call = shared.automaton().calls[index];
  const uint32_t reach = shared.vocabulary().longest() + 1;
  const uint32_t left = call.most == kUnbounded ? reach : std::min(reach, call.most - count);
  return {state, index, std::min(reach, call.least - std::min(call.least, count)), left};
}

std::shared_ptr<const LocalMask> Matcher::Parts::local_mask(const LocalKey& key, uint32_t count) {
  auto& cache = shared.cache();
  if (auto found = cache.find(key)) return found;
  if (cache.too_few(key) > stacks.steps_there()) return stacks.set_exhausted(true), nullptr;
  const size_t frames = stacks.frames();
  std::shared_ptr<const LocalMask> uncounted, mask;
  const bool shortens = has_uncounted(key);
  if (shortens) uncounted = local_mask({key.state, key.call, 0, kUncounted}, kUncounted);
  if (shortens && !uncounted) return stacks.shrink(frames), nullptr;
  const uint64_t wanted = stacks.steps_wanted;
  mask = find_mask(key, count, uncounted.get());
  stacks.shrink(frames);
  if (mask)
    cache.put(key, mask);
  else
    cache.put_too_few(key, stacks.steps_left == 0 ? stacks.steps_wanted - wanted : TokenAutomaton::Cache::kNoSteps);
  return mask;
}

// The mask without a count says much of one with it: its short tokens are the same.
bool Matcher::Parts::has_uncounted(const LocalKey& key) {
  return key.call != UINT32_MAX && key.needed == 0 && key.left < kUncounted &&
         !takes_nothing(shared.automaton().calls[key.call].rule);
}

std::shared_ptr<LocalMask> Matcher::Parts::find_mask(const LocalKey& key, uint32_t count, const LocalMask* uncounted) {
  const auto& vocabulary = shared.vocabulary();
  const auto& nodes = vocabulary.nodes();
  auto mask = std::make_shared<LocalMask>();
  uint32_t above = 0;
  const bool counted = key.call != UINT32_MAX;
  if (uncounted) {
    above = std::min(key.left, kLongestToken);
    take_short(*uncounted, above, *mask);
  }
  Position from;
  from.items = {{key.state, counted ? stacks.push(key.call, count, kUnknownFrame) : kUnknownFrame}};
  auto found = [&](uint32_t i, const Position& at) {
    for (uint32_t t = nodes[i].token; t < nodes[i].tokens_end; ++t) mask->tokens.push_back(vocabulary.tokens()[t]);
    if (at.leaves && nodes[i].end > i + 1) mask->leaves.push_back(i);
  };
  walk.run(nodes, 0, uint32_t(nodes.size()), from, found, above);
  if (stacks.exhausted()) return nullptr;
  const size_t words = (vocabulary.size() + 31) / 32;
  if (mask->tokens.size() > words) {
    mask->words.resize(words);
    for (uint32_t id : mask->tokens) mask->words[id / 32] |= 1u << id % 32;
    mask->tokens = {};
  }
  mask->tokens.shrink_to_fit(), mask->leaves.shrink_to_fit();
  if (mask->leaves.size() >= kManyLeaves) find_rests(*mask);
  return mask;
}

// Leaves with much below stay as they are: a walk leaves most of that out at its first byte.
void Matcher::Parts::find_rests(LocalMask& mask) {
  const auto& vocabulary = shared.vocabulary();
  const auto& nodes = vocabulary.nodes();
  std::vector<std::string_view> rests;
  std::vector<uint32_t> tokens, ends;  // ends: of the nodes on the way from the leaf
  for (uint32_t leaf : mask.leaves) {
    if (nodes[leaf].end - leaf > kWideLeaf) {
      mask.wide.push_back(leaf);
      continue;
    }
    ends.clear();
    for (uint32_t i = leaf + 1; i < nodes[leaf].end; ++i) {
      while (!ends.empty() && i >= ends.back()) ends.pop_back();
      ends.push_back(nodes[i].end);
      for (uint32_t t = nodes[i].token; t < nodes[i].tokens_end; ++t) {
        const std::string_view bytes = vocabulary.bytes(vocabulary.tokens()[t]);
        rests.push_back(bytes.substr(bytes.size() - ends.size()));
        tokens.push_back(vocabulary.tokens()[t]);
      }
    }
  }
  (void)stacks.take_steps(rests.size());
  mask.rests = std::make_unique<const TokenRests>(TokenRests{Vocabulary(rests), std::move(tokens)});
}

// A repetition takes a byte at least, so that `most` of them are enough for a token of as many bytes: these are as in
// the mask of a call that is not counted. Tokens and leaves that are also found by a walk to longer tokens do no harm.
void Matcher::Parts::take_short(const LocalMask& uncounted, uint32_t most, LocalMask& out) const {
  const auto& vocabulary = shared.vocabulary();
  auto take = [&](uint32_t id) {
    if (vocabulary.length(id) <= most) out.tokens.push_back(id);
  };
  for (uint32_t id : uncounted.tokens) take(id);
  for (uint32_t w = 0; w < uncounted.words.size(); ++w)
    for (uint32_t bits = uncounted.words[w]; bits != 0; bits &= bits - 1)
      take(w * 32 + uint32_t(std::countr_zero(bits)));
  for (uint32_t leaf : uncounted.leaves)
    if (vocabulary.nodes()[leaf].longest <= most) out.leaves.push_back(leaf);
}

// Whether the rule matches the empty text.
bool Matcher::Parts::takes_nothing(uint32_t rule) {
  stacks.enter({shared.automaton().starts[rule], kUnknownFrame}, next);
  return next.leaves;
}

// ---- All masks, ahead of any text

// A mask that takes more steps than a text may have is left out: what is remembered of it spares the texts the search.
bool TokenAutomaton::find_masks(uint64_t steps, const std::atomic<bool>* cancelled) const {
  const auto& automaton = *automaton_;
  Matcher::Parts parts(*this);
  RuleStates states(automaton);
  bool all = true;
  auto find = [&](const LocalKey& key, uint32_t count) {
    if (steps < kLookUpSteps || (cancelled && cancelled->load(std::memory_order_relaxed))) return false;
    steps -= kLookUpSteps;
    const uint64_t most = std::min(steps, SharedSteps::kMost + Matcher::Parts::kStepsPerToken);
    parts.stacks.steps_left = most;
    all = parts.local_mask(key, count) != nullptr && all;
    parts.stacks.set_exhausted(false);
    steps -= most - parts.stacks.steps_left;
    return true;
  };
  const Reachable reachable = find_reachable(automaton);
  for (uint32_t rule : reachable.plain_rules)
    for (uint32_t state : states.of(rule))
      if (!find({state}, 0)) return false;
  for (uint32_t index : reachable.counted_calls) {
    const auto& call = automaton.calls[index];
    const uint32_t end = std::min(kMostCounts, call.most == kUnbounded ? call.least + 1 : call.most);
    for (uint32_t state : states.of(call.rule))
      for (uint32_t count = 0; count < end; ++count)
        if (!find(parts.counted_key(state, index, count), count)) return false;
  }
  return all;
}

}  // namespace grammar
