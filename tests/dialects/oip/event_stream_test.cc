// GET …/generate_stream, as EventSource asks for it and comes back, and how a stream fails.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "bench.h"
#include "support/text_models.h"

namespace weir::oip {
namespace {

using Json = nlohmann::json;

class EventSource : public testing::Test {
 protected:
  EventSource() { bench.models.add(support::text_spec("m")); }

  support::RpcBench::Opened get(const std::string& model, const Json& body, const std::string& last = {}) {
    OipBench::Headers headers;
    if (!last.empty()) headers.emplace_back("last-event-id", last);
    return bench.open_rest(
        "GET", "/v2/models/" + model + "/generate_stream?request=" + base::percent_encode(body.dump()), {}, headers);
  }
  // The model of text says "c", "d", "e".
  void say() {
    support::ScriptedAnswer<support::ScriptedInbox> v{bench.inbox("m"), bench.inbox("m").held.at(0)};
    for (const char* word : {"c", "d", "e"}) v.emit(word);
    v.done();
    bench.turn();
  }
  static std::string event(int id, std::string_view text) {
    return "id: " + std::to_string(id) + "\ndata: {\"model_name\":\"m\",\"model_version\":\"1\",\"text_output\":\"" +
           std::string(text) + "\"}\n\n";
  }
  static constexpr std::string_view kEnd = "event: end\nid: end\ndata: {}\n\n";
  const Json greedy{{"text_input", "ab"}, {"temperature", 0}};

  OipBench bench;
};

TEST_F(EventSource, EventsHaveNumbersAndTheStreamAnEnd) {
  auto x = get("m", greedy);
  say();
  EXPECT_EQ(x->response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(x->sent, event(1, "c") + event(2, "d") + event(3, "e") + std::string(kEnd));
  EXPECT_TRUE(x->ended);
}

TEST_F(EventSource, WhoComesBackGetsTheRest) {
  auto x = get("m", greedy, "2");
  say();
  EXPECT_EQ(x->sent, event(3, "e") + std::string(kEnd));
  auto y = get("m", {{"text_input", "ab"}, {"temperature", 1}, {"seed", 7}}, "3");
  say();
  EXPECT_EQ(y->sent, kEnd);
}

TEST_F(EventSource, AfterTheEndAndWhereTheAnswerWouldBeAnotherOneThereIsNothingMore) {
  EXPECT_EQ(get("m", greedy, "end")->response.status, 204);
  EXPECT_EQ(get("m", {{"text_input", "ab"}, {"temperature", 1}}, "2")->response.status, 204);
  EXPECT_TRUE(bench.inbox("m").held.empty());
}

TEST_F(EventSource, ModelsOfTensorsAnswerAndContinue) {
  for (const char* last : {"", "1"}) {
    auto x = get("flow", {{"n", 2}}, last);
    auto& inbox = bench.inbox("flow");
    inbox.post(inbox.held[0], outputs("o INT32 [1] [5]", false));
    inbox.finish(inbox.held[0], outputs("o INT32 [1] [6]"));
    bench.turn();
    std::string first = "id: 1\ndata: {\"model_name\":\"flow\",\"model_version\":\"1\",\"o\":5}\n\n";
    std::string second = "id: 2\ndata: {\"model_name\":\"flow\",\"model_version\":\"1\",\"o\":6}\n\n";
    EXPECT_EQ(x->sent, (*last ? "" : first) + second + std::string(kEnd));
  }
}

TEST_F(EventSource, ItsRequestIsReadAsAnyOther) {
  auto missing = bench.open_rest("GET", "/v2/models/m/generate_stream");
  EXPECT_EQ(missing->response.status, 400);
  EXPECT_EQ(get("m", {{"text_input", 7}})->response.status, 400);
  EXPECT_EQ(get("nobody", greedy)->response.status, 404);
  EXPECT_EQ(bench.open_rest("HEAD", "/v2/models/m/generate_stream")->response.status, 400);
  EXPECT_TRUE(bench.inbox("m").held.empty());
}

// Others than EventSource never see what it needs.
TEST_F(EventSource, APostIsAsItWas) {
  auto x = bench.open_rest("POST", "/v2/models/m/generate_stream", greedy.dump(), {{"last-event-id", "2"}});
  say();
  EXPECT_EQ(x->sent.find("id: "), std::string::npos);
  EXPECT_EQ(x->sent.find("event: "), std::string::npos);
  EXPECT_NE(x->sent.find("\"c\""), std::string::npos);
}

// As Triton tells it: its clients read every answer of a stream as events.
TEST_F(EventSource, AFirstFailureHasItsStatusAndIsAnEvent) {
  auto x = bench.open_rest("POST", "/v2/models/m/generate_stream", greedy.dump());
  support::ScriptedAnswer<support::ScriptedInbox> v{bench.inbox("m"), bench.inbox("m").held.at(0)};
  v.fail(base::Code::kResourceExhausted, "full");
  bench.turn();
  EXPECT_EQ(x->response.status, 429);
  EXPECT_EQ(x->response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(x->response.fields.find("retry-after"), "1");
  EXPECT_EQ(x->sent, "data: {\"error\":\"full\"}\n\n");
  EXPECT_TRUE(x->ended);
}

}  // namespace
}  // namespace weir::oip
