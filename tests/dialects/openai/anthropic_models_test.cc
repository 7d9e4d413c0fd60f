// Anthropic's list of models, at the paths of OpenAI's; and what every answer of that API has.
#include "bench.h"

namespace weir::openai {
namespace {

const std::vector<std::pair<std::string, std::string>> kAnthropics{{"anthropic-version", "2023-06-01"}};

class AnthropicModels : public OpenaiBench {
 protected:
  AnthropicModels() {
    for (const char* name : {"a", "b"}) models.add(support::text_spec(name));
    bus.publish(models.catalog);
  }
  Json get(const std::string& target) { return json(open("GET", target, {}, kAnthropics)); }
  static std::string ids(const Json& page) {
    std::string out = page["has_more"] == true ? "+" : "";
    for (const Json& model : page["data"]) out += model["id"].get<std::string>();
    return out;
  }
};

TEST_F(AnthropicModels, AreAPageOfModelsOfText) {
  const Json page = get("/v1/models");
  EXPECT_EQ(ids(page), "abm");
  EXPECT_EQ(page["first_id"], "a");
  EXPECT_EQ(page["last_id"], "m");
  const Json& model = page["data"][2];
  EXPECT_EQ(model["type"], "model");
  EXPECT_EQ(model["display_name"], "m");
  EXPECT_EQ(model["created_at"].get<std::string>().back(), 'Z');
  EXPECT_EQ(model["lifecycle"], "active");
  EXPECT_EQ(get("/v1/models/m"), model);
  EXPECT_EQ(json(open("GET", "/v1/models"))["object"], "list") << "others have OpenAI's list";
}

TEST_F(AnthropicModels, ArePagedBothWays) {
  EXPECT_EQ(ids(get("/v1/models?limit=2")), "+ab");
  EXPECT_EQ(ids(get("/v1/models?limit=2&after_id=a")), "bm");
  EXPECT_EQ(ids(get("/v1/models?limit=1&before_id=m")), "+b");
  EXPECT_EQ(ids(get("/v1/models?before_id=b")), "a");
  const Json none = get("/v1/models?after_id=m");
  EXPECT_EQ(ids(none), "");
  EXPECT_EQ(none["first_id"], Json());
}

TEST_F(AnthropicModels, RefuseInAnthropicsForm) {
  const Json expected = Json::parse(R"({"after_id=x":"invalid_request_error","limit=0":"invalid_request_error"})");
  for (const auto& [query, type] : expected.items()) {
    const Json answer = get("/v1/models?" + query);
    EXPECT_EQ(answer["type"], "error") << answer;
    EXPECT_EQ(answer["error"]["type"], type);
  }
  EXPECT_EQ(get("/v1/models/x")["error"]["type"], "not_found_error");
  EXPECT_EQ(get("/v1/skills")["error"]["type"], "not_found_error") << "a path that is not served";
  EXPECT_EQ(json(open("GET", "/v1/skills"))["error"]["code"], Json()) << "OpenAI's form";
}

TEST_F(AnthropicModels, ErrorsNameTheRequest) {
  auto x = open("POST", "/v1/messages", "{}", {{"x-request-id", "mine"}});
  EXPECT_EQ(json(x)["request_id"], "mine");
  EXPECT_EQ(json(open("POST", "/v1/messages/nowhere", "{}", {{"x-request-id", "mine"}}))["request_id"], "mine");
}

TEST_F(AnthropicModels, MembersThatMayBeNullAreThere) {
  const char* kBody = R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})";
  auto x = open("POST", "/v1/messages", kBody);
  scripted().end();
  turn();
  const Json answer = json(x);
  for (const char* name : {"container", "diagnostics", "stop_details", "stop_sequence"})
    EXPECT_TRUE(answer.contains(name)) << name;
  for (const char* name :
       {"cache_creation", "inference_geo", "output_tokens_details", "server_tool_use", "service_tier", "speed"})
    EXPECT_TRUE(answer["usage"].contains(name)) << name;
}

class ClientTools : public OpenaiBench {
 protected:
  ClientTools() { models.add(support::tools_spec("qwen", "{# <tool_call></think> #}")); }
  Opened ask(const char* more) {
    Json body = Json::parse(R"({"model":"qwen","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})");
    body.update(Json::parse(more));
    return open("POST", "/v1/messages", body.dump());
  }
  static std::string refusal(const Opened& x) { return json(x)["error"]["message"]; }
};

TEST_F(ClientTools, ThatAnthropicGaveASchemaAreFunctions) {
  auto x = ask(R"({"tools":[{"type":"bash_20250124","name":"bash"},{"type":"memory_20250818","name":"memory"},
                            {"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}],
                   "tool_choice":{"type":"tool","name":"bash"}})");
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  EXPECT_TRUE(models["qwen"].held[0]->generation->constraint);
  for (const char* other : {"web_search_20250305", "computer_20250124", "bash_2025"})
    EXPECT_EQ(refusal(ask(("{\"tools\":[{\"type\":\"" + std::string(other) + "\",\"name\":\"n\"}]}").c_str())),
              "tools[0]: '" + std::string(other) + "' is a tool of Anthropic's servers");
}

TEST_F(ClientTools, WhatServersRanIsPassedOver) {
  auto x = ask(R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[
      {"type":"server_tool_use","id":"s","name":"web_search","input":{}},
      {"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"found"}]},
      {"role":"user","content":"so"}]})");
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  EXPECT_NE(support::prompt_of(*models["qwen"].held[0]).find("found"), std::string::npos);
}

TEST_F(ClientTools, AWrongMessageIsNamedByItsPlace) {
  EXPECT_EQ(refusal(ask(R"({"messages":[{"role":"user","content":"x"},{"role":"user","content":5}]})")),
            "messages[1]: content: expected a text or a list of blocks");
  EXPECT_EQ(refusal(ask(R"({"messages":[{"role":"user","content":[{}]}]})")),
            "messages[0]: a block is an object with a type");
}

TEST_F(ClientTools, MembersHaveTheirTypes) {
  EXPECT_EQ(refusal(ask(R"({"metadata":5})")), "metadata: expected an object");
  EXPECT_EQ(refusal(ask(R"({"cache_control":5})")), "cache_control: expected an object");
  EXPECT_EQ(refusal(ask(R"({"service_tier":5})")), "service_tier: expected a text");
  EXPECT_EQ(refusal(ask(R"({"container":5})")), "container: expected an object or a text");
  EXPECT_EQ(refusal(ask(R"({"stop_sequences":"x"})")), "stop_sequences: expected a list of texts");
  EXPECT_EQ(refusal(ask(R"({"system":{}})")), "system: expected a text or a list of texts");
  const char* kCall =
      R"({"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":5}]}]})";
  EXPECT_EQ(refusal(ask(kCall)), "messages[0]: the input of a tool_use is an object");
}

}  // namespace
}  // namespace weir::openai
