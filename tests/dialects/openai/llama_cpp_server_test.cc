// Everything that llama.cpp's server has beside its completions: its samplers, timings, slots, further routes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dialects/openai/llama_cpp/shares.h"
#include "dialects/openai/request.h"
#include "llama_cpp_bench.h"

namespace weir::openai {
namespace {

TEST_F(LlamaCpp, ATextEndsAtALineOnceItsTimeIsOver) {
  for (bool stream : {false, true}) {
    auto x = ask({{"prompt", "ab"}, {"t_max_predict_ms", 100}, {"stream", stream}});
    scripted().emit("c\nd");
    turn();
    x->time += std::chrono::milliseconds(100);
    scripted().token('e');
    turn();
    EXPECT_FALSE(x->ended) << "it has its time";
    x->time += std::chrono::milliseconds(1);
    scripted().token('f');
    turn();
    ASSERT_TRUE(x->ended);
    EXPECT_TRUE(call()->cancelled.load()) << "the engine is told";
    const Json said = stream ? events(x).back() : json(x);
    EXPECT_EQ(said["stop_type"], "limit");
    EXPECT_EQ(said["tokens_predicted"], 5);
    if (!stream) {
      EXPECT_EQ(said["content"], "c\ndef");
    }
    scripted().end();
    turn();
  }
  auto line = ask({{"prompt", "ab"}, {"t_max_predict_ms", 100}});
  scripted().token('c');
  turn();
  line->time += std::chrono::hours(1);
  scripted().token('d');
  turn();
  EXPECT_FALSE(line->ended) << "its first line is not over";
  scripted().token('\n');
  turn();
  EXPECT_EQ(json(line)["content"], "cd\n");
  scripted().end();
  turn();
  for (Json off : {Json(0), Json(-1), Json()}) {
    auto x = ask({{"prompt", "ab"}, {"t_max_predict_ms", off}, {"n_indent", off}});
    scripted().emit("c\nd");
    scripted().done();
    turn();
    EXPECT_EQ(json(x)["content"], "c\nd");
  }
  EXPECT_EQ(refusal(ask({{"prompt", "a"}, {"t_max_predict_ms", 1.5}})),
            "400 invalid_request_error t_max_predict_ms must be a whole number");
}

TEST_F(LlamaCpp, ATextEndsBeforeALineThatIsNotIndented) {
  for (bool stream : {false, true}) {
    auto x = ask({{"prompt", "ab"}, {"n_indent", 2}, {"stream", stream}});
    scripted().emit("a\n  b\n\t c\n\n de");
    turn();
    ASSERT_TRUE(x->ended) << x->sent;
    std::string text;
    if (stream)
      for (const Json& event : events(x)) text += event["content"];
    else
      text = json(x)["content"];
    EXPECT_EQ(text, "a\n  b\n\t c\n\n ");
    EXPECT_EQ((stream ? events(x).back() : json(x))["stop_type"], "limit");
    scripted().end();
    turn();
  }
}

TEST_F(LlamaCpp, AChatTellsItsTimingsWhereItIsAsked) {
  const auto answer = [&](const Opened& x) {
    x->time += std::chrono::milliseconds(30);
    call()->generation->cached_tokens = 8;
    scripted().token('c');
    turn();
    x->time += std::chrono::milliseconds(20);
    scripted().token('d');
    turn();
    scripted().end();
    turn();
  };
  auto x = chat({{"timings_per_token", true}});
  answer(x);
  Json timings = json(x)["timings"];
  EXPECT_EQ(timings["cache_n"], 8);
  EXPECT_EQ(timings["prompt_n"], 10);
  EXPECT_EQ(timings["prompt_ms"], 30);
  EXPECT_EQ(timings["predicted_ms"], 20);
  EXPECT_EQ(timings["predicted_n"], 1);
  EXPECT_EQ(timings["predicted_per_second"], 0) << "the first token is the prompt's";
  auto plain = chat(Json::object());
  answer(plain);
  EXPECT_FALSE(json(plain).contains("timings"));
  auto y = chat({{"stream", true},
                 {"timings_per_token", true},
                 {"return_progress", true},
                 {"stream_options", {{"include_usage", true}}}});
  answer(y);
  const auto all = events(y);
  EXPECT_EQ(all[0]["prompt_progress"], Json::parse(R"({"total":18,"cache":8,"processed":18,"time_ms":30})"));
  EXPECT_FALSE(all[0].contains("timings"));
  EXPECT_EQ(all[1]["timings"]["predicted_n"], 1);
  EXPECT_EQ(all[2]["timings"]["predicted_n"], 2);
  EXPECT_EQ(all[2]["timings"]["predicted_per_second"], 50);
  EXPECT_EQ(all[2]["timings"]["predicted_per_token_ms"], 20);
  const Json& last = all[all.size() - 2];
  EXPECT_EQ(last["choices"], Json::array());
  EXPECT_EQ(last["timings"]["cache_n"], 8);
  for (size_t i = 1; i + 1 < all.size(); ++i) EXPECT_FALSE(all[i].contains("prompt_progress"));
  auto z = complete({{"stream", true}, {"return_progress", true}});
  answer(z);
  const Json first = events(z)[0];
  EXPECT_EQ(first["choices"][0]["text"], "");
  EXPECT_EQ(first["prompt_progress"]["total"], 2);
  EXPECT_EQ(text(events(z)), "cd");
}

TEST_F(LlamaCpp, ANativeStreamTellsThemToo) {
  auto x = ask({{"prompt", "ab"}, {"stream", true}, {"timings_per_token", true}, {"return_progress", true}});
  scripted().emit("cd");
  turn();
  const auto all = events(x);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["prompt_progress"], Json::parse(R"({"total":2,"cache":0,"processed":2,"time_ms":0})"));
  EXPECT_EQ(all[0]["content"], "");
  EXPECT_EQ(all[1]["content"], "c");
  EXPECT_EQ(all[1]["timings"]["predicted_n"], 1);
  EXPECT_EQ(all[2]["timings"]["predicted_n"], 2);
  EXPECT_FALSE(all[2].contains("prompt_progress"));
  scripted().done();
  turn();
  EXPECT_EQ(events(x).back()["generation_settings"]["timings_per_token"], true);
}

TEST_F(LlamaCpp, APromptMayHaveIdsAndTexts) {
  const auto ids = [&](Json prompt) {
    auto x = ask({{"prompt", std::move(prompt)}});
    std::vector<std::string> out;
    for (const msg::Call* one : inbox().held) out.push_back(support::prompt_of(*one));
    while (!inbox().held.empty()) scripted().end();
    turn();
    EXPECT_FALSE(out.empty()) << x->sent;
    return out;
  };
  using Prompts = std::vector<std::string>;
  EXPECT_EQ(ids({97, 98, "cd", 101, "", "f"}), Prompts{"abcdef"});
  EXPECT_EQ(ids({"ab", 99, 100, "e"}), Prompts{"abcde"}) << "a text may be first";
  EXPECT_EQ(ids({"ab", "c", 100}), Prompts{"abcd"});
  EXPECT_EQ(ids(Json::parse(R"([[97, "b"], ["c", 100], "e", [102], {"prompt_string": "g"}])")),
            (Prompts{"ab", "cd", "e", "f", "g"}));
  EXPECT_EQ(ids(Json::array({Json::array({97, "b"})})), Prompts{"ab"});
  EXPECT_EQ(ids(Json::parse(R"([["a", "b"], ["c"]])")), (Prompts{"ab", "c"})) << "texts alone, too";
  std::vector<Json> many(kMaxPieces, "a");
  many.push_back(97);
  bus.set_worker_pool(workers);
  auto long_one = ask({{"prompt", Json::array({many})}});
  ASSERT_EQ(workers.held.size(), 1u) << "each text costs something, however short it is";
  workers.work();
  turn();
  EXPECT_EQ(json(long_one)["error"]["n_prompt_tokens"], kMaxPieces + 1);
  many.push_back("a");
  EXPECT_EQ(refusal(ask({{"prompt", Json::array({many})}})),
            "400 invalid_request_error prompt: at most 1024 texts between token ids");
  for (const char* bad :
       {R"([97, null])", R"(["a", 97, true])", R"(["a", [97], 98])", R"([[97, ["a"]]])", R"([97, -1])"})
    EXPECT_EQ(refusal(ask({{"prompt", Json::parse(bad)}})).substr(0, 33), "400 invalid_request_error prompt ") << bad;
  EXPECT_EQ(refusal(ask({{"prompt", {300, "a"}}})).substr(0, 33), "400 invalid_request_error prompt:");
  auto openai = complete({{"prompt", {97, "b"}}, {"echo", true}, {"max_tokens", 0}});
  scripted().done();
  turn();
  EXPECT_EQ(json(openai)["choices"][0]["text"], "ab");
}

TEST_F(LlamaCpp, ProbabilitiesAreThoseOfTheDraw) {
  const auto shares = [&](Json options, uint32_t asked) {
    Json body{{"prompt", "ab"}, {"n_probs", 2}, {"post_sampling_probs", true}};
    body.update(options);
    auto x = ask(body);
    if (inbox().held.empty()) return x->sent;
    EXPECT_EQ(call()->generation->top_logprobs, asked);
    const float half = std::log(0.5F), fourth = std::log(0.25F), eighth = std::log(0.125F);
    scripted().token('c', likely(fourth, {{'q', half}, {'c', fourth}, {'r', eighth}}));
    scripted().done();
    turn();
    std::string out;
    const Json token = json(x)["completion_probabilities"][0];
    EXPECT_FALSE(token.contains("logprob"));
    const auto add = [&](const Json& one) {
      out += one["token"].get<std::string>() + std::to_string(std::lround(1000 * one["prob"].get<double>())) + ' ';
      EXPECT_EQ(one["bytes"][0], one["id"]);
    };
    add(token);
    for (const Json& one : token["top_probs"]) add(one);
    return out;
  };
  EXPECT_EQ(shares({{"top_k", 3}}, 3), "c286 q571 c286 ");
  EXPECT_EQ(shares({{"top_k", 2}}, 2), "c333 q667 c333 ") << "what is cut is not drawn";
  EXPECT_EQ(shares({{"top_k", 3}, {"temperature", 0.5}}, 3), "c190 q762 c190 ");
  EXPECT_EQ(shares({{"top_k", 3}, {"top_p", 0.6}}, 3), "c333 q667 c333 ");
  EXPECT_EQ(shares({{"top_k", 3}, {"min_p", 0.3}}, 3), "c333 q667 c333 ");
  EXPECT_EQ(shares({{"top_k", 3}, {"min_p", 0.6}}, 3), "c0 q1000 ");
  EXPECT_EQ(shares({{"temperature", 0}}, 2), "c0 q1000 c0 ") << "a fake that does not draw greedily";
  const auto refused = [&](Json options) {
    Json body{{"prompt", "ab"}, {"n_probs", 2}, {"post_sampling_probs", true}, {"top_k", 3}};
    body.update(options);
    return refusal(ask(body)).substr(0, 46);
  };
  const std::vector<Json> bad{{{"top_k", 0}},
                              {{"top_k", 129}},
                              {{"repeat_penalty", 1.1}},
                              {{"presence_penalty", 1}},
                              {{"frequency_penalty", 1}},
                              {{"logit_bias", {{97, 1}}}},
                              {{"grammar", "root ::= [a-z]"}}};
  for (const Json& options : bad)
    EXPECT_EQ(refused(options), "400 invalid_request_error post_sampling_probs:") << options;
  auto none = ask({{"prompt", "ab"}, {"post_sampling_probs", true}});
  EXPECT_EQ(inbox().held.size(), 1u) << "it asks for none";
}

TEST_F(LlamaCpp, ProbabilitiesAreNumbersWhateverTheEngineSays) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kNever = -std::numeric_limits<float>::infinity();
  const auto shares = [](std::vector<float> logprobs) {
    msg::Sampling sampling;
    sampling.temperature = 1, sampling.top_k = 3;
    std::vector<msg::TokenLogprob> top;
    for (size_t i = 0; i < logprobs.size(); ++i) top.push_back({.id = uint32_t(i), .logprob = logprobs[i]});
    return llama_cpp::final_shares(sampling, top);
  };
  using Shares = std::vector<float>;
  EXPECT_EQ(shares({-1, -1, kNan}), (Shares{0.5F, 0.5F, 0}));
  EXPECT_EQ(shares({-1, -1, kNever}), (Shares{0.5F, 0.5F, 0}));
  for (const float bad : {kNan, kNever, -kNever}) EXPECT_EQ(shares({bad, -1, -2}), (Shares{0, 0, 0})) << bad;
  EXPECT_EQ(shares({-1e30F, 1e30F}), (Shares{0, 0})) << "not the likeliest first";
  auto x = ask({{"prompt", "ab"}, {"n_probs", 2}, {"post_sampling_probs", true}, {"top_k", 3}});
  scripted().token('c', likely(kNan, {{'q', kNan}, {'c', kNan}, {'r', kNan}}));
  scripted().done();
  turn();
  EXPECT_EQ(json(x)["completion_probabilities"][0]["prob"], 0);
}

TEST_F(LlamaCpp, BiasesOfATextAreThoseOfItsTokens) {
  const auto biases = [&](const char* bias) {
    auto x = ask({{"prompt", "ab"}, {"logit_bias", Json::parse(bias)}});
    if (inbox().held.empty()) return x->sent;
    std::string out;
    for (const auto& [id, value] : call()->generation->sampling.logit_bias)
      out += std::to_string(id) + ":" + std::to_string(int(value * 2)) + " ";
    scripted().end();
    turn();
    return out;
  };
  EXPECT_EQ(biases(R"([["ab", -1.5], ["b", 0.5]])"), "97:-3 98:-2 ") << "biases of a token add up";
  EXPECT_EQ(biases(R"({"ab": 2, "99": 1, "": 3})"), "97:4 98:4 99:2 ");
  EXPECT_EQ(biases(R"([["aa", 1]])"), "97:4 ") << "each time that it is in the text";
  EXPECT_EQ(biases(R"([["ab", false], [97, 90], ["b", 1e30]])"), "97:-200 98:-200 ") << "never is never";
  EXPECT_EQ(biases(R"([[97, -1e30], ["97", 4]])"), "55:8 57:8 97:-200 ") << "in a list digits are a text";
  const auto refused = [&](Json bias) { return refusal(ask({{"prompt", "a"}, {"logit_bias", std::move(bias)}})); };
  const std::string begins = "400 invalid_request_error logit_bias: ";
  for (const char* bad : {R"([["a", true]])", R"([["a", "1"]])", R"([[-1, 1]])", R"([["a"]])", R"({"a": null})", "3",
                          R"([[260, 1]])", R"([[99999999999, 1]])"})
    EXPECT_EQ(refused(Json::parse(bad)).substr(0, begins.size()), begins) << bad;
  EXPECT_EQ(refused({{std::string(4097, 'a'), 1}}), begins + "the texts have more than 4096 bytes");
  EXPECT_EQ(refused(Json(std::vector<Json>(1025, Json{1, 1}))), begins + "at most 1024 of them");
}

TEST_F(LlamaCpp, AnInfillEndsWhereTheModelGoesOnToAnotherFile) {
  models.add(support::tools_spec(
      "q", "", {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}));
  bus.publish(models.catalog);
  const Json body{{"model", "q"}, {"input_prefix", "a"}, {"input_suffix", "b"}};
  auto x = ask(body, "/infill");
  ASSERT_EQ(models["q"].held.size(), 1u) << x->sent;
  EXPECT_EQ(models["q"].held[0]->generation->stop_ids, (std::vector<uint32_t>{263, 264, 265}));
  ScriptedAnswer q(models["q"], models["q"].held[0]);
  q.emit("ok");
  q.token(265);
  q.end();
  turn();
  EXPECT_EQ(json(x)["content"], "ok");
  EXPECT_EQ(json(x)["stop_type"], "eos");
  auto on = body;
  on["ignore_eos"] = true;
  auto y = ask(on, "/infill");
  EXPECT_TRUE(models["q"].held[0]->generation->stop_ids.empty()) << "it is to go on, whatever comes";
  auto suffix = complete({{"model", "q"}, {"suffix", "b"}, {"stop_token_ids", {264, 7}}});
  ASSERT_EQ(models["q"].held.size(), 2u) << suffix->sent;
  EXPECT_EQ(models["q"].held[1]->generation->stop_ids, (std::vector<uint32_t>{264, 7, 263, 265}));
  auto plain = complete({{"model", "q"}});
  EXPECT_TRUE(models["q"].held[2]->generation->stop_ids.empty()) << "of other texts they are no end";
}

TEST_F(LlamaCpp, APromptThatIsTooLongIsToldWithItsTokens) {
  for (bool stream : {false, true}) {
    auto x = ask({{"prompt", std::string(300, 'a')}, {"stream", stream}});
    EXPECT_EQ(
        json(x)["error"],
        Json::parse(R"J({"code":400,"message":"request (300 tokens) exceeds the available context size (200 tokens), )J"
                    R"J(try increasing it","type":"exceed_context_size_error","n_prompt_tokens":300,"n_ctx":200})J"));
  }
  auto ids = ask({{"prompt", std::vector<int>(200, 97)}});
  EXPECT_EQ(json(ids)["error"]["n_prompt_tokens"], 200) << "there is no room for a token";
  auto bytes = ask({{"prompt", std::string(100'000, 'a')}});
  EXPECT_EQ(refusal(bytes).substr(0, 29), "400 exceed_context_size_error");
  EXPECT_EQ(json(bytes)["error"]["n_ctx"], 200);
  EXPECT_FALSE(json(bytes)["error"].contains("n_prompt_tokens")) << "nobody has counted them";
  EXPECT_NE(message(bytes).find("exceeds the available context size (200 tokens)"), std::string::npos);
  auto openai = complete({{"prompt", std::string(300, 'a')}});
  EXPECT_EQ(error(openai), "400 invalid_request_error context_length_exceeded prompt");
  EXPECT_FALSE(json(openai)["error"].contains("n_ctx")) << "OpenAI's has no such member";
}

TEST_F(LlamaCpp, SlotsSayHowManySequencesRun) {
  const auto busy = [&] {
    const Json slots = json(open("GET", "/slots?model=m"));
    EXPECT_EQ(slots.size(), kMaxChoices);
    EXPECT_EQ(slots[0]["n_ctx"], 200);
    EXPECT_EQ(slots[5]["id"], 5);
    return std::count_if(slots.begin(), slots.end(), [](const Json& one) { return one["is_processing"] == true; });
  };
  EXPECT_EQ(busy(), 0);
  auto secret = ask({{"prompt", "secret"}, {"n_cmpl", 3}});
  EXPECT_EQ(busy(), 3);
  EXPECT_EQ(open("GET", "/slots?model=m")->sent.find("secret"), std::string::npos);
  EXPECT_EQ(open("GET", "/slots?model=m&fail_on_no_slot=1")->response.status, 200);
  auto all = ask({{"prompt", "ab"}, {"n_cmpl", 128}});
  EXPECT_EQ(busy(), 128);
  EXPECT_EQ(open("GET", "/slots?model=m")->response.status, 200);
  EXPECT_EQ(refusal(open("GET", "/slots?model=m&fail_on_no_slot=1")), "503 unavailable_error no slot available");
  EXPECT_EQ(refusal(open("GET", "/slots?model=q")).substr(0, 19), "404 not_found_error");
  EXPECT_EQ(refusal(open("POST", "/slots/0?action=erase", "{}")).substr(0, 23), "501 not_supported_error");
  while (!inbox().held.empty()) scripted().end();
  turn();
  EXPECT_EQ(busy(), 0);
}

TEST_F(LlamaCpp, OneTokenHasNoRate) {
  auto x = ask({{"prompt", "ab"}, {"n_predict", 1}});
  scripted().token('c');
  x->time += std::chrono::milliseconds(20);
  scripted().done();
  turn();
  const Json timings = json(x)["timings"];
  EXPECT_EQ(timings["predicted_n"], 1);
  EXPECT_EQ(timings["predicted_per_second"], 0);
  EXPECT_EQ(timings["predicted_per_token_ms"], 0);
}

TEST_F(LlamaCpp, TheSettingsTellWhichTokensAreBiased) {
  const auto biases = [&](Json body) {
    body["prompt"] = "ab";
    auto x = ask(std::move(body));
    scripted().end();
    turn();
    return json(x)["generation_settings"]["logit_bias"];
  };
  EXPECT_EQ(biases(Json::object()), Json::array());
  EXPECT_EQ(biases({{"logit_bias", Json::parse("[[97,0.5],[98,false]]")}}),
            Json::parse(R"([{"bias":0.5,"token":97},{"bias":-100,"token":98}])"));
  const Json ends = biases({{"ignore_eos", true}});
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0]["bias"], Json());
}

TEST_F(LlamaCpp, ThePromptOfAChatIsCounted) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"hi"}]})";
  for (const char* path : {"/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"}) {
    EXPECT_EQ(json(open("POST", path, body)), Json::parse(R"({"object":"response.input_tokens","input_tokens":18})"));
    EXPECT_EQ(error(open("POST", path, R"({"model":"m"})")).substr(0, 25), "400 invalid_request_error");
    EXPECT_EQ(error(open("POST", path, R"({"model":"q","messages":[{"role":"user","content":"a"}]})")),
              "404 invalid_request_error model_not_found model");
  }
  EXPECT_TRUE(inbox().held.empty()) << "no model makes an answer";
}

TEST_F(LlamaCpp, OpenAisRoutesAreThereWithoutAPrefix) {
  EXPECT_EQ(json(open("GET", "/v1/health"))["status"], "ok");
  auto x = open("POST", "/responses", R"({"model":"m","input":"hi"})");
  scripted().emit("yes");
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["output"][0]["content"][0]["text"], "yes");
  EXPECT_EQ(json(open("POST", "/responses/input_tokens", R"({"model":"m","input":"hi"})"))["input_tokens"], 18);
  EXPECT_EQ(error(open("POST", "/responses", "{}")).substr(0, 25), "400 invalid_request_error");
  EXPECT_EQ(refusal(open("POST", "/reranking", R"({"model":"q","query":"a","documents":["b"]})")).substr(0, 19),
            "404 not_found_error");
  EXPECT_EQ(error(open("POST", "/v1/reranking", R"({"model":"q","query":"a","documents":["b"]})")),
            "404 invalid_request_error model_not_found model");
}

}  // namespace
}  // namespace weir::openai
