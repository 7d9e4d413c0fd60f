// Sessions that other nodes have are looked for; one client does not take all searches.
#include <gtest/gtest.h>

#include "bench.h"

namespace weir::salience {
namespace {

// Nodes that answer when told to.
struct WaitingNodes final : session::OtherNodes {
  void keep_for(base::Duration) override {}
  session::NodeTag tag() const override { return session::tag_of_node("here"); }
  uint64_t epoch() const override { return 1; }
  void save(base::SessionId, std::string, base::ShardId, Done then) override { then({}); }
  void end(base::SessionId) override {}
  std::optional<Place> guess(base::SessionId) const override { return std::nullopt; }
  std::optional<Place> node_with(std::string_view, std::span<const std::string>) const override { return std::nullopt; }
  void find(base::SessionId, std::string, base::ShardId, Found then) override { waiting.push_back(std::move(then)); }
  std::vector<Found> waiting;
};

struct Searches : testing::Test {
  static Options three(session::Quota& quota) {
    Options out;
    out.quota = &quota;
    out.most_searches = 3;
    return out;
  }
  Searches() { wire.router.authenticate(secrets); }
  Bench::Opened dump(const std::string& secret) {
    pb::DumpSessionRequest request;
    request.set_session_id(std::string(32, 'f'));
    auto x = wire.run("/salience.v1.Salience/DumpSession", support::grpc_frame(request.SerializeAsString()),
                      "application/grpc", {{"authorization", "Bearer " + secret}});
    bus.turn();
    return x;
  }

  support::RpcBench wire;
  WaitingNodes nodes;
  BearerSecrets secrets{{"ann", "bob"}};
  bus::Bus bus{wire.env, base::ShardId(0), [] {}};
  session::Homes homes{1, [](base::ShardId, std::function<void()> work) { work(); }};
  session::Quota quota{1, nullptr, 2};
  base::Metrics metrics;
  session::Sessions sessions{bus, base::ShardId(0), homes, quota, session::SessionLimits(), metrics, &nodes};
  Salience salience{bus, wire.server(), sessions, three(quota)};
};

TEST_F(Searches, OneClientHasAShareOfThem) {
  std::vector<Bench::Opened> of_ann;
  for (int i = 0; i < 5; ++i) of_ann.push_back(dump("ann"));
  EXPECT_EQ(3u, nodes.waiting.size());
  for (int i = 3; i < 5; ++i) {
    EXPECT_EQ(number(base::Code::kResourceExhausted), support::grpc_status(*of_ann[i]));
    EXPECT_NE(std::string::npos, support::grpc_message(*of_ann[i]).find("of this client"));
  }
  auto of_bob = dump("bob");
  EXPECT_EQ(4u, nodes.waiting.size());
  // A search goes on when its client has left, and counts until it is over.
  of_ann.clear();
  auto early = dump("ann");
  EXPECT_EQ(number(base::Code::kResourceExhausted), support::grpc_status(*early));
  for (auto& then : std::exchange(nodes.waiting, {})) then(session::OtherNodes::Place{});
  EXPECT_EQ(number(base::Code::kNotFound), support::grpc_status(*of_bob));
  auto late = dump("ann");
  EXPECT_EQ(1u, nodes.waiting.size());
  for (auto& then : std::exchange(nodes.waiting, {})) then(session::OtherNodes::Place{});
}

}  // namespace
}  // namespace weir::salience
