#include "engines/forward/options.h"

#include <gtest/gtest.h>

#include "engines/forward/openai/api_path.h"

namespace weir::forward {
namespace {

msg::ModelSpec wanted(std::map<std::string, std::string> parameters) {
  msg::ModelSpec spec;
  spec.name = "m";
  spec.parameters = std::move(parameters);
  return spec;
}

TEST(ForwardOptions, AreTakenFromTheParameters) {
  auto options = read_options(wanted({{"kind", "oip-grpc"},
                                      {"origins", "http://a:8001 https://b.example"},
                                      {"model", "there"},
                                      {"version", "2"},
                                      {"connect_timeout", "1s"},
                                      {"answer_timeout", "0"},
                                      {"max_outstanding", "7"},
                                      {"max_answer", "1MiB"}}));
  ASSERT_TRUE(options.has_value()) << options.error().text;
  ASSERT_EQ(options->origins.size(), 2u);
  EXPECT_EQ(options->origins[0].authority(), "a:8001");
  EXPECT_EQ(options->origins[1].port, 443);
  EXPECT_TRUE(options->any_tls());
  EXPECT_EQ(options->model, "there");
  EXPECT_EQ(options->version, "2");
  EXPECT_EQ(options->connect_timeout, std::chrono::seconds(1));
  EXPECT_EQ(options->answer_timeout.count(), 0);
  EXPECT_EQ(options->max_outstanding, 7u);
  EXPECT_EQ(options->max_answer, 1u << 20);
}

TEST(ForwardOptions, OfModelsOfText) {
  auto options = read_options(wanted({{"kind", "openai"},
                                      {"origins", "http://a:8000"},
                                      {"tokenizer", "/models/m"},
                                      {"max_length", "8192"},
                                      {"tool_format", "hermes"}}));
  ASSERT_TRUE(options.has_value()) << options.error().text;
  EXPECT_EQ(options->kind, KindName::kOpenai);
  EXPECT_EQ(options->tokenizer, "/models/m");
  EXPECT_EQ(options->max_length, 8192u);
  EXPECT_EQ(options->tool_format, "hermes");
}

TEST(ForwardOptions, OfChats) {
  using Thinking = msg::TextSpec::RemoteChat::Thinking;
  std::map<std::string, std::string> all{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "chat"}};
  EXPECT_FALSE(read_options(wanted(all))->vision || read_options(wanted(all))->thinking);
  all["vision"] = "false", all["thinking"] = "effort";
  auto options = read_options(wanted(all));
  ASSERT_TRUE(options.has_value()) << options.error().text;
  EXPECT_EQ(options->vision, false);
  EXPECT_EQ(options->thinking, Thinking::kEffort);
}

TEST(ForwardOptions, EmbeddingsAndRankings) {
  std::map<std::string, std::string> all{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "embeddings"}};
  auto options = read_options(wanted(all));
  ASSERT_TRUE(options) << options.error().text;
  EXPECT_TRUE(options->has_rows());
  EXPECT_EQ(options->max_texts, 32u);
  all["max_texts"] = "7", all["tokenizer"] = "/models/bge";
  EXPECT_EQ(read_options(wanted(all))->max_texts, 7u);
}

TEST(ForwardOptions, OriginsOfOpenaisApiMayHaveItUnderAPath) {
  const std::pair<const char*, const char*> kPaths[] = {
      {"http://a:1", "/v1/models"},
      {"https://a.example/openai/v1/", "/openai/v1/models"},
      {"https://a.example/v1beta/openai", "/v1beta/openai/models"},
      {"https://a.example/d/x?api-version=1", "/d/x/models?api-version=1"},
      {"https://a.example/?v=1", "/models?v=1"},
  };
  for (const auto& [origin, path] : kPaths) {
    auto options = read_options(wanted({{"kind", "openai"}, {"origins", origin}}));
    ASSERT_TRUE(options.has_value()) << options.error().text;
    EXPECT_EQ(api_path(options->origins.front(), "/models"), path);
    EXPECT_EQ(target_at(options->origins.front(), "/v1/models"), path);
  }
  EXPECT_EQ(target_at(*net::parse_url("http://a:1"), "/rerank"), "/rerank");
  EXPECT_EQ(target_at(*net::parse_url("http://a:1/v2"), "/rerank"), "/v2/rerank");
}

TEST(ForwardOptions, OpenaisOwnChatsHaveTheNewerNameOfALength) {
  std::map<std::string, std::string> all{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "chat"}};
  const auto limit = [&] { return read_options(wanted(all))->token_limit; };
  EXPECT_EQ(limit(), TokenLimit::kMaxTokens);
  all["token_limit"] = "max_completion_tokens";
  EXPECT_EQ(limit(), TokenLimit::kMaxCompletionTokens);
  all["origins"] = "https://x.openai.azure.com/openai/v1", all.erase("token_limit");
  EXPECT_EQ(limit(), TokenLimit::kMaxCompletionTokens);
  all["token_limit"] = "max_tokens";
  EXPECT_EQ(limit(), TokenLimit::kMaxTokens);
}

TEST(ForwardOptions, AKeyMayHaveAFieldOfItsOwn) {
  std::map<std::string, std::string> all{{"kind", "openai"}, {"origins", "http://a:1"}, {"key_file", "/k"}};
  EXPECT_EQ(read_options(wanted(all))->key_header, "authorization");
  for (const char* good : {"authorization", "api-key", "x-api-key", "x-goog-api-key", "private-token"})
    EXPECT_EQ((all["key_header"] = good, read_options(wanted(all))->key_header), good);
  for (const char* bad : {"", "host", "content-length", "Api-Key", "api key", "x:key", "te", "api-key\r\nx-token"})
    EXPECT_FALSE((all["key_header"] = bad, read_options(wanted(all)))) << bad;
  all["key_header"] = "api-key", all.erase("key_file");
  EXPECT_FALSE(read_options(wanted(all)));
}

TEST(ForwardOptions, TheModelsNameIsTheSameThereUnlessItIsSaid) {
  EXPECT_EQ(read_options(wanted({{"kind", "oip-grpc"}, {"origins", "http://a:1"}}))->model, "m");
}

TEST(ForwardOptions, ErrorsNameTheParameter) {
  const std::pair<std::map<std::string, std::string>, const char*> bad[] = {
      {{{"origins", "http://a:1"}}, "'kind' is missing"},
      {{{"kind", "grpc"}, {"origins", "http://a:1"}}, "parameter 'kind'"},
      {{{"kind", "weird"}, {"origins", "http://a:1"}}, "weir or oip-grpc"},
      {{{"kind", "oip-grpc"}}, "'origins' is missing"},
      {{{"kind", "oip-grpc"}, {"origins", "a:1"}}, "is no URL"},
      {{{"kind", "oip-grpc"}, {"origins", "http://a:1/v2"}}, "has a path"},
      {{{"kind", "oip-grpc"}, {"origins", "http://a:1"}, {"connect_timeout", "0"}}, "'connect_timeout'"},
      {{{"kind", "oip-grpc"}, {"origins", "http://a:1"}, {"max_outstanding", "0"}}, "'max_outstanding'"},
      {{{"kind", "oip-grpc"}, {"origins", "http://a:1"}, {"max_answer", "5GiB"}}, "'max_answer'"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"max_length", "0"}}, "'max_length'"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"vision", "true"}}, "'vision' needs kind openai with api chat"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "chat"}, {"vision", "1"}}, "true or false"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "chat"}, {"thinking", "on"}},
       "none, variables or effort"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "images"}}, "chat, completions, embeddings or rerank"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "chat"}, {"max_texts", "4"}}, "'max_texts' needs"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "rerank"}, {"max_texts", "4096"}}, "from 1 to 2048"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "rerank"}, {"tokenizer", "/x"}}, "need no 'tokenizer'"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"api", "chat"}, {"token_limit", "x"}},
       "max_tokens or max_completion_tokens"},
      {{{"kind", "openai"}, {"origins", "http://a:1"}, {"token_limit", "max_tokens"}},
       "'token_limit' needs kind openai with api chat"},
  };
  for (const auto& [parameters, words] : bad) {
    auto options = read_options(wanted(parameters));
    ASSERT_FALSE(options.has_value()) << words;
    EXPECT_NE(options.error().text.find(words), std::string::npos) << options.error().text;
  }
}

}  // namespace
}  // namespace weir::forward
