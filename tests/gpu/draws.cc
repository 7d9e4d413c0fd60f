// What is drawn and told of logits.
#include "both.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

// Many equal ones, and some that cannot be.
std::vector<float> some_logits(Lab& lab, uint32_t rows, uint32_t vocabulary) {
  auto out = some_floats(lab, size_t(rows) * vocabulary, 3);
  for (auto& l : out) l = std::round(l * 8) / 8;
  for (size_t i = 0; i < out.size(); i += 97) out[i] = -INFINITY;
  return out;
}

void check_draw(Lab& lab, uint32_t rows, uint32_t vocabulary) {
  const std::vector<DrawRow> kinds{{0, 1, 0, 0, 1, 1},
                                   {1, 1, 0, 0, 2, 2},
                                   {0.7f, 0.9f, 0, 0, 3, 3},
                                   {1, 1, 0, 40, 4, 4},
                                   {1.3f, 0.95f, 0.05f, 50, 5, 5},
                                   {1, 1, 0.1f, 0, 6, 6},
                                   {0.5f, 0.01f, 0, 1, 7, 7}};
  Both logits(lab, some_logits(lab, rows, vocabulary));
  std::vector<DrawRow> kind_of_row;
  for (uint32_t i = 0; i < rows; ++i) {
    kind_of_row.push_back(kinds[i % kinds.size()]);
    kind_of_row.back().seed = lab.random(), kind_of_row.back().number = i;
  }
  Both wishes(lab, kind_of_row);
  Both<uint32_t> ids(lab, rows);
  Both<float> logprobs(lab, rows);
  run(lab, &Kernels::draw,
      [&](Side s) { return Draw{logits.at(s), wishes.at(s), ids.at(s), logprobs.at(s), rows, vocabulary}; });
  auto got = ids.get(lab);
  auto got_logprobs = logprobs.get(lab);
  // exp() of host and device differ in the last bit, so a draw at an edge may fall to a neighbour: rarely.
  double different = 0, off = 0, greedy = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    different += got[i] != ids.host[i];
    greedy += i % kinds.size() == 0 && got[i] != ids.host[i];
    if (got[i] == ids.host[i]) off = std::max(off, double(std::abs(got_logprobs[i] - logprobs.host[i])));
  }
  std::string shape = " of " + std::to_string(vocabulary);
  lab.check("draw, greedy" + shape, greedy, 0);
  lab.check("draw, share of others" + shape, different / rows, 0.02);
  lab.check("draw, logprob" + shape, off, 1e-3);
}

}  // namespace

void check_draws(Lab& lab) {
  bool full = lab.scale == Lab::Scale::kFull;
  check_draw(lab, full ? 280 : 70, 1000);
  check_draw(lab, full ? 280 : 7, full ? 128256 : 20011);
}

}  // namespace weir::gpu
