// Calls that wait for a connection to an origin.
#include "engines/forward/origin_conn.h"

#include <gtest/gtest.h>

#include <deque>

#include "engines/forward/kind.h"
#include "support/cpu_time.h"
#include "support/sanitizers.h"

namespace weir::forward {
namespace {

struct WaitingCall final : OriginCall {
  explicit WaitingCall(OriginConn& its_conn) : conn(its_conn) {}
  void on_head(int, const wire::Fields&) override {}
  size_t on_body(std::span<const std::byte> piece) override { return piece.size(); }
  void on_end(const wire::Fields&) override { conn.leave(*this); }
  void on_failed(const base::Status&) override {
    conn.leave(*this);
    ++failed;
  }

  OriginConn& conn;
  int failed = 0;
};

#if defined(WEIR_ASAN) || defined(WEIR_TSAN)
constexpr double kAtOnce = 10;
#else
constexpr double kAtOnce = 1;  // seconds of CPU time
#endif

TEST(OriginConn, AnyNumberThatWaitsEndsAtOnce) {
  constexpr size_t kMany = 200'000;
  net::Shard shard{base::ShardId(0), net::Pin::kNo};  // not started: nothing is ever connected
  Target target;
  Options options;
  options.kind = KindName::kOipGrpc;
  target.kind = make_kind(options, "").value();
  Origin& origin = target.origins.emplace_back(*net::parse_url("http://127.0.0.1:1"), 0, Origin::Addresses(1));
  OriginConn conn(shard, target, origin);
  std::deque<WaitingCall> calls;
  for (size_t i = 0; i < kMany; ++i) ASSERT_TRUE(conn.send(calls.emplace_back(conn), {}).ok());
  for (size_t i = 0; i < kMany; i += 2) conn.cancel(calls[kMany - 1 - i]);
  EXPECT_EQ(origin.outstanding, kMany / 2);
  EXPECT_LT(support::cpu_of([&] { conn.close(base::failure(base::Code::kUnavailable, "the end")); }, 1), kAtOnce);
  EXPECT_EQ(origin.outstanding, 0u);
  for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(calls[i].failed, int(i % 2 == 0)) << i;
}

}  // namespace
}  // namespace weir::forward
