#include "generation/step_budget.h"

#include <bit>

namespace weir::generation {
namespace {

using base::Duration;

constexpr uint32_t kFirstChunk = 16;   // tokens, before anything is known
constexpr uint32_t kLeastChunk = 4;    // tokens
constexpr uint32_t kGrowth = 2;        // times the last chunk
constexpr uint32_t kShortContext = 8;  // bits: contexts below 256 are one range
constexpr uint32_t kMeasureAgain = 512;
constexpr int kPromptsAlone = 5;
constexpr double kBesideDecodes = 2;
constexpr int kLeastBesideDecodes = 4;  // the target over this

double speed(uint32_t tokens, Duration took) { return double(tokens) / double(std::max<int64_t>(took.count(), 1)); }

}  // namespace

StepBudget::Sample StepBudget::Samples::median() const {
  auto sorted = kept;
  auto end = sorted.begin() + std::min<uint32_t>(count, uint32_t(sorted.size()));
  std::sort(sorted.begin(), end,
            [](const auto& a, const auto& b) { return speed(a.tokens, a.took) < speed(b.tokens, b.took); });
  return sorted[size_t(end - sorted.begin() - 1) / 2];
}

uint32_t StepBudget::Samples::largest_prefill() const {
  uint32_t most = 0;
  for (const auto& sample : kept) most = std::max(most, sample.prefill);
  return most;
}

size_t StepBudget::range_of(uint32_t context) {
  return std::min<size_t>(size_t(std::bit_width(context >> kShortContext)), kRanges - 1);
}

StepBudget::Decodes& StepBudget::like(uint32_t decodes) {
  return decodes_alone_[std::min<size_t>(size_t(std::bit_width(decodes)), kRanges - 1)];
}

Duration StepBudget::wanted(uint32_t decodes) {
  if (decodes == 0) return kPromptsAlone * target_;
  auto alone = like(decodes).samples.median().took;
  return std::max(target_ / kLeastBesideDecodes, Duration(int64_t(kBesideDecodes * double(alone.count()))));
}

// The range of this context, else the next shorter one, else the next longer one; null when no step was measured.
const StepBudget::Samples* StepBudget::nearest(size_t range) const {
  for (size_t r = range + 1; r-- > 0;)
    if (with_prompts_[r].count > 0) return &with_prompts_[r];
  for (size_t r = range + 1; r < kRanges; ++r)
    if (with_prompts_[r].count > 0) return &with_prompts_[r];
  return nullptr;
}

uint32_t StepBudget::prefill_tokens(StepLoad& load) {
  if (target_ <= Duration(0)) return most_ - load.decodes;
  auto& alone = like(load.decodes);
  if (load.decodes > 0 && (alone.samples.count == 0 || alone.steps_since >= kMeasureAgain)) return 0;
  load.wanted = wanted(load.decodes);
  load.allowed = kFirstChunk;
  if (const auto* known = nearest(range_of(load.context))) {
    auto usual = known->median();
    double room = speed(usual.tokens, usual.took) * double(load.wanted.count()) - double(load.decodes);
    double most = double(kGrowth) * std::max(known->largest_prefill(), kLeastChunk);
    load.allowed = uint32_t(std::clamp(room, double(kLeastChunk), most));
  }
  return load.allowed = std::min(load.allowed, most_ - load.decodes);
}

// A chunk that was small because its prompt ended tells nothing of larger ones, unless it took too long.
void StepBudget::record(const StepLoad& load, Duration took) {
  if (target_ <= Duration(0)) return;
  auto& alone = like(load.decodes);
  if (load.prefill == 0) {
    alone.samples.add({load.decodes, 0, took});
    alone.steps_since = 0;
    return;
  }
  ++alone.steps_since;
  auto& samples = with_prompts_[range_of(load.context)];
  if (samples.count > 0 && uint64_t(load.prefill) * 2 < load.allowed && took <= load.wanted) return;
  samples.add({load.decodes + load.prefill, load.prefill, took});
}

}  // namespace weir::generation
