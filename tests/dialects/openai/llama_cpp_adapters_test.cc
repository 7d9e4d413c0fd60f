// The adapters of a model, as clients of llama.cpp's server list them and ask for them.
#include "llama_cpp_bench.h"

namespace weir::openai {
namespace {

class LlamaAdapters : public LlamaCpp {
 protected:
  LlamaAdapters() {
    for (const char* name : {"curly", "plain"}) {
      msg::ModelSpec spec = support::text_spec(name);
      spec.parent = "m", spec.root = "adapters/" + spec.name;
      models.add(std::move(spec));
    }
    models.add(support::text_spec("other"));
    bus.publish(models.catalog);
  }
  static std::string refused(const Opened& x) { return refusal(x).substr(0, 31); }
};

TEST_F(LlamaAdapters, AreListedByNumber) {
  EXPECT_EQ(json(open("GET", "/lora-adapters?model=m")),
            Json::parse(R"([{"id":0,"path":"adapters/curly","model":"curly","scale":0.0},)"
                        R"({"id":1,"path":"adapters/plain","model":"plain","scale":0.0}])"));
  EXPECT_EQ(json(open("GET", "/lora-adapters?model=plain"))[1]["scale"], 1);
  EXPECT_EQ(json(open("GET", "/lora-adapters?model=other")), Json::array());
  EXPECT_EQ(refusal(open("GET", "/lora-adapters?model=q")).substr(0, 19), "404 not_found_error");
}

TEST_F(LlamaAdapters, ARequestIsForOneOfThem) {
  const auto asked = [&](const char* lora, const char* model = "m") {
    for (const char* name : {"m", "curly", "plain"})
      while (!models[name].held.empty()) ScriptedAnswer(models[name], models[name].held[0]).end();
    turn();
    auto x = ask({{"model", model}, {"prompt", "ab"}, {"lora", Json::parse(lora)}});
    for (const char* name : {"m", "curly", "plain"})
      if (!models[name].held.empty()) return std::string(name);
    return refused(x);
  };
  EXPECT_EQ(asked(R"([{"id":0,"scale":1}])"), "curly");
  EXPECT_EQ(asked(R"([{"id":0,"scale":0.0},{"id":1,"scale":1.0}])"), "plain");
  EXPECT_EQ(asked(R"([{"id":1,"scale":0}])"), "m");
  EXPECT_EQ(asked("[]"), "m");
  EXPECT_EQ(asked(R"([{"id":0,"scale":0}])", "plain"), "m") << "all that are there are switched off";
  EXPECT_EQ(asked(R"([{"id":0,"scale":1}])", "plain"), "curly");
  const std::string bad = "400 invalid_request_error lora:";
  for (const char* lora : {R"([{"id":2,"scale":1}])", R"([{"id":0,"scale":0.5}])", R"([{"scale":1}])",
                           R"([{"id":0,"scale":1},{"id":1,"scale":1}])"})
    EXPECT_EQ(asked(lora), bad) << lora;
  for (const char* lora : {"3", "[3]"}) EXPECT_EQ(asked(lora), "400 invalid_request_error lora ") << lora;
  EXPECT_EQ(asked(Json(std::vector<Json>(257, {{"id", 0}})).dump().c_str()), bad);
}

TEST_F(LlamaAdapters, OfAllRequestsAreAsTheyAre) {
  const auto set = [&](const char* scales, const char* target = "/lora-adapters?model=m") {
    return open("POST", target, scales);
  };
  EXPECT_EQ(json(set(R"([{"id":0,"scale":0.0}])")), Json::parse(R"({"success":true})"));
  EXPECT_EQ(json(set("[]")), Json::parse(R"({"success":true})"));
  EXPECT_EQ(refusal(set(R"([{"id":0,"scale":1}])")).substr(0, 23), "501 not_supported_error");
  EXPECT_EQ(refusal(set("[]", "/lora-adapters?model=plain")).substr(0, 23), "501 not_supported_error");
  EXPECT_EQ(json(set(R"([{"id":1,"scale":1}])", "/lora-adapters?model=plain"))["success"], true);
  EXPECT_EQ(set("{}")->response.status, 400);
  EXPECT_EQ(set("[")->response.status, 400);
}

}  // namespace
}  // namespace weir::openai
