#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "token_masks.h"

namespace grammar {
namespace {

// The steps that a matcher may take: at its beginning, and for each token more. A step takes 5 to 20 ns.
constexpr uint64_t kFirstSteps = 20'000'000, kStepsPerToken = 100'000, kMostSteps = 40'000'000;
constexpr uint64_t kStepsPerByte = 100'000;  // of one byte that is accepted
constexpr size_t kManyFrames = 4096;         // the unused ones are looked for

}  // namespace

// ---- What matchers share

TokenAutomaton::TokenAutomaton(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary)
    : automaton_(std::move(automaton)), vocabulary_(std::move(vocabulary)), cache_(std::make_unique<Cache>()) {}

TokenAutomaton::~TokenAutomaton() = default;

size_t TokenAutomaton::bytes() const {
  std::lock_guard lock(cache_->mutex);
  return cache_->bytes + automaton_->states.size() * sizeof(Automaton::State) +
         automaton_->edges.size() * sizeof(Automaton::Edge) + automaton_->calls.size() * sizeof(Automaton::Call);
}

std::shared_ptr<const LocalMask> TokenAutomaton::Cache::find(const LocalKey& key) {
  std::lock_guard lock(mutex);
  auto at = masks.find(key);
  return at == masks.end() ? nullptr : at->second;
}

void TokenAutomaton::Cache::put(const LocalKey& key, std::shared_ptr<const LocalMask> mask) {
  std::lock_guard lock(mutex);
  if (bytes + mask->bytes() > kMostBytes) masks.clear(), bytes = 0;
  auto [at, fresh] = masks.try_emplace(key, std::move(mask));
  if (fresh) bytes += at->second->bytes() + 64;
}

// ---- One text

struct Matcher::Parts {
  explicit Parts(const TokenAutomaton& from) : shared(from), stacks(from.automaton()), walk(stacks, from.vocabulary()) {
    stacks.steps_left = kFirstSteps;
    stacks.enter({from.automaton().start, kRootFrame}, position);
  }

  bool accept(std::string_view bytes);
  bool mask(std::span<uint32_t> words);
  void add_local(const LocalMask& local, std::span<uint32_t> words) const;
  void add_leaves(const LocalMask& local, FrameId base, std::span<uint32_t> words);
  LocalKey key_of(const Item& item, FrameId& base) const;
  std::shared_ptr<const LocalMask> local_mask(const Item& item, const LocalKey& key);

  const TokenAutomaton& shared;
  Stacks stacks;
  TrieWalk walk;
  Position position, next;
  std::vector<uint32_t> leaves;  // keeps its capacity
};

bool Matcher::Parts::accept(std::string_view bytes) {
  const uint64_t saved = stacks.steps_left;
  for (char byte : bytes) {
    stacks.steps_left = kStepsPerByte;
    stacks.advance(position, uint8_t(byte), next);
    std::swap(position, next);
    if (position.dead() || stacks.exhausted()) return false;
  }
  stacks.steps_left = std::min(saved + kStepsPerToken, kMostSteps);
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
  const auto& call = shared.automaton().calls[frame.call];
  if (!call.counts()) return key;
  const uint32_t reach = shared.vocabulary().longest() + 1;
  key.call = frame.call;
  key.needed = std::min(reach, call.least - std::min(call.least, frame.count));
  key.left = call.most == kUnbounded ? reach : std::min(reach, call.most - frame.count);
  base = frame.parent;
  return key;
}

std::shared_ptr<const LocalMask> Matcher::Parts::local_mask(const Item& item, const LocalKey& key) {
  if (auto found = shared.cache().find(key)) return found;
  const auto& vocabulary = shared.vocabulary();
  const auto& nodes = vocabulary.nodes();
  auto mask = std::make_shared<LocalMask>();
  const size_t frames = stacks.frames();
  FrameId frame = kUnknownFrame;
  if (key.call != UINT32_MAX) frame = stacks.push(key.call, stacks.frame(item.frame).count, kUnknownFrame);
  Position from;
  from.items = {{item.state, frame}};
  walk.run(0, uint32_t(nodes.size()), from, [&](uint32_t i, const Position& at) {
    for (uint32_t t = nodes[i].token; t < nodes[i].tokens_end; ++t) mask->tokens.push_back(vocabulary.tokens()[t]);
    if (at.leaves && nodes[i].end > i + 1) mask->leaves.push_back(i);
  });
  stacks.shrink(frames);
  if (stacks.exhausted()) return nullptr;
  const size_t words = (vocabulary.size() + 31) / 32;
  if (mask->tokens.size() > words) {
    mask->words.resize(words);
    for (uint32_t id : mask->tokens) mask->words[id / 32] |= 1u << id % 32;
    mask->tokens = {};
  }
  mask->tokens.shrink_to_fit(), mask->leaves.shrink_to_fit();
  shared.cache().put(key, mask);
  return mask;
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
  if (!next.items.empty())
    for (uint32_t leaf : local.leaves) {
      walk.run(leaf + 1, nodes[leaf].end, next, [&](uint32_t i, const Position&) {
        for (uint32_t t = nodes[i].token; t < nodes[i].tokens_end; ++t) words[tokens[t] / 32] |= 1u << tokens[t] % 32;
      });
      if (stacks.exhausted()) break;
    }
  stacks.shrink(frames);
}

bool Matcher::Parts::mask(std::span<uint32_t> words) {
  std::fill(words.begin(), words.end(), 0);
  if (stacks.exhausted()) return false;
  for (size_t i = 0; i < position.items.size(); ++i) {
    const Item item = position.items[i];
    FrameId base = kRootFrame;
    const LocalKey key = key_of(item, base);
    auto local = local_mask(item, key);
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
