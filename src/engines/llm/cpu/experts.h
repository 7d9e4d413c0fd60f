// Experts: the feed-forward part of a layer that is a mixture of experts.
//
//   Mixtral     A. Jiang et al.: Mixtral of Experts, arXiv 2401.04088
//   Qwen2-MoE   A. Yang et al.: Qwen2 Technical Report, arXiv 2407.10671: an expert beside them that sees every
//               position
//   Qwen3-MoE   Qwen3 Technical Report, arXiv 2505.09388
//   granitemoe  Granite 3.0 Language Models: what they add is scaled
//   gpt-oss     gpt-oss-120b & gpt-oss-20b Model Card, arXiv 2508.10925: router and experts have biases
//
// Rows that go to the same expert are multiplied together, all experts in one go on all threads. A row's answers are
// added in the order of its experts, so that its result is the same to the last bit alone and in any batch.
#pragma once

#include <vector>

#include "engines/llm/cpu/matrix.h"
#include "engines/llm/cpu/weights.h"

namespace weir::llm {

class Experts {
 public:
  // `max_rows`: the most that `multiply` takes. Borrows shape, multiply and team.
  Experts(const Shape& shape, WeightFormat form, Multiplier& multiply, ThreadTeam& team, uint32_t max_rows);

  // x += what the experts make of `normed`. `x` has `hidden` floats per row.
  void run(Activations normed, uint32_t rows, const ExpertWeights& weights, float* x);

 private:
  // An expert that a row goes to.
  struct Choice {
    uint32_t expert = 0, slot = 0;  // where its answer is
    float share = 0;
  };

  void run_block(Activations normed, uint32_t rows, const ExpertWeights& weights, float* x);
  void choose(uint32_t rows);
  void choose(const float* scores, std::vector<uint32_t>& order, Choice* to) const;
  // Gives the rows of each expert slots side by side.
  void place(Activations normed, uint32_t rows);
  void answer(const ExpertWeights& weights);
  void add(uint32_t rows, float* x);
  void add_shared(Activations normed, uint32_t rows, const ExpertWeights& weights, float* x);

  const ExpertShape& shape_;
  const uint32_t hidden_;
  const Activation activation_;
  const float scale_;  // of all answers
  const WeightFormat form_;
  Multiplier& multiply_;
  ThreadTeam& team_;
  const uint32_t block_;                       // rows that are worked on together
  std::vector<std::vector<uint32_t>> orders_;  // per thread: the experts, the best first
  std::vector<Choice> choices_;                // [rows][used], in the order of the experts
  std::vector<uint32_t> begins_;               // the first slot of each expert, and the end of the last one's
  std::vector<Multiplier::Part> parts_;
  // They hold a block. A slot is a row of an expert.
  Memory scores_;            // floats [rows][experts]
  Memory gathered_, gated_;  // activations [slots][hidden], [slots][width]
  Memory answers_;           // floats [slots][hidden]
};

}  // namespace weir::llm
