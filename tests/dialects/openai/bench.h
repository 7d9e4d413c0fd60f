// The dialect on one fake shard, with a model of text named "m", one of tensors named "t", and whatever a test adds.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "dialects/openai/openai.h"
#include "support/routed_exchange.h"
#include "support/text_models.h"

namespace weir::openai {

using Json = nlohmann::json;
using support::likely;
using ScriptedAnswer = support::ScriptedAnswer<support::ScriptedInbox>;

class OpenaiBench : public testing::Test {
 protected:
  OpenaiBench() {
    options.server_version = "1.2.3";
    models.add(support::text_spec("m"));
    msg::ModelSpec tensors;
    tensors.name = "t", tensors.version = "1";
    models.add(tensors);
    bus.publish(models.catalog);
  }
  ~OpenaiBench() override {
    models.finish_all();
    bus.turn();
    EXPECT_EQ(bus.in_flight(), 0u);
    EXPECT_EQ(load.running.load(), 0);
  }

  using Opened = support::RoutedExchange;
  using Headers = std::vector<std::pair<std::string, std::string>>;

  Opened open(std::string method, std::string target, std::string_view body = {}, const Headers& headers = {}) {
    if (!openai) openai = std::make_unique<Openai>(bus, router, load, options);
    Opened x(new support::FakeExchange(std::move(method), std::move(target), body), {&router});
    for (const auto& [name, value] : headers) x->mutable_request().fields.add(name, value);
    x->time = env.now();
    x->record().began = env.now();
    x->ledger = ledger;
    if (router.begin(*x).body == wire::BodyPlan::kWhole) router.whole(*x);
    bus.turn();
    return x;
  }
  Opened chat(Json body) {
    body.emplace("model", "m");
    body.emplace("messages", Json::parse(R"([{"role":"user","content":"hi"}])"));
    return open("POST", "/v1/chat/completions", body.dump());
  }
  Opened complete(Json body) {
    body.emplace("model", "m");
    body.emplace("prompt", "ab");
    return open("POST", "/v1/completions", body.dump());
  }

  support::ScriptedInbox& inbox() { return models["m"]; }
  msg::Call* call(size_t i = 0) { return inbox().held.at(i); }
  ScriptedAnswer scripted(size_t i = 0) { return {inbox(), call(i)}; }
  void turn() { bus.turn(); }

  static Json json(const Opened& x) {
    Json parsed = Json::parse(x->sent, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << x->sent;
    return parsed;
  }
  // The error's status, code and param.
  static std::string error(const Opened& x) {
    Json error = json(x)["error"];
    auto word = [](const Json& v) { return v.is_string() ? v.get<std::string>() : std::string("-"); };
    return std::to_string(x->response.status) + " " + word(error["type"]) + " " + word(error["code"]) + " " +
           word(error["param"]);
  }
  static std::string message(const Opened& x) { return json(x)["error"]["message"]; }
  // The data of each event, parsed; "[DONE]" is left as a string.
  static std::vector<Json> events(const Opened& x) {
    std::vector<Json> out;
    std::string_view rest = x->sent;
    while (!rest.empty()) {
      size_t end = rest.find("\n\n");
      EXPECT_NE(end, rest.npos) << rest;
      std::string_view event = rest.substr(0, end);
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 2);
      if (event.starts_with(":")) continue;
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      event.remove_prefix(6);
      EXPECT_EQ(event.find('\n'), event.npos);
      out.push_back(event == "[DONE]" ? Json("[DONE]") : Json::parse(event));
    }
    return out;
  }
  // All text of choice `index`.
  static std::string text(const std::vector<Json>& events, int index = 0) {
    std::string out;
    for (const Json& event : events) {
      if (!event.is_object() || !event.contains("choices")) continue;
      for (const Json& choice : event["choices"]) {
        if (choice["index"] != index) continue;
        if (choice.contains("text")) out += choice["text"].get<std::string>();
        if (choice.contains("delta") && choice["delta"].contains("content"))
          out += choice["delta"]["content"].get<std::string>();
      }
    }
    return out;
  }

  base::FakeEnv env;
  wire::Router router{env};
  bus::Bus bus{env, base::ShardId{0}, [] {}};
  support::ScriptedModels models;
  LoadCounters load;
  Options options;
  base::MemoryLedger* ledger = nullptr;  // of the answers
  std::unique_ptr<Openai> openai;
};

}  // namespace weir::openai
