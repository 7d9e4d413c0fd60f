// The Responses API on the models of bench.h.
#pragma once

#include <string>
#include <vector>

#include "bench.h"
#include "dialects/openai/responses/responses.h"

namespace weir::openai {

// The events, each checked to be named as its data say and to have the next number.
inline std::vector<Json> response_events(std::string_view rest) {
  std::vector<Json> out;
  for (size_t end; (end = rest.find("\n\n")) != rest.npos; rest.remove_prefix(end + 2)) {
    std::string_view event = rest.substr(0, end);
    const size_t line = event.find('\n');
    out.push_back(Json::parse(event.substr(line + 7)));
    EXPECT_EQ(event.substr(7, line - 7), out.back()["type"].get<std::string>());
    EXPECT_EQ(out.back()["sequence_number"], out.size() - 1);
  }
  return out;
}

class Responses : public OpenaiBench {
 protected:
  Responses() {
    options.stored = &stored;
    models.add(support::tools_spec("qwen", "{# <tool_call></think> #}"));
  }
  // An answer to the input, stored; its id.
  std::string say(Json body, const std::string& text = "ab") {
    auto x = ask(std::move(body));
    scripted().emit(text);
    scripted().end();
    turn();
    return json(x)["id"];
  }
  Opened ask(Json body) {
    body.emplace("model", "m");
    body.emplace("input", "hi");
    return open("POST", "/v1/responses", body.dump());
  }
  std::string prompt() { return support::prompt_of(*call()); }
  static std::string refusal(const Opened& x) {
    return std::to_string(x->response.status) + " " + json(x)["error"]["param"].get<std::string>() + ": " + message(x);
  }
  static std::vector<Json> events(const Opened& x) { return response_events(x->sent); }
  responses::StoredResponses stored{std::chrono::minutes(10), 1 << 20};
  const Json tools = Json::parse(R"([{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}])");
  static constexpr const char* kSays =
      "<think>hm</think>So <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
};

}  // namespace weir::openai
