// Items of stored responses: referred to by later requests.
#include "dialects/openai/task.h"
#include "marshal/tenant.h"
#include "responses_bench.h"
#include "support/fake_offload.h"

namespace weir::openai {
namespace {

class ResponseItems : public Responses {
 protected:
  // The id of the first item of an answer, which is stored.
  std::string item_of(Json body, const std::string& text = "ab") {
    auto x = ask(std::move(body));
    scripted().emit(text);
    scripted().end();
    turn();
    return json(x)["output"][0]["id"];
  }
  static Json reference(const std::string& id) { return {{"type", "item_reference"}, {"id", id}}; }
  static Json user(const char* text) { return {{"role", "user"}, {"content", text}}; }
  std::string missing(const std::string& id) { return refusal(ask({{"input", Json::array({reference(id)})}})); }
};

TEST_F(ResponseItems, AReferenceStandsForTheItem) {
  const std::string first = item_of({}), second = item_of({{"input", "so"}}, "cd");
  auto x = ask({{"input", Json::array({user("hi"), reference(first), user("so"), reference(second), user("and"),
                                       Json{{"id", first}}})}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "user:hi\nassistant:ab\nuser:so\nassistant:cd\nuser:and\nassistant:ab\nassistant:");
}

TEST_F(ResponseItems, ACallIsReferredToAsWell) {
  auto x = ask({{"model", "qwen"}, {"tools", tools}});
  ScriptedAnswer says{models["qwen"], models["qwen"].held.at(0)};
  says.emit(kSays);
  says.end();
  turn();
  Json input = Json::array({user("hi")});
  const Json made = json(x);
  for (const Json& item : made["output"]) input.push_back(reference(item["id"]));
  input.push_back({{"type", "function_call_output"}, {"call_id", "c"}, {"output", "1"}});
  auto y = ask({{"input", input}});
  ASSERT_EQ(inbox().held.size(), 1u) << y->sent;
  EXPECT_EQ(prompt(), "user:hi\nassistant:So\ntool:1\nassistant:");
}

TEST_F(ResponseItems, OneThatIsNotThereIsNotFound) {
  const std::string id = item_of({});
  const std::string why =
      "404 input: input[0]: there is no item 'msg_1' of a stored response, or no more; send it whole, "
      "or use store: false";
  EXPECT_EQ(missing("msg_1"), why);
  EXPECT_EQ(json(ask({{"input", Json::array({reference("msg_1")})}}))["error"]["code"], "item_not_found");
  EXPECT_EQ(missing(id.substr(0, id.size() - 1) + "7").substr(0, 25), "404 input: input[0]: ther");
  EXPECT_EQ(missing("msg_0123456789abcdef012345670000").substr(0, 25), "404 input: input[0]: ther");
  EXPECT_EQ(missing(item_of({{"store", false}})).substr(0, 25), "404 input: input[0]: ther");
  stored.expire(env.now() + std::chrono::hours(1));
  EXPECT_EQ(missing(id).substr(0, 25), "404 input: input[0]: ther");
}

TEST_F(ResponseItems, AnotherTenantsItemsAreNotThere) {
  const std::string id = item_of({});
  Json body = {{"model", "m"}, {"input", Json::array({reference(id)})}};
  const uint64_t own = responses::response_of(id).size();
  EXPECT_EQ(own, 5 + responses::kIdDigits);
  EXPECT_FALSE(stored.find(1234, responses::response_of(id), env.now()));
}

TEST_F(ResponseItems, ReferencesAreBounded) {
  Json many = Json::array();
  for (size_t i = 0; i <= responses::kMostReferenced; ++i) {
    std::string digits = std::to_string(i);
    many.push_back(reference("msg_" + std::string(responses::kIdDigits - digits.size(), '0') + digits + "0000"));
  }
  EXPECT_EQ(refusal(ask({{"input", many}})), "400 input: input[256]: it refers to too many responses");
}

TEST_F(ResponseItems, TheItemsOfAnInputAreListedInPages) {
  const std::string first = say({{"instructions", "be"}});
  const std::string id = say({{"input", "so"}, {"previous_response_id", first}}, "cd");
  const std::string path = "/v1/responses/" + id + "/input_items";
  const Json all = json(open("GET", path));
  ASSERT_EQ(all["data"].size(), 3u) << all;
  EXPECT_EQ(all["data"][0]["content"][0]["text"], "so") << "the newest comes first";
  EXPECT_EQ(all["data"][1]["content"][0]["type"], "output_text");
  EXPECT_EQ(all["has_more"], false);
  const Json page = json(open("GET", path + "?order=asc&limit=1&after=" + all["last_id"].get<std::string>()));
  EXPECT_EQ(page["data"], Json::array({all["data"][1]}));
  EXPECT_EQ(page["has_more"], true);
  EXPECT_EQ(open("GET", path + "?after=msg_1")->response.status, 400);
  EXPECT_EQ(open("GET", path + "?order=up")->response.status, 400);
  EXPECT_EQ(open("GET", "/v1/responses/resp_1/input_items")->response.status, 404);
}

// The context has 200 tokens, which are bytes.
TEST_F(ResponseItems, TruncationDropsTheOldestTurnsAlone) {
  const std::string first = say({{"input", std::string(80, 'a')}});
  const Json body = {{"instructions", "be"}, {"input", std::string(80, 'b')}, {"previous_response_id", first}};
  EXPECT_EQ(ask(body)->response.status, 400);
  Json cut = body;
  cut["truncation"] = "auto";
  auto x = ask(cut);
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "system:be\nuser:" + std::string(80, 'b') + "\nassistant:");
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["truncation"], "auto");
  EXPECT_EQ(json(open("GET", "/v1/responses/" + json(x)["id"].get<std::string>() + "/input_items"))["data"].size(), 3u)
      << "what is stored is whole";
  cut["input"] = std::string(300, 'b');
  EXPECT_EQ(ask(cut)->response.status, 400) << "one item is never cut";
}

// More messages than a chat may have are too long, too.
TEST_F(ResponseItems, TruncationDropsTheOldestOfManyMessages) {
  Json many = Json::array({{{"role", "system"}, {"content", "be"}}});
  for (int i = 0; i < 5000; ++i) many.push_back(user("a"));
  many.push_back(user("last"));
  const Json body = {{"input", many}};
  EXPECT_EQ(refusal(ask(body)), "400 input: input: at most 4096 of them");
  Json cut = body;
  cut["truncation"] = "auto";
  auto x = ask(cut);
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_TRUE(prompt().starts_with("system:be\nuser:a\nuser:a\n")) << prompt();
  EXPECT_TRUE(prompt().ends_with("user:a\nuser:last\nassistant:")) << prompt();
}

TEST_F(ResponseItems, ADevelopersMessageIsTheSystemsWhereTheTemplateKnowsNone) {
  const std::string id = say({{"input", Json::array({{{"role", "developer"}, {"content", "be"}}, user("hi")})}});
  const Json items = json(open("GET", "/v1/responses/" + id + "/input_items?order=asc"));
  EXPECT_EQ(items["data"][0]["role"], "developer") << "it is listed as it came";
  auto x = ask({{"input", Json::array({{{"role", "developer"}, {"content", "be"}}, user("hi")})}});
  EXPECT_EQ(prompt(), "system:be\nuser:hi\nassistant:");
  models.add(support::tools_spec("dev", "{% if messages[0].role == 'developer' %}{% endif %}"));
  auto y = ask({{"model", "dev"}, {"input", Json::array({{{"role", "developer"}, {"content", "be"}}, user("hi")})}});
  ASSERT_EQ(models["dev"].held.size(), 1u) << y->sent;
  EXPECT_EQ(support::prompt_of(*models["dev"].held[0]), "developer:be\nuser:hi\nassistant:");
}

TEST_F(ResponseItems, AShortBodyIsAsLongAsWhatItStandsFor) {
  auto x = open("GET", "/v1/models");
  Request request;
  request.translated = base::Bytes::adopt(std::string(1000, 'a'));
  request.earlier = base::Bytes::adopt(std::string(100, 'a'));
  EXPECT_EQ(prompt_bytes(*x, request), 1100u);
}

TEST_F(ResponseItems, WhatIsNotOfferedOfThemIsSaid) {
  models.add(support::tools_spec("v", "{{ verbosity }};"));
  auto x = ask({{"model", "v"}, {"truncation", "auto"}, {"text", {{"verbosity", "low"}}}});
  auto y = chat({{"model", "v"}, {"verbosity", "high"}});
  ASSERT_EQ(models["v"].held.size(), 2u) << x->sent << y->sent;
  EXPECT_EQ(support::prompt_of(*models["v"].held[0]).substr(0, 4), "low;");
  EXPECT_EQ(support::prompt_of(*models["v"].held[1]).substr(0, 5), "high;");
  EXPECT_EQ(refusal(ask({{"text", {{"verbosity", "some"}}}})), "400 text: text.verbosity: takes low, medium or high");
  EXPECT_EQ(refusal(ask({{"text", {{"fromat", {{"type", "json_object"}}}}}})),
            "400 text.fromat: text.fromat: no such parameter");
  EXPECT_EQ(refusal(ask({{"text", "x"}})), "400 text: text: expected an object");
  EXPECT_EQ(refusal(ask({{"reasoning", {{"efort", "low"}}}})),
            "400 reasoning.efort: reasoning.efort: no such parameter");
  EXPECT_EQ(refusal(ask({{"metadata", "x"}})), "400 metadata: metadata: expected an object");
}

TEST_F(ResponseItems, AnInputIsCountedAsItsResponseWouldCountIt) {
  const auto count = [&](Json body) {
    body.emplace("model", "m");
    return open("POST", "/v1/responses/input_tokens", body.dump());
  };
  Json body = {{"instructions", "be"}, {"input", Json::array({user("hi"), reference(item_of({}))})}};
  auto counted = count(body);
  EXPECT_EQ(inbox().held.size(), 0u) << "no model is asked";
  EXPECT_EQ(json(counted)["object"], "response.input_tokens");
  const std::string first = say(body);
  const Json response = json(open("GET", "/v1/responses/" + first));
  EXPECT_EQ(json(counted)["input_tokens"], response["usage"]["input_tokens"]) << response;
  const Json more = json(count({{"input", "and"}, {"previous_response_id", first}}));
  EXPECT_GT(more["input_tokens"], json(counted)["input_tokens"]);
  EXPECT_EQ(refusal(count({{"inputs", "hi"}})), "400 inputs: inputs: no such parameter; did you mean input?");
  EXPECT_EQ(count({{"input", "hi"}, {"previous_response_id", "resp_1"}})->response.status, 400);
  EXPECT_EQ(count({{"input", "hi"}, {"model", "none"}})->response.status, 404);
}

TEST_F(ResponseItems, LongTurnsAreListedByAWorker) {
  support::FakeOffload workers;
  responses::StoredResponses large{std::chrono::minutes(10), 4 << 20};
  options.offload = &workers, options.stored = &large;
  const auto turns = [&](size_t bytes) {
    const Json said = {{"role", "user"}, {"content", std::string(bytes, 'x')}};
    return base::Bytes::copy_of(said.dump() + "," + said.dump());
  };
  const uint64_t tenant = marshal::tenant_of(open("GET", "/v1/models")->request());
  const auto response = base::Bytes::constant("{}");
  for (const auto& [id, bytes] : {std::pair("resp_0123456789abcdef01234567", 100), std::pair("resp_1", 300'000)})
    ASSERT_TRUE(large.put(tenant, id, {{}, turns(size_t(bytes)), response}, env.now()));
  EXPECT_EQ(json(open("GET", "/v1/responses/resp_0123456789abcdef01234567/input_items"))["data"].size(), 1u);
  EXPECT_EQ(workers.sent, 0u) << "what is short is listed here";
  auto x = open("GET", "/v1/responses/resp_1/input_items");
  EXPECT_FALSE(x->ended);
  ASSERT_EQ(workers.waiting(), 1u);
  workers.work();
  EXPECT_EQ(json(x)["data"].size(), 1u);
  auto left = open("GET", "/v1/responses/resp_1/input_items");
  left.reset();
  EXPECT_EQ(workers.cancelled, 1u);
}

TEST_F(ResponseItems, IdsLeadToTheirResponse) {
  const std::string response = "resp_0123456789abcdef01234567";
  EXPECT_EQ(responses::item_id("fc_", response, 3), "fc_0123456789abcdef012345670003");
  EXPECT_EQ(responses::response_of("fc_0123456789abcdef0123456712345"), response);
  for (const char* other : {"", "_", "msg_", "msg_0123456789abcdef01234567", "msg_0123456789abcdef0123456x0000",
                            "msg_0123456789abcdef01234567i000", "0123456789abcdef0123456700000"})
    EXPECT_EQ(responses::response_of(other), "") << other;
}

TEST_F(ResponseItems, AStreamTellsLlamaCppsTimingsWhereItIsAsked) {
  for (bool asked : {false, true}) {
    auto x = ask({{"stream", true}, {"timings_per_token", asked}, {"return_progress", asked}});
    call()->generation->cached_tokens = 8;
    x->time += std::chrono::milliseconds(30);
    scripted().emit("ab");
    turn();
    scripted().end();
    turn();
    const auto all = events(x);
    EXPECT_EQ(all[0]["type"], "response.created");
    EXPECT_FALSE(all[0].contains("prompt_progress"));
    EXPECT_EQ(all[1].value("prompt_progress", Json()),
              asked ? Json::parse(R"({"total":18,"cache":8,"processed":18,"time_ms":30})") : Json());
    for (const Json& event : all) {
      const bool told = event["type"] == "response.output_text.delta" || event["type"] == "response.completed";
      EXPECT_EQ(event.contains("timings"), asked && told) << event;
    }
    const Json& last = all.back();
    EXPECT_FALSE(last["response"].contains("timings")) << "it is not stored";
    if (!asked) continue;
    EXPECT_EQ(last["timings"]["predicted_n"], last["response"]["usage"]["output_tokens"]);
    EXPECT_EQ(last["timings"]["cache_n"], 8);
  }
}

TEST_F(ResponseItems, AStreamThatASignOfLifeOpenedTellsNoProgress) {
  auto x = ask({{"stream", true}, {"return_progress", true}, {"timings_per_token", 1}});
  EXPECT_EQ(x->response.status, 400);
  auto y = ask({{"stream", true}, {"return_progress", true}});
  env.advance(std::chrono::seconds(31));
  EXPECT_NE(y->sent.find("response.in_progress"), std::string::npos) << "before the first token";
  scripted().emit("ab");
  scripted().end();
  turn();
  EXPECT_NE(y->sent.find("response.completed"), std::string::npos) << y->sent;
  EXPECT_EQ(y->sent.find("prompt_progress"), std::string::npos);
}

}  // namespace
}  // namespace weir::openai
