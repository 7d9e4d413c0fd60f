// Cases that the contract leaves open: priorities of models with other levels, ranges without positions, a
// manifest of one of several models.
#include <gtest/gtest.h>

#include "bench.h"

namespace weir::salience {
namespace {

using Code = base::Code;
using Ids = std::vector<uint32_t>;

// The Call's priority for each of the protocol's, on a model with that many levels.
std::vector<uint32_t> priorities(uint32_t levels) {
  Bench t;
  t.kept.at(0)->spec.batching.priority_levels = levels;
  auto id = t.open();
  std::vector<uint32_t> out;
  for (int32_t priority = 0; priority <= 10; ++priority) {
    auto r = Bench::request(id, 0, {1, 2}, 1);
    r.set_priority(priority);
    if (priority > 0) r.set_truncating(true);
    auto x = t.generate(r);
    out.push_back(t.call().priority);
    t.finish();
  }
  return out;
}

TEST(SalienceEdges, PrioritiesLieOnTheModelsLevels) {
  const Ids each{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(priorities(0), each) << "none are configured";
  EXPECT_EQ(priorities(11), each);
  EXPECT_EQ(priorities(1), Ids(11, 1));
  EXPECT_EQ(priorities(2), (Ids{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(priorities(3), (Ids{1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3}));
  for (uint32_t levels : {2u, 3u, 4u, 5u, 7u, 10u, 12u, 100u, 1000u}) {
    auto out = priorities(levels);
    EXPECT_EQ(out.front(), 1u) << levels;
    EXPECT_EQ(out.back(), levels);
    EXPECT_TRUE(std::is_sorted(out.begin(), out.end())) << levels;
  }
}

TEST(SalienceEdges, ARangeWithoutPositionsAsksForNothing) {
  Bench t;
  auto id = t.open();
  auto r = Bench::request(id, 0, {1, 2}, 1);
  for (uint32_t at : {0u, 7u, UINT32_MAX}) {
    for (auto* range : {r.add_logprobs_ranges(), r.add_readout_ranges()}) range->set_start(at), range->set_end(at);
  }
  auto* range = r.add_logprobs_ranges();
  range->set_start(1), range->set_end(2);
  auto x = t.generate(r);
  ASSERT_EQ(t.call().generation->logprobs.size(), 1u);
  EXPECT_EQ(t.call().generation->logprobs[0].start, 1u);
  EXPECT_TRUE(t.call().generation->readouts.empty());
}

TEST(SalienceEdges, TheManifestIsOfTheModelThatHasReadouts) {
  Bench t;
  auto plain = text_spec();
  plain->concepts.clear(), plain->readout_layers.clear();
  t.add("plain", plain);
  t.publish();
  auto ask = [&] { return t.ask<pb::ReadoutManifest>("GetReadoutManifest", pb::GetReadoutManifestRequest()); };
  EXPECT_EQ(ask().response.concepts_size(), 2);
  t.add("second", text_spec());
  t.publish();
  auto several = ask();
  EXPECT_EQ(several.status, number(Code::kFailedPrecondition));
  EXPECT_EQ(
      several.text,
      "no model is named, and there is more than one model that has concept readouts: name one of chat, second, or "
      "set models.default");
  t.catalog->models.clear();
  t.publish();
  EXPECT_EQ(ask().status, number(Code::kNotFound));
}

}  // namespace
}  // namespace weir::salience
