// Sessions that go where their client is, at one node, without a bucket.
#include "app/cluster_handover.h"

#include <gtest/gtest.h>

#include <optional>

#include "cluster/cluster.h"

namespace weir::app {
namespace {

using base::Code;

struct OneNode : testing::Test {
  static constexpr uint64_t kBytes = 800'000;  // of which one client may keep an eighth

  OneNode() {
    calls.post = [](const std::function<void()>&) { return true; };
    calls.later = [](base::Duration, const std::function<void()>&) { return true; };
    calls.claimed = [] { return uint64_t(1); };
    handover.attach(calls, kBytes);
    handover.post_by([](base::ShardId, const std::function<void()>& work) { work(); });
  }
  // Nothing: it is on its way to the bucket.
  std::optional<Code> save(uint64_t session, size_t bytes) {
    std::optional<Code> told;
    handover.hold({1, session}, "ann", base::ShardId{0}, [] {});
    handover.save({1, session}, std::string(bytes, 'x'), base::ShardId{0},
                  [&told](const base::Status& status) { told = status.code; });
    return told;
  }
  cluster::Cluster calls;
  ClusterHandover handover;
};

// sessions.idle may be longer than evergreen.kept: the bucket keeps both for the longer of them.
TEST_F(OneNode, WhatAClientHasLeftCountsAsLongAsItsRecordIsThere) {
  handover.keep_for(base::Duration(0));
  EXPECT_FALSE(save(1, 80'000));
  handover.let_go({1, 1});
  EXPECT_EQ(Code::kResourceExhausted, save(2, 80'000));
  handover.end({1, 1});
  EXPECT_FALSE(save(2, 80'000));
}

}  // namespace
}  // namespace weir::app
