#include "bus/model_readiness.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/fake_env.h"
#include "bench.h"
#include "bus/load_notes.h"
#include "inference.pb.h"

namespace weir::oip {
namespace {

using namespace std::chrono_literals;

// A model that answers when the test says so.
struct FakeProbe final : msg::ReadinessProbe {
  void ask(Done done) override { asked.push_back(std::move(done)); }
  void answer(const std::string& why_not) {
    auto all = std::exchange(asked, {});
    for (const auto& done : all) done(why_not);
  }
  std::vector<Done> asked;
};

struct ModelReadinessTest : testing::Test {
  std::optional<uint64_t> ask() {
    return readiness->ask(probe, [this](const std::string& why_not) { told.push_back(why_not); });
  }
  void work() {
    for (auto& piece : std::exchange(posted, {})) piece();
  }

  base::FakeEnv env;
  std::vector<std::function<void()>> posted;
  std::vector<std::string> told;
  std::shared_ptr<FakeProbe> probe = std::make_shared<FakeProbe>();
  std::unique_ptr<bus::ModelReadiness> readiness = std::make_unique<bus::ModelReadiness>(
      env, [this](std::function<void()> work) { posted.push_back(std::move(work)); });
};

TEST_F(ModelReadinessTest, ThoseWhoAskTogetherShareOneQuestion) {
  ask(), ask();
  ASSERT_EQ(1u, probe->asked.size());
  probe->answer("no");
  EXPECT_TRUE(told.empty());  // it comes on another thread, and is taken on the shard's
  work();
  EXPECT_EQ((std::vector<std::string>{"no", "no"}), told);
  EXPECT_EQ(0u, env.armed());
  ask();
  probe->answer("");
  work();
  EXPECT_EQ("", told.back());
}

TEST_F(ModelReadinessTest, ASilentModelIsAskedOnceAndWhoWaitsIsToldInTime) {
  for (int i = 0; i < 10; ++i) {
    ask();
    env.advance(bus::ModelReadiness::kPatience);
    ASSERT_EQ(size_t(i + 1), told.size());
    EXPECT_EQ("it did not answer within 5 s", told.back());
  }
  EXPECT_EQ(1u, probe->asked.size());
  ask();
  probe->answer("");
  work();
  EXPECT_EQ(11u, told.size());
  EXPECT_EQ("", told.back());
}

TEST_F(ModelReadinessTest, AFewHundredMayWaitForOneModel) {
  for (size_t i = 0; i < bus::ModelReadiness::kMostWaiting; ++i) ASSERT_TRUE(ask());
  EXPECT_FALSE(ask());
  EXPECT_FALSE(readiness->last_answer(probe));
  probe->answer("busy");
  work();
  EXPECT_EQ(bus::ModelReadiness::kMostWaiting, told.size());
  EXPECT_TRUE(ask());
  ASSERT_TRUE(readiness->last_answer(probe));
  EXPECT_EQ("busy", *readiness->last_answer(probe));
  EXPECT_FALSE(readiness->last_answer(std::make_shared<FakeProbe>()));
  env.advance(bus::ModelReadiness::kPatience + 1ms);
  EXPECT_FALSE(readiness->last_answer(probe));
}

TEST_F(ModelReadinessTest, ThoseWhoLeaveAreForgotten) {
  const auto first = ask();
  ask();
  readiness->forget(*first);
  EXPECT_EQ(1u, env.armed());
  probe->answer("");
  work();
  EXPECT_EQ(1u, told.size());
  readiness->forget(*first);
}

TEST_F(ModelReadinessTest, AnAnswerMayComeWhenTheShardIsGone) {
  ask();
  auto late = probe->asked;
  probe->answer("");
  readiness.reset();
  work();
  late.front()("");
  EXPECT_TRUE(told.empty());
  EXPECT_TRUE(posted.empty());
}

TEST(AllReady, IsReadyWhereAllAreAndSaysWhichIsNot) {
  EXPECT_FALSE(msg::all_ready({nullptr, nullptr}));
  auto one = std::make_shared<FakeProbe>(), other = std::make_shared<FakeProbe>();
  EXPECT_EQ(one, msg::all_ready({nullptr, one}));
  auto both = msg::all_ready({one, nullptr, other});
  std::vector<std::string> told;
  for (const char* why : {"", "busy"}) {
    both->ask([&](std::string why_not) { told.push_back(std::move(why_not)); });
    other->answer(why);
    EXPECT_TRUE(told.empty());
    one->answer("");
    EXPECT_EQ(std::vector<std::string>{why}, std::exchange(told, {}));
  }
}

struct ProbedInbox final : msg::Inbox, bus::HasLoadNotes {
  void put(msg::Call*) override {}
};

// The whole dialect, with a model that is asked.
struct ProbedModel {
  ProbedModel() {
    auto inbox = std::make_unique<ProbedInbox>();
    inbox->set_load_notes({0s, probe});
    scripted = std::exchange(bench.served("add").inbox, std::move(inbox));
  }
  std::unique_ptr<msg::Inbox> scripted;  // the bench has a pointer to it until its end
  std::shared_ptr<FakeProbe> probe = std::make_shared<FakeProbe>();
  OipBench bench;
};

TEST(OipReady, AModelIsAskedOverRest) {
  ProbedModel model;
  auto x = model.bench.open_rest("GET", "/v2/models/add/ready");
  EXPECT_FALSE(x->responding());
  model.probe->answer("");
  EXPECT_EQ(R"({"name":"add","ready":true})", OipBench::answer(*x).body);
  auto y = model.bench.open_rest("GET", "/v2/models/add/versions/1/ready");
  model.probe->answer("the cache is \"cold\"");
  EXPECT_EQ(400, OipBench::answer(*y).status);
  EXPECT_EQ(R"({"name":"add","ready":false,"error":"the cache is \"cold\""})", OipBench::answer(*y).body);
  auto z = model.bench.open_rest("GET", "/v2/models/add/ready");
  model.bench.wire.env.advance(5s);
  EXPECT_EQ(400, OipBench::answer(*z).status);
  auto gone = model.bench.open_rest("GET", "/v2/models/add/ready");
  gone.reset();
  EXPECT_EQ(1u, model.probe->asked.size());
  model.probe->answer("");
}

TEST(OipReady, AFloodOfProbesDoesNotMakeAModelNotReady) {
  ProbedModel model;
  auto ask = [&] { return model.bench.open_rest("GET", "/v2/models/add/ready"); };
  for (const int others : {503, 200}) {
    std::vector<support::RpcBench::Opened> waiting;
    for (size_t i = 0; i < bus::ModelReadiness::kMostWaiting; ++i) waiting.push_back(ask());
    EXPECT_EQ(others, OipBench::answer(*ask()).status);
    model.probe->answer("");
    for (const auto& x : waiting) ASSERT_EQ(200, OipBench::answer(*x).status);
  }
}

TEST(OipReady, AModelIsAskedOverGrpc) {
  ProbedModel model;
  inference::ModelReadyRequest request;
  request.set_name("add");
  for (const char* why : {"", "busy"}) {
    auto x = model.bench.open_grpc("ModelReady");
    model.bench.wire.data(*x, support::grpc_frame(request.SerializeAsString()));
    model.bench.wire.end(*x);
    EXPECT_TRUE(OipBench::grpc_answer(*x).messages.empty());
    model.probe->answer(why);
    const auto answer = OipBench::grpc_answer(*x);
    inference::ModelReadyResponse response;
    ASSERT_TRUE(response.ParseFromString(answer.messages.at(0)));
    EXPECT_EQ(*why == 0, response.ready());
    EXPECT_EQ(0, answer.status);
  }
}

}  // namespace
}  // namespace weir::oip
