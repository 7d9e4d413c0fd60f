// Which Calls the bus takes: models that are there, limits of Calls in flight, memory.

#include "base/memory_ledger.h"
#include "bus/bus.h"
#include "bus_fixture.h"
#include "msg/tenant.h"

namespace weir::bus {
namespace {

using base::Code;

TEST(Bus, OneTenantCannotHaveAllThatIsInFlight) {
  Bench t({.max_in_flight = 40, .share = {.percent = 25, .least = 2}});
  std::vector<msg::Call*> greedy;
  auto of = [&](uint64_t tenant) {
    auto* call = t.call("c", 0s, "digits");
    call->tenant = tenant;
    return call;
  };
  for (int i = 0; i < 20; ++i) {
    greedy.push_back(of(1));
    ASSERT_TRUE(support::submit(t.bus, greedy.back()).ok()) << "while there is room";
  }
  auto refused = t.refused(of(1));
  EXPECT_EQ(refused.code, Code::kResourceExhausted);
  EXPECT_NE(refused.text.find("limits.client_share"), std::string::npos);
  std::vector<msg::Call*> others;
  for (int i = 0; i < 10; ++i) {
    others.push_back(of(8));
    ASSERT_TRUE(support::submit(t.bus, others.back()).ok());
  }
  EXPECT_EQ(t.refused(of(8)).code, Code::kResourceExhausted);
  for (int i = 0; i < 10; ++i) {
    others.push_back(of(0));
    ASSERT_TRUE(support::submit(t.bus, others.back()).ok());
  }
  EXPECT_EQ(t.refused(of(0)).text.substr(0, 8), "too many");
  for (auto* call : greedy) t.answer(call);
  t.bus.turn();
  ASSERT_TRUE(support::submit(t.bus, others.emplace_back(of(1))).ok());
  for (auto* call : others) t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, UnknownModelsAreNotFoundAndNameANearMiss) {
  Bench t;
  auto status = t.refused(t.call("a", 0s, "digit"));
  EXPECT_EQ(status.code, Code::kNotFound);
  EXPECT_EQ(status.text, "Request for unknown model: 'digit' is not found; did you mean 'digits'?");
  EXPECT_EQ(t.refused(t.call("a", 0s, "somethingelse")).text,
            "Request for unknown model: 'somethingelse' is not found");
}

TEST(Bus, ALongNameIsShownInPartAndNeverThroughACharacter) {
  Bench t;
  auto shown = [&](const std::string& name) { return t.refused(t.call("a", 0s, name)).text; };
  EXPECT_EQ(shown(std::string(800, 'x')), "Request for unknown model: '" + std::string(128, 'x') + "…' is not found")
      << "and nothing is near to it";
  EXPECT_EQ(shown(std::string(128, 'x')), "Request for unknown model: '" + std::string(128, 'x') + "' is not found");
  EXPECT_EQ(shown(std::string(129, 'x')), "Request for unknown model: '" + std::string(128, 'x') + "…' is not found");
  EXPECT_EQ(shown(std::string(127, 'x') + "äöü"),
            "Request for unknown model: '" + std::string(127, 'x') + "…' is not found");
}

TEST(Bus, ModelsThatAreNotReadySayWhy) {
  Bench t;
  auto status = t.refused(t.call("a", 0s, "broken"));
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.text, "model 'broken' version 1 is not ready: the file is cut short");
}

TEST(Bus, WhatIsOnItsWayIsWorthAnotherTryAndItsStateSaysSo) {
  Catalog catalog;
  catalog.index = {{"broken", "1", ModelState::kUnavailable, "the file is cut short; it is loaded anew"},
                   {"coming", "", ModelState::kLoading, ""},
                   {"going", "1", ModelState::kUnloading, ""},
                   {"lost", "1", ModelState::kReturning, "the device is gone"}};
  auto refusal = [&](std::string_view model) { return catalog.find(model, "").error(); };
  EXPECT_FALSE(base::worth_trying_again(refusal("broken")));
  EXPECT_TRUE(base::worth_trying_again(refusal("coming")));
  EXPECT_TRUE(base::worth_trying_again(refusal("lost")));
  EXPECT_FALSE(base::worth_trying_again(refusal("going")));
  EXPECT_EQ(refusal("broken").text, "model 'broken' version 1 is not ready: the file is cut short; it is loaded anew");
  EXPECT_EQ(refusal("coming").text, "model 'coming' is not ready: it is loading");
  EXPECT_EQ(catalog.find("coming", "7").error().code, Code::kUnavailable) << "its versions are not known yet";
  EXPECT_EQ(refusal("going").text, "model 'going' version 1 is not ready: it is unloading");
  EXPECT_EQ(catalog.find("going", "2").error().code, Code::kNotFound);
  EXPECT_EQ(refusal("lost").text, "model 'lost' version 1 is not ready: the device is gone");
  std::vector<std::string_view> names;
  for (int state = 0; state < 7; ++state) names.push_back(name(ModelState(state)));
  EXPECT_EQ(names, (std::vector<std::string_view>{"UNKNOWN", "READY", "UNAVAILABLE", "LOADING", "UNLOADING",
                                                  "UNAVAILABLE", "UNAVAILABLE"}))
      << "OIP has no other words";
}

TEST(Bus, VersionsAreFoundByNameAndMissingOnesAreNamed) {
  Bench t;
  auto* call = t.call("a");
  call->version = "2";
  EXPECT_TRUE(support::submit(t.bus, call).ok());
  t.answer(call);
  t.bus.turn();
  call = t.call("b"), call->version = "9";
  auto status = t.refused(call);
  EXPECT_EQ(status.code, Code::kNotFound);
  EXPECT_EQ(status.text, "Request for unknown model: 'digits' version 9 is not found; it serves 2");
  call = t.call("c"), call->version = "1";
  EXPECT_EQ(t.refused(call).code, Code::kUnavailable);
}

TEST(Bus, MoreCallsThanTheLimitAreRefusedUntilOneComesBack) {
  Bench t({2});
  auto* first = t.sent("a");
  auto* second = t.sent("b");
  EXPECT_EQ(t.refused(t.call("c")).code, Code::kResourceExhausted);
  EXPECT_EQ(t.served().stats.rejected, 1u);
  t.answer(first);
  t.bus.turn();
  auto* third = t.sent("d");
  t.answer(second), t.answer(third);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"a:last", "b:last", "d:last"}));
}

TEST(Bus, RefusesWorkWhileMemoryIsShort) {
  base::MemoryLedger memory(1000, 0, {70, 85, 92, 97});
  Bench t({1024, &memory});
  auto* first = t.sent("first");
  ASSERT_TRUE(memory.take(base::MemoryKind::kSlabs, 930));
  auto status = t.refused(t.call("second"));
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(base::http_status(status), 503);
  EXPECT_NE(status.text.find("memory is short"), std::string::npos) << status.text;
  t.answer(first);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard, (Heard{"first:last"})) << "what has begun goes on";
  memory.give(base::MemoryKind::kSlabs, 100);
  t.answer(t.sent("third"));
  t.bus.turn();
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, TokensThatWaitAreChargedUntilTheirCallIsBack) {
  base::MemoryLedger memory(100'000);
  Bench t({1024, &memory});
  auto of = [&](uint32_t tokens) {
    auto* call = t.call("long");
    call->generation = std::make_unique<msg::Generation>();
    call->generation->append.resize(tokens);
    return call;
  };
  auto* first = of(20'000);
  ASSERT_TRUE(support::submit(t.bus, first).ok());
  EXPECT_EQ(memory.held(), 80'000u);
  auto status = t.refused(of(6'000));
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_NE(status.text.find("limits.slab_budget"), std::string::npos) << status.text;
  EXPECT_EQ(t.served().stats.rejected, 1u);
  auto* brief = of(100);
  EXPECT_TRUE(support::submit(t.bus, brief).ok());
  EXPECT_EQ(memory.held(), 80'000u);
  t.answer(first), t.answer(brief);
  t.bus.turn();
  EXPECT_EQ(memory.held(), 0u);
  EXPECT_EQ(t.bus.in_flight(), 0u);
}

TEST(Bus, TokensOfLessThanFourKibibytesAreNotCharged) {
  base::MemoryLedger memory(100'000);
  Bench t({1024, &memory});
  for (auto [tokens, charged] : {std::pair(1023u, 0u), {1024u, 4096u}}) {
    auto* call = t.call("c");
    call->generation = std::make_unique<msg::Generation>();
    call->generation->append.resize(tokens);
    ASSERT_TRUE(support::submit(t.bus, call).ok());
    EXPECT_EQ(memory.held(base::MemoryKind::kInput), charged);
    t.answer(call);
    t.bus.turn();
    EXPECT_EQ(memory.held(), 0u);
  }
}

TEST(Bus, ATenantWhoseCallsAreUnderWayIsNotForgottenAmongThoseWhoAreGone) {
  Bench t({.max_in_flight = 8, .share = {.percent = 25}});
  auto of = [&](uint64_t tenant) {
    auto* call = t.call("c");
    call->tenant = tenant;
    EXPECT_TRUE(support::submit(t.bus, call).ok());
    return call;
  };
  auto* kept = of(7);
  for (uint64_t tenant = 100; tenant < 300; ++tenant) {
    t.answer(of(tenant));
    t.bus.turn();
  }
  t.answer(kept);
  t.bus.turn();
  std::vector<msg::Call*> calls;
  for (uint64_t tenant = 100; tenant < 105; ++tenant) calls.push_back(of(tenant));
  calls.push_back(of(7)), calls.push_back(of(7));  // half is out: two are a share
  auto* third = t.call("c");
  third->tenant = 7;
  EXPECT_EQ(t.refused(third).code, Code::kResourceExhausted);
  for (auto* call : calls) t.answer(call);
  t.bus.turn();
}

TEST(Bus, ClientsWithoutASecretShareCachesByAddressUnlessTheyShareAll) {
  for (auto anonymous : {msg::Anonymous::kPerAddress, msg::Anonymous::kShared}) {
    BusLimits limits;
    limits.anonymous = anonymous;
    Bench t(limits);
    bool shared = anonymous == msg::Anonymous::kShared;
    for (uint64_t tenant : {0, 11, 13, 20}) {
      auto* call = t.call("a");
      call->tenant = tenant;
      ASSERT_TRUE(support::submit(t.bus, call).ok());
      EXPECT_EQ(call->cache_scope, shared && tenant % 2 == 1 ? 0 : tenant);
      t.answer(call);
      t.bus.turn();
    }
  }
}

TEST(Bus, WhoSpeaksForManyClientsIsBoundedByTheWholeAlone) {
  Bench t({.max_in_flight = 8, .share = {.percent = 25}});
  const uint64_t one = 5, many = msg::kManyClients | 5;
  auto admitted = [&](uint64_t tenant) {
    std::vector<msg::Call*> in;
    for (int i = 0; i < 10; ++i) {
      auto* call = t.call("c");
      call->tenant = tenant;
      if (support::submit(t.bus, call).ok())
        in.push_back(call);
      else
        t.bus.discard(call);
    }
    for (auto* call : in) t.answer(call);
    t.bus.turn();
    return in.size();
  };
  EXPECT_EQ(admitted(one), 4u) << "half of all, then a quarter";
  EXPECT_EQ(admitted(many), 8u);
  EXPECT_EQ(admitted(one), 4u);
}

}  // namespace
}  // namespace weir::bus
