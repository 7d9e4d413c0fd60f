// The paths of Azure OpenAI: the deployment is the model.
#include "bench.h"

namespace weir::openai {
namespace {

using Azure = OpenaiBench;

constexpr const char* kChat = R"({"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]})";

TEST_F(Azure, TheDeploymentIsTheModelWhateverTheBodySays) {
  const std::string version = "?api-version=2024-10-21";
  auto chat = open("POST", "/openai/deployments/m/chat/completions" + version, kChat);
  ASSERT_EQ(inbox().held.size(), 1u) << chat->sent;
  scripted().end();
  turn();
  EXPECT_EQ(json(chat)["model"], "m");
  auto text = open("POST", "/openai/deployments/m/completions" + version, R"({"prompt":"a"})");
  ASSERT_EQ(inbox().held.size(), 1u) << text->sent;
  scripted().end();
  turn();
  EXPECT_EQ(json(text)["object"], "text_completion");
  auto vector = open("POST", "/openai/deployments/m/embeddings" + version, R"({"model":"none","input":"a"})");
  EXPECT_EQ(inbox().held.size(), 1u) << vector->sent;
}

TEST_F(Azure, ADeploymentThatIsNotThereIsNamed) {
  for (const char* path : {"/openai/deployments/no/chat/completions", "/openai/deployments/no%2Fm/chat/completions",
                           "/openai/deployments/no/m/chat/completions"}) {
    auto x = open("POST", path, kChat);
    EXPECT_EQ(error(x), "404 invalid_request_error model_not_found model") << path;
    EXPECT_NE(message(x).find("no"), std::string::npos) << path;
  }
  EXPECT_EQ(open("POST", "/openai/deployments/m/images/generations", "{}")->response.status, 404);
}

TEST_F(Azure, ADeploymentMayBeCalledChat) {
  auto x = open("POST", "/openai/deployments/chat/completions", R"({"model":"m","prompt":"a"})");
  EXPECT_EQ(x->response.status, 404) << "the body's model is asked";
  auto y = open("POST", "/openai/deployments/m/completions", R"({"prompt":"a"})");
  EXPECT_EQ(inbox().held.size(), 1u) << y->sent;
}

TEST_F(Azure, WhatIsNoDeploymentsIsBelowItsPrefix) {
  EXPECT_EQ(json(open("GET", "/openai/models?api-version=2024-10-21"))["data"][0]["id"], "m");
  auto x = open("POST", "/openai/responses?api-version=2025-04-01-preview", R"({"model":"m","input":"a"})");
  EXPECT_EQ(inbox().held.size(), 1u) << x->sent;
}

TEST_F(Azure, APrefixOfOnesOwnHasItsDeployments) {
  options.prefixes = {"/llm/v1", "/azure/openai"};
  EXPECT_EQ(open("POST", "/llm/v1/deployments/m/completions", R"({"prompt":"a"})")->response.status, 404);
  auto x = open("POST", "/azure/openai/deployments/m/completions", R"({"prompt":"a"})");
  EXPECT_EQ(inbox().held.size(), 1u) << x->sent;
}

}  // namespace
}  // namespace weir::openai
