#include "generation/prefill_shares.h"

#include <algorithm>
#include <tuple>

namespace weir::generation {
namespace {

constexpr uint32_t kQuantum = 16;    // tokens that a tenant has in its turn, at least
constexpr uint32_t kMostTurns = 64;  // in a step, about
constexpr uint32_t kOldestPart = 4;  // a quarter

using Prompt = PrefillShares::Prompt;

void give(Prompt& prompt, uint32_t tokens) { prompt.given += tokens, prompt.left -= tokens; }

bool shorter(const Prompt& a, const Prompt& b) {
  return std::tie(a.left, a.sequence->arrival) < std::tie(b.left, b.sequence->arrival);
}

}  // namespace

void PrefillShares::share(std::vector<Prompt>& prompts, uint32_t budget) {
  std::sort(prompts.begin(), prompts.end(), [](const auto& a, const auto& b) {
    return std::tie(a.sequence->level, a.sequence->call->tenant, a.left, a.sequence->arrival) <
           std::tie(b.sequence->level, b.sequence->call->tenant, b.left, b.sequence->arrival);
  });
  keep_present(prompts);
  for (size_t from = 0, to = 0; from < prompts.size() && budget > 0; from = to) {
    uint32_t level = prompts[from].sequence->level;
    while (to < prompts.size() && prompts[to].sequence->level == level) ++to;
    share_level(std::span(prompts).subspan(from, to - from), budget);
  }
}

// A tenant that has no prompt is forgotten. One that comes begins beside the one that was given least: it does not make
// up for the time in which it was away.
void PrefillShares::keep_present(std::span<const Prompt> prompts) {
  std::map<uint64_t, uint64_t> present;
  uint64_t least = UINT64_MAX;
  for (const auto& prompt : prompts)
    if (auto at = given_.find(prompt.sequence->call->tenant); at != given_.end())
      present.insert(*at), least = std::min(least, at->second);
  for (auto& each : present) each.second -= least;
  for (const auto& prompt : prompts) present.try_emplace(prompt.sequence->call->tenant, 0);
  given_ = std::move(present);
}

void PrefillShares::share_level(std::span<Prompt> prompts, uint32_t& budget) {
  auto oldest = std::min_element(prompts.begin(), prompts.end(), [](const auto& a, const auto& b) {
    return a.sequence->arrival < b.sequence->arrival;
  });
  auto part = uint32_t(std::min<uint64_t>(oldest->left, std::max(budget / kOldestPart, 1u)));
  give(*oldest, part);
  budget -= part;
  line_up(prompts);
  const uint32_t quantum = std::max(kQuantum, budget / kMostTurns);
  while (budget > 0 && !turns_.empty()) {
    auto turn = std::min_element(turns_.begin(), turns_.end(), [](const auto& a, const auto& b) {
      return a.given != b.given ? a.given < b.given : shorter(a.prompts.front(), b.prompts.front());
    });
    auto& prompt = turn->prompts.front();
    auto tokens = uint32_t(std::min<uint64_t>({prompt.left, quantum, budget}));
    give(prompt, tokens);
    budget -= tokens;
    given_[turn->tenant] = turn->given += tokens;
    if (prompt.left == 0) turn->prompts = turn->prompts.subspan(1);
    if (turn->prompts.empty()) turns_.erase(turn);
  }
}

// The oldest prompt has less left than before, or nothing.
void PrefillShares::line_up(std::span<Prompt> prompts) {
  turns_.clear();
  for (size_t from = 0, to = 0; from < prompts.size(); from = to) {
    uint64_t tenant = prompts[from].sequence->call->tenant;
    while (to < prompts.size() && prompts[to].sequence->call->tenant == tenant) ++to;
    auto own = prompts.subspan(from, to - from);
    std::sort(own.begin(), own.end(), shorter);
    while (!own.empty() && own.front().left == 0) own = own.subspan(1);
    if (!own.empty()) turns_.push_back({own, tenant, given_[tenant]});
  }
}

}  // namespace weir::generation
