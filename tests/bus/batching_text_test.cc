#include "bus/batching_text.h"

#include <gtest/gtest.h>

namespace weir::bus {
namespace {

TEST(BatchingText, SaysWhetherRequestsShareBatchesAndElseWhyNot) {
  msg::ModelSpec spec;
  spec.max_batch = 8, spec.batching.dynamic = true;
  EXPECT_EQ(batching_text(spec), "of requests");
  spec.batching.dynamic = false;
  EXPECT_EQ(batching_text(spec), "none across requests: its configuration has no dynamic batching");
  spec.max_batch = 1;
  EXPECT_EQ(batching_text(spec), "none: max_batch_size is 1");
  spec.max_batch = 0;
  EXPECT_EQ(batching_text(spec, true), "none: max_batch_size is 0");
}

TEST(BatchingText, ADecoupledModelHasNoBatchesWhateverItsConfigurationSays) {
  msg::ModelSpec spec;
  spec.max_batch = 8, spec.batching.dynamic = true, spec.decoupled = true;
  EXPECT_EQ(batching_text(spec), "none: the model is decoupled, and works on each request by itself");
}

}  // namespace
}  // namespace weir::bus
