// Draws and log-probabilities, from logits.
#include <numeric>

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

// Nearly equal, and all different: an eighth with more tokens than are listed.
std::vector<float> flat_logits(Lab& lab, uint32_t rows, uint32_t vocabulary) {
  auto out = some_floats(lab, size_t(rows) * vocabulary, 0.01f);
  for (auto& l : out) l += 5;
  return out;
}

using MakeLogits = std::vector<float> (*)(Lab& lab, uint32_t rows, uint32_t vocabulary);
void check_draw(Lab& lab, uint32_t rows, uint32_t vocabulary, MakeLogits make_logits) {
  const std::vector<DrawRow> kinds{{0, 1, 0, 0, 1, 1},
                                   {1, 1, 0, 0, 2, 2},
                                   {0.7f, 0.9f, 0, 0, 3, 3},
                                   {1, 1, 0, 40, 4, 4},
                                   {1.3f, 0.95f, 0.05f, 50, 5, 5},
                                   {1, 1, 0.1f, 0, 6, 6},
                                   {0.5f, 0.01f, 0, 1, 7, 7}};
  Both logits(lab, make_logits(lab, rows, vocabulary));
  std::vector<DrawRow> kind_of_row;
  for (uint32_t i = 0; i < rows; ++i) {
    kind_of_row.push_back(kinds[i % kinds.size()]);
    kind_of_row.back().seed = lab.random(), kind_of_row.back().number = i;
  }
  Both params(lab, kind_of_row);
  Both<uint32_t> ids(lab, rows);
  Both<float> logprobs(lab, rows);
  run(lab, &Kernels::draw,
      [&](Side s) { return Draw{logits.at(s), params.at(s), ids.at(s), logprobs.at(s), rows, vocabulary}; });
  auto got = ids.get(lab);
  auto got_logprobs = logprobs.get(lab);
  // exp() of host and device differ in the last bit, so a draw at an edge may fall to a neighbour: rarely.
  double different = 0, off = 0, greedy = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    different += got[i] != ids.host[i];
    greedy += i % kinds.size() == 0 && got[i] != ids.host[i];
    if (got[i] == ids.host[i]) off = std::max(off, double(std::abs(got_logprobs[i] - logprobs.host[i])));
  }
  std::string shape = " of " + std::to_string(vocabulary) + (make_logits == flat_logits ? " flat" : "");
  lab.check("draw, greedy" + shape, greedy, 0);
  lab.check("draw, share of others" + shape, different / rows, make_logits == flat_logits ? 0.08 : 0.02);
  lab.check("draw, logprob" + shape, off, 1e-3);
}

// Logits changed; and greedy draws of some rows, changed and not, into other places.
void check_adjust(Lab& lab, uint32_t vocabulary) {
  Both logits(lab, some_logits(lab, 3, vocabulary));
  std::vector<Change> each;
  for (uint32_t id = 0; id < vocabulary; id += 1 + uint32_t(lab.random() % (vocabulary / 40))) {
    uint32_t flags = id % 7 == 0 ? uint32_t(Change::kNever) : id % 2 == 0 ? uint32_t(Change::kWasThere) : 0;
    each.push_back({id, id % 3, float(id % 5) - 2, flags});
  }
  const uint32_t words = (vocabulary + 31) / 32;
  auto half = uint32_t(each.size() / 2), rest = uint32_t(each.size()) - half;
  Both changes(lab, each);
  // The token that a step before has sampled: a token that the changes name, one that they do not, none.
  Both sampled(lab, std::vector<uint32_t>{each[half - 1].id, vocabulary - 2, UINT32_MAX});
  Both rows(lab, std::vector<AdjustRow>{{2, 0, half, 0.5f, 0.25f, 1.3f, 0},
                                        {0, half, rest, 0, 0, 1},
                                        {0, 0, 0, 1, 1, 2, 1},
                                        {1, 0, half, 1, 1, 2, 2},
                                        {1, half, rest, 0, 0, 1, kNoIndex, 2},
                                        {2, 0, 0, 0, 0, 1, kNoIndex, 2 + words}});
  std::vector<uint32_t> bits(2 + 2 * words);  // a third of all tokens, and none
  for (uint32_t id = 0; id < vocabulary; id += 3) bits[2 + id / 32] |= 1u << id % 32;
  Both masks(lab, bits);
  const auto count = uint32_t(rows.host.size());
  Both<float> adjusted(lab, size_t(count) * vocabulary);
  run(lab, &Kernels::adjust, [&](Side s) {
    return Adjust{logits.at(s), rows.at(s), changes.at(s), adjusted.at(s),
                  count,        vocabulary, sampled.at(s), masks.at(s)};
  });
  lab.check("adjust of " + std::to_string(vocabulary), adjusted.error(lab), 1e-6);

  Both params(lab, std::vector<DrawRow>(5, {0, 1, 0, 0, 1, 1}));
  Both from(lab, std::vector<uint32_t>{1, kAdjusted | 2, 2, kAdjusted, kAdjusted | 5});
  Both to(lab, std::vector<uint32_t>{3, 0, 5, 1, 4});
  Both ids(lab, std::vector<uint32_t>(6));
  run(lab, &Kernels::draw, [&](Side s) {
    Draw a{logits.at(s), params.at(s), ids.at(s), nullptr, 5, vocabulary};
    a.from = from.at(s), a.to = to.at(s), a.adjusted = adjusted.at(s);
    return a;
  });
  lab.check("draw, of some rows of " + std::to_string(vocabulary), ids.get(lab) != ids.host, 0);
}

// Rows of NaN, of -inf, and of both with a number among them, greedy and at random.
void check_no_token(Lab& lab, uint32_t vocabulary) {
  std::vector<float> values(size_t(3) * vocabulary, NAN);
  std::fill(values.begin() + vocabulary, values.begin() + 2 * ptrdiff_t(vocabulary), -INFINITY);
  values[size_t(3) * vocabulary - 7] = -5;
  Both logits(lab, values);
  std::vector<DrawRow> kinds;
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < 3; ++row)
    for (const DrawRow& kind : {DrawRow{0, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 2, 2}, {1, 0.9f, 0.1f, 40, 3, 3}})
      kinds.push_back(kind), rows.push_back(row);
  const auto count = uint32_t(rows.size());
  std::vector<uint32_t> places(count);
  std::iota(places.begin(), places.end(), 0u);
  Both params(lab, kinds);
  Both from(lab, rows), to(lab, places), ids(lab, places);
  run(lab, &Kernels::draw, [&](Side s) {
    return Draw{logits.at(s), params.at(s), ids.at(s), nullptr, count, vocabulary, from.at(s), to.at(s)};
  });
  const uint32_t only = vocabulary - 7;
  const std::vector<uint32_t> expected{kNoToken, kNoToken, kNoToken, kNoToken, kNoToken, kNoToken, only, only, only};
  lab.check("draw, no token of " + std::to_string(vocabulary), ids.get(lab) != expected || ids.host != expected, 0);
}

void check_logprobs(Lab& lab, uint32_t vocabulary) {
  constexpr uint32_t kMost = 20;
  auto values = some_logits(lab, 3, vocabulary);
  std::fill(values.begin(), values.begin() + 200, 9.f);  // more equal ones than are told
  for (size_t i = size_t(2) * vocabulary + 4; i < values.size(); ++i) values[i] = -INFINITY;
  Both logits(lab, values);
  Both ids(lab, std::vector<uint32_t>{5, vocabulary - 1, vocabulary, 17});
  Both rows(lab, std::vector<LogprobRow>{{0, 0, 20}, {1, 1, 7}, {1, 2, 0}, {0, 3, 1}, {2, 3, 12}});
  auto count = uint32_t(rows.host.size());
  Both<float> logprobs(lab, count), best(lab, count * kMost);
  Both<uint32_t> best_ids(lab, count * kMost);
  run(lab, &Kernels::logprobs, [&](Side s) {
    Logprobs a{};
    a.logits = logits.at(s), a.rows = rows.at(s), a.ids = ids.at(s);
    a.logprobs = logprobs.at(s), a.best_ids = best_ids.at(s), a.best = best.at(s);
    a.count = count, a.vocabulary = vocabulary, a.most = kMost;
    return a;
  });
  std::string shape = " of " + std::to_string(vocabulary);
  lab.check("logprobs" + shape, logprobs.error(lab), 1e-4);
  lab.check("logprobs, the best ids" + shape, best_ids.get(lab) != best_ids.host, 0);
  lab.check("logprobs, the best" + shape, best.error(lab), 1e-4);
}

}  // namespace

void check_draws(Lab& lab) {
  bool full = lab.scale == Lab::Scale::kFull;
  check_draw(lab, full ? 280 : 28, 1000, some_logits);
  check_draw(lab, full ? 280 : 7, full ? 128256 : 5003, some_logits);
  check_draw(lab, full ? 280 : 14, full ? 128256 : 9001, flat_logits);
  for (uint32_t vocabulary : {1000u, full ? 128256u : 5003u}) {
    check_adjust(lab, vocabulary);
    check_no_token(lab, vocabulary);
    check_logprobs(lab, vocabulary);
  }
}

}  // namespace weir::gpu
