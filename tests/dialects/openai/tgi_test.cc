// Text Generation Inference's routes on the same models.
#include "bench.h"

namespace weir::openai {
namespace {

class Tgi : public OpenaiBench {
 protected:
  Opened ask(Json body, std::string path = "/generate") {
    body.emplace("model", "m");
    return open("POST", std::move(path), body.dump());
  }
  static std::string refusal(const Opened& x) {
    const Json error = json(x);
    return std::to_string(x->response.status) + ' ' + error["error_type"].get<std::string>() + ' ' +
           error["error"].get<std::string>();
  }
};

TEST_F(Tgi, AnAnswerIsItsTextAndDetailsWhereTheyAreAskedFor) {
  auto x = ask({{"inputs", "ab"}, {"parameters", {{"max_new_tokens", 2}, {"watermark", false}}}});
  EXPECT_EQ(call()->generation->max_tokens, 2u);
  EXPECT_EQ(call()->generation->sampling.temperature, 0.0F) << "nothing is drawn unless it is asked for";
  scripted().emit("cd");
  scripted().done();
  turn();
  EXPECT_EQ(json(x), Json({{"generated_text", "cd"}}));
  auto y = ask({{"inputs", "ab"},
                {"parameters",
                 {{"details", true},
                  {"decoder_input_details", true},
                  {"top_n_tokens", 1},
                  {"seed", 7},
                  {"do_sample", true},
                  {"return_full_text", true}}}});
  EXPECT_EQ(call()->generation->sampling.temperature, 1.0F);
  EXPECT_EQ(call()->generation->max_tokens, 198u) << "what the context has";
  scripted().prompt(0, {});
  scripted().prompt(1, *likely(-2));
  scripted().token('c', likely(-0.5F, {{'q', -0.25F}}));
  scripted().token(support::kEnd, likely(-1, {{support::kEnd, -1}}));
  scripted().done(msg::Finish::kEos);
  turn();
  const Json answer = json(y), details = answer["details"];
  EXPECT_EQ(answer["generated_text"], "abc");
  EXPECT_EQ(details["finish_reason"], "eos_token");
  EXPECT_EQ(details["generated_tokens"], 2);
  EXPECT_EQ(details["seed"], 7);
  EXPECT_EQ(details["prefill"],
            Json::parse(R"([{"id":97,"text":"a","logprob":null},{"id":98,"text":"b","logprob":-2.0}])"));
  EXPECT_EQ(details["tokens"][0], Json::parse(R"({"id":99,"text":"c","logprob":-0.5,"special":false})"));
  EXPECT_EQ(details["tokens"][1]["special"], true);
  EXPECT_EQ(details["top_tokens"][0], Json::parse(R"([{"id":113,"text":"q","logprob":-0.25,"special":false}])"));
}

TEST_F(Tgi, DetailsTellTheSeedOfEachText) {
  auto x = ask({{"inputs", "ab"}, {"parameters", {{"best_of", 2}, {"do_sample", true}, {"details", true}}}});
  ASSERT_EQ(inbox().held.size(), 2u) << x->sent;
  std::vector<uint64_t> seeds;
  for (const msg::Call* one : inbox().held) seeds.push_back(one->generation->sampling.seed.value_or(0));
  EXPECT_EQ(seeds[1], seeds[0] + 1);
  EXPECT_LT(seeds[1], uint64_t(1) << 53);
  for (float logprob : {-2.0F, -1.0F}) {
    scripted().token('c', likely(logprob));
    scripted().done();
    turn();
  }
  const Json details = json(x)["details"];
  EXPECT_EQ(details["seed"], seeds[1]) << "the likelier one";
  EXPECT_EQ(details["best_of_sequences"][0]["seed"], seeds[0]);
  auto greedy = ask({{"inputs", "ab"}, {"parameters", {{"details", true}}}});
  EXPECT_FALSE(call()->generation->sampling.seed) << "nothing is drawn";
}

TEST_F(Tgi, AStreamHasAnEventForEachTokenAndTheLastHasTheText) {
  for (const char* path : {"/generate_stream", "/generate"}) {
    auto x =
        ask({{"inputs", "ab"}, {"stream", true}, {"parameters", {{"details", true}, {"max_new_tokens", 3}}}}, path);
    scripted().token('c', likely(-1));
    turn();
    EXPECT_EQ(events(x).size(), 1u) << "it goes out at once";
    scripted().token('d', likely(-1));
    scripted().token('e', likely(-2));
    scripted().done();
    turn();
    ASSERT_TRUE(x->ended);
    auto all = events(x);
    ASSERT_EQ(all.size(), 3u) << x->sent;
    EXPECT_EQ(all[0], Json::parse(R"({"index":1,"token":{"id":99,"text":"c","logprob":-1.0,"special":false},)"
                                  R"("generated_text":null,"details":null})"));
    EXPECT_EQ(all[2]["token"]["text"], "e");
    EXPECT_EQ(all[2]["generated_text"], "cde");
    EXPECT_EQ(all[2]["details"],
              Json::parse(R"({"finish_reason":"length","generated_tokens":3,"seed":null,"input_length":2})"));
  }
}

TEST_F(Tgi, TheEndOfTheModelIsASpecialToken) {
  auto x = ask({{"inputs", "ab"}}, "/generate_stream");
  scripted().emit("c");
  scripted().end();
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 2u) << x->sent;
  EXPECT_EQ(all[1]["token"]["special"], true);
  EXPECT_EQ(all[1]["generated_text"], "c");
  EXPECT_TRUE(all[1]["details"].is_null());
}

// The context is full, say: clients find the text in the last event, which always has a token.
TEST_F(Tgi, AnEndThatNoTokenShowsHasAnEventOfItsOwn) {
  auto x = ask({{"inputs", "ab"}}, "/generate_stream");
  scripted().emit("c");
  turn();
  scripted().done();
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 2u) << x->sent;
  EXPECT_EQ(all[1]["token"]["special"], true);
  EXPECT_EQ(all[1]["generated_text"], "c");
}

TEST_F(Tgi, TheTextEndsWithTheStopString) {
  auto x = ask({{"inputs", "ab"}, {"parameters", {{"stop", {"xy"}}}}}, "/generate_stream");
  scripted().emit("cxy");
  turn();
  ASSERT_TRUE(x->ended) << x->sent;
  auto all = events(x);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all.back()["generated_text"], "cxy");
  auto y = ask({{"inputs", "ab"}, {"parameters", {{"stop", {"xy"}}, {"details", true}}}});
  ASSERT_EQ(inbox().held.size(), 2u) << "the model still has the one that was stopped";
  scripted(1).emit("cxy");
  turn();
  EXPECT_EQ(json(y)["details"]["finish_reason"], "stop_sequence");
}

TEST_F(Tgi, TheLikeliestOfSeveralIsAnsweredAndTheOthersAreDetails) {
  auto x = ask({{"inputs", "ab"}, {"parameters", {{"best_of", 2}, {"do_sample", true}, {"details", true}}}});
  ASSERT_EQ(inbox().held.size(), 2u) << x->sent;
  scripted(0).token('c', likely(-2));
  scripted(1).token('d', likely(-1));
  while (!inbox().held.empty()) scripted().done();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["generated_text"], "d");
  ASSERT_EQ(answer["details"]["best_of_sequences"].size(), 1u);
  EXPECT_EQ(answer["details"]["best_of_sequences"][0]["generated_text"], "c");
}

TEST_F(Tgi, InvocationsAnswerWithAList) {
  auto x = ask({{"inputs", "ab"}}, "/invocations");
  scripted().emit("c");
  scripted().done();
  turn();
  EXPECT_EQ(json(x), Json::parse(R"([{"generated_text":"c"}])"));
}

// As Hugging Face's clients ask a server whose address they have.
TEST_F(Tgi, TheRootTakesJson) {
  auto x = open("POST", "/", R"({"inputs":"ab"})", {{"content-type", "application/json; charset=utf-8"}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  scripted().emit("c");
  scripted().done();
  turn();
  EXPECT_EQ(json(x), Json::parse(R"([{"generated_text":"c"}])"));
  EXPECT_EQ(x->record().protocol, "tgi");
  auto other = open("POST", "/", R"({"inputs":"ab"})", {{"content-type", "application/octet-stream"}});
  EXPECT_EQ(other->response.status, 415) << "GraphPipe's, which is not here";
  EXPECT_EQ(json(other)["error"], "this path takes bodies of type application/json") << other->sent;

  models.add(support::encoder_spec("e"));
  bus.publish(models.catalog);
  auto vectors = open("POST", "/", R"({"model":"e","inputs":["ab"]})", {{"content-type", "application/json"}});
  EXPECT_EQ(models["e"].held.size(), 1u) << vectors->sent;
}

// SageMaker's containers have this route alone, and vLLM's clients ask there for all that it has.
TEST_F(Tgi, InvocationsAreWhatTheirBodySays) {
  auto chat =
      ask({{"messages", Json::parse(R"([{"role":"user","content":"hi"}])")}, {"stream", false}}, "/invocations");
  ASSERT_EQ(inbox().held.size(), 1u) << chat->sent;
  scripted().emit("c");
  scripted().end();
  turn();
  EXPECT_EQ(json(chat)["choices"][0]["message"]["content"], "c");
  auto text = ask({{"prompt", "ab"}, {"stream", true}}, "/invocations");
  scripted().emit("d");
  scripted().end();
  turn();
  EXPECT_EQ(OpenaiBench::text(events(text)), "d");
  models.add(support::encoder_spec("e"));
  models.add(support::classifier_spec("s", {"bad", "good"}));
  bus.publish(models.catalog);
  auto vector = ask({{"model", "e"}, {"input", "ab"}}, "/invocations");
  EXPECT_EQ(models["e"].held.size(), 1u) << vector->sent;
  auto classes = ask({{"model", "s"}, {"input", "ab"}}, "/invocations");
  EXPECT_EQ(models["s"].held.size(), 1u) << classes->sent;
  EXPECT_EQ(error(ask({{"model", "s"}, {"query", "a"}, {"documents", Json::array()}}, "/invocations")).substr(0, 3),
            "400");
  auto wrong = ask({{"messages", 3}}, "/invocations");
  EXPECT_EQ(error(wrong), "400 invalid_request_error - messages") << "in the form of the API that it is for";
  EXPECT_EQ(ask({{"model", "nope"}, {"input", "a"}}, "/invocations")->response.status, 404);
}

TEST_F(Tgi, RefusalsAre422AndSayValidation) {
  EXPECT_EQ(refusal(ask({{"inputs", ""}})), "422 validation inputs: it is empty");
  EXPECT_EQ(refusal(ask({}, "/generate_stream")), "422 validation inputs: expected a text");
  EXPECT_EQ(refusal(ask({{"inputs", {"a", "b"}}})), "422 validation inputs: expected a text");
  EXPECT_EQ(refusal(ask({{"inputs", "a"}, {"parameters", {{"best_of", 2}}}}, "/generate_stream")),
            "422 validation best_of: not in a stream");
  EXPECT_EQ(refusal(ask({{"inputs", "a"}, {"parameters", {{"max_new_tokens", -1}}}})).substr(0, 42),
            "422 validation parameters.max_new_tokens m");
  for (const Json& params : {Json{{"typical_p", 0.5}}, Json{{"watermark", true}}, Json{{"grammar", {{"type", "x"}}}},
                             Json{{"best_of", 100}}, Json{{"details", 3}}, Json{{"max_new_tokens", 1000}}, Json("x")})
    EXPECT_EQ(ask({{"inputs", "a"}, {"parameters", params}})->response.status, 422) << params;
  EXPECT_TRUE(inbox().held.empty());
  EXPECT_EQ(refusal(ask({{"inputs", "a"}, {"model", "q"}})).substr(0, 14), "404 not_found ");
  EXPECT_EQ(open("POST", "/generate_stream", "[")->response.status, 422);
}

TEST_F(Tgi, AFailureInAStreamIsItsLastEvent) {
  auto x = ask({{"inputs", "ab"}}, "/generate_stream");
  scripted().emit("c");
  turn();
  scripted().fail(base::Code::kInternal, "broke");
  turn();
  ASSERT_TRUE(x->ended);
  EXPECT_EQ(events(x).back(), Json({{"error", "broke"}, {"error_type", "generation"}}));
}

TEST_F(Tgi, TheServerTellsItsLimits) {
  Json info = json(open("GET", "/info?model=m"));
  EXPECT_EQ(info["model_id"], "m");
  EXPECT_EQ(info["max_total_tokens"], 200);
  EXPECT_EQ(info["max_input_tokens"], 199);
  EXPECT_EQ(info["max_best_of"], 20);
}

}  // namespace
}  // namespace weir::openai
