#include "wire/trace_context.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "support/fake_wire.h"
#include "wire/router.h"
#include "wire/tracer.h"

namespace weir::wire {
namespace {

using support::FakeExchange;

constexpr std::string_view kTrace = "0af7651916cd43dd8448eb211c80319c", kSpan = "b7ad6b7169203331";
const std::string kSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const std::string kNotSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

Fields fields(std::initializer_list<std::pair<std::string_view, std::string_view>> all) {
  Fields out;
  for (const auto& [name, value] : all) out.add(name, value);
  return out;
}

TEST(TraceContext, AWellFormedParentComesBackAsItWas) {
  auto context = parse_traceparent(kSampled);
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->sampled());
  EXPECT_EQ(context->traceparent(), kSampled);
  EXPECT_FALSE(parse_traceparent(kNotSampled)->sampled());
}

TEST(TraceContext, FlagsThatNobodyKnowsAreDropped) {
  auto context = parse_traceparent("00-" + std::string(kTrace) + "-" + std::string(kSpan) + "-ff");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->traceparent().substr(53), "03");
}

TEST(TraceContext, ALaterVersionMayBeLongerAndIsReadAsThisOne) {
  const std::string rest = kSampled.substr(2);
  for (std::string text : {"01" + rest, "cc" + rest + "-what-the-future-brings"}) {
    auto context = parse_traceparent(text);
    ASSERT_TRUE(context) << text;
    EXPECT_EQ(context->traceparent(), kSampled);
  }
}

TEST(TraceContext, MalformedParentsAreNone) {
  const std::string rest = kSampled.substr(2);
  for (std::string text :
       {std::string(), std::string("00"), "ff" + rest, "00" + rest + "-x", "cc" + rest + "x", "0" + rest,
        "00" + rest.substr(0, 52), std::string("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        std::string("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c.b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g")})
    EXPECT_FALSE(parse_traceparent(text)) << text;
}

TEST(TraceContext, EachDigitIsSmallHexadecimal) {
  for (size_t at = 0; at < kSampled.size(); ++at)
    for (int c = 0; c < 128; ++c) {
      std::string text = kSampled;
      text[at] = char(c);
      const bool dash = at == 2 || at == 35 || at == 52, digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      const bool version = at < 2;  // another version may be as long
      if (version && digit) continue;
      EXPECT_EQ(parse_traceparent(text).has_value(), dash ? c == '-' : digit) << text;
    }
  const std::string counted = "00-0123456789abcdef0123456789abcdef-fedcba9876543210-03";
  EXPECT_EQ(parse_traceparent(counted)->traceparent(), counted);
}

TEST(TraceContext, TwoParentsAreNone) {
  EXPECT_TRUE(context_of(fields({{"traceparent", kSampled}})));
  EXPECT_FALSE(context_of(fields({{"traceparent", kSampled}, {"traceparent", kSampled}})));
}

TEST(TraceState, FieldsAreJoinedInTheirOrder) {
  EXPECT_EQ(
      tracestate_of(fields({{"tracestate", "rojo=00f067aa0ba902b7 , ,congo=t61rcWkgMzE"}, {"tracestate", "a@b=1"}})),
      "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,a@b=1");
  EXPECT_EQ(tracestate_of({}), "");
}

TEST(TraceState, AnInvalidOneIsDroppedWhole) {
  for (std::string_view text : {"a", "=1", "a=", "A=1", "a=1,b", "a=1,a=2", "a=b=c", "a=\x7f", "a@b@c=1", "-a=1"})
    EXPECT_EQ(tracestate_of(fields({{"tracestate", text}})), "") << text;
}

TEST(TraceState, KeysAndValuesHaveTheirLengthsAndCharacters) {
  auto kept = [](const std::string& text) { return tracestate_of(fields({{"tracestate", text}})) == text; };
  EXPECT_TRUE(kept(std::string(256, 'k') + "=v"));
  EXPECT_FALSE(kept(std::string(257, 'k') + "=v"));
  EXPECT_TRUE(kept("k=" + std::string(256, 'v')));
  EXPECT_FALSE(kept("k=" + std::string(257, 'v')));
  for (int c = 0; c < 128; ++c) {
    if (c == ',') continue;
    const char at = char(c);
    const bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    EXPECT_EQ(kept(std::string(1, at) + "k=v"), alnum) << c;
    EXPECT_EQ(kept(std::string("k") + at + "k=v"),
              alnum || (c > 0 && std::string_view("_-*/@").find(at) != std::string_view::npos))
        << c;
    EXPECT_EQ(kept(std::string("k=v") + at + "v"), c >= 0x20 && c < 0x7f && c != '=') << c;
  }
}

TEST(TraceState, ThirtyTwoMembersAreTheMost) {
  std::string text;
  for (int i = 0; i < 32; ++i) text += (i ? ",k" : "k") + std::to_string(i) + "=v";
  EXPECT_EQ(tracestate_of(fields({{"tracestate", text}})), text);
  EXPECT_EQ(tracestate_of(fields({{"tracestate", text + ",more=v"}})), "");
}

TEST(TraceState, WhatIsTooLongLosesLongMembersFirstAndThenTheEnd) {
  const std::string longest = "long=" + std::string(250, 'x'), tail = "tail=" + std::string(100, 'y');
  std::string text = longest;
  for (int i = 0; i < 10; ++i) text += ",k" + std::to_string(i) + "=" + std::string(97, 'v');
  text += "," + tail;
  std::string kept = tracestate_of(fields({{"tracestate", text}}));
  EXPECT_LE(kept.size(), kMostTraceState);
  EXPECT_EQ(kept.find("long="), kept.npos);
  EXPECT_TRUE(kept.starts_with("k0="));
  EXPECT_EQ(kept.find("tail="), kept.npos);
  EXPECT_NE(kept.find("k9="), kept.npos);
}

// A head of fields as large as the limits let in costs no more than its bytes.
TEST(TraceState, AStormOfMembersIsDropped) {
  Fields storm;
  for (int i = 0; i < 99; ++i) storm.add("tracestate", std::string(160, ','));
  storm.add("tracestate", "a=1");
  EXPECT_EQ(tracestate_of(storm), "a=1");
  for (int i = 0; i < 99; ++i) storm.add("tracestate", "b" + std::to_string(i) + "=1");
  EXPECT_EQ(tracestate_of(storm), "");
}

TEST(Baggage, ValuesAreFoundByKeyAndDecoded) {
  auto all = fields({{"baggage", "user.id = al%20ice;prop=1, region=eu"}, {"baggage", "x=%zz"}});
  EXPECT_EQ(baggage_value(all, "user.id"), "al ice");
  EXPECT_EQ(baggage_value(all, "region"), "eu");
  EXPECT_EQ(baggage_value(all, "prop"), std::nullopt);
  EXPECT_EQ(baggage_value(all, "x"), std::nullopt);
  EXPECT_EQ(baggage_value({}, "x"), std::nullopt);
}

TEST(Baggage, WhatIsBeyondTheBoundsIsNotThere) {
  std::string members;
  for (int i = 0; i < 64; ++i) members += "k" + std::to_string(i) + "=v,";
  EXPECT_EQ(baggage_value(fields({{"baggage", members + "late=v"}}), "late"), std::nullopt);
  EXPECT_EQ(baggage_value(fields({{"baggage", members + "late=v"}}), "k63"), "v");
  EXPECT_EQ(baggage_value(fields({{"baggage", "big=" + std::string(8192, 'x') + ",late=v"}}), "late"), std::nullopt);
}

TEST(Sampling, TheRatioIsMetAndEveryNodeDecidesAlike) {
  std::mt19937_64 random(7);
  int taken = 0, taken_of_more = 0;
  constexpr int kTraces = 200000;
  for (int i = 0; i < kTraces; ++i) {
    TraceId id;
    uint64_t halves[2] = {random(), random()};
    std::memcpy(id.data(), halves, sizeof halves);
    const bool rare = sampled_by(sampling_threshold(0.01), id, ""), often = sampled_by(sampling_threshold(0.1), id, "");
    EXPECT_TRUE(often || !rare) << "a node with the higher ratio takes all that one with the lower takes";
    taken += rare, taken_of_more += often;
    EXPECT_TRUE(sampled_by(sampling_threshold(1), id, ""));
    EXPECT_FALSE(sampled_by(sampling_threshold(0), id, ""));
  }
  EXPECT_NEAR(taken, kTraces * 0.01, 5 * std::sqrt(kTraces * 0.01));
  EXPECT_NEAR(taken_of_more, kTraces * 0.1, 5 * std::sqrt(kTraces * 0.1));
}

TEST(Sampling, AStateKeepsItsBoundsWithAThresholdInIt) {
  EXPECT_EQ(with_threshold("", uint64_t(1) << 56), "") << "a ratio of 0 takes nothing";
  EXPECT_EQ(with_threshold("", sampling_threshold(0.01)), "ot=th:fd70a3d70a3d71");
  EXPECT_EQ(with_threshold("ot=th:zz;;th:1", 0), "ot=th:0");
  std::string full = "ot=" + std::string(256, 'x');
  EXPECT_EQ(with_threshold(full, 0), "ot=th:0");
  full.clear();
  for (int i = 0; i < 32; ++i) full += (i ? ",k" : "k") + std::to_string(i) + "=1";
  const std::string more = with_threshold(full, 0);
  EXPECT_EQ(std::count(more.begin(), more.end(), ','), 31) << "32 members";
  EXPECT_TRUE(more.starts_with("ot=th:0,k0=1,"));
  const TraceId zeros{};
  for (std::string_view bad : {"ot=rv:ffff", "ot=rv:FFFFFFFFFFFFFF", "ot=rv:fffffffffffffff", "otrv:ffffffffffffff"})
    EXPECT_FALSE(sampled_by(1, zeros, bad)) << bad;
  EXPECT_TRUE(sampled_by(1, zeros, "a=1,ot=rv:00000000000001"));
}

// OpenTelemetry's specification compares the last 56 bits with (1 - ratio) * 2^56.
TEST(Sampling, TheThresholdIsTheSpecifications) {
  TraceId id{};
  id[9] = 0x80;
  EXPECT_TRUE(sampled_by(sampling_threshold(0.5), id, ""));
  id[9] = 0x7f;
  EXPECT_FALSE(sampled_by(sampling_threshold(0.5), id, ""));
  id[8] = 0xff;
  EXPECT_FALSE(sampled_by(sampling_threshold(0.5), id, ""));
}

struct NoSpans final : SpanSink {
  SpanId add(Trace&, const Span&) override { return {}; }
};

struct TracerTest : testing::Test {
  base::FakeEnv env;
  NoSpans sink;
  struct Ok final : Service {
    void serve(Exchange& x, const PathArgs&) override { x.respond(200, "text/plain", base::Bytes::constant("ok")); }
  } service;

  // The request behind the router; `x` keeps its record.
  void go(FakeExchange& x, TraceRules rules) {
    Tracer tracer(env, rules, sink);
    Router router(env);
    router.add({"GET", "/", &service, "test", Plan{BodyPlan::kWhole, 1000}, Permission::kRead});
    router.trace(tracer);
    if (router.begin(x).body == BodyPlan::kWhole && !x.responding()) router.whole(x);
    router.closed(x);
  }
};

using Parent = TraceRules::Parent;

TEST_F(TracerTest, TheRatioThatHasTakenATraceIsInItsState) {
  FakeExchange own("GET", "/");
  go(own, {1, Parent::kRespect});
  EXPECT_EQ(own.record().trace->state, "ot=th:0");
  FakeExchange joined("GET", "/");
  joined.mutable_request().fields.add("traceparent", kNotSampled);
  joined.mutable_request().fields.add("tracestate", "a=1,ot=th:8;rv:fffffffffffff0;x:y,b=2");
  go(joined, {0.25, Parent::kSample});
  ASSERT_TRUE(joined.record().trace) << "by rv, whatever the id";
  EXPECT_EQ(joined.record().trace->state, "ot=th:c;rv:fffffffffffff0;x:y,a=1,b=2");
  FakeExchange respected("GET", "/");
  respected.mutable_request().fields.add("traceparent", kSampled);
  respected.mutable_request().fields.add("tracestate", "a=1,ot=th:8");
  go(respected, {0.25, Parent::kRespect});
  EXPECT_EQ(respected.record().trace->state, "a=1,ot=th:8") << "the sender's ratio";
  FakeExchange low("GET", "/");
  low.mutable_request().fields.add("traceparent", kSampled);
  low.mutable_request().fields.add("tracestate", "ot=rv:00000000000001");
  go(low, {0.25, Parent::kSample});
  EXPECT_FALSE(low.record().trace);
}

TEST_F(TracerTest, ASampledParentIsContinuedWithASpanOfOurOwn) {
  FakeExchange x("GET", "/");
  x.mutable_request().fields.add("traceparent", kSampled);
  x.mutable_request().fields.add("tracestate", "a=1");
  go(x, {0, Parent::kRespect});
  const auto& trace = x.record().trace;
  ASSERT_TRUE(trace);
  auto handed_on = parse_traceparent(x.response.fields.find("traceparent"));
  ASSERT_TRUE(handed_on);
  EXPECT_EQ(handed_on->trace, parse_traceparent(kSampled)->trace);
  EXPECT_EQ(handed_on->span, trace->span);
  EXPECT_EQ(trace->parent, parse_traceparent(kSampled)->span);
  EXPECT_NE(trace->span, trace->parent);
  EXPECT_EQ(trace->state, "a=1");
  EXPECT_EQ(trace->whole, x.now());
}

TEST_F(TracerTest, AParentThatIsNotSampledIsRespectedAndHandedOnAsItWas) {
  FakeExchange x("GET", "/");
  x.mutable_request().fields.add("traceparent", kNotSampled);
  go(x, {1, Parent::kRespect});
  EXPECT_FALSE(x.record().trace);
  EXPECT_EQ(x.response.fields.find("traceparent"), kNotSampled);
}

TEST_F(TracerTest, TheRatioDecidesWhereTheFlagIsNotAsked) {
  for (double ratio : {0.0, 1.0}) {
    FakeExchange x("GET", "/");
    x.mutable_request().fields.add("traceparent", ratio > 0 ? kNotSampled : kSampled);
    go(x, {ratio, Parent::kSample});
    EXPECT_EQ(x.record().trace != nullptr, ratio > 0);
    if (x.record().trace) {
      EXPECT_EQ(x.record().trace->id, parse_traceparent(kSampled)->trace);
    }
  }
}

TEST_F(TracerTest, AStrangersParentIsALinkWhereItIsIgnored) {
  FakeExchange x("GET", "/");
  x.mutable_request().fields.add("traceparent", kNotSampled);
  x.mutable_request().fields.add("tracestate", "a=1");
  go(x, {1, Parent::kIgnore});
  const auto sender = parse_traceparent(kNotSampled);
  ASSERT_TRUE(x.record().trace);
  EXPECT_NE(x.record().trace->id, sender->trace);
  EXPECT_EQ(x.record().trace->parent, SpanId{});
  EXPECT_EQ(x.record().trace->state, "ot=th:0") << "nothing of the stranger's";
  EXPECT_EQ(x.record().trace->linked_trace, sender->trace);
  EXPECT_EQ(x.record().trace->linked_span, sender->span);
}

TEST_F(TracerTest, WithoutAParentANewTraceBeginsAndEachHasIdsOfItsOwn) {
  FakeExchange one("GET", "/"), other("GET", "/"), off("GET", "/");
  go(one, {1, Parent::kRespect});
  go(other, {1, Parent::kRespect});
  go(off, {0, Parent::kRespect});
  ASSERT_TRUE(one.record().trace && other.record().trace);
  EXPECT_NE(one.record().trace->id, other.record().trace->id);
  EXPECT_NE(one.record().trace->span, other.record().trace->span);
  EXPECT_EQ(one.response.fields.find("traceparent").substr(53), "03") << "sampled, and its id is random";
  EXPECT_FALSE(off.record().trace);
  EXPECT_FALSE(off.response.fields.has("traceparent"));
}

TEST_F(TracerTest, AMalformedParentIsAsIfNoneHadCome) {
  FakeExchange x("GET", "/");
  x.mutable_request().fields.add("traceparent", "00-zz");
  x.mutable_request().fields.add("tracestate", "a=1");
  go(x, {1, Parent::kRespect});
  ASSERT_TRUE(x.record().trace);
  EXPECT_EQ(x.record().trace->parent, SpanId{});
  EXPECT_EQ(x.record().trace->state, "ot=th:0");
}

}  // namespace
}  // namespace weir::wire
