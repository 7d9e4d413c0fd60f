// Which cores a team of threads keeps to.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>

#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/options.h"

namespace weir::llm {
namespace {

using Cores = std::vector<int>;

TEST(Cores, ThoseOfPinnedShardsAreLeftToThem) {
  const Cores eight{0, 1, 2, 3, 8, 9, 10, 11};
  EXPECT_EQ(cores_beside(eight, 3), (Cores{3, 8, 9, 10, 11}));
  EXPECT_EQ(cores_beside(eight, 7), Cores{11});
  EXPECT_EQ(cores_beside(eight, 8), Cores{}) << "there is none beside";
  EXPECT_EQ(cores_beside(eight, 9), Cores{});
  EXPECT_EQ(cores_beside(eight, 0), Cores{}) << "no shard keeps to a core";
  EXPECT_EQ(cores_beside({}, 2), Cores{});
}

TEST(Cores, AsManyThreadsAsCoresBesideUnlessOneIsTold) {
  const Cores eight{0, 1, 2, 3, 4, 5, 6, 7};
  auto kept = [&](std::map<std::string, std::string> parameters, uint32_t pinned) {
    Options o = *read_options(parameters);
    keep_beside(o, parameters, eight, pinned);
    return std::pair(o.threads, o.cores);
  };
  EXPECT_EQ(kept({}, 5), std::pair(3u, (Cores{5, 6, 7})));
  EXPECT_EQ(kept({{"threads", "2"}}, 5), std::pair(2u, (Cores{5, 6, 7})));
  EXPECT_EQ(kept({{"threads", "4"}}, 5), std::pair(4u, Cores{})) << "threads that share cores wait for each other";
  EXPECT_EQ(kept({}, 8), std::pair(usual_threads(), Cores{}));
}

TEST(Cores, ATeamIsWhereItWasPut) {
  auto allowed = allowed_cores();
  ASSERT_FALSE(allowed.empty());
  const Cores last{allowed.back()};
  ThreadTeam team(2, last);
  std::atomic<int> elsewhere{0}, pieces{0};
  auto request = [&](uint32_t, uint32_t, uint32_t thread) {
    ++pieces;
    if (thread > 0) elsewhere += allowed_cores() != last;
  };
  for (int i = 0; i < 50; ++i) team.run(16, 1, request);
  EXPECT_EQ(pieces, 50 * 16);
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(allowed_cores(), allowed) << "the caller's business is its own until it joins";
  std::thread([&] {
    team.join();
    EXPECT_EQ(allowed_cores(), last);
  }).join();
}

}  // namespace
}  // namespace weir::llm
