// The TextTensorInbox over a lane that the test plays: what goes down, what comes up.
#include "engines/llm/text_tensor_inbox.h"
#include "engines/llm/text_request.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "support/generation_cases.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

// Letters are tokens: "a" = 0 … "z" = 25, "<end>" = 26.
std::string tokenizer_json() {
  std::string vocabulary;
  for (int i = 0; i < 26; ++i) vocabulary += "\"" + std::string(1, char('a' + i)) + "\":" + std::to_string(i) + ",";
  return R"({"version":"1.0","added_tokens":[{"id":26,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,
    "normalized":false,"special":true}],"normalizer":null,
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "post_processor":null,"decoder":{"type":"ByteLevel"},
    "model":{"type":"BPE","dropout":null,"unk_token":null,"fuse_unk":false,"byte_fallback":false,"vocab":{)" +
         vocabulary + R"("<end>":26},"merges":[]}})";
}

// Keeps what it is given; the test answers.
struct FakeLane final : msg::Inbox {
  struct Seen {
    std::vector<msg::Call*> calls;
    int pokes = 0;
  };
  explicit FakeLane(Seen& seen) : seen(seen) {}
  void put(msg::Call* call) override { seen.calls.push_back(call); }
  void poke() override { ++seen.pokes; }
  Seen& seen;
};

struct Answers final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    for (auto& m : burst) mail.push_back(std::move(m));
    burst.clear();
  }
  void post_here(msg::Mail&& m) override { mail.push_back(std::move(m)); }
  std::vector<msg::Mail> mail;
};

class TextTensorInboxTest : public testing::Test {
 protected:
  void SetUp() override {
    auto text = std::make_shared<msg::TextSpec>();
    auto processor = text::make_processor(tokenizer_json(), "", "");
    ASSERT_TRUE(bool(processor)) << processor.error().text;
    text->codec = *processor;
    text->vocabulary = 27, text->max_length = 100, text->eos_ids = {26};
    text->defaults.temperature = 0.25f;
    spec.text = text;
    inbox = make_text_tensor_inbox(std::make_unique<FakeLane>(lane), spec, stats);
    call.home = &home;
  }
  static msg::Tensor strings(std::string name, std::string_view value) {
    std::string data;
    msg::append_string(data, value);
    return {std::move(name), msg::DType::kBytes, {1}, base::Bytes::copy_of(data)};
  }
  msg::Call& ask(std::string_view prompt) {
    call.inputs.push_back(strings("text_input", prompt));
    inbox->put(&call);
    EXPECT_EQ(lane.calls.size(), 1u) << refusal();
    return *lane.calls.at(0);
  }
  void stream() { call.inputs.push_back({"stream", msg::DType::kBool, {1}, base::Bytes::copy_of("\x01")}); }
  std::string refusal() const {
    if (home.mail.empty()) return "";
    auto* failed = std::get_if<msg::Failed>(&home.mail.back().event.what);
    return failed ? failed->status.text : "";
  }
  // As a lane does: in one burst.
  void tell(msg::Call& inner, std::string_view letters, bool done) {
    std::vector<msg::Mail> burst;
    for (char c : letters) {
      inner.credit.fetch_sub(1);
      burst.push_back({&inner, {msg::Token{uint32_t(c == '!' ? 26 : c - 'a'), 0, false, nullptr}}});
    }
    msg::Done end;
    end.prompt_tokens = 3, end.completion_tokens = uint32_t(letters.size());
    end.finish = letters.ends_with('!') ? msg::Finish::kEos : msg::Finish::kLength;
    if (done) burst.push_back({&inner, {end}});
    inner.home->post(burst);
  }
  // "text", or "text|finish_reason" of a last one.
  std::vector<std::string> heard() const {
    std::vector<std::string> out;
    for (const auto& m : home.mail) {
      auto& outputs = std::get<msg::Outputs>(m.event.what);
      std::string text;
      msg::for_each_string(outputs.tensors.at(0).data.view(), [&](std::string_view s) { text += s; });
      if (auto* reason = msg::find(outputs.parameters, "finish_reason")) text += "|" + std::get<std::string>(*reason);
      EXPECT_EQ(outputs.final, text.find('|') != text.npos);
      out.push_back(text);
    }
    return out;
  }

  msg::ModelSpec spec;
  bus::ModelStats stats;
  FakeLane::Seen lane;
  Answers home;
  msg::Call call;
  std::unique_ptr<msg::Inbox> inbox;
};

TEST_F(TextTensorInboxTest, APromptBecomesAGenerationAndItsTokensOneAnswer) {
  call.parameters = {{"max_tokens", int64_t(7)}, {"seed", int64_t(-1)}, {"temperature", 0.5}, {"unknown", true}};
  auto& inner = ask("abc");
  ASSERT_TRUE(inner.generation);
  EXPECT_EQ(inner.generation->append, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(inner.generation->max_tokens, 7u);
  EXPECT_EQ(inner.generation->sampling.temperature, 0.5f);
  EXPECT_EQ(inner.generation->sampling.seed, ~uint64_t(0));
  tell(inner, "xy", false);
  EXPECT_TRUE(home.mail.empty());
  tell(inner, "z!", true);
  EXPECT_EQ(heard(), (std::vector<std::string>{"xyz|stop"}));
}

TEST_F(TextTensorInboxTest, DefaultsAreTheModels) {
  auto& inner = ask("a");
  EXPECT_EQ(inner.generation->max_tokens, 20u);
  EXPECT_EQ(inner.generation->sampling.temperature, 0.25f);
  tell(inner, "", true);
  EXPECT_EQ(heard(), (std::vector<std::string>{"|length"}));
}

// An origin that makes the text hears of both.
TEST_F(TextTensorInboxTest, TheTenantAndTheTraceGoOnWithTheText) {
  call.tenant = 7;
  call.trace = std::make_shared<msg::TraceFields>(msg::TraceFields{"", "", 3});
  msg::Call& tokens = ask("ab");
  EXPECT_EQ(tokens.tenant, 7u);
  EXPECT_EQ(tokens.trace, call.trace);
  tell(tokens, "!", true);
}

TEST_F(TextTensorInboxTest, StreamsComePieceByPiece) {
  stream();
  auto& inner = ask("a");
  tell(inner, "hi", false);
  tell(inner, "j", true);
  EXPECT_EQ(heard(), (std::vector<std::string>{"h", "i", "j", "|length"}));
}

TEST_F(TextTensorInboxTest, AStopStringEndsTheAnswerAtOnceAndTheTokenCallLater) {
  stream();
  call.parameters = {{"stop", std::string(R"(["xy","q"])")}};
  auto& inner = ask("a");
  tell(inner, "bx", false);
  EXPECT_EQ(heard(), (std::vector<std::string>{"b"}));  // x may be the start of it
  tell(inner, "yzz", false);
  EXPECT_EQ(heard(), (std::vector<std::string>{"b", "|stop"}));
  EXPECT_TRUE(inner.cancelled.load());
  std::vector<msg::Mail> burst;
  burst.push_back({&inner, {msg::Failed{base::failure(base::Code::kCancelled, "")}}});
  inner.home->post(burst);
  EXPECT_EQ(home.mail.size(), 2u);
}

TEST_F(TextTensorInboxTest, CreditOfAStreamIsItsCallsCredit) {
  stream();
  call.credit = 2;
  auto& inner = ask("a");
  EXPECT_EQ(inner.credit.load(), 2);
  tell(inner, "bc", false);
  EXPECT_EQ(inner.credit.load(), 0);
  call.credit.fetch_add(5);
  inbox->poke();
  EXPECT_EQ(inner.credit.load(), 5);
  EXPECT_EQ(lane.pokes, 1);
  tell(inner, "", true);
}

TEST_F(TextTensorInboxTest, ACancelledCallCancelsItsTokenCall) {
  auto& inner = ask("a");
  call.cancelled = true;
  inbox->poke();
  EXPECT_TRUE(inner.cancelled.load());
  std::vector<msg::Mail> burst;
  burst.push_back({&inner, {msg::Failed{base::failure(base::Code::kCancelled, "gone")}}});
  inner.home->post(burst);
  EXPECT_EQ(refusal(), "gone");
}

// A limiter of one token a minute tells by its wait how many it has been charged for.
struct TokenCount {
  std::shared_ptr<base::UsageLimiter> limiter =
      std::make_shared<base::UsageLimiter>("k", base::UsageLimits{.tokens_per_minute = 1});
  base::Time start = base::steady_now();
  int64_t operator()() const { return base::retry_after(limiter->again(start)) / std::chrono::minutes(1); }
};

TEST_F(TextTensorInboxTest, TokensOfThePromptAndOfTheAnswerAreChargedOnce) {
  TokenCount charged;
  call.limiter = charged.limiter;
  call.parameters = {{"stop", std::string(R"(["xy"])")}};
  auto& inner = ask("abc");
  EXPECT_EQ(charged(), 3);
  tell(inner, "bx", false);
  EXPECT_EQ(charged(), 5);
  tell(inner, "yz", false);
  EXPECT_EQ(charged(), 7) << "the lane makes one more before it sees that the answer is over";
  tell(inner, "", true);
  EXPECT_EQ(charged(), 7);
}

TEST_F(TextTensorInboxTest, TokensThatOnlyTheEndTellsOfAreChargedThen) {
  TokenCount charged;
  call.limiter = charged.limiter;
  auto& inner = ask("abc");
  std::vector<msg::Mail> burst;
  burst.push_back({&inner, {msg::Token{0, 0, false, nullptr}}});
  msg::Done end;
  end.completion_tokens = 5;
  burst.push_back({&inner, {end}});
  inner.home->post(burst);
  EXPECT_EQ(charged(), 8);
}

TEST_F(TextTensorInboxTest, CallsWithAGenerationPassThrough) {
  call.generation = std::make_unique<msg::Generation>();
  inbox->put(&call);
  EXPECT_EQ(lane.calls, (std::vector<msg::Call*>{&call}));
}

TEST_F(TextTensorInboxTest, BadParametersAreNamed) {
  call.inputs.push_back(strings("text_input", "a"));
  using P = msg::ParamValue;
  for (auto& [name, value] : std::vector<std::pair<std::string, P>>{{"max_tokens", int64_t(-2)},
                                                                    {"max_tokens", int64_t(-1)},
                                                                    {"max_tokens", P(uint64_t(1) << 63)},
                                                                    {"max_tokens", 1.5},
                                                                    {"temperature", -0.1},
                                                                    {"temperature", double(NAN)},
                                                                    {"top_p", -0.5},
                                                                    {"top_p", 1.1},
                                                                    {"top_k", int64_t(-2)},
                                                                    {"min_p", 2.0},
                                                                    {"min_tokens", int64_t(30)},
                                                                    {"stop", int64_t(3)},
                                                                    {"stop", std::string("[3]")},
                                                                    {"ignore_eos", std::string("perhaps")},
                                                                    {"repetition_penalty", 0.0},
                                                                    {"seed", 0.5},
                                                                    {"n", int64_t(2)},
                                                                    {"logit_bias", std::string("{\"1\":200}")}}) {
    call.parameters = {{name, value}};
    home.mail.clear();
    inbox->put(&call);
    EXPECT_TRUE(refusal().starts_with(name)) << name << ": " << refusal();
  }
  EXPECT_TRUE(lane.calls.empty());
}

// As a parameter of a tensor request: a number, true, false, or text; a list is JSON in text.
msg::ParamValue parameter(const std::string& json) {
  if (json == "true" || json == "false") return json == "true";
  if (json.starts_with('"')) return json.substr(1, json.size() - 2);
  if (json.starts_with('[') || json.starts_with('{')) return json;
  marshal::JsonCursor cursor(json);
  marshal::JsonNumber number;
  int64_t i = 0;
  uint64_t u = 0;
  double d = 0;
  EXPECT_TRUE(cursor.number(number) && number.to(d)) << json;
  if (number.to(i)) return i;
  if (number.to(u)) return u;
  return d;
}

TEST_F(TextTensorInboxTest, EveryGenerationParameterIsTakenInItsRangeAndRefusedByName) {
  msg::TextSpec text = *spec.text;
  text.vocabulary = UINT32_MAX;
  auto check = [&](const support::GenerationCase& c) {
    auto request = read_text_request(call, text);
    EXPECT_EQ(bool(request), c.good) << c.name << " " << c.value;
    EXPECT_TRUE(request || request.error().text.starts_with(c.name)) << c.name << c.value;
  };
  for (const auto& c : support::json_cases(marshal::Protocol::kTriton)) {
    const std::string most = R"({"max_tokens":4294967295,")";
    call.inputs = {strings("text_input", "x"), strings("sampling_parameters", most + c.name + "\":" + c.value + "}")};
    call.parameters.clear();
    check(c);
    const bool text_of_its_own = c.name.starts_with("stop") && c.value == "{}" && c.name != "stop_token_ids";
    if (text_of_its_own) continue;           // as a parameter, it is that stop string
    if (support::is_form(c.name)) continue;  // as a parameter, a list or a number may be a form's text
    call.inputs = {strings("text_input", "x")};
    call.parameters = {{"max_tokens", int64_t(UINT32_MAX)}, {c.name, parameter(c.value)}};
    check(c);
  }
}

TEST_F(TextTensorInboxTest, PromptsThatAreNoneAreRefused) {
  inbox->put(&call);
  EXPECT_EQ(refusal(), "text_input is missing");
  call.inputs = {strings("text_input", "")};
  inbox->put(&call);
  EXPECT_EQ(refusal(), "text_input is empty");
  call.inputs = {strings("text_input", std::string(101 * 128, 'a'))};
  inbox->put(&call);
  EXPECT_EQ(refusal(), "12928 bytes do not fit the model's context of 100 tokens");
  EXPECT_EQ(std::get<msg::Failed>(home.mail.back().event.what).status.code, base::Code::kOutOfRange);
}

// The tokenizer worker is a thread of its own; what it hands to the lane is awaited.
struct AwaitedLane final : msg::Inbox {
  explicit AwaitedLane(std::promise<msg::Call*>& came) : came(came) {}
  void put(msg::Call* call) override { came.set_value(call); }
  std::promise<msg::Call*>& came;
};

TEST_F(TextTensorInboxTest, ALongPromptIsTokenizedByAnotherThread) {
  std::promise<msg::Call*> came;
  inbox = nullptr;
  const_cast<msg::TextSpec&>(*spec.text).max_length = 100'000;
  inbox = make_text_tensor_inbox(std::make_unique<AwaitedLane>(came), spec, stats);
  call.inputs.push_back(strings("text_input", std::string(50'000, 'c')));
  inbox->put(&call);
  msg::Call& inner = *came.get_future().get();
  EXPECT_EQ(inner.generation->append, std::vector<uint32_t>(50'000, 2));
  tell(inner, "z!", true);
  EXPECT_EQ(heard(), (std::vector<std::string>{"z|stop"}));
}

TEST_F(TextTensorInboxTest, ParametersOfAnyShapeAreHarmless) {
  auto refused = [&](const std::string& json) {
    call.inputs = {strings("text_input", "ab"), strings("sampling_parameters", json)};
    inbox->put(&call);
    return refusal();
  };
  auto deep = [](size_t n) { return "{\"x\":" + std::string(n - 1, '[') + std::string(n - 1, ']') + "}"; };
  for (size_t levels : {101, 60'000})
    EXPECT_TRUE(refused(deep(levels)).starts_with("sampling_parameters must be")) << levels;
  EXPECT_EQ(refused("{\"stop\":" + std::string(50'000, '[') + std::string(50'000, ']') + "}"),
            "stop must be a string or a list of strings, not a list");
  for (const std::string& longer : {deep(500'000), "{" + std::string((128 << 10) - 1, ' ') + "}"})
    EXPECT_EQ(refused(longer), "sampling_parameters must have at most 131072 bytes");
  EXPECT_EQ(lane.calls.size(), 0u);
  home.mail.clear();
  EXPECT_EQ(refused(deep(100)), "");
  EXPECT_EQ(lane.calls.size(), 1u);
  tell(*lane.calls.at(0), "c!", true);
  home.mail.clear(), lane.calls.clear();
  EXPECT_EQ(refused("{" + std::string((128 << 10) - 2, ' ') + "}"), "");
  ASSERT_EQ(lane.calls.size(), 1u);
  tell(*lane.calls.at(0), "c!", true);
}

TEST_F(TextTensorInboxTest, AStopStringIsNoFailure) {
  call.parameters = {{"stop", std::string("yz")}};
  auto& inner = ask("a");
  tell(inner, "xyz", false);
  EXPECT_EQ(heard(), (std::vector<std::string>{"x|stop"}));
  EXPECT_TRUE(inner.cancelled.load());
  EXPECT_TRUE(inner.satisfied.load());
  tell(inner, "", true);
}

}  // namespace
}  // namespace weir::llm
