// SamplingPlan: what a step's logits requests become: draws, changed logits before them, logprobs. Pure; reused from
// step to step.
//
// Logits are there for some requests at a time (a group). Where penalties, biases, held ends or ids that are not drawn
// change them, they are changed in a copy, kAdjustedAtOnce rows at a time, since logprobs are of what the model said.
// Masks of forms are left for the time when the device is at work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engines/llm/cuda/kernels.h"
#include "generation/engine.h"

namespace weir::llm::cuda {

inline constexpr uint32_t kAdjustedAtOnce = 32;

struct Range {
  uint32_t first = 0, count = 0;
};

struct LogitsGroup {
  Range requests;               // of the step's
  Range draws;                  // from the logits as they are
  std::vector<Range> adjusts;   // each at most kAdjustedAtOnce; draw `first_adjusted` + i is from adjust i
  uint32_t first_adjusted = 0;  // draws
  Range logprobs;
};

// Words of a mask over so many tokens.
constexpr size_t mask_words(uint32_t vocabulary) { return (size_t(vocabulary) + 31) / 32; }

class SamplingPlan {
 public:
  // `at_once`: requests of a group. Those of `never` are not drawn.
  SamplingPlan(uint32_t vocabulary, std::span<const uint32_t> eos_ids, uint32_t at_once,
               std::span<const uint32_t> never = {})
      : vocabulary_(vocabulary), eos_ids_(eos_ids), never_(never), at_once_(at_once), entry_(vocabulary, kNone) {}

  // `fed`: the step's ids, where one of them may be kSampled.
  void plan(std::span<const generation::TokenStep::LogitsRequest> logits_requests, std::span<const uint32_t> fed = {});

  std::vector<LogitsGroup> groups;
  std::vector<uint32_t> ids;  // per request: whose logprob is asked for; of a draw 0
  std::vector<DrawRow> draws;
  std::vector<uint32_t> from, to;  // per draw
  std::vector<AdjustRow> adjusts;
  std::vector<Change> changes;
  std::vector<msg::TokenConstraint*> masked;  // whose masks the rows of `adjusts` name, in order; borrowed
  std::vector<LogprobRow> logprobs;
  uint32_t most = 0;     // the largest `top`
  bool scores = false;   // `ids` are needed on the device
  bool follows = false;  // a change depends on what the step before has sampled

  // The masks of `masked`, as Adjust takes them. Finds those that are not found yet, which takes its time.
  void write_masks(uint32_t* to) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  void clear();
  bool is_adjusted(const generation::TokenStep::LogitsRequest& request) const;
  void plan_group(std::span<const generation::TokenStep::LogitsRequest> logits_requests, std::span<const uint32_t> fed,
                  Range range);
  void add_draw(const generation::TokenStep::LogitsRequest& request, uint32_t from, uint32_t to);
  void add_adjust(const generation::TokenStep::LogitsRequest& request, std::span<const uint32_t> fed, uint32_t row);
  Change& change(uint32_t id);

  const uint32_t vocabulary_;
  const std::span<const uint32_t> eos_ids_, never_;  // borrowed
  const uint32_t at_once_;
  std::vector<uint32_t> entry_;  // per id: its change of the present row
};

}  // namespace weir::llm::cuda
