#include "sched/local_first.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "calls.h"

namespace weir::sched {
namespace {

using base::Code;

// Keeps what it is given until the test answers.
struct Held final : msg::Inbox {
  void put(msg::Call* call) override { calls.push_back(call); }
  void poke() override { ++pokes; }
  void answer(msg::Event event, size_t i = 0) {
    msg::Call* call = calls[i];
    if (event.last()) calls.erase(calls.begin() + std::ptrdiff_t(i));
    std::vector<msg::Mail> one;
    one.push_back({call, std::move(event)});
    call->home->post(one);
  }
  void answer_here(msg::Event event) {
    msg::Call* call = calls.front();
    calls.erase(calls.begin());
    call->home->post_here({call, std::move(event)});
  }
  std::vector<msg::Call*> calls;
  int pokes = 0;
};

// Answers inside put(), as an engine that runs on shards does.
struct Inline final : msg::Inbox {
  void put(msg::Call* call) override { call->home->post_here({call, {msg::Outputs{}}}); }
};

struct Model {
  explicit Model(uint32_t enough, std::unique_ptr<msg::Inbox> instances = nullptr) {
    auto local = std::make_unique<Held>(), remote = std::make_unique<Held>();
    here = local.get(), away = remote.get();
    if (instances) here = nullptr;
    RemoteModel origins;
    origins.make_inbox = [&remote](const msg::ModelSpec&, bus::ModelStats&) { return std::move(remote); };
    origins.load = [this](uint64_t random) {
      choices.push_back(random);
      return work;
    };
    inbox = make_local_first(instances ? std::move(instances) : std::move(local), origins, spec, stats, enough);
  }
  msg::Call& put() {
    auto& call = calls.emplace_back();
    call.home = &answers;
    inbox->put(&call);
    return call;
  }
  void put(size_t count) {
    while (count-- > 0) put();
  }
  static msg::Event failed(Code code) { return {msg::Failed{base::failure(code, "the origin is gone")}}; }

  msg::ModelSpec spec = spec_of(8);
  bus::ModelStats stats;
  Answers answers;
  std::deque<msg::Call> calls;
  Held *here = nullptr, *away = nullptr;
  std::optional<double> work = 1;
  std::vector<uint64_t> choices;
  std::unique_ptr<msg::Inbox> inbox;
};

void answer_all(Model& model) {
  while (!model.here->calls.empty()) model.here->answer({msg::Outputs{}});
  while (!model.away->calls.empty()) model.away->answer({msg::Outputs{}});
}

TEST(LocalFirst, TheInstancesHereGetTheirBatchBeforeOriginsGetAny) {
  Model model(3);
  model.put(3);
  EXPECT_EQ(model.here->calls.size(), 3u);
  EXPECT_TRUE(model.choices.empty()) << "nobody was asked";
  model.put();
  EXPECT_EQ(model.away->calls.size(), 1u);
  model.here->answer({msg::Outputs{}});
  model.put();
  EXPECT_EQ(model.here->calls.size(), 3u);
  answer_all(model);
  EXPECT_EQ(model.answers.mail.size(), 5u);
}

TEST(LocalFirst, BeyondThatACallGoesToWhoeverHasLess) {
  Model model(1);
  model.put(1);
  model.work = 5;
  model.put(5);
  EXPECT_EQ(model.here->calls.size(), 5u) << "as many as the origin has";
  EXPECT_EQ(model.away->calls.size(), 1u);
  model.work = {};
  model.put(4);
  EXPECT_EQ(model.here->calls.size(), 9u) << "no origin takes any";
  std::sort(model.choices.begin(), model.choices.end());
  EXPECT_EQ(std::unique(model.choices.begin(), model.choices.end()), model.choices.end());
  answer_all(model);
}

TEST(LocalFirst, SessionsAndCallsOfOtherServersStayHere) {
  Model model(0);
  model.work = 0;
  for (int i = 0; i < 2; ++i) {
    auto& call = model.calls.emplace_back();
    call.home = &model.answers;
    call.session.low = i == 0 ? 0 : 7;
    if (i == 0) call.parameters.emplace_back(kRelayed, true);
    model.inbox->put(&call);
  }
  EXPECT_EQ(model.here->calls.size(), 2u);
  EXPECT_TRUE(model.away->calls.empty());
  EXPECT_TRUE(model.here->calls[0]->parameters.empty()) << "engines do not see it";
  answer_all(model);
}

TEST(LocalFirst, ACallThatNoOriginTakesRunsHereOnce) {
  for (Code code : {Code::kUnavailable, Code::kResourceExhausted, Code::kUnimplemented}) {
    Model model(0);
    model.work = 0;
    msg::Call& call = model.put();
    ASSERT_EQ(model.away->calls.size(), 1u);
    model.away->answer(Model::failed(code));
    ASSERT_EQ(model.here->calls.size(), 1u);
    EXPECT_TRUE(model.answers.mail.empty());
    model.here->answer(Model::failed(code));
    ASSERT_EQ(model.answers.mail.size(), 1u) << "its end is the end";
    EXPECT_EQ(model.answers.mail[0].call, &call);
    EXPECT_EQ(call.home, &model.answers);
    model.put();
    EXPECT_EQ(model.away->calls.size(), 1u) << "nobody is counted here any more";
    answer_all(model);
  }
}

TEST(LocalFirst, AnErrorOfTheRequestIsNotTriedAgain) {
  Model model(0);
  model.work = 0;
  model.put();
  model.away->answer(Model::failed(Code::kInvalidArgument));
  EXPECT_TRUE(model.here->calls.empty());
  ASSERT_EQ(model.answers.mail.size(), 1u);
  EXPECT_EQ(text_of(model.answers.mail[0].event), "INVALID_ARGUMENT");
}

TEST(LocalFirst, AnAnswerThatHasBegunIsNotBegunAgain) {
  Model model(0);
  model.work = 0;
  model.put();
  model.away->answer({msg::Outputs{.tensors = {}, .parameters = {}, .final = false}});
  model.away->answer(Model::failed(Code::kUnavailable));
  EXPECT_TRUE(model.here->calls.empty());
  EXPECT_EQ(model.answers.mail.size(), 2u);
}

TEST(LocalFirst, ACallWhoseClientHasLeftIsNotTriedAgain) {
  Model model(0);
  model.work = 0;
  msg::Call& call = model.put();
  call.cancelled = true;
  model.inbox->poke();
  EXPECT_EQ(model.here->pokes + model.away->pokes, 2);
  model.away->answer(Model::failed(Code::kUnavailable));
  EXPECT_TRUE(model.here->calls.empty());
  EXPECT_EQ(model.answers.mail.size(), 1u);
}

TEST(LocalFirst, AnEngineMayAnswerInsideOfPut) {
  Model model(0, std::make_unique<Inline>());
  model.work = 0;
  model.put(2);
  model.away->answer_here(Model::failed(Code::kUnavailable));
  model.away->answer(Model::failed(Code::kUnavailable));
  ASSERT_EQ(model.answers.mail.size(), 2u);
  EXPECT_EQ(text_of(model.answers.mail[0].event), "ok");
  EXPECT_EQ(text_of(model.answers.mail[1].event), "ok");
}

}  // namespace
}  // namespace weir::sched
