// …/generate and …/generate_stream, of tensors and of text.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench.h"
#include "dialects/oip/text_request.h"
#include "support/counted_slabs.h"
#include "support/generation_cases.h"
#include "support/held_workers.h"
#include "support/model_spec.h"
#include "support/text_models.h"
#include "wire/codec.h"

namespace weir::oip {
namespace {

using base::Code;
using msg::Finish;
using Json = nlohmann::json;

class Generate : public testing::Test {
 protected:
  Generate() { bench.models.add(support::text_spec("m")); }

  support::RpcBench::Opened post(std::string path, const Json& body) {
    return bench.open_rest("POST", "/v2/models/" + path, body.dump());
  }
  support::ScriptedAnswer<support::ScriptedInbox> scripted() { return {bench.inbox("m"), call()}; }
  msg::Call* call() { return bench.inbox("m").held.at(0); }
  static std::vector<Json> events(const support::FakeExchange& x) {
    std::vector<Json> out;
    std::string_view rest = x.sent;
    for (size_t end; (end = rest.find("\n\n")) != rest.npos; rest.remove_prefix(end + 2))
      out.push_back(Json::parse(rest.substr(6, end - 6)));
    EXPECT_TRUE(rest.empty());
    return out;
  }

  OipBench bench;
};

TEST_F(Generate, MembersAreInputsByNameAndParametersElse) {
  auto x =
      post("add/generate", {{"a", {1, 2}}, {"b", 0}, {"temperature", 0.5}, {"id", "7"}, {"parameters", {{"k", true}}}});
  EXPECT_EQ(x->response.status, 400) << "b has two elements";
  EXPECT_EQ(post("add/generate", {{"a", {1, 2}}, {"parameters", 1}})->response.status, 400) << "no object";
  auto y = post("add/generate", {{"a", {1, 2}}, {"temperature", 0.5}, {"id", "7"}, {"parameters", {{"k", true}}}});
  ASSERT_EQ(bench.models.seen("add").size(), 1u) << y->sent;
  EXPECT_EQ(bench.models.seen("add")[0], "add/1 rows=1 id=7 | a INT32 [1,2] [1,2] | with k=true temperature=0.5");
  auto& inbox = bench.inbox("add");
  inbox.finish(inbox.held[0], outputs("sum INT32 [1,2] [3,4]; text BYTES [1,1] [\"t\"]"));
  bench.turn();
  EXPECT_EQ(y->sent, R"({"id":"7","model_name":"add","model_version":"1","sum":[3,4],"text":"t"})");
}

TEST_F(Generate, AValueAloneIsATensorOfOneElementAndAnOpenDimensionIsWorkedOut) {
  auto x = post("text/versions/1/generate", {{"s", "hi"}});
  EXPECT_EQ(bench.models.seen("text")[0], R"(text/1 rows=1 | s BYTES [1] ["hi"])");
  auto y = post("blob/generate", Json::parse(R"({"x":[[1,2,3],[4,5,6]]})"));
  EXPECT_EQ(bench.models.seen("blob")[0], "blob/1 rows=1 | x FP32 [2,3] [1.0,2.0,3.0,4.0,5.0,6.0]");
}

TEST_F(Generate, SeveralOpenDimensionsAreShapedByTheDataAsTritonDoes) {
  auto open = support::model_spec("open", {{"x", msg::DType::kInt32, {-1, 2, -1}, false, {}}}, {});
  bench.models.add(open);
  open.name = "rows", open.max_batch = 4;
  bench.models.add(open);
  const std::tuple<const char*, const char*, const char*> cases[] = {{"open", "[1,2,3,4]", "[1,2,2]"},
                                                                     {"open", "[[[1],[2]],[[3],[4]]]", "[2,2,1]"},
                                                                     {"open", "[]", "[1,2,0]"},
                                                                     {"rows", "[1,2,3,4]", "[1,1,2,2]"},
                                                                     {"rows", "[[[[1],[2]],[[3],[4]]]]", "[1,2,2,1]"}};
  for (auto [model, data, shape] : cases) {
    auto x = post(std::string(model) + "/generate", {{"x", Json::parse(data)}});
    ASSERT_FALSE(x->headed) << data << ": " << x->sent;
    const auto seen = bench.models.seen(model);
    EXPECT_NE(seen.back().find(std::string("x INT32 ") + shape), std::string::npos) << data << ": " << seen.back();
  }
  for (const char* data : {"[1,2,3]", "[[1,2],[3,4]]", "[[[1],[2]],[[3],[4,5]]]", "[[[1],[2]],[[3]]]"})
    EXPECT_EQ(post("open/generate", {{"x", Json::parse(data)}})->response.status, 400) << data;
}

TEST_F(Generate, StreamsHaveOneEventForEachAnswerAndNoDone) {
  auto x = post("flow/generate_stream", {{"n", 2}});
  auto& inbox = bench.inbox("flow");
  inbox.post(inbox.held[0], outputs("o INT32 [1] [5]", false));
  inbox.finish(inbox.held[0], outputs("o INT32 [1] [6]"));
  bench.turn();
  EXPECT_EQ(x->response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(x->sent,
            "data: {\"model_name\":\"flow\",\"model_version\":\"1\",\"o\":5}\n\n"
            "data: {\"model_name\":\"flow\",\"model_version\":\"1\",\"o\":6}\n\n");
  EXPECT_TRUE(x->ended);
}

TEST_F(Generate, AModelThatAnswersTwiceNeedsTheStream) {
  auto x = post("flow/generate", {{"n", 2}});
  auto& inbox = bench.inbox("flow");
  inbox.post(inbox.held[0], outputs("o INT32 [1] [5]", false));
  inbox.finish(inbox.held[0], outputs("o INT32 [1] [6]"));
  bench.turn();
  EXPECT_EQ(x->response.status, 501);
  EXPECT_NE(x->sent.find("generate_stream"), std::string::npos);
}

TEST_F(Generate, TextHasDetailsWhenAskedFor) {
  auto x =
      post("m/generate", {{"text_input", "ab"},
                          {"parameters", {{"details", true}, {"temperature", 0}, {"stop", {"x"}}, {"max_tokens", 5}}}});
  EXPECT_EQ(support::prompt_of(*call()), "ab");
  EXPECT_EQ(call()->generation->max_tokens, 5u);
  EXPECT_EQ(call()->generation->sampling.temperature, 0);
  auto v = scripted();
  v.token('H', support::likely(-0.5F));
  v.token(support::kEnd, support::likely(-1));
  v.done(Finish::kEos);
  bench.turn();
  EXPECT_EQ(Json::parse(x->sent), Json::parse(R"({"model_name":"m","model_version":"1","text_output":"H","details":
      {"finish_reason":"eos_token","logprobs":[{"id":72,"text":"H","logprob":-0.5,"special":false},
      {"id":256,"text":"<|end|>","logprob":-1.0,"special":true}]}})"));
}

// One client over HTTP/1 whose memory is counted asks for a text with details, of which `tokens` come.
class DetailsMemory : public Generate {
 protected:
  DetailsMemory() { bench.models.add(support::text_spec("long", 2000)); }
  void ask() {
    const std::string body = R"({"text_input":"ab","max_tokens":900,"details":true})";
    support::feed(*h1, "POST /v2/models/long/generate HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  void say(int tokens) {
    auto v = scripted_long();
    for (int i = 0; i < tokens; ++i) v.token('H', support::likely(-0.5F));
    bench.turn();
  }
  support::ScriptedAnswer<support::ScriptedInbox> scripted_long() {
    return {bench.inbox("long"), bench.inbox("long").held.at(0)};
  }
  support::CountedSlabs slabs{1 << 20};
  support::FakeWire connection;
  wire::Limits limits;
  wire::PeerInfo peer{"127.0.0.1:5000", wire::Security::kCleartext};
  wire::CodecEnv env{bench.wire.router, slabs, limits};
  std::unique_ptr<wire::Codec> h1 = wire::make_h1(env, connection, peer);
};

TEST_F(DetailsMemory, IsChargedUntilTheAnswerIsOut) {
  ask();
  say(500);
  EXPECT_GE(slabs.memory.held(base::MemoryKind::kAnswers), 500u * 40);
  scripted_long().done();
  bench.turn();
  EXPECT_EQ(support::take_output(*h1).substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(slabs.memory.held(base::MemoryKind::kAnswers), 0u);
  h1->closed();
}

TEST_F(DetailsMemory, WithoutRoomTheModelIsToldToStop) {
  ask();
  slabs.memory.add(base::MemoryKind::kSlabs, slabs.memory.budget() - slabs.memory.held() - 20'000);
  say(500);
  EXPECT_TRUE(bench.inbox("long").held.at(0)->cancelled.load());
  std::string out = support::take_output(*h1);
  EXPECT_EQ(out.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(out.find("there is no memory for the answer"), out.npos);
  h1->closed();
}

TEST_F(Generate, TextWithoutDetailsHasTwentyTokens) {
  auto x = post("m/generate", {{"text_input", {"ab"}}});
  EXPECT_EQ(call()->generation->max_tokens, 20u);
  auto v = scripted();
  v.emit("cd");
  v.done();
  bench.turn();
  EXPECT_EQ(x->sent, R"({"model_name":"m","model_version":"1","text_output":"cd"})");
}

TEST_F(Generate, TextMayBeginWithThePrompt) {
  auto x = post("m/generate",
                {{"text_input", "ab"}, {"exclude_input_in_output", false}, {"sampling_parameters", R"({"top_k":3})"}});
  EXPECT_EQ(call()->generation->sampling.top_k, 3u);
  auto v = scripted();
  v.emit("c");
  v.done();
  bench.turn();
  EXPECT_EQ(Json::parse(x->sent)["text_output"], "abc");
}

TEST_F(Generate, TextStreamsTokenByTokenUntilAStopString) {
  auto x = post("m/generate_stream", {{"text_input", "ab"}, {"stop", "lo"}, {"details", true}});
  auto v = scripted();
  v.emit("h");
  bench.turn();
  EXPECT_EQ(events(*x).size(), 1u);
  v.emit("elo!");
  bench.turn();
  EXPECT_TRUE(x->ended);
  EXPECT_TRUE(call()->cancelled.load());
  std::string text;
  for (const Json& event : events(*x)) text += event["text_output"].get<std::string>();
  EXPECT_EQ(text, "he");
  EXPECT_EQ(events(*x).front()["details"]["token"]["text"], "h");
  EXPECT_TRUE(events(*x).front()["details"]["finish_reason"].is_null());
  EXPECT_EQ(events(*x).back()["details"]["finish_reason"], "stop_sequence");
}

// A long prompt, or a queue: proxies give a silent answer up after a minute.
TEST_F(Generate, ASilentStreamHasCommentsAndItsErrorsAreEvents) {
  auto x = post("m/generate_stream", {{"text_input", "ab"}});
  bench.wire.env.advance(std::chrono::seconds(31));
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->sent, ": ping\n\n: ping\n\n");
  auto v = scripted();
  v.emit("h"), v.fail(base::Code::kInternal, "broken");
  bench.turn();
  EXPECT_TRUE(x->ended);
  EXPECT_NE(x->sent.find("\"text_output\":\"h\""), std::string::npos);
  EXPECT_TRUE(x->sent.ends_with("data: {\"error\":\"broken\"}\n\n")) << x->sent;
  auto whole = post("m/generate", {{"text_input", "ab"}});
  bench.wire.env.advance(std::chrono::seconds(31));
  EXPECT_EQ(whole->sent, "") << "one answer has its status when it is known";
}

TEST_F(Generate, TextRepeatsItsIdAsAWholeAndInEachEvent) {
  auto x = post("m/generate", {{"text_input", "ab"}, {"id", "x\"1"}});
  auto emit = [&] {
    auto v = scripted();
    v.token('c'), v.done(Finish::kLength);
    bench.turn();
  };
  emit();
  EXPECT_EQ(x->sent, R"({"id":"x\"1","model_name":"m","model_version":"1","text_output":"c"})");
  auto y = post("m/generate_stream", {{"text_input", "ab"}, {"id", "2"}});
  emit();
  ASSERT_FALSE(events(*y).empty());
  for (const Json& event : events(*y)) EXPECT_EQ(event["id"], "2");
}

TEST_F(Generate, WordsAndIdsAsTritonsTextBackEndsHaveThem) {
  auto x = post("m/generate", {{"text_input", "ab"},
                               {"stop_words", {"lo", ""}},
                               {"bad_words", "z"},
                               {"end_id", 104},
                               {"pad_id", 2},
                               {"stop", "!"}});
  ASSERT_FALSE(bench.inbox("m").held.empty()) << x->sent;
  const auto& g = *call()->generation;
  EXPECT_TRUE(g.ignore_eos);
  EXPECT_EQ(g.stop_ids, std::vector<uint32_t>{104});
  ASSERT_EQ(g.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(g.sampling.logit_bias[0].first, uint32_t('z'));
  EXPECT_LT(g.sampling.logit_bias[0].second, -1e6F);
  scripted().emit("elo");
  bench.turn();
  EXPECT_EQ(Json::parse(x->sent)["text_output"], "e") << "up to the stop word";
}

TEST_F(Generate, TheModelsOwnEndAsEndIdChangesNothingAndMinusOneIsNoEnd) {
  auto x = post("m/generate", {{"text_input", "ab"}, {"end_id", 256}, {"bad_words", Json::array({""})}});
  EXPECT_FALSE(call()->generation->ignore_eos);
  EXPECT_TRUE(call()->generation->stop_ids.empty());
  auto y = post("m/generate", {{"text_input", "ab"}, {"parameters", {{"end_id", -1}, {"stop_words", "x"}}}});
  EXPECT_TRUE(bench.inbox("m").held.at(1)->generation->ignore_eos);
  EXPECT_TRUE(bench.inbox("m").held.at(1)->generation->stop_ids.empty());
}

TEST_F(Generate, FailuresHaveAStatusOrAnEvent) {
  auto x = post("m/generate_stream", {{"text_input", "ab"}});
  scripted().fail(Code::kResourceExhausted, "full");
  bench.turn();
  EXPECT_EQ(x->response.status, 429);
  auto y = post("m/generate_stream", {{"text_input", "ab"}});
  auto v = scripted();
  v.emit("c");
  v.fail(Code::kInternal, "broken");
  bench.turn();
  EXPECT_EQ(y->response.status, 200);
  EXPECT_EQ(events(*y).back(), Json::parse(R"({"error":"broken"})"));
  EXPECT_TRUE(y->ended);
}

// As clients of Triton's TensorRT-LLM back end write them.
TEST_F(Generate, MembersThatAskForNothingArePassedOver) {
  auto x = post("m/generate", Json::parse(R"({"text_input":"hi","max_tokens":20,"beam_width":1,"runtime_top_k":0,
      "num_return_sequences":1,"length_penalty":1.0,"return_log_probs":false,"embedding_bias_words":[]})"));
  EXPECT_EQ(call()->generation->max_tokens, 20u);
  scripted().done();
  bench.turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(post("m/generate", {{"text_input", "hi"}, {"beam_width", 2}})->response.status, 400);
}

TEST_F(Generate, BadTextRequestsNameTheMember) {
  auto error = [&](const Json& body) {
    auto x = post("m/generate", body);
    EXPECT_EQ(x->response.status, 400);
    return Json::parse(x->sent)["error"].get<std::string>();
  };
  EXPECT_EQ(error({{"prompt", "x"}}), "prompt: no such parameter");
  EXPECT_EQ(error(Json::object()), "text_input: it is missing");
  EXPECT_EQ(error({{"text_input", "x"}, {"stream", true}}), "stream: use generate_stream");
  EXPECT_EQ(error({{"text_input", "x"}, {"temperature", 101}}), "temperature must be >= 0 and <= 100, not 101");
  EXPECT_EQ(error({{"text_input", 1}}), "text_input must be a string, not 1");
  EXPECT_EQ(error({{"text_input", "x"}, {"bad_words", "yes"}}),
            "bad_words: 'yes' is 4 tokens of this model; words of one token can be kept out");
  EXPECT_EQ(error({{"text_input", "x"}, {"end_id", 260}}),
            "end_id: token id 260 is not below 260, the size of the vocabulary");
  EXPECT_EQ(error({{"text_input", "x"}, {"stop_words", 1}}), "stop_words must be a string or a list of strings, not 1");
  EXPECT_NE(error({{"text_input", "x"}, {"stop_words", std::vector<std::string>(65, "a")}}).find("at most 64"),
            std::string::npos);
  EXPECT_NE(error({{"text_input", "x"}, {"pad_id", "a"}}).find("pad_id must be a whole number"), std::string::npos);
  EXPECT_NE(error({{"text_input", std::string(201, 'x')}}).find("context"), std::string::npos);
  EXPECT_EQ(post("nope/generate", {{"text_input", "x"}})->response.status, 404);
  EXPECT_EQ(post("m/generate", {{"text_input", "x"}, {"bad_words", ""}})->headed, false) << "empty members ask nothing";
}

TEST(GenerateText, EveryGenerationParameterIsTakenInItsRangeAndRefusedByName) {
  for (const auto& c : support::json_cases(marshal::Protocol::kTriton)) {
    const std::string member = "\"" + c.name + "\":" + c.value;
    for (const std::string& body :
         {R"({"text_input":"x",)" + member + "}", R"({"text_input":"x","parameters":{)" + member + "}}",
          R"({"text_input":"x","sampling_parameters":)" + Json("{" + member + "}").dump() + "}"}) {
      TextRequest request;
      const base::Status status = read_text_request(body, request);
      EXPECT_EQ(status.ok(), c.good) << body << ": " << status.text;
      EXPECT_TRUE(c.good || status.text.starts_with(c.name)) << body << ": " << status.text;
    }
  }
}

TEST(GenerateText, NumbersMayBeStrings) {
  TextRequest request;
  const std::string words = R"({"temperature":"0.25","top_k":"3","ignore_eos":"true","seed":"7"})";
  ASSERT_TRUE(
      read_text_request(R"({"text_input":"x","sampling_parameters":)" + Json(words).dump() + "}", request).ok());
  EXPECT_EQ(request.params.temperature, 0.25F);
  EXPECT_EQ(request.params.top_k, 3);
  EXPECT_EQ(request.params.seed, 7u);
  EXPECT_TRUE(request.params.ignore_eos);
}

TEST_F(Generate, AClientThatLeavesCancels) {
  auto x = post("m/generate_stream", {{"text_input", "ab"}});
  x.reset();
  EXPECT_TRUE(call()->cancelled.load());
}

// ---- The same model as one of tensors

TEST_F(Generate, ATextModelAnswersInferOnceAndIsRefusedWhereItStreams) {
  Json body = {{"inputs", {{{"name", "text_input"}, {"shape", {1}}, {"datatype", "BYTES"}, {"data", {"ab"}}}}}};
  auto x = post("m/infer", body);
  auto& inbox = bench.inbox("m");
  inbox.finish(inbox.held.at(0), outputs(R"(text_output BYTES [1] ["cd"])"));
  bench.turn();
  EXPECT_EQ(x->response.status, 200) << x->sent;
  EXPECT_EQ(Json::parse(x->sent)["outputs"][0]["data"][0], "cd");
  auto y = post("m/infer", body);
  inbox.post(inbox.held.at(0), outputs(R"(text_output BYTES [1] ["c"])", false));
  inbox.finish(inbox.held.at(0), outputs(R"(text_output BYTES [1] ["d"])"));
  bench.turn();
  EXPECT_EQ(y->response.status, 501);
}

TEST_F(Generate, ALongPromptIsTokenizedByWorkers) {
  bench.models.add(support::text_spec("long", 100'000));
  support::HeldWorkers workers;
  bench.bus.set_worker_pool(workers);
  const std::string text(20'000, 'x');
  auto x = post("long/generate", {{"text_input", text}, {"exclude_input_in_output", false}});
  auto gone = post("long/generate_stream", {{"text_input", text}});
  auto busy = post("long/generate_stream", {{"text_input", text}});
  ASSERT_EQ(workers.held.size(), 3u);
  gone.reset();
  EXPECT_TRUE(workers.held[1]->cancelled.load());
  auto y = post("m/generate", {{"text_input", "ab"}});
  EXPECT_EQ(bench.inbox("m").held.size(), 1u);
  auto* last = workers.held.back();
  workers.held.pop_back();
  workers.work();
  workers.held.push_back(last);
  workers.refuse(base::try_again(Code::kResourceExhausted, "too many"));
  bench.turn();
  EXPECT_EQ(busy->response.status, 429);
  ASSERT_EQ(bench.inbox("long").held.size(), 1u);
  support::ScriptedAnswer<support::ScriptedInbox> v{bench.inbox("long"), bench.inbox("long").held[0]};
  v.emit("ok");
  v.end();
  bench.turn();
  EXPECT_EQ(Json::parse(x->sent)["text_output"], text + "ok");
  scripted().end();
  bench.turn();
}

}  // namespace
}  // namespace weir::oip
