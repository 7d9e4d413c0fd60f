// LIST_ACTIONS, and the table behind it.
#include <set>

#include <nlohmann/json.hpp>

#include "bench.h"
#include "dialects/evergreen/schema.h"

namespace weir::evergreen {
namespace {

using Json = nlohmann::json;

Json list(Bench& t, const std::string& target) {
  auto x = t.open();
  t.send(*x, "actions { name: 'LIST_ACTIONS' outputs { name: 'actions' id: 'l' } " +
                 (target.empty() ? "" : "target_spec { id: '" + target + "' }") + " }");
  v1::ActionList packed;
  for (const auto& f : t.fragments(*x))
    if (f.chunk_fragment().metadata().experimental_size() > 0)
      f.chunk_fragment().metadata().experimental(0).UnpackTo(&packed);
  Json json = Json::parse(t.leaf(*x, "l"), nullptr, false);
  EXPECT_EQ(packed.actions_size(), int(json.value("actions", Json::array()).size()));
  return json.value("actions", Json::array());
}

std::set<std::string> names(const Json& list) {
  std::set<std::string> out;
  for (const auto& entry : list) out.insert(entry["name"]);
  return out;
}
const Json& named(const Json& list, const std::string& name) {
  static const Json none;
  for (const auto& entry : list)
    if (entry["name"] == name) return entry;
  return none;
}

TEST(EvergreenSchema, AllActionsAreListedWithTheirParameters) {
  Bench t;
  Json all = list(t, "");
  EXPECT_EQ(names(all), (std::set<std::string>{"GENERATE", "INFER", "EMBED", "TOKENIZE", "ECHO", "DROP", "SET_TTL",
                                               "CANCEL", "LIST_ACTIONS"}));
  const Json& generate = named(all, "GENERATE");
  EXPECT_EQ(generate["inputs"][0]["name"], "prompt");
  EXPECT_EQ(generate["inputs"][0]["aliases"], Json({"text"}));
  EXPECT_EQ(generate["inputs"][0]["required"], true);
  EXPECT_EQ(generate["inputs"][0]["type"][0], (Json{{"type", "text"}, {"subtype", "*"}}));
  EXPECT_EQ(generate["inputs"][0]["type"][6],
            (Json{{"type", "application"}, {"subtype", "x-protobuf"}, {"parameters", {{"type", "EndOfTurn"}}}}));
  EXPECT_EQ(names(generate["outputs"]), (std::set<std::string>{"response", "usage", "status"}));
  EXPECT_EQ(generate["configs"], Json({"weir.evergreen.v1.GenerateConfig"}));
  EXPECT_EQ(named(all, "INFER")["inputs"][0]["name"], "*");
  for (const auto& action : all) EXPECT_TRUE(action.contains("description")) << action;
}

TEST(EvergreenSchema, OfAModelThoseThatItTakesWithItsTensors) {
  Bench t;
  const std::set<std::string> always{"ECHO", "DROP", "SET_TTL", "CANCEL", "LIST_ACTIONS"};
  Json chat = list(t, "chat"), add = list(t, "add");
  std::set<std::string> text = always, tensors = always;
  text.insert({"GENERATE", "EMBED", "TOKENIZE"});
  tensors.insert("INFER");
  EXPECT_EQ(names(chat), text);
  EXPECT_EQ(names(add), tensors);
  const Json& infer = named(add, "INFER");
  EXPECT_EQ(names(infer["inputs"]), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(names(infer["outputs"]), (std::set<std::string>{"outputs", "y", "z", "status"}));
  EXPECT_EQ(infer["inputs"][0]["type"][0]["parameters"], (Json{{"dtype", "INT32"}, {"shape", "2"}}));
  auto x = t.open();
  t.send(*x, "actions { name: 'LIST_ACTIONS' outputs { name: 'actions' id: 'l' } target_spec { id: 'none' } }");
  EXPECT_EQ(t.status(*x).substr(0, 9), "NOT_FOUND");
}

TEST(EvergreenSchema, EveryActionTakesTheNamesThatItLists) {
  for (const Schema& schema : schemas()) {
    ActionRequest request;
    request.name = schema.name;
    for (const auto& p : schema.inputs) request.inputs.push_back({std::string(p.name), "n"});
    for (const auto& p : schema.outputs) request.outputs.push_back({std::string(p.name), "n"});
    request.outputs.push_back({"status", "s"});
    EXPECT_TRUE(check_names(schema, request).ok()) << schema.name;
    request.configs.push_back({"some.Other", ""});
    EXPECT_FALSE(check_names(schema, request).ok()) << schema.name;
  }
}

TEST(EvergreenSchema, AListThatNobodyAsksForIsNotMadeAndItsTargetIsLookedAt) {
  Bench t;
  auto x = t.open();
  auto send = [&](const std::string& target, const std::string& status) {
    t.send(*x, "actions { name: 'LIST_ACTIONS' outputs { name: 'status' id: '" + status + "' } target_spec { id: '" +
                   target + "' } }");
  };
  send("chat", "s");
  send("none", "n");
  EXPECT_EQ(t.leaf(*x, "s"), "{\"code\":0,\"message\":\"\"}");
  EXPECT_NE(t.leaf(*x, "n").find("\"code\":5"), std::string::npos);
  EXPECT_EQ(t.fragments(*x).size(), 2u);
  EXPECT_EQ(t.status(*x), "open");
}

}  // namespace
}  // namespace weir::evergreen
