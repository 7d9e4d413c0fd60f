// llama.cpp's native routes on the same models.
#include <algorithm>

#include "llama_cpp_bench.h"

namespace weir::openai {
namespace {

TEST_F(LlamaCpp, AnAnswerHasItsTextItsEndAndItsFigures) {
  auto x = ask({{"prompt", "ab"}, {"n_predict", 3}, {"return_tokens", true}, {"seed", -1}, {"temperature", -1}});
  EXPECT_EQ(call()->generation->max_tokens, 3u);
  EXPECT_EQ(call()->generation->sampling.temperature, 0.0F);
  EXPECT_FALSE(call()->generation->sampling.seed) << "it is drawn";
  scripted().emit("c\nd");
  scripted().done();
  turn();
  const Json said = json(x);
  EXPECT_EQ(said["content"], "c\nd");
  EXPECT_EQ(said["tokens"], Json({'c', '\n', 'd'}));
  EXPECT_EQ(said["stop"], true);
  EXPECT_EQ(said["stop_type"], "limit");
  EXPECT_EQ(said["stopping_word"], "");
  EXPECT_EQ(said["has_new_line"], true);
  EXPECT_EQ(said["truncated"], false);
  EXPECT_EQ(said["model"], "m");
  EXPECT_EQ(said["prompt"], "ab");
  EXPECT_EQ(said["tokens_evaluated"], 2);
  EXPECT_EQ(said["tokens_predicted"], 3);
  EXPECT_EQ(said["generation_settings"]["n_predict"], 3);
  EXPECT_EQ(said["generation_settings"]["temperature"], 0);
  EXPECT_EQ(said["timings"]["prompt_n"], 2);
  EXPECT_EQ(said["timings"]["predicted_n"], 3);
  EXPECT_FALSE(said.contains("completion_probabilities"));
}

TEST_F(LlamaCpp, ALengthThatIsNotSaidIsWhatTheContextHas) {
  for (Json length : {Json(), Json(-1), Json(5000)}) {
    auto x = ask({{"prompt", "ab"}, {"n_predict", length}});
    ASSERT_FALSE(inbox().held.empty()) << x->sent;
    EXPECT_EQ(call()->generation->max_tokens, 198u);
    scripted().end();
    turn();
    EXPECT_EQ(json(x)["stop_type"], "eos");
  }
}

TEST_F(LlamaCpp, AStreamHasAnEventForEachTokenAndOneForTheEnd) {
  auto x = ask({{"prompt", "ab"}, {"stream", true}, {"stop", {"", "xy"}}});
  scripted().token('c');
  turn();
  ASSERT_EQ(events(x).size(), 1u) << "it goes out at once";
  EXPECT_EQ(events(x)[0], Json::parse(R"({"index":0,"content":"c","tokens":[99],"stop":false,"id_slot":-1,)"
                                      R"("tokens_predicted":1,"tokens_evaluated":2})"));
  scripted().emit("dxy");
  turn();
  ASSERT_TRUE(x->ended);
  std::string text;
  const auto all = events(x);
  for (const Json& event : all) text += event["content"];
  EXPECT_EQ(text, "cd");
  EXPECT_EQ(all.back()["stop"], true);
  EXPECT_EQ(all.back()["stop_type"], "word");
  EXPECT_EQ(all.back()["stopping_word"], "xy");
  EXPECT_EQ(all.back()["content"], "");
  EXPECT_EQ(all.back()["tokens"], Json::array());
}

TEST_F(LlamaCpp, AStreamThatFailsSaysSoInItsLastEvent) {
  auto x = ask({{"prompt", "ab"}, {"stream", true}});
  scripted().token('c');
  turn();
  scripted().fail(base::Code::kUnavailable, "gone");
  turn();
  ASSERT_TRUE(x->ended);
  EXPECT_EQ(events(x).back(), Json::parse(R"({"error":{"code":503,"message":"gone","type":"unavailable_error"}})"));
}

TEST_F(LlamaCpp, SeveralPromptsHaveAListOfAnswers) {
  auto x = ask({{"prompt", {"ab", {99, 100}, {{"prompt_string", "e"}}}}, {"n_cmpl", 2}});
  ASSERT_EQ(inbox().held.size(), 6u) << x->sent;
  for (char c : {'1', '2', '3', '4', '5', '6'}) {
    scripted().token(uint8_t(c));
    scripted().end();
  }
  turn();
  const Json all = json(x);
  ASSERT_EQ(all.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(all[i]["index"], i);
    EXPECT_EQ(all[i]["content"], std::string(1, char('1' + i)));
  }
  EXPECT_EQ(all[4]["prompt"], "e");
  auto one = ask({{"prompt", {"ab"}}});
  scripted().end();
  turn();
  EXPECT_TRUE(json(one).is_object());
}

// The last events of all choices may be due in one turn.
TEST_F(LlamaCpp, AStreamDoesNotRepeatALongPromptForever) {
  models.add(support::text_spec("l", 20'000));
  bus.publish(models.catalog);
  const std::string prompt(15'000, 'a');
  auto x = ask({{"model", "l"}, {"prompt", prompt}, {"n_cmpl", 100}, {"n_predict", 1}, {"stream", true}});
  auto& held = models["l"].held;
  ASSERT_EQ(held.size(), 100u) << x->sent;
  while (!held.empty()) ScriptedAnswer(models["l"], held.front()).done();
  turn();
  ASSERT_TRUE(x->ended);
  EXPECT_LT(x->sent.size(), size_t(2) << 20);
  const auto all = events(x);
  ASSERT_EQ(all.size(), 100u);
  EXPECT_EQ(all.front()["prompt"], prompt);
  EXPECT_EQ(all.back()["prompt"], "");
}

TEST_F(LlamaCpp, TheFieldsThatAreAskedForAreTheOnlyOnes) {
  auto x =
      ask({{"prompt", "ab"}, {"response_fields", {"content", "timings/predicted_n", "timings/nothing", "nothing"}}});
  scripted().emit("c");
  scripted().done();
  turn();
  EXPECT_EQ(json(x), Json::parse(R"({"content":"c","timings/predicted_n":1})"));
  auto y = ask({{"prompt", "ab"}, {"response_fields", {""}}, {"n_predict", 0}});
  scripted().done();
  turn();
  EXPECT_EQ(json(y), Json::object()) << "an editor fills the cache";
}

TEST_F(LlamaCpp, ProbabilitiesOfEachToken) {
  for (bool stream : {false, true}) {
    auto x = ask({{"prompt", "ab"}, {"n_probs", 2}, {"stream", stream}});
    scripted().token('c', likely(-0.5F, {{'q', -0.25F}, {'c', -0.5F}, {'r', -3}}));
    scripted().done();
    turn();
    const Json said = stream ? events(x).front() : json(x);
    const Json expected = Json::parse(R"([{"id":99,"token":"c","logprob":-0.5,"bytes":[99],"top_logprobs":[)"
                                      R"({"id":113,"token":"q","logprob":-0.25,"bytes":[113]},)"
                                      R"({"id":99,"token":"c","logprob":-0.5,"bytes":[99]}]}])");
    EXPECT_EQ(said["completion_probabilities"], expected);
  }
}

TEST_F(LlamaCpp, BiasesAreListsOrAnObject) {
  for (Json bias : {Json::parse("[[99,-1.5],[100,false]]"), Json::parse(R"({"99":-1.5,"100":false})")}) {
    auto x = ask({{"prompt", "ab"}, {"logit_bias", bias}});
    ASSERT_FALSE(inbox().held.empty()) << x->sent;
    const std::vector<std::pair<uint32_t, float>> expected{{99, -1.5F}, {100, -100.0F}};
    auto biases = call()->generation->sampling.logit_bias;
    std::sort(biases.begin(), biases.end());
    EXPECT_EQ(biases, expected);
    scripted().end();
    turn();
  }
}

TEST_F(LlamaCpp, WhatIsNotOfferedIsNamedOrRefused) {
  auto x = ask({{"prompt", "ab"},
                {"mirostat", 2},
                {"typical_p", 1.0},
                {"cache_prompt", true},
                {"samplers", {"top_k"}},
                {"dry_multiplier", 0.8},
                {"grammar", ""},
                {"new_thing", 1}});
  ASSERT_FALSE(inbox().held.empty()) << x->sent;
  scripted().end();
  turn();
  EXPECT_EQ(ignored(x), "dry_multiplier, mirostat, new_thing");
  EXPECT_EQ(refusal(ask(Json::object())), "400 invalid_request_error prompt: it is missing");
  EXPECT_EQ(refusal(ask({{"prompt", "a"}, {"n_predict", 1.5}})).substr(0, 36), "400 invalid_request_error n_predict ");
  EXPECT_EQ(refusal(ask({{"prompt", "a"}, {"n_probs", 1000}})).substr(0, 33), "400 invalid_request_error n_probs");
  EXPECT_EQ(refusal(ask({{"prompt", std::string(300, 'a')}})).substr(0, 29), "400 exceed_context_size_error");
  EXPECT_EQ(refusal(ask({{"prompt", "a"}, {"model", "q"}})).substr(0, 19), "404 not_found_error");
  EXPECT_EQ(open("POST", "/completion", "[")->response.status, 400);
  EXPECT_EQ(open("GET", "/completion")->response.status, 405);
}

TEST_F(LlamaCpp, TheMiddleIsFilledInBesideOtherFiles) {
  models.add(support::tools_spec("f", "", {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}));
  models.add(support::tools_spec(
      "q", "", {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"}));
  bus.publish(models.catalog);
  const Json body{{"input_prefix", "ab"}, {"input_suffix", ""}, {"prompt", "c"}, {"n_predict", 1}};
  const auto prompt = [&](const char* model, Json more) {
    Json whole = body;
    whole.update(more);
    whole["model"] = model;
    auto x = ask(whole, "/infill");
    if (models[model].held.empty()) return x->sent;
    return support::prompt_of(*models[model].held.back());
  };
  EXPECT_EQ(prompt("f", Json::object()), "<260>ab<261><262>c") << "also at the end of a file";
  const Json extra = Json::parse(R"([{"filename":"x.h","text":"int x;"}])");
  EXPECT_EQ(prompt("f", {{"input_extra", extra}}), "\n\n--- snippet ---\n\nint x;<260>ab<261><262>c");
  EXPECT_EQ(prompt("q", {{"input_extra", extra}}), "<263>repository\n<264>x.h\nint x;<264>file\n<260>ab<261><262>c");
  const std::string far = prompt("f", {{"input_extra", {{{"text", std::string(9000, 'x')}}}}});
  EXPECT_EQ(far.substr(far.size() - 20), "xx<260>ab<261><262>c");
  EXPECT_LE(models["f"].held.back()->generation->append.size(), 1999u);
  const std::string near =
      prompt("f", {{"input_prefix", std::string(9000, 'p')}, {"input_suffix", std::string(900, 's')}});
  EXPECT_EQ(near.substr(0, 7), "<260>pp") << near.substr(0, 100);
  EXPECT_NE(near.find("p<261>s"), near.npos);
  EXPECT_EQ(near.substr(near.size() - 7), "s<262>c");
  const std::string top =
      prompt("f", {{"input_prefix", std::string(1400, 'p')}, {"input_suffix", std::string(9000, 's')}});
  EXPECT_EQ(std::count(top.begin(), top.end(), 'p'), 1400) << "what stands before the place stays";
  const std::string begun(1900, 'c');
  const std::string full = prompt("f", {{"input_prefix", std::string(3000, 'p')}, {"prompt", begun}});
  EXPECT_EQ(full.substr(0, 7), "<260>pp") << full.substr(0, 100);
  EXPECT_TRUE(full.ends_with("<261><262>" + begun));
}

TEST_F(LlamaCpp, AnInfillThatIsWrongIsRefused) {
  models.add(support::tools_spec("f", "", {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}));
  bus.publish(models.catalog);
  EXPECT_EQ(refusal(ask({{"input_prefix", "a"}, {"input_suffix", "b"}}, "/infill")),
            "400 invalid_request_error this model has no tokens for filling in");
  EXPECT_EQ(refusal(ask({{"input_prefix", "a"}}, "/infill")), "400 invalid_request_error input_suffix: it is missing");
  for (const Json& extra : {Json::object(), Json{{"filename", "ok"}}, Json{{"filename", 123}, {"text", "abc"}},
                            Json{{"filename", 123}, {"text", 456}}, Json(3)}) {
    auto x = ask({{"model", "f"}, {"input_prefix", "a"}, {"input_suffix", "b"}, {"input_extra", {extra}}}, "/infill");
    EXPECT_EQ(x->response.status, 400) << x->sent;
    EXPECT_NE(refusal(x).find("input_extra[0]"), std::string::npos) << x->sent;
  }
  auto begun = ask({{"model", "f"}, {"input_prefix", 3}, {"input_suffix", "b"}}, "/infill");
  EXPECT_EQ(begun->response.status, 400);
  auto full = ask({{"model", "f"}, {"input_prefix", "a"}, {"input_suffix", "b"}, {"prompt", std::string(3000, 'c')}},
                  "/infill");
  EXPECT_EQ(refusal(full).substr(0, 29), "400 exceed_context_size_error");
  EXPECT_EQ(message(full).substr(0, 22), "request (3003 tokens) ");
  auto tight = ask({{"model", "f"}, {"input_prefix", "a"}, {"input_suffix", "b"}, {"prompt", std::string(1900, 'c')}},
                   "/infill");
  EXPECT_EQ(refusal(tight).substr(0, 29), "400 exceed_context_size_error") << "there is no room for an answer";
  EXPECT_NE(message(tight).find("it does not fit"), std::string::npos);
  EXPECT_FALSE(json(tight)["error"].contains("n_prompt_tokens")) << "it is not longer than the context";
}

TEST_F(LlamaCpp, TheTemplatesPromptIsTold) {
  auto x = ask({{"messages", Json::parse(R"([{"role":"user","content":"hi"}])")}}, "/apply-template");
  EXPECT_EQ(json(x), Json::parse(R"({"prompt":"user:hi\nassistant:"})"));
  auto y = ask({{"messages", Json::parse(R"([{"role":"user","content":"hi"}])")}, {"add_generation_prompt", false}},
               "/apply-template");
  EXPECT_EQ(json(y)["prompt"], "user:hi\n");
  EXPECT_EQ(refusal(ask({{"messages", "x"}}, "/apply-template")).substr(0, 34), "400 invalid_request_error messages");
}

TEST_F(LlamaCpp, TheServerSaysWhatItHas) {
  const Json props = json(open("GET", "/props?model=m"));
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 200);
  EXPECT_EQ(props["default_generation_settings"]["params"]["n_predict"], -1);
  EXPECT_EQ(props["model_alias"], "m");
  EXPECT_NE(props["chat_template"].get<std::string>().find("add_generation_prompt"), std::string::npos);
  EXPECT_EQ(props["modalities"]["vision"], true);
  EXPECT_EQ(open("GET", "/props?model=q")->response.status, 404);
  EXPECT_EQ(json(open("GET", "/health"))["status"], "ok");
  EXPECT_EQ(json(open("GET", "/models"))["data"][0]["id"], "m");
}

TEST_F(LlamaCpp, TokensAndBack) {
  EXPECT_EQ(json(ask({{"content", "hé"}}, "/tokenize")), Json::parse(R"({"tokens":[104,195,169]})"));
  EXPECT_EQ(json(ask({{"content", "hé"}, {"with_pieces", true}, {"add_special", true}}, "/tokenize"))["tokens"],
            Json::parse(R"([{"id":104,"piece":"h"},{"id":195,"piece":[195]},{"id":169,"piece":[169]}])"));
  EXPECT_EQ(json(ask({{"tokens", {104, 195, 169, 256}}}, "/detokenize")),
            Json::parse(R"({"prompt":"hé<|end|>","content":"hé<|end|>"})"));
  EXPECT_EQ(message(ask({{"content", 3}}, "/tokenize")),
            "a member has another type than it should: its type must be string, but is number");
}

TEST_F(LlamaCpp, AnEmbeddingIsAListOfVectors) {
  models.add(support::encoder_spec("e"));
  bus.publish(models.catalog);
  const auto finish = [&] {
    ASSERT_EQ(models["e"].held.size(), 1u);
    const std::vector<float> values{3, 0, 4, 0};
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    msg::Outputs out;
    out.tensors.push_back({"sentence_embedding", msg::DType::kFp32, {1, 4}, base::Bytes::copy_of(bytes)});
    models["e"].finish(models["e"].held[0], {std::move(out)});
    turn();
  };
  auto x = ask({{"model", "e"}, {"content", "ab"}}, "/embedding");
  finish();
  EXPECT_EQ(json(x), Json::parse(R"([{"index":0,"embedding":[[0.6,0.0,0.8,0.0]]}])"));
  auto y = ask({{"model", "e"}, {"input", "ab"}, {"embd_normalize", -1}}, "/embeddings");
  finish();
  EXPECT_EQ(json(y)[0]["embedding"][0], Json({3, 0, 4, 0}));
  EXPECT_EQ(refusal(ask({{"model", "e"}, {"content", "ab"}, {"embd_normalize", 3}}, "/embedding")).substr(0, 40),
            "400 invalid_request_error embd_normalize");
  EXPECT_EQ(refusal(ask({{"model", "e"}, {"content", 3}}, "/embedding")).substr(0, 33),
            "400 invalid_request_error content");
}

TEST_F(LlamaCpp, AChatThatIsTooLongIsToldSoWithoutAPrefix) {
  const std::string body =
      Json{{"model", "m"}, {"messages", {{{"role", "user"}, {"content", std::string(300, 'a')}}}}}.dump();
  auto x = open("POST", "/chat/completions", body);
  EXPECT_EQ(refusal(x).substr(0, 29), "400 exceed_context_size_error");
  EXPECT_GT(json(x)["error"]["n_prompt_tokens"], 300);
  EXPECT_EQ(json(x)["error"]["n_ctx"], 200);
  EXPECT_EQ(json(open("POST", "/v1/chat/completions", body))["error"]["code"], "context_length_exceeded");
}

}  // namespace
}  // namespace weir::openai
