// Members that clients' own schemas require of an answer, which the APIs' first references do not name.
#include "responses_bench.h"

namespace weir::openai {
namespace {

class ClientSchemas : public Responses {
 protected:
  Json made(Json body) {
    auto x = ask(std::move(body));
    scripted().emit("ab");
    scripted().end();
    turn();
    return json(x);
  }
};

TEST_F(ClientSchemas, AResponseHasTheNumbersThatAreInForce) {
  Json said = made({{"presence_penalty", 0.5}, {"temperature", 0}});
  EXPECT_EQ(said["temperature"], 0);
  EXPECT_EQ(said["top_p"], 1);
  EXPECT_EQ(said["presence_penalty"], 0.5);
  EXPECT_EQ(said["frequency_penalty"], 0);
  EXPECT_EQ(said["output"][0]["content"][0]["text"], "ab");
  const std::string id = said["id"];
  EXPECT_EQ(json(open("GET", "/v1/responses/" + id)), said) << "as it is stored";
}

TEST_F(ClientSchemas, PenaltiesOfAResponseReachTheModel) {
  auto x = ask({{"presence_penalty", 0.5}, {"frequency_penalty", -0.5}});
  EXPECT_EQ(call()->generation->sampling.presence_penalty, 0.5F);
  EXPECT_EQ(call()->generation->sampling.frequency_penalty, -0.5F);
}

TEST_F(ClientSchemas, VllmsSamplingParametersOfAResponseReachTheModel) {
  auto x = ask({{"top_k", 40},
                {"min_p", 0.25},
                {"repetition_penalty", 1.5},
                {"seed", 42},
                {"stop", {"xy"}},
                {"ignore_eos", true}});
  const msg::Generation& g = *call()->generation;
  EXPECT_EQ(g.sampling.top_k, 40u);
  EXPECT_EQ(g.sampling.min_p, 0.25F);
  EXPECT_EQ(g.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(g.sampling.seed, 42u);
  EXPECT_TRUE(g.ignore_eos);
  scripted().emit("abxy");
  turn();
  EXPECT_EQ(json(x)["output"][0]["content"][0]["text"], "ab") << x->sent;
}

TEST_F(ClientSchemas, AResponseSaysWhenItWasCompleted) {
  EXPECT_TRUE(made(Json::object())["completed_at"].is_number_unsigned());
  auto cut = ask(Json::object());
  scripted().emit("a");
  scripted().done();
  turn();
  EXPECT_EQ(json(cut)["status"], "incomplete");
  EXPECT_EQ(json(cut).at("completed_at"), Json());
  auto streamed = ask({{"stream", true}});
  scripted().emit("a");
  scripted().end();
  turn();
  const auto all = events(streamed);
  EXPECT_EQ(all.front()["response"].at("completed_at"), Json());
  EXPECT_TRUE(all.back()["response"]["completed_at"].is_number_unsigned());
  const std::string id = all.back()["response"]["id"];
  const auto again = events(open("GET", "/v1/responses/" + id + "?stream=true"));
  EXPECT_EQ(again.front()["response"].at("completed_at"), Json());
  EXPECT_EQ(again.back(), all.back());
}

TEST_F(ClientSchemas, ARepeatedFunctionIsWhole) {
  auto x = ask({{"model", "qwen"}, {"tools", Json::parse(R"([{"type":"function","name":"f"}])")}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  ScriptedAnswer says{models["qwen"], models["qwen"].held[0]};
  says.emit("ab");
  says.end();
  turn();
  EXPECT_EQ(json(x)["tools"],
            Json::parse(R"([{"type":"function","name":"f","description":null,"parameters":null,"strict":null}])"));
}

TEST_F(ClientSchemas, EachChunkOfACompletionHasAListOfIds) {
  auto x = complete({{"stream", true}, {"return_token_ids", true}});
  scripted().emit("a");
  scripted().done();
  turn();
  size_t ids = 0;
  for (const Json& chunk : OpenaiBench::events(x))
    if (chunk.is_object()) ids += chunk["choices"][0].at("token_ids").size();
  EXPECT_EQ(ids, 1u) << "each chunk has a list, if an empty one";
}

TEST_F(ClientSchemas, ATokenizerIsDescribedAsVllmHasIt) {
  Json info = json(open("GET", "/tokenizer_info?model=qwen"));
  for (const char* name : {"bos_token", "eos_token", "pad_token"}) EXPECT_TRUE(info.contains(name)) << name;
  EXPECT_NE(info["chat_template"].get<std::string>().find("<tool_call>"), std::string::npos);
  EXPECT_EQ(open("GET", "/tokenizer_info?model=q")->response.status, 404);
}

TEST_F(ClientSchemas, OllamaShowsTheTemplateAndTheAskedName) {
  Json shown = json(open("POST", "/api/show", R"({"model":"qwen:latest"})"));
  EXPECT_NE(shown["template"].get<std::string>().find("<tool_call>"), std::string::npos);
  EXPECT_EQ(shown["model_info"]["general.basename"], "qwen:latest");
}

// LiteLLM looks for the word.
TEST_F(ClientSchemas, OllamaShowsThatToolsAreCalledAlsoWhereTheTemplateDoesNotSay) {
  msg::ModelSpec spec = support::text_spec("plain");
  auto text = std::make_shared<msg::TextSpec>(*spec.text);
  const tokenizers::Json config{{"chat_template", "{{ messages[0].content }}"}};
  text->codec = *text::make_processor(tokenizers::byte_level_file({}).dump(), config.dump(), "", "hermes");
  spec.text = std::move(text);
  models.add(std::move(spec));
  const std::string shown = json(open("POST", "/api/show", R"({"model":"plain"})"))["template"];
  EXPECT_TRUE(shown.starts_with("{{ messages[0].content }}")) << shown;
  EXPECT_NE(shown.find("tools"), std::string::npos);
}

TEST_F(ClientSchemas, MistralsWordsAreKnown) {
  auto x = chat({{"random_seed", 7}, {"safe_prompt", false}});
  EXPECT_EQ(call()->generation->sampling.seed, 7u) << x->sent;
  EXPECT_EQ(error(chat({{"safe_prompt", true}})), "400 invalid_request_error - safe_prompt");
}

// Hugging Face's client for JavaScript sends what Text Generation Inference takes to other servers, too.
TEST_F(ClientSchemas, TheFullTextOfACompletionIsEchoed) {
  auto x = complete({{"return_full_text", false}});
  EXPECT_TRUE(call()) << x->sent;
  x = complete({{"return_full_text", true}});
  EXPECT_EQ(error(x), "400 invalid_request_error - return_full_text");
  EXPECT_NE(x->sent.find("echo"), std::string::npos) << x->sent;
}

TEST_F(ClientSchemas, AnOllamaConversationGoesOnBehindItsContext) {
  for (const char* stream : {"false", "true"}) {
    auto x = open("POST", "/api/generate", std::string(R"({"model":"m","prompt":"hi","stream":)") + stream + '}');
    scripted().emit("ab");
    scripted().end();
    turn();
    const size_t line = x->sent.rfind("{\"model\"");
    const Json context = Json::parse(x->sent.substr(line))["context"];
    ASSERT_TRUE(context.is_array()) << x->sent;
    std::string said;
    for (const Json& id : context) said += id < 256 ? std::string(1, char(id.get<int>())) : "|";
    EXPECT_EQ(said, "user:hi\nassistant:ab|");
    const Json next{{"model", "m"}, {"prompt", "so"}, {"context", context}, {"stream", false}};
    auto y = open("POST", "/api/generate", next.dump());
    const auto& asked = call()->generation->append;
    ASSERT_GT(asked.size(), context.size());
    EXPECT_EQ(Json(std::vector<uint32_t>(asked.begin(), asked.begin() + ptrdiff_t(context.size()))), context);
    scripted().end();
    turn();
  }
}

TEST_F(ClientSchemas, AContextIsAListOfIdsOfAChat) {
  const auto status = [&](const char* more) {
    return open("POST", "/api/generate", std::string(R"({"model":"m","prompt":"hi","stream":false,)") + more + '}')
        ->response.status;
  };
  EXPECT_EQ(status(R"("context":"x")"), 400);
  EXPECT_EQ(status(R"("context":[-1])"), 400);
  EXPECT_EQ(status(R"("context":[4294967296])"), 400);
  EXPECT_EQ(status(R"("context":[4294967295])"), 400);
  EXPECT_EQ(status(R"("context":[1],"raw":true)"), 400);
}

}  // namespace
}  // namespace weir::openai
