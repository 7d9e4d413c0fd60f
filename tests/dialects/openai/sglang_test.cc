// SGLang's own routes on the same models.
#include "bench.h"

namespace weir::openai {
namespace {

class Sglang : public OpenaiBench {
 protected:
  Opened ask(Json body) {
    body.emplace("model", "m");
    return open("POST", "/generate", body.dump());
  }
  static Json params(Json more) { return more; }
};

TEST_F(Sglang, AnAnswerHasItsTextIdsAndFigures) {
  auto x = ask({{"text", "ab"},
                {"rid", "mine"},
                {"sampling_params",
                 {{"max_new_tokens", 3},
                  {"temperature", 0.5},
                  {"top_k", -1},
                  {"stop", nullptr},
                  {"stop_token_ids", {99}},
                  {"spaces_between_special_tokens", true}}}});
  EXPECT_EQ(call()->generation->max_tokens, 3u);
  EXPECT_EQ(call()->generation->sampling.temperature, 0.5F);
  EXPECT_EQ(support::prompt_of(*call()), "ab");
  scripted().emit("xyz");
  scripted().done();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["text"], "xyz");
  EXPECT_EQ(answer["output_ids"], Json({'x', 'y', 'z'}));
  const Json& meta = answer["meta_info"];
  EXPECT_EQ(meta["id"], "mine");
  EXPECT_EQ(meta["finish_reason"], Json::parse(R"({"type":"length","length":3})"));
  EXPECT_EQ(meta["prompt_tokens"], 2);
  EXPECT_EQ(meta["completion_tokens"], 3);
  EXPECT_EQ(meta["cached_tokens"], 0);
  EXPECT_TRUE(meta["e2e_latency"].is_number());
  EXPECT_FALSE(meta.contains("output_token_logprobs"));
}

TEST_F(Sglang, WithoutALengthItHas128TokensAndNullIsWhatTheContextHas) {
  auto x = ask({{"text", "ab"}});
  EXPECT_EQ(call()->generation->max_tokens, 128u);
  auto y = ask({{"text", "ab"}, {"sampling_params", {{"max_new_tokens", nullptr}}}});
  EXPECT_EQ(call(1)->generation->max_tokens, 198u);
  auto z = ask({{"text", "ab"}, {"sampling_params", {{"max_new_tokens", 1'000'000}}}});
  EXPECT_EQ(call(2)->generation->max_tokens, 198u) << "it is cut to the context";
}

TEST_F(Sglang, TheReasonSaysWhatMatched) {
  auto x = ask({{"text", "ab"}, {"sampling_params", {{"stop", "y"}}}});
  scripted().emit("xy");
  turn();
  EXPECT_EQ(json(x)["text"], "x");
  EXPECT_EQ(json(x)["meta_info"]["finish_reason"], Json::parse(R"({"type":"stop","matched":"y"})"));
  auto y = ask({{"text", "ab"}});
  ASSERT_EQ(inbox().held.size(), 2u) << "the model still has the one that was stopped";
  scripted(1).emit("x");
  scripted(1).end();
  turn();
  EXPECT_EQ(json(y)["meta_info"]["finish_reason"], Json({{"type", "stop"}, {"matched", support::kEnd}}));
}

TEST_F(Sglang, ListsOfTextsAndSeveralChoicesHaveLists) {
  auto x = ask({{"text", {"a", "b"}}, {"rid", {"r", "s"}}, {"sampling_params", {{"n", 2}}}});
  ASSERT_EQ(inbox().held.size(), 4u) << x->sent;
  for (int i = 0; i < 4; ++i) scripted(size_t(i)).emit(std::to_string(i));
  while (!inbox().held.empty()) scripted().done();
  turn();
  Json answers = json(x);
  ASSERT_EQ(answers.size(), 4u);
  std::string said;
  for (const Json& one : answers)
    said += one["meta_info"]["id"].get<std::string>() + '=' + one["text"].get<std::string>() + ' ';
  EXPECT_EQ(said, "r_0=0 r_1=1 s_0=2 s_1=3 ");
  auto y = ask({{"input_ids", Json::parse("[[97,98]]")}});
  EXPECT_EQ(support::prompt_of(*call()), "ab");
  scripted().done();
  turn();
  EXPECT_EQ(json(y).size(), 1u);
  EXPECT_TRUE(json(y).is_array()) << "of a list of one, too";
}

TEST_F(Sglang, LogprobsAreTriples) {
  auto x = ask({{"text", "ab"},
                {"return_logprob", true},
                {"logprob_start_len", 0},
                {"top_logprobs_num", 1},
                {"return_text_in_logprobs", true}});
  scripted().prompt(0, {});
  scripted().prompt(1, *likely(-2, {{'q', -1}}));
  scripted().token('c', likely(-0.5F, {{'c', -0.5F}}));
  scripted().done();
  turn();
  Json meta = json(x)["meta_info"];
  EXPECT_EQ(meta["input_token_logprobs"], Json::parse(R"([[null,97,"a"],[-2.0,98,"b"]])"));
  EXPECT_EQ(meta["input_top_logprobs"], Json::parse(R"([null,[[-1.0,113,"q"]]])"));
  EXPECT_EQ(meta["output_token_logprobs"], Json::parse(R"([[-0.5,99,"c"]])"));
  EXPECT_EQ(meta["output_top_logprobs"], Json::parse(R"([[[-0.5,99,"c"]]])"));
}

TEST_F(Sglang, AStreamsEventsHaveTheTextSoFar) {
  auto x = ask({{"text", "ab"}, {"stream", true}, {"return_logprob", true}});
  scripted().token('c', likely(-1));
  turn();
  EXPECT_EQ(events(x).back()["text"], "c");
  EXPECT_TRUE(events(x).back()["meta_info"]["finish_reason"].is_null());
  scripted().token('d', likely(-2));
  scripted().done();
  turn();
  ASSERT_TRUE(x->ended);
  auto all = events(x);
  EXPECT_EQ(all.back(), "[DONE]");
  const Json& last = all[all.size() - 2];
  EXPECT_EQ(last["text"], "cd");
  EXPECT_EQ(last["meta_info"]["output_token_logprobs"], Json::parse("[[-1.0,99,null],[-2.0,100,null]]"));
  EXPECT_EQ(last["meta_info"]["finish_reason"]["type"], "length");
  EXPECT_FALSE(last.contains("index"));
}

// An event that it has not read is replaced by what is newer, and does not pile up.
TEST_F(Sglang, ASlowReaderGetsFewerEventsAndAllOfTheText) {
  auto x = ask({{"text", {"a", "b"}}, {"stream", true}});
  scripted(0).emit("c");
  turn();
  const size_t told = events(x).size();
  x->fake_backlog = size_t(64) << 20;
  scripted(0).emit(std::string(100, 'c'));
  scripted(1).emit("dd");
  turn();
  EXPECT_EQ(events(x).size(), told);
  while (!inbox().held.empty()) scripted().done();
  turn();
  EXPECT_EQ(events(x).size(), told);
  EXPECT_FALSE(x->ended);
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  ASSERT_TRUE(x->ended);
  auto all = events(x);
  ASSERT_EQ(all.size(), told + 3);
  EXPECT_EQ(all[told]["text"], std::string(101, 'c'));
  EXPECT_EQ(all[told + 1]["text"], "dd");
  EXPECT_EQ(all[told + 1]["index"], 1);
  EXPECT_EQ(all.back(), "[DONE]");
}

// Each event has all of the answer: one for each token would be a thousand times the answer.
TEST_F(Sglang, TheEventsOfALongAnswerAreNotManyTimesAsLong) {
  auto x = ask({{"text", "ab"},
                {"stream", true},
                {"return_logprob", true},
                {"top_logprobs_num", 20},
                {"return_text_in_logprobs", true},
                {"sampling_params", {{"max_new_tokens", 180}}}});
  std::vector<msg::TokenLogprob> top;
  for (uint32_t id = 'a'; id < 'a' + 20; ++id) top.push_back({id, -1.25F});
  for (int i = 0; i < 180; ++i) {
    scripted().token('c', likely(-1, top));
    turn();
  }
  scripted().done();
  turn();
  ASSERT_TRUE(x->ended);
  auto all = events(x);
  const Json& last = all[all.size() - 2];
  EXPECT_EQ(last["meta_info"]["output_top_logprobs"].size(), 180u);
  EXPECT_EQ(last["text"], std::string(180, 'c'));
  EXPECT_GT(all.size(), 40u) << "the first ones come token by token";
  EXPECT_LT(x->sent.size(), 15 * last.dump().size());
}

TEST_F(Sglang, TheEventsOfALongAnswerComeEachSecondAndBeforeAFailure) {
  auto x = ask({{"text", "ab"},
                {"stream", true},
                {"return_logprob", true},
                {"top_logprobs_num", 20},
                {"return_text_in_logprobs", true},
                {"sampling_params", {{"max_new_tokens", 180}}}});
  std::vector<msg::TokenLogprob> top;
  for (uint32_t id = 'a'; id < 'a' + 20; ++id) top.push_back({id, -1.25F});
  size_t said = 0;
  const auto told = [&] {
    size_t count = 0;
    for (size_t at = x->sent.find("data: "); at != std::string::npos; at = x->sent.find("data: ", at + 1)) ++count;
    return count;
  };
  const auto new_events = [&] {  // with one more token
    const size_t before = told();
    scripted().token('c', likely(-1, top));
    turn();
    ++said;
    return told() - before;
  };
  while (said < 100) (void)new_events();
  while (new_events() > 0) ASSERT_LT(said, 110u) << "none is held back";
  env.advance(std::chrono::seconds(1));
  EXPECT_EQ(new_events(), 1u);
  EXPECT_EQ(events(x).back()["text"], std::string(said, 'c'));
  EXPECT_EQ(new_events(), 0u);
  scripted().fail(base::Code::kInternal, "broken");
  turn();
  const auto all = events(x);
  EXPECT_TRUE(all[all.size() - 2].contains("error"));
  EXPECT_EQ(all[all.size() - 3]["text"], std::string(said, 'c'));
}

// Written at once a hundred choices would hold up the shard.
TEST_F(Sglang, ManyLongChoicesAreWrittenWhileThePeerTakesThem) {
  std::vector<msg::TokenLogprob> top;
  for (uint32_t id = 'a'; id < 'a' + 20; ++id) top.push_back({id, -1.25F});
  for (const char* path : {"/generate", "/v1/completions"}) {
    const size_t before = inbox().held.size();
    const Json openai = {{"model", "m"}, {"prompt", "ab"}, {"n", 100}, {"logprobs", 20}, {"max_tokens", 100}};
    const Json sglang = {{"model", "m"},
                         {"text", "ab"},
                         {"return_logprob", true},
                         {"top_logprobs_num", 20},
                         {"sampling_params", {{"max_new_tokens", 100}, {"n", 100}}}};
    auto x = open("POST", path, (path[1] == 'g' ? sglang : openai).dump());
    x->reads = false;
    ASSERT_EQ(inbox().held.size(), before + 100) << x->sent;
    for (size_t i = 0; i < 100; ++i)
      for (int token = 0; token < 100; ++token) scripted(i).token('c', likely(-1, top));
    while (!inbox().held.empty()) scripted().done();
    turn();
    EXPECT_FALSE(x->ended) << path;
    EXPECT_LT(x->sent.size(), size_t(2) << 20) << path;
    while (!x->ended) x->fake_backlog = 0, x->listener()->on_drain(*x);
    const Json answer = json(x);
    EXPECT_EQ((path[1] == 'g' ? answer : answer["choices"]).size(), 100u);
  }
}

TEST_F(Sglang, RefusalsNameTheMemberAsItIsCalled) {
  EXPECT_EQ(message(ask({{"sampling_params", Json::object()}})),
            "expected text or input_ids, as SGLang's clients send them, or inputs, as those of Text Generation "
            "Inference do");
  for (const Json& body :
       {Json{{"text", "a"}, {"sampling_params", {{"max_new_tokens", -1}}}},
        Json{{"text", "a"}, {"sampling_params", {{"n", 129}}}},
        Json{{"text", "a"}, {"sampling_params", {{"stop_regex", "a+"}}}},
        Json{{"text", "a"}, {"sampling_params", Json::array()}}, Json{{"text", "a"}, {"input_ids", {1}}},
        Json{{"text", 7}}, Json{{"text", "a"}, {"stream", 1}}, Json{{"text", "a"}, {"image_data", "x"}},
        Json{{"text", "a"}, {"rid", {"a", "b"}}}, Json{{"text", "a"}, {"inputs", "b"}, {"stream", true}},
        Json{{"text", std::vector<std::string>(2000, "a")}}, Json{{"text", Json::parse(R"(["a",97])")}},
        Json{{"input_ids", Json::parse(R"([97,"b"])")}}, Json{{"input_ids", Json::parse(R"([[97,"b"]])")}},
        Json{{"input_ids", Json::parse(R"([["a","b"]])")}}}) {
    auto x = ask(body);
    EXPECT_GE(x->response.status, 400) << body;
    EXPECT_LT(x->response.status, 423) << body;
    EXPECT_TRUE(inbox().held.empty()) << body;
  }
  EXPECT_EQ(message(ask({{"text", "a"}, {"sampling_params", {{"max_new_tokens", -1}}}})).substr(0, 31),
            "sampling_params.max_new_tokens ");
  EXPECT_EQ(error(ask({{"text", "a"}, {"model", "q"}})).substr(0, 3), "404");
}

TEST_F(Sglang, AFailureInAStreamIsItsLastEvent) {
  auto x = ask({{"text", "ab"}, {"stream", true}});
  scripted().emit("c");
  turn();
  scripted().fail(base::Code::kInternal, "broke");
  turn();
  ASSERT_TRUE(x->ended);
  auto all = events(x);
  EXPECT_EQ(all.back(), "[DONE]");
  EXPECT_EQ(all[all.size() - 2]["error"]["message"], "broke");
}

TEST_F(Sglang, HealthIsOneTokenOfTheModel) {
  auto x = open("GET", "/health_generate?model=m");
  ASSERT_EQ(inbox().held.size(), 1u);
  EXPECT_EQ(call()->generation->max_tokens, 1u);
  scripted().emit("c");
  scripted().done();
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->sent, "");
  auto y = open("GET", "/health_generate?model=m");
  scripted().fail(base::Code::kUnavailable, "gone");
  turn();
  EXPECT_EQ(y->response.status, 503);
}

TEST_F(Sglang, TheModelIsDescribed) {
  for (std::string path : {"/get_model_info", "/model_info"}) {
    Json info = json(open("GET", path + "?model=m"));
    EXPECT_EQ(info["model_path"], "m");
    EXPECT_EQ(info["is_generation"], true);
  }
  Json info = json(open("GET", "/get_server_info?model=m"));
  EXPECT_EQ(info["context_length"], 200);
  EXPECT_EQ(info["version"], "1.2.3");
  EXPECT_EQ(open("GET", "/get_model_info?model=q")->response.status, 404);
}

TEST_F(Sglang, PromptsAfterAFlushShareNothingWithThoseBefore) {
  auto salt = [&] {
    auto x = ask({{"text", "ab"}});
    auto found = call()->generation->cache_salt;
    scripted().done();
    turn();
    return found;
  };
  const auto before = salt();
  EXPECT_EQ(before, 0u);
  EXPECT_EQ(open("POST", "/flush_cache")->response.status, 200);
  const auto after = salt();
  EXPECT_NE(after, before);
  EXPECT_EQ(salt(), after);
  EXPECT_EQ(open("GET", "/flush_cache")->response.status, 200);
  EXPECT_NE(salt(), after);
}

}  // namespace
}  // namespace weir::openai
