// Requests that are refused, and why: each numeric member at its edges, members that are not offered, prompts that do
// not fit.
#include "dialects/openai/request.h"
#include "bench.h"
#include "support/generation_cases.h"

namespace weir::openai {
namespace {

class OpenaiRequests : public OpenaiBench {
 protected:
  // "ok", or the refused member.
  std::string verdict(std::string_view path, Json body) {
    auto x = open("POST", std::string(path), body.dump());
    std::string out = "ok";
    if (x->headed && x->response.status != 200) {
      Json error = json(x)["error"];
      EXPECT_EQ(x->response.status, 400) << x->sent;
      EXPECT_EQ(error["type"], "invalid_request_error");
      EXPECT_FALSE(error["message"].get<std::string>().empty());
      out = error["param"].is_string() ? error["param"].get<std::string>() : "-";
    }
    x.reset();
    models.finish_all();
    turn();
    return out;
  }
  std::string completion(const std::string& member, const Json& value) {
    Json body = {{"model", "m"}, {"prompt", "ab"}};
    body[member] = value;
    return verdict("/v1/completions", body);
  }
  std::string chat_with(const std::string& member, const Json& value) {
    Json body = {{"model", "m"}, {"messages", Json::parse(R"([{"role":"user","content":"hi"}])")}};
    body[member] = value;
    return verdict("/v1/chat/completions", body);
  }
};

TEST_F(OpenaiRequests, WholeNumbersAtTheirEdges) {
  struct Edge {
    const char* name;
    int64_t least, most;
  };
  constexpr int64_t kMost = 2147483647;
  for (const Edge& e : {Edge{"n", 1, 128}, Edge{"logprobs", 0, 20}, Edge{"prompt_logprobs", 0, 20},
                        Edge{"truncate_prompt_tokens", 1, kMost}, Edge{"priority", 0, 4294967295},
                        Edge{"top_k", -1, 4294967295}, Edge{"max_tokens", 0, 198}, Edge{"min_tokens", 0, 16}}) {
    EXPECT_EQ(completion(e.name, e.least), "ok") << e.name;
    EXPECT_EQ(completion(e.name, e.most), "ok") << e.name;
    EXPECT_EQ(completion(e.name, nullptr), "ok") << e.name;
    EXPECT_EQ(completion(e.name, e.least - 1), e.name);
    EXPECT_EQ(completion(e.name, e.most + 1), e.name);
    for (const Json& bad : {Json(-2147483649), Json(9223372036854775808U), Json(1e30), Json(1.5), Json("1"), Json(true),
                            Json::array(), Json::object()})
      EXPECT_EQ(completion(e.name, bad), e.name) << bad;
  }
  EXPECT_EQ(completion("n", 2147483648U), "n");
  EXPECT_EQ(completion("max_tokens", 2147483648U), "max_tokens");
}

TEST_F(OpenaiRequests, RealNumbersAtTheirEdges) {
  struct Edge {
    const char* name;
    double least, most;
  };
  for (const Edge& e :
       {Edge{"temperature", 0, 2}, Edge{"top_p", 0, 1}, Edge{"min_p", 0, 1}, Edge{"presence_penalty", -2, 2},
        Edge{"frequency_penalty", -2, 2}, Edge{"repetition_penalty", 0.001, 100}}) {
    EXPECT_EQ(completion(e.name, e.least), "ok") << e.name;
    EXPECT_EQ(completion(e.name, e.most), "ok") << e.name;
    EXPECT_EQ(completion(e.name, nullptr), "ok") << e.name;
    for (const Json& bad : {Json(e.least - 1e-6), Json(e.most + 1e-6), Json(2147483648U), Json(9223372036854775808U),
                            Json(1e300), Json(-1e300), Json("0.5"), Json(false)})
      EXPECT_EQ(completion(e.name, bad), e.name) << bad;
  }
}

TEST(OpenaiRequest, EveryGenerationParameterIsTakenInItsRangeAndRefusedByName) {
  for (const auto& c : support::json_cases(marshal::Protocol::kOpenAi)) {
    Request request;
    const std::string body = R"({"prompt":"x",")" + c.name + "\":" + c.value + "}";
    const ApiError error = read_request(body, Kind::kCompletion, request);
    EXPECT_EQ(error.ok(), c.good) << c.name << " " << c.value << ": " << error.status.text;
    EXPECT_TRUE(c.good || error.param.starts_with(c.name)) << c.value;
    EXPECT_TRUE(c.good || error.status.text.starts_with(c.name)) << error.status.text;
  }
}

TEST_F(OpenaiRequests, ATemperatureAboveOpenAisRangeHasItsErrorForm) {
  auto x = complete({{"temperature", 2.1}});
  EXPECT_EQ(error(x), "400 invalid_request_error - temperature");
  EXPECT_EQ(message(complete({{"temperature", 2.1}})), "temperature must be >= 0 and <= 2, not 2.1");
}

TEST_F(OpenaiRequests, SeedsHave64Bits) {
  EXPECT_EQ(completion("seed", INT64_MIN), "ok");
  EXPECT_EQ(completion("seed", UINT64_MAX), "ok");
  EXPECT_EQ(completion("seed", 1e20), "seed");
  EXPECT_EQ(completion("seed", 0.5), "seed");
}

TEST_F(OpenaiRequests, NotANumberIsNoJson) {
  for (const char* word : {"NaN", "Infinity", "-Infinity", "nan", "1e999", "-", "01", ".5", "+1"}) {
    auto x = open("POST", "/v1/completions", R"({"model":"m","prompt":"a","temperature":)" + std::string(word) + "}");
    EXPECT_EQ(x->response.status, 400) << word;
    EXPECT_EQ(json(x)["error"]["param"], "temperature") << word << x->sent;
  }
}

TEST_F(OpenaiRequests, StopStringsAndBiasesAreBounded) {
  EXPECT_EQ(completion("stop", "x"), "ok");
  EXPECT_EQ(completion("stop", std::vector<std::string>(64, "x")), "ok");
  EXPECT_EQ(completion("stop", std::vector<std::string>(65, "x")), "stop");
  EXPECT_EQ(completion("stop", std::vector<std::string>(64, std::string(64, 'x'))), "ok");
  EXPECT_EQ(completion("stop", std::vector<std::string>(64, std::string(65, 'x'))), "stop");
  EXPECT_EQ(completion("stop", std::vector<std::string>(100000, "x")), "stop");
  EXPECT_EQ(completion("stop", std::string(4096, 'x')), "ok");
  EXPECT_EQ(completion("stop", std::string(4097, 'x')), "stop");
  EXPECT_EQ(completion("stop", ""), "stop");
  EXPECT_EQ(completion("stop", 1), "stop");
  EXPECT_EQ(completion("logit_bias", {{"259", 100}}), "ok");
  EXPECT_EQ(completion("logit_bias", {{"260", 1}}), "logit_bias");
  EXPECT_EQ(completion("logit_bias", {{"1", 101}}), "logit_bias");
  EXPECT_EQ(completion("logit_bias", {{"-1", 1}}), "logit_bias");
  EXPECT_EQ(completion("logit_bias", {{"x", 1}}), "logit_bias");
  EXPECT_EQ(completion("stop_token_ids", {260}), "stop_token_ids");
  EXPECT_EQ(completion("stop_token_ids", {-1}), "stop_token_ids");
  EXPECT_EQ(completion("stop_token_ids", std::vector<int>(65, 1)), "stop_token_ids");
}

TEST_F(OpenaiRequests, WhatWouldChangeTheAnswerIsRefusedByName) {
  EXPECT_EQ(chat_with("response_format", {{"type", "xml"}}), "response_format.type");
  EXPECT_EQ(chat_with("response_format", {{"type", "json_object"}}), "ok");
  EXPECT_EQ(chat_with("response_format", {{"type", "text"}}), "ok");
  EXPECT_EQ(chat_with("tool_choice", "required"), "tool_choice");
  EXPECT_EQ(chat_with("tool_choice", {{"type", "function"}}), "tool_choice");
  EXPECT_EQ(chat_with("parallel_tool_calls", 1), "parallel_tool_calls");
  EXPECT_EQ(chat_with("guided_json", 1), "guided_json");
  EXPECT_EQ(chat_with("guided_json", {{"type", "object"}}), "ok");
  EXPECT_EQ(chat_with("use_beam_search", true), "use_beam_search");
  EXPECT_EQ(chat_with("use_beam_search", false), "ok");
  EXPECT_EQ(chat_with("chat_template", "x"), "chat_template");
  EXPECT_EQ(chat_with("audio", {{"voice", "x"}}), "audio");
  EXPECT_EQ(completion("suffix", "x"), "suffix") << "a model without tokens for it";
  EXPECT_EQ(chat_with("best_of", 2), "best_of") << "of completions alone";
  EXPECT_EQ(completion("temprature", 1), "temprature");
  EXPECT_EQ(chat_with("moderation", {{"model", "x"}}), "moderation");
  EXPECT_EQ(chat_with("moderation", nullptr), "ok");
  EXPECT_EQ(chat_with("verbosity", "low"), "ok") << "a hint";
  const Json harmless = Json::parse(R"({"user":"u","metadata":{"a":"b"},"store":true,"service_tier":"flex",
      "prompt_cache_options":{"a":1},"prediction":{"type":"content","content":"x"},"safety_identifier":"s"})");
  for (const auto& [name, value] : harmless.items()) {
    EXPECT_EQ(chat_with(name, value), "ok") << name;
    EXPECT_EQ(chat_with(name, 5), name) << "it has another type";
  }
  EXPECT_EQ(chat_with("metadata", {{"a", 1}}), "metadata");
  EXPECT_EQ(chat_with("web_search_options", Json::object()), "web_search_options") << "it asks for a search";
  EXPECT_EQ(message(complete({{"logit_bias", {{"curl", 1}}}})), "logit_bias: the key 'curl' is no token id");
  auto x = complete({{"temprature", 1}});
  EXPECT_EQ(message(x), "temprature: no such parameter; did you mean temperature?");
}

TEST_F(OpenaiRequests, AMemberThatNobodyKnowsIsRefusedWhateverItsValue) {
  for (const char* value : {"null", "false", "true", "\"\"", "[]", "{}", "0", "1"}) {
    Json parsed = Json::parse(value);
    EXPECT_EQ(chat_with("enable_thoughts", parsed), "enable_thoughts") << value;
    EXPECT_EQ(completion("use_cache", parsed), "use_cache") << value;
  }
  EXPECT_EQ(message(complete({{"temprature", nullptr}})), "temprature: no such parameter; did you mean temperature?");
}

TEST_F(OpenaiRequests, OfAKnownMemberNullIsNotThere) {
  for (const char* name : {"temperature", "stop", "logit_bias", "n", "stream", "stream_options", "seed", "max_tokens",
                           "suffix", "best_of", "user", "logprobs", "echo", "readouts", "response_format"})
    EXPECT_EQ(completion(name, nullptr), "ok") << name;
  for (const char* name :
       {"tools", "tool_choice", "functions", "function_call", "audio", "modalities", "max_completion_tokens",
        "top_logprobs", "reasoning_effort", "prediction", "verbosity", "web_search_options"})
    EXPECT_EQ(chat_with(name, nullptr), "ok") << name;
  for (const char* elsewhere : {"messages", "input", "dimensions", "max_completion_tokens"})
    EXPECT_EQ(completion(elsewhere, nullptr), "ok") << elsewhere;
  EXPECT_EQ(chat_with("prompt", "x"), "prompt");
  EXPECT_EQ(message(complete({{"dimensions", 3}})), "dimensions: not a parameter of this endpoint");
}

TEST_F(OpenaiRequests, APromptIsCutToWhatTheModelTakes) {
  auto tokens = [&](std::string_view path, Json body) {
    body["truncate_prompt_tokens"] = -1;
    auto x = open("POST", std::string(path), body.dump());
    EXPECT_EQ(inbox().held.size(), 1u) << x->sent;
    const auto& ids = call()->generation->append;
    const std::string out = std::to_string(ids.size()) + " " + char(ids.front()) + char(ids.back());
    x.reset();
    models.finish_all();
    turn();
    return out;
  };
  const std::string text = std::string(300, 'a') + "b";
  const Json said = {{{"role", "user"}, {"content", text}}};
  EXPECT_EQ(tokens("/v1/completions", {{"prompt", text}}), "184 ab") << "and room for 16";
  EXPECT_EQ(tokens("/v1/completions", {{"prompt", text}, {"max_tokens", 50}}), "150 ab");
  EXPECT_EQ(tokens("/v1/completions", {{"prompt", "ab"}}), "2 ab");
  EXPECT_EQ(tokens("/v1/chat/completions", {{"messages", said}, {"max_tokens", 50}}), "150 a:");
  EXPECT_EQ(tokens("/v1/embeddings", {{"input", text}}), "200 ab");
  EXPECT_EQ(completion("truncate_prompt_tokens", -1), "ok");
  EXPECT_EQ(completion("truncate_prompt_tokens", -2), "truncate_prompt_tokens");
}

TEST_F(OpenaiRequests, MembersThatNeedOthers) {
  EXPECT_EQ(completion("stream_options", {{"include_usage", true}}), "stream_options");
  EXPECT_EQ(chat_with("top_logprobs", 3), "top_logprobs");
  EXPECT_EQ(chat_with("top_logprobs", 0), "ok");
  EXPECT_EQ(chat_with("top_logprobs", 21), "top_logprobs");
  EXPECT_EQ(chat_with("max_completion_tokens", 0), "max_completion_tokens");
  EXPECT_EQ(verdict("/v1/completions", {{"prompt", "a"}, {"stream", true}, {"prompt_logprobs", 1}}), "prompt_logprobs");
  EXPECT_EQ(verdict("/v1/completions", {{"prompt", std::vector<std::string>(9, "a")}, {"n", 16}}), "n");
  EXPECT_EQ(verdict("/v1/completions", {{"prompt", std::vector<std::string>(129, "a")}}), "prompt");
  EXPECT_EQ(verdict("/v1/completions", {{"prompt", "a"}, {"readouts", Json::parse("[[3,3]]")}}), "readouts");
  EXPECT_EQ(verdict("/v1/completions", {{"prompt", "a"}, {"readouts", Json::parse("[[0,4294967296]]")}}), "readouts");
  EXPECT_EQ(verdict("/v1/chat/completions", {{"messages", Json::parse(R"([{"role":"user","content":"x"}])")},
                                             {"continue_final_message", true},
                                             {"add_generation_prompt", true}}),
            "continue_final_message");
}

TEST_F(OpenaiRequests, PromptsMustFit) {
  EXPECT_EQ(error(complete({{"prompt", std::string(200, 'a')}})),
            "400 invalid_request_error context_length_exceeded prompt");
  EXPECT_EQ(error(complete({{"prompt", std::string(1 << 20, 'a')}})),
            "400 invalid_request_error context_length_exceeded prompt");
  EXPECT_EQ(error(complete({{"max_tokens", 199}})), "400 invalid_request_error context_length_exceeded max_tokens");
  EXPECT_EQ(
      error(chat({{"messages", Json::parse(R"([{"role":"user","content":")" + std::string(300, 'x') + R"("}])")}})),
      "400 invalid_request_error context_length_exceeded messages");
  EXPECT_EQ(error(complete({{"prompt", ""}})), "400 invalid_request_error - prompt");
  EXPECT_EQ(completion("prompt", Json::array()), "prompt");
  EXPECT_EQ(completion("prompt", nullptr), "prompt");
  EXPECT_EQ(completion("prompt", {260}), "prompt");
  EXPECT_EQ(completion("prompt", {-1}), "prompt");
  EXPECT_EQ(completion("prompt", Json::parse(R"([1,null])")), "prompt");
  EXPECT_EQ(completion("prompt", Json::parse(R"(["a",[1],2])")), "prompt");
  EXPECT_EQ(completion("prompt", 7), "prompt");
}

// The error where it names a bound, else "": a conversation at a bound may still not fit the context of the model.
TEST_F(OpenaiRequests, ConversationsHaveSoManyMessagesAndPartsAndNoMore) {
  auto bound = [&](const char* member, Json value) {
    Json body = {{"model", "m"}, {"messages", Json::parse(R"([{"role":"user","content":"hi"}])")}};
    body[member] = std::move(value);
    auto x = open("POST", "/v1/chat/completions", body.dump());
    const size_t at = x->sent.find("at most "), end = x->sent.find('"', at);
    return at == std::string::npos ? std::string() : x->sent.substr(at, end - at);
  };
  const Json part = {{"type", "text"}, {"text", ""}}, said = {{"role", "user"}, {"content", ""}};
  auto turns = [&](size_t n) { return Json(n, said); };
  auto parts = [&](size_t n) { return Json::array({{{"role", "user"}, {"content", Json(n, part)}}}); };
  auto images = [&](size_t n) {
    const Json image = {{"type", "image_url"}, {"image_url", "data:image/png;base64,YWJj"}};
    return Json::array({{{"role", "user"}, {"content", Json(n, image)}}});
  };
  auto variables = [](size_t n) {
    Json out = Json::object();
    for (size_t i = 0; i < n; ++i) out["v" + std::to_string(i)] = true;
    return out;
  };
  EXPECT_EQ(bound("messages", turns(4096)), "");
  EXPECT_EQ(bound("messages", turns(4097)), "at most 4096 of them");
  EXPECT_EQ(bound("messages", parts(256)), "");
  EXPECT_EQ(bound("messages", parts(257)), "at most 256 parts");
  EXPECT_EQ(bound("messages", images(64)), "");
  EXPECT_EQ(bound("messages", images(65)), "at most 64 images");
  EXPECT_EQ(bound("chat_template_kwargs", variables(32)), "");
  EXPECT_EQ(bound("chat_template_kwargs", variables(33)), "at most 32 of them");
}

TEST_F(OpenaiRequests, MessagesAreChecked) {
  auto messages = [&](const char* text) { return chat_with("messages", Json::parse(text)); };
  EXPECT_EQ(messages("[]"), "messages");
  EXPECT_EQ(messages(R"("hi")"), "messages");
  EXPECT_EQ(messages("[1]"), "messages");
  EXPECT_EQ(messages(R"([{"content":"x"}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"user"}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"user","content":null}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"user","content":[{"type":"input_audio"}]}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}])"), "ok");
  EXPECT_EQ(messages(R"([{"role":"assistant","tool_calls":"x"}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"assistant","content":"","tool_calls":[1]}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"user","tool_calls":[]}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b.png"}}]}])"),
            "messages");
  EXPECT_EQ(
      messages(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,@"}}]}])"),
      "messages");
  EXPECT_EQ(
      messages(
          R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/gif;base64,YWJj"}}]}])"),
      "messages");
  EXPECT_EQ(messages(R"([{"role":"user","content":"<|image|><|pad|><|/image|>"}])"), "messages");
  EXPECT_EQ(messages(R"([{"role":"assistant","content":null},{"role":"user","content":"x"}])"), "ok");
  EXPECT_EQ(
      messages(R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","content":"x"}])"),
      "ok");
  EXPECT_EQ(messages(R"([{"role":"assistant","tool_calls":[{"id":"1"}]},{"role":"tool","content":"x"}])"), "ok");
  auto x = chat(
      {{"messages", Json::parse(R"([{"role":"user","content":[{"type":"image_url","image_url":"http://x/"}]}])")}});
  EXPECT_EQ(message(x), "messages[0].content: images come as data: URLs in base64; nothing is fetched from elsewhere");
}

TEST_F(OpenaiRequests, TemplateVariablesArePlainAndNotReserved) {
  EXPECT_EQ(chat_with("chat_template_kwargs", {{"enable_thinking", false}}), "ok");
  EXPECT_EQ(chat_with("chat_template_kwargs", {{"messages", "x"}}), "chat_template_kwargs");
  EXPECT_EQ(chat_with("chat_template_kwargs", {{"chat_template", "x"}}), "chat_template_kwargs");
  EXPECT_EQ(chat_with("chat_template_kwargs", {{"a", Json::array()}}), "chat_template_kwargs");
  EXPECT_EQ(chat_with("chat_template_kwargs", {{"a", std::string(257, 'x')}}), "chat_template_kwargs");
  EXPECT_EQ(chat_with("chat_template_kwargs", 1), "chat_template_kwargs");
}

TEST_F(OpenaiRequests, ModelsAreNamed) {
  EXPECT_EQ(error(complete({{"model", "nope"}})), "404 invalid_request_error model_not_found model");
  EXPECT_EQ(error(complete({{"model", "t"}})), "400 invalid_request_error - model");
  EXPECT_EQ(verdict("/v1/completions", {{"prompt", "a"}}), "ok") << "the only one of text";
  models.add(support::text_spec("other"));
  EXPECT_EQ(verdict("/v1/completions", {{"prompt", "a"}}), "model");
}

TEST_F(OpenaiRequests, BodiesThatAreNoJsonAreRefused) {
  for (const char* body : {"", "[]", "{", "{\"model\":\"m\",\"prompt\":\"a\"}x", "{\"prompt\":\"\xff\"}", "null"})
    EXPECT_EQ(open("POST", "/v1/completions", body)->response.status, 400) << body;
}

}  // namespace
}  // namespace weir::openai
