// Calls of one text each that go as one request: who is with whom, and what each gets of the answer.
#include "engines/forward/gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "base/fake_env.h"
#include "engines/forward/openai/byte_ids.h"
#include "engines/forward/refusal.h"
#include "marshal/encoder.h"
#include "support/open_home.h"

namespace weir::forward {
namespace {

using base::Code;
using Came = ShardModel::Came;

struct Gathered : testing::Test {
  Gathered() {
    auto text = std::make_shared<msg::TextSpec>();
    text->vocabulary = byte_ids::kVocabulary;
    spec.encoder = text, spec.max_batch = 4;
  }

  msg::Call& put(std::string_view text, uint64_t tenant = 0, Came came = Came::kHere) {
    auto& call = *calls.emplace_back(std::make_unique<msg::Call>());
    const auto ids = byte_ids::make_codec()->encode(text, msg::AddSpecial::kNo);
    call.inputs.push_back(marshal::ids_tensor(kIdsInput, ids));
    call.home = &home, call.tenant = tenant, call.deadline = env.now() + std::chrono::seconds(int(calls.size()));
    gather->take(&call, came);
    return call;
  }
  static std::vector<std::string> texts(const msg::Call& call) {
    auto rows = read_text_rows(call, RowsFor::kEmbeddings, byte_ids::kVocabulary);
    return rows ? rows->texts : std::vector<std::string>{rows.error().text};
  }
  // Each row is two floats: its place, and 7.
  static void answer(msg::Call& call, std::optional<int64_t> tokens = {}) {
    std::vector<float> values;
    for (uint32_t i = 0; i < call.rows; ++i) values.push_back(float(i)), values.push_back(7);
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    msg::Outputs out;
    out.tensors.push_back({"e", msg::DType::kFp32, {int64_t(call.rows), 2}, base::Bytes::copy_of(bytes)});
    if (tokens) out.parameters.emplace_back(marshal::kPromptTokens, *tokens);
    call.home->post_here({&call, {std::move(out)}});
  }
  static void refuse(msg::Call& call, Code code) {
    call.home->post_here({&call, {msg::Failed{base::failure(code, "no")}}});
  }
  void turn() { env.advance(base::Duration(0)); }
  const msg::Event& event_of(const msg::Call& call) {
    for (const auto& mail : home.mail)
      if (mail.call == &call) return mail.event;
    static const msg::Event kNone{msg::Done{}};
    return kNone;
  }
  Code code_of(const msg::Call& call) {
    auto* failed = std::get_if<msg::Failed>(&event_of(call).what);
    return failed ? failed->status.code : Code::kOk;
  }
  bool answered(const msg::Call& call) { return !std::holds_alternative<msg::Done>(event_of(call).what); }

  base::FakeEnv env;
  msg::ModelSpec spec;
  support::OpenHome home;
  std::deque<std::unique_ptr<msg::Call>> calls;
  std::vector<msg::Call*> sent;
  std::unique_ptr<Gather> gather = std::make_unique<Gather>(env, spec, RowsFor::kEmbeddings,
                                                            [this](msg::Call* call, Came) { sent.push_back(call); });
};

TEST_F(Gathered, CallsOfOneTurnGoTogether) {
  msg::Call &a = put("a"), &b = put("bb"), &c = put("ccc");
  EXPECT_TRUE(sent.empty());
  turn();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(texts(*sent[0]), (std::vector<std::string>{"a", "bb", "ccc"}));
  EXPECT_EQ(sent[0]->rows, 3u);
  EXPECT_EQ(sent[0]->deadline, c.deadline);
  answer(*sent[0], 12);
  ASSERT_EQ(home.mail.size(), 3u);
  int64_t tokens = 0;
  for (msg::Call* call : {&a, &b, &c}) {
    const auto& out = std::get<msg::Outputs>(event_of(*call).what);
    ASSERT_EQ(out.tensors[0].data.size(), 2 * sizeof(float));
    tokens += int64_t(*marshal::counted_tokens(out));
    EXPECT_EQ(out.tensors[0].shape, (msg::Shape{1, 2}));
  }
  EXPECT_EQ(tokens, 12);
  float place = 0;
  std::memcpy(&place, std::get<msg::Outputs>(event_of(c).what).tensors[0].data.data(), sizeof place);
  EXPECT_EQ(place, 2);
}

TEST_F(Gathered, OneThatIsAloneGoesAsItIs) {
  msg::Call& alone = put("a");
  turn();
  EXPECT_EQ(sent, std::vector<msg::Call*>{&alone});
}

TEST_F(Gathered, ABatchHasItsRowsAndATenantItsOwn) {
  for (int i = 0; i < 6; ++i) put("x", 1);
  put("y", 2), put("y", 2);
  turn();
  std::vector<uint32_t> rows;
  for (auto* call : sent) rows.push_back(call->rows);
  EXPECT_EQ(rows, (std::vector<uint32_t>{4, 2, 2}));
  for (auto* call : sent) answer(*call);
  EXPECT_EQ(home.mail.size(), 8u);
}

TEST_F(Gathered, TextsThatAreTooMuchForOneRequestGoInMore) {
  const std::string half(kMostRowBytes / 2 + 1, 'x');
  put(half), put(half), put("y");
  turn();
  turn();
  size_t rows = 0;
  for (auto* call : sent) rows += call->rows;
  EXPECT_EQ(rows, 3u);
  EXPECT_GE(sent.size(), 2u);
  for (auto* call : sent)
    if (call->rows > 1) answer(*call);
}

TEST_F(Gathered, ARefusalOfWhatIsInItIsEachOnesOwn) {
  msg::Call &a = put("a"), &b = put("b");
  turn();
  ASSERT_EQ(sent.size(), 1u);
  refuse(*sent[0], Code::kInvalidArgument);
  EXPECT_TRUE(home.mail.empty());
  sent.clear();
  turn();
  EXPECT_EQ(sent, (std::vector<msg::Call*>{&a, &b}));
}

TEST_F(Gathered, ALongRowOfIdsDoesNotPadManyShortOnes) {
  spec.max_batch = 2048;
  const auto put_ids = [&](size_t n) {
    msg::Call& call = put("a");
    call.inputs.front() = marshal::ids_tensor(kIdsInput, std::vector<uint32_t>(n, 7));
  };
  put_ids(100'000);
  for (int i = 0; i < 200; ++i) put_ids(1);
  turn();
  size_t rows = 0;
  for (auto* call : sent) {
    rows += call->rows;
    EXPECT_LE(call->inputs[0].data.size(), size_t(4) << 20);
    EXPECT_EQ(texts(*call), std::vector<std::string>()) << "it can be read";
    if (call->rows > 1) answer(*call);
  }
  EXPECT_EQ(rows, 201u);
  EXPECT_LE(sent.size(), 4u);
}

TEST_F(Gathered, AnyOtherFailureIsThatOfAll) {
  msg::Call &a = put("a"), &b = put("b");
  turn();
  refuse(*sent[0], Code::kUnavailable);
  EXPECT_EQ(code_of(a), Code::kUnavailable);
  EXPECT_EQ(code_of(b), Code::kUnavailable);
}

// Answers what was sent, and what is sent for that, as an origin does that fails of the texts for which `bad` is true.
// Returns how many requests that were.
template <class Bad>
size_t answer_all(Gathered& g, Bad bad) {
  size_t requests = 0;
  for (g.turn(); !g.sent.empty(); g.turn())
    for (auto* call : std::exchange(g.sent, {})) {
      ++requests;
      const auto all = Gathered::texts(*call);
      if (std::any_of(all.begin(), all.end(), bad))
        call->home->post_here({call, {msg::Failed{failed_answer(base::failure(Code::kInternal, "500"))}}});
      else
        Gathered::answer(*call);
    }
  return requests;
}

TEST_F(Gathered, ATextThatTheOriginFailsOfFailsAlone) {
  spec.max_batch = 2048;
  for (int round = 0; round < 20; ++round) {
    home.mail.clear();
    msg::Call* bad = nullptr;
    for (int i = 0; i < 300; ++i) {
      msg::Call& call = put(i == 7 * round ? "bad" : "x");
      if (i == 7 * round) bad = &call;
    }
    EXPECT_LE(answer_all(*this, [](const std::string& text) { return text == "bad"; }), 1u + 2 * 9);
    EXPECT_EQ(home.mail.size(), 300u);
    for (const auto& mail : home.mail)
      EXPECT_EQ(std::holds_alternative<msg::Failed>(mail.event.what), mail.call == bad);
  }
}

TEST_F(Gathered, AnOriginThatFailsOfAllIsNotAskedForAllAgain) {
  size_t requests = 0;
  for (int group = 0; group < 100; ++group) {
    for (int i = 0; i < 4; ++i) put("x");
    requests += answer_all(*this, [](const std::string&) { return true; });
  }
  EXPECT_EQ(home.mail.size(), 400u);
  EXPECT_GE(requests, 100u + 128);
  EXPECT_LE(requests, 100u + 128 + 400 / 5);
}

TEST_F(Gathered, WhatLeavesWhileItsHalfWaitsIsAnswered) {
  msg::Call &a = put("a"), &b = put("b"), &c = put("c");
  turn();
  sent.front()->home->post_here(
      {std::exchange(sent, {}).front(), {msg::Failed{failed_answer(base::failure(Code::kInternal, "500"))}}});
  a.cancelled = true;
  gather->look();
  EXPECT_EQ(code_of(a), Code::kCancelled);
  turn();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0]->rows, 2u);
  b.cancelled = c.cancelled = true;
  gather->look();
  refuse(*sent[0], Code::kCancelled);
}

// Its request had the text of another, whose client has left.
TEST_F(Gathered, TheLastOneOfARequestThatFailedGoesAlone) {
  msg::Call &good = put("good"), &bad = put("bad");
  turn();
  bad.cancelled = true;
  gather->look();
  sent.front()->home->post_here(
      {std::exchange(sent, {}).front(), {msg::Failed{failed_answer(base::failure(Code::kInternal, "500"))}}});
  EXPECT_FALSE(answered(good));
  turn();
  EXPECT_EQ(sent, std::vector<msg::Call*>{&good});
}

TEST_F(Gathered, OnesThatHaveComeAnotherWayGoAnotherWay) {
  const auto trace = [](uint32_t hops) { return std::make_shared<msg::TraceFields>(msg::TraceFields{"", "", hops}); };
  put("a").trace = trace(1), put("b").trace = trace(1), put("c").trace = trace(2), put("d");
  turn();
  std::vector<uint32_t> rows;
  for (auto* call : sent) rows.push_back(call->rows);
  EXPECT_EQ(rows, (std::vector<uint32_t>{2, 1, 1}));
  for (auto* call : sent)
    if (call->rows > 1) answer(*call);
}

TEST_F(Gathered, WhoLeavesIsAnsweredAtOnceAndTheLastOneEndsTheRequest) {
  msg::Call &a = put("a"), &b = put("b"), &waits = put("c", 9);
  waits.cancelled = true;
  gather->look();
  EXPECT_EQ(code_of(waits), Code::kCancelled);
  turn();
  ASSERT_EQ(sent.size(), 1u);
  a.cancelled = true;
  gather->look();
  EXPECT_EQ(code_of(a), Code::kCancelled);
  EXPECT_FALSE(answered(b));
  EXPECT_FALSE(sent[0]->cancelled);
  b.cancelled = true;
  gather->look();
  EXPECT_EQ(code_of(b), Code::kCancelled);
  EXPECT_TRUE(sent[0]->cancelled);
  refuse(*sent[0], Code::kCancelled);
  EXPECT_EQ(home.mail.size(), 3u);
}

TEST_F(Gathered, WhatCannotBeReadGoesAloneToBeRefused) {
  msg::Call &a = put("a"), &b = put("b"), &bad = put("");
  turn();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0], &bad);
  EXPECT_EQ(sent[1]->rows, 2u);
  answer(*sent[1]);
  EXPECT_TRUE(answered(a) && answered(b));
}

TEST_F(Gathered, ARowWithoutItsTextGoesAloneToBeRefused) {
  for (std::string_view strings : {std::string_view(), std::string_view("\1\0\0\0a\1\0\0\0b", 10)}) {
    sent.clear();
    msg::Call& bad = put("a");
    bad.inputs.front() = {kTextInput, msg::DType::kBytes, {1, 1}, base::Bytes::copy_of(strings)};
    turn();
    EXPECT_EQ(sent, std::vector<msg::Call*>{&bad});
    EXPECT_FALSE(read_text_rows(bad, RowsFor::kEmbeddings, byte_ids::kVocabulary));
  }
}

TEST_F(Gathered, OneOfAnotherThreadIsAnsweredThere) {
  msg::Call &a = put("a"), &b = put("b", 0, Came::kFromElsewhere);
  turn();
  answer(*sent[0]);
  EXPECT_TRUE(answered(a) && answered(b));
}

}  // namespace
}  // namespace weir::forward
