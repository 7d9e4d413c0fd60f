// Items of stored responses: referred to by later requests.
#include "responses_bench.h"

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
      "404 input: input: there is no item 'msg_1' of a stored response, or no more; send it whole, "
      "or use store: false";
  EXPECT_EQ(missing("msg_1"), why);
  EXPECT_EQ(missing(id.substr(0, id.size() - 1) + "7").substr(0, 22), "404 input: input: ther");
  EXPECT_EQ(missing("msg_0123456789abcdef012345670000").substr(0, 22), "404 input: input: ther");
  EXPECT_EQ(missing(item_of({{"store", false}})).substr(0, 22), "404 input: input: ther");
  stored.expire(env.now() + std::chrono::hours(1));
  EXPECT_EQ(missing(id).substr(0, 22), "404 input: input: ther");
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

TEST_F(ResponseItems, IdsLeadToTheirResponse) {
  const std::string response = "resp_0123456789abcdef01234567";
  EXPECT_EQ(responses::item_id("fc_", response, 3), "fc_0123456789abcdef012345670003");
  EXPECT_EQ(responses::response_of("fc_0123456789abcdef0123456712345"), response);
  for (const char* other : {"", "_", "msg_", "msg_0123456789abcdef01234567", "msg_0123456789abcdef0123456x0000",
                            "msg_0123456789abcdef01234567i000", "0123456789abcdef0123456700000"})
    EXPECT_EQ(responses::response_of(other), "") << other;
}

}  // namespace
}  // namespace weir::openai
