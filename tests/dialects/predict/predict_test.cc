#include "dialects/predict/predict.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/fake_env.h"
#include "dialects/predict/predict_reply.h"
#include "dialects/predict/predict_request.h"
#include "support/fake_offload.h"
#include "support/model_spec.h"
#include "support/routed_exchange.h"
#include "support/scripted_models.h"
#include "support/transcript.h"

namespace weir::predict {
namespace {

using msg::DType;
using support::Case;
using support::model_spec;

class Bench {
 public:
  explicit Bench(wire::Offload* offload = nullptr) {
    models.add(model_spec("add", {{"a", DType::kInt32, {2}, false, {}}, {"b", DType::kInt32, {2}, true, {}}},
                          {{"sum", DType::kInt32, {2}, false, {}}}, 4));
    models.add(model_spec("pair", {{"a", DType::kInt32, {2}, false, {}}, {"b", DType::kInt32, {2}, false, {}}},
                          {{"sum", DType::kInt32, {2}, false, {}}, {"text", DType::kBytes, {1}, false, {}}}, 4));
    models.add(
        model_spec("words", {{"w", DType::kBytes, {-1, 1}, false, {}}}, {{"w", DType::kBytes, {-1, 1}, false, {}}}));
    models.add(model_spec("one", {{"x", DType::kFp32, {}, false, {}}}, {{"y", DType::kFp32, {}, false, {}}}));
    auto any = model_spec("any", {}, {});
    any.any_tensors = true;
    models.add(any);
    auto flow = model_spec("flow", {{"n", DType::kInt32, {1}, false, {}}}, {{"o", DType::kInt32, {1}, false, {}}});
    flow.decoupled = true;
    models.add(flow);
    bus.publish(models.catalog);
    PredictOptions options;
    options.accepting = [this] { return accepting; };
    options.offload = offload;
    predict = std::make_unique<Predict>(bus, router, base::heap(), std::move(options));
  }
  ~Bench() {
    models.finish_all();
    bus.turn();
  }

  support::RoutedExchange open(std::string method, std::string target, std::string_view body = {}) {
    support::RoutedExchange x(new support::FakeExchange(std::move(method), std::move(target), body), {&router});
    x->time = env.now();
    if (router.begin(*x).body == wire::BodyPlan::kWhole) router.whole(*x);
    bus.turn();
    return x;
  }

  base::FakeEnv env;
  wire::Router router{env};
  bus::Bus bus{env, base::ShardId{0}, [] {}};
  support::ScriptedModels models;
  bool accepting = true;
  std::unique_ptr<Predict> predict;
};

// ---- tests/data/predict/predict.txt. Beside the lines of support/transcript.h:
//   path: <path>            default: /v1/models/<model>:predict
//   request: <JSON>
//   answer-base64: <tensor> instead of answer, of strings in base64
//   call: <text>            the Call that it makes, as describe() writes it; none = none must be made
//   reply: <status> <JSON>
void run(const Case& c) {
  Bench bench;
  support::script(bench.models, c);
  if (c.count("answer-base64")) {
    auto tensors = support::parse_tensors(c.at("answer-base64"));
    std::string data;
    msg::for_each_string(tensors[0].data.view(),
                         [&](std::string_view s) { msg::append_string(data, *base::base64_decode(s)); });
    tensors[0].data = base::Bytes::adopt(std::move(data));
    bench.models[c.at("model")].script.push_back({msg::Outputs{std::move(tensors), {}, true}});
  }
  const std::string path = c.count("path") ? c.at("path") : "/v1/models/" + c.at("model") + ":predict";
  auto x = bench.open(c.count("request") ? "POST" : "GET", path, c.count("request") ? c.at("request") : "");
  std::vector<std::string> expected;
  if (c.count("call")) expected.push_back(c.at("call"));
  EXPECT_EQ(bench.models.seen(c.at("model")), expected);
  EXPECT_EQ(bench.bus.in_flight(), 0u);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/json");
  EXPECT_EQ(std::to_string(x->response.status) + " " + x->sent, c.at("reply"));
  EXPECT_TRUE(nlohmann::json::accept(x->sent));
  EXPECT_EQ(x->record().code == base::Code::kOk, x->response.status == 200);
}

TEST(Predict, EveryCaseOfTheTranscript) {
  auto cases = support::read_cases(PREDICT_DATA "/predict.txt");
  EXPECT_GE(cases.size(), 30u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.at("title"));
    run(c);
  }
}

TEST(Predict, AVersionIsShownAsItsModelIs) {
  Bench bench;
  auto x = bench.open("GET", "/v1/models/add/versions/1");
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->sent, R"({"name":"add","ready":true,"model_version_status":[{"version":"1","state":"AVAILABLE",)"
                     R"("status":{"error_code":"OK","error_message":""}}]})");
  EXPECT_EQ(bench.open("GET", "/v1/models/add")->sent, x->sent);
  EXPECT_EQ(bench.open("GET", "/v1/models/add/versions/9")->response.status, 404);
}

TEST(Predict, AModelIsNotReadyWhileTheServerIsNot) {
  Bench bench;
  bench.accepting = false;
  auto x = bench.open("GET", "/v1/models/add");
  EXPECT_EQ(x->response.status, 503);
  EXPECT_EQ(x->sent, R"({"name":"add","ready":false,"error":"the server is not ready"})");
}

TEST(Predict, AClientThatLeavesEndsItsCall) {
  Bench bench;
  auto x = bench.open("POST", "/v1/models/one:predict", R"({"inputs": 1})");
  ASSERT_EQ(bench.models["one"].held.size(), 1u);
  x.reset();
  EXPECT_TRUE(bench.models["one"].held.front()->cancelled);
}

// OpenAI's protocol has the paths around this one's, and words errors in its own way.
TEST(Predict, WhatTheCodecRefusesIsWordedAsItsOtherErrorsAre) {
  Bench bench;
  bench.router.error_form("/v1", [](wire::Exchange& x, int status, std::string_view) {
    x.respond(status, "text/plain", base::Bytes::constant("another protocol's"));
  });
  auto x = bench.open("POST", "/v1/models/add:predict", "{");
  EXPECT_TRUE(x->sent.starts_with("{\"error\":\"")) << x->sent;
  auto whole = support::RoutedExchange(new support::FakeExchange("POST", "/v1/models/add:predict"), {&bench.router});
  bench.router.begin(*whole);
  bench.router.refuse(*whole, 413, "too long");
  EXPECT_EQ(whole->sent, R"({"error":"too long"})");
  auto stray = bench.open("POST", "/v1/files", "{}");
  EXPECT_EQ(stray->sent, "another protocol's") << "no route is for it";
  auto method = bench.open("POST", "/v1/models/add/versions/1", "{}");
  EXPECT_TRUE(method->sent.starts_with("{\"error\":\"POST")) << method->sent;
}

TEST(Predict, LongStringsOfAModelAreCheckedByTheWorkerThatWritesThem) {
  support::FakeOffload offload;
  Bench bench(&offload);
  auto x = bench.open("POST", "/v1/models/words:predict", R"({"inputs": [["a"]]})");
  std::string data;
  for (int i = 0; i < 50'000; ++i) msg::append_string(data, i % 2 ? "a" : "");
  msg::Tensor words{"w", DType::kBytes, {50'001, 1}, base::Bytes::adopt(std::move(data))};
  auto& inbox = bench.models["words"];
  inbox.finish(inbox.held.at(0), {msg::Outputs{{std::move(words)}, {}}});
  bench.bus.turn();
  EXPECT_FALSE(x->headed);
  ASSERT_EQ(offload.waiting(), 1u);
  offload.work();
  EXPECT_EQ(x->response.status, 500);
  EXPECT_NE(x->sent.find("50000 BYTES elements, but 50001"), std::string::npos) << x->sent;
}

// ---- Hostile requests

base::Code code_of(const std::string& body, const std::string& model = "pair") {
  Bench bench;
  msg::Call call;
  auto read = read_predict(body, bench.models.catalog->models.at(model).preferred->spec, base::heap(), call);
  return read ? base::Code::kOk : read.error().code;
}

TEST(PredictRequest, NestedArraysAreBounded) {
  auto nested = [](size_t depth) {
    return R"({"inputs": )" + std::string(depth, '[') + "1" + std::string(depth, ']') + "}";
  };
  EXPECT_EQ(code_of(nested(16), "any"), base::Code::kOk);
  EXPECT_EQ(code_of(nested(17), "any"), base::Code::kInvalidArgument);
  EXPECT_EQ(code_of(nested(1'000'000), "any"), base::Code::kInvalidArgument);
}

TEST(PredictRequest, InputsAreBounded) {
  auto row = [](int inputs) {
    std::string out = "{";
    for (int i = 0; i < inputs; ++i) out += (i ? ",\"i" : "\"i") + std::to_string(i) + "\":1";
    return out + "}";
  };
  EXPECT_EQ(code_of(R"({"instances": [)" + row(256) + "]}", "any"), base::Code::kOk);
  EXPECT_EQ(code_of(R"({"instances": [)" + row(257) + "]}", "any"), base::Code::kInvalidArgument);
  EXPECT_EQ(code_of(R"({"inputs": )" + row(256) + "}", "any"), base::Code::kOk);
  EXPECT_EQ(code_of(R"({"inputs": )" + row(257) + "}", "any"), base::Code::kInvalidArgument);
}

TEST(PredictRequest, EveryPrefixOfARequestIsRefused) {
  const std::string whole =
      R"({"signature_name":"serving_default","instances":[{"a":[1,2],"b":[3,4]},{"b":[5,6],"a":[7,8]}]})";
  EXPECT_EQ(code_of(whole), base::Code::kOk);
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_EQ(code_of(whole.substr(0, n)), base::Code::kInvalidArgument) << n;
}

// The bound that room is asked for holds, for what is longest in JSON.
TEST(PredictReply, IsNoLongerThanWasAskedFor) {
  for (const char* tensors : {R"(y FP32 [3,1] [-1.1754944e-38,1,2]; z INT64 [3] [-9223372036854775808,1,2])",
                              R"(s BYTES [2,1] ["\u0001\u0001","a"])", R"(b BOOL [3] [false,false,true])"}) {
    auto all = support::parse_tensors(tensors);
    for (PredictLayout form : {PredictLayout::kRows, PredictLayout::kColumns}) {
      auto text = write_predict(form, all);
      ASSERT_TRUE(text);
      EXPECT_LE(text->size(), most_text(form, all)) << *text;
    }
  }
}

// Names are counted where they are written, so that 25 million numbers do not ask for more room than there is.
TEST(PredictReply, OnlyRowsOfSeveralOutputsHaveNames) {
  const msg::Tensor one{"a-name-of-some-length", DType::kInt8, {1000}, base::Bytes::adopt(std::string(1000, '1'))};
  EXPECT_LT(most_text(PredictLayout::kRows, {one}), 6000u);
  EXPECT_LT(most_text(PredictLayout::kColumns, {one, one}), 12'000u);
  EXPECT_GT(most_text(PredictLayout::kRows, {one, one}), 42'000u);
}

}  // namespace
}  // namespace weir::predict
