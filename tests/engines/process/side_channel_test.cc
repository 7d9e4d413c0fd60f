#include "engines/process/side_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>
#include <vector>

namespace weir::process {
namespace {

using base::Code;

// The child's end of a channel, in the place of a child.
struct SideChannelTest : testing::Test {
  SideChannelTest() {
    options.model = "m", options.most_request = 100'000, options.ledger = &ledger, options.metrics = metrics;
    options.control.load = [this](std::string model, ModelControl::Parameters parameters, ModelControl::Done done) {
      loads.push_back({std::move(model), std::move(parameters), std::move(done)});
    };
    options.control.unload = [this](std::string model, Dependents dependents, ModelControl::Done done) {
      loads.push_back({(dependents == Dependents::kUnload ? "- and theirs " : "- ") + model, {}, std::move(done)});
    };
    channel = SideChannel::open(options).value();
  }
  bool send(Type type, uint64_t number, const std::string& bytes = "", uint32_t flags = 0, uint64_t lie = 0) {
    const Message message{.type = type, .flags = flags, .number = number, .size = bytes.size() + lie};
    const std::string packet = std::string(reinterpret_cast<const char*>(&message), sizeof message) + bytes;
    EXPECT_EQ(ssize_t(packet.size()), ::send(channel->child_end(), packet.data(), packet.size(), 0));
    return channel->serve();
  }
  // "number: code text", or nothing.
  std::string reply() {
    char room[64 << 10];
    const ssize_t n = ::recv(channel->child_end(), room, sizeof room, MSG_DONTWAIT);
    if (n < ssize_t(sizeof(Message))) return "";
    Message message;
    std::memcpy(&message, room, sizeof message);
    DocumentReader in({room + sizeof message, size_t(n) - sizeof message});
    const auto code = in.get<uint32_t>();
    return std::to_string(message.number) + ": " +
           (code == 0 ? "fine" : std::string(base::name(Code(code))) + " " + in.get_string());
  }
  static std::string load_of(const std::string& model, const std::string& key = "", const std::string& value = "") {
    Writer out;
    out.put_string(model);
    out.put(uint32_t(!key.empty()));
    if (!key.empty()) out.put_string(key), out.put_string(value);
    return out.text();
  }
  struct Load {
    std::string model;
    ModelControl::Parameters parameters;
    ModelControl::Done done;
  };
  base::MemoryLedger ledger{64 << 20};
  std::shared_ptr<CustomMetrics> metrics = std::make_shared<CustomMetrics>(&ledger);
  SideChannel::Options options;
  std::vector<Load> loads;
  std::unique_ptr<SideChannel> channel;
};

TEST_F(SideChannelTest, ALoadIsAnsweredWhenItHasEnded) {
  ASSERT_TRUE(send(Type::kLoadModel, 7, load_of("other")));
  ASSERT_EQ(1u, loads.size());
  EXPECT_EQ("other", loads[0].model);
  EXPECT_EQ("", reply());
  loads[0].done(base::failure(Code::kNotFound, "no such"));
  EXPECT_EQ("7: NOT_FOUND no such", reply());
  Writer out;
  out.put_string("other"), out.put(uint8_t(1));
  ASSERT_TRUE(send(Type::kUnloadModel, 8, out.text()));
  EXPECT_EQ("- and theirs other", loads[1].model);
  loads[1].done({});
  EXPECT_EQ("8: fine", reply());
}

TEST_F(SideChannelTest, FilesComeInPartsThatAreChargedAndBounded) {
  const std::string document = load_of("other", "file:1/x", std::string(90'000, 'x'));
  for (size_t at = 0; at < document.size(); at += 30'000) {
    ASSERT_TRUE(loads.empty());
    ASSERT_TRUE(send(Type::kLoadModel, 7, document.substr(at, 30'000), at + 30'000 < document.size() ? kMore : 0));
    if (loads.empty()) {
      EXPECT_GE(ledger.held(), at);
    }
  }
  ASSERT_EQ(1u, loads.size());
  EXPECT_EQ(std::string(90'000, 'x'), loads[0].parameters["file:1/x"]);
  EXPECT_EQ(0u, ledger.held());
  bool goes_on = true;
  for (int i = 0; i < 10 && goes_on; ++i) goes_on = send(Type::kLoadModel, 8, std::string(30'000, 'x'), kMore);
  EXPECT_FALSE(goes_on);
  EXPECT_EQ("8: RESOURCE_EXHAUSTED a request to load a model has 100000 bytes at most (process_answer)", reply());
  EXPECT_EQ(0u, ledger.held());
}

TEST_F(SideChannelTest, TooManyLoadsAtOnceAreRefused) {
  for (uint64_t i = 0; i < SideChannel::kMostLoads; ++i) ASSERT_TRUE(send(Type::kLoadModel, i, load_of("other")));
  ASSERT_TRUE(send(Type::kLoadModel, 99, load_of("other")));
  EXPECT_EQ("99: RESOURCE_EXHAUSTED a model loads and unloads 16 models at once at most", reply());
  loads[0].done({});
  EXPECT_EQ("0: fine", reply());
  ASSERT_TRUE(send(Type::kLoadModel, 100, load_of("other")));
  EXPECT_EQ("", reply());
}

TEST_F(SideChannelTest, ALoadThatEndsAfterItsChildHurtsNobody) {
  ASSERT_TRUE(send(Type::kLoadModel, 7, load_of("other")));
  channel.reset();
  loads[0].done({});
}

TEST_F(SideChannelTest, TheModelIsAskedOnceHoweverManyWaitAndItsEndTellsThem) {
  auto answers = std::make_shared<std::vector<std::string>>();
  auto ask = [&] { channel->readiness()->ask([answers](std::string why) { answers->push_back(std::move(why)); }); };
  auto said = [](bool ready, const std::string& why) {
    Writer out;
    out.put(uint8_t(ready)), out.put_string(why);
    return out.text();
  };
  ask(), ask();
  EXPECT_EQ("1: fine", reply());  // an empty document reads as that
  EXPECT_EQ("", reply());
  ASSERT_TRUE(send(Type::kReadiness, 7, said(false, "an answer to no question")));
  EXPECT_TRUE(answers->empty());
  ASSERT_TRUE(send(Type::kReadiness, 1, said(true, "")));
  EXPECT_EQ((std::vector<std::string>{"", ""}), std::exchange(*answers, {}));
  ask();
  ASSERT_TRUE(send(Type::kReadiness, 2, said(false, std::string(9000, 'x'))));
  EXPECT_EQ(24 + ChildReadiness::kLongestWhy, answers->at(0).size());
  EXPECT_EQ("model 'm' is not ready: xx", answers->at(0).substr(0, 26));
  ask();
  EXPECT_FALSE(send(Type::kReadiness, 3, "no form"));
  channel.reset();
  EXPECT_EQ("model 'm' is being unloaded", answers->at(1));
}

TEST_F(SideChannelTest, AChildThatReadsNothingIsNotAskedTwiceAndHoldsNobody) {
  for (int i = 0; i < 10'000; ++i) channel->readiness()->ask([](const std::string&) {});
  int told = 0;
  channel->readiness()->ask([&](const std::string& why) { told += !why.empty(); });
  EXPECT_EQ(1, told);
  EXPECT_NE("", reply());
  EXPECT_EQ("", reply());
}

TEST_F(SideChannelTest, WhetherAnotherModelIsReadyIsRepliedWhenThatHasAnswered) {
  struct Probe final : msg::ReadinessProbe {
    void ask(Done done) override { asked.push_back(std::move(done)); }
    std::vector<Done> asked;
  };
  auto probe = std::make_shared<Probe>();
  options.find = [&](std::string_view, std::string_view) { return Target{nullptr, nullptr, nullptr, probe}; };
  channel = SideChannel::open(options).value();
  Writer other;
  other.put_string("other"), other.put_string("");
  for (uint64_t i = 0; i < SideChannel::kMostQuestions; ++i) ASSERT_TRUE(send(Type::kModelReady, i, other.text()));
  EXPECT_EQ("", reply());
  ASSERT_TRUE(send(Type::kModelReady, 99, other.text()));
  EXPECT_EQ("99: RESOURCE_EXHAUSTED a model asks for 64 others at once at most whether they are ready", reply());
  probe->asked.at(0)("");
  EXPECT_EQ("0: fine", reply());
  ASSERT_TRUE(send(Type::kModelReady, 100, other.text()));
  EXPECT_EQ("", reply());
  options.patience = {};
  channel = SideChannel::open(options).value();
  for (uint64_t i = 0; i <= SideChannel::kMostQuestions; ++i) ASSERT_TRUE(send(Type::kModelReady, i, other.text()));
  EXPECT_EQ("", reply());  // the silent model takes no question about others away
}

TEST_F(SideChannelTest, WhatHasNoFormIsRefusedOrEndsTheChannel) {
  for (Type type : {Type::kMetricFamily, Type::kMetric, Type::kMetricValue, Type::kModelReady, Type::kLoadModel}) {
    ASSERT_TRUE(send(type, 5, "\xff\xff\xff\xff\xff"));
    EXPECT_EQ("5: INVALID_ARGUMENT a request of the child has no such form", reply());
  }
  EXPECT_FALSE(send(Type::kMetricIncrement, 1, "short"));
  EXPECT_FALSE(send(Type::kRun, 1));
  EXPECT_FALSE(send(Type(77), 1));
  EXPECT_FALSE(send(Type::kForgetFamily, 1, "", 0, 100));
  EXPECT_EQ(5, ::send(channel->child_end(), "short", 5, 0));
  EXPECT_FALSE(channel->serve());
}

TEST_F(SideChannelTest, AFloodIsTakenInTurns) {
  Writer value;
  value.put(1.0);
  const Message message{.type = Type::kMetricIncrement, .number = 1, .size = value.text().size()};
  const std::string packet = std::string(reinterpret_cast<const char*>(&message), sizeof message) + value.text();
  int sent = 0;
  while (::send(channel->child_end(), packet.data(), packet.size(), MSG_DONTWAIT) > 0) ++sent;
  EXPECT_LT(sent, 1024);  // so one call of serve() takes what was sent before an answer
  EXPECT_TRUE(channel->serve());
  EXPECT_GT(::send(channel->child_end(), packet.data(), packet.size(), MSG_DONTWAIT), 0);
}

}  // namespace
}  // namespace weir::process
