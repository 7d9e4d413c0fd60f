// The fields of answers beside their data.
#include "marshal/tenant.h"
#include "messages.h"

namespace weir::grps {
namespace {

msg::Event failed(base::Code code) { return {msg::Failed{base::failure(code, "not now")}}; }

TEST(GrpsAnswers, WhatMayWorkLaterSaysWhen) {
  Bench bench;
  auto later = [&](base::Code code) {
    bench.models["my-text"].script = {failed(code)};
    auto x = bench.open_rest("POST", "/grps/v1/infer/predict?model=my-text", R"({"str_data":"x"})");
    return std::to_string(x->response.status) + " " + std::string(x->response.fields.find("retry-after"));
  };
  EXPECT_EQ(later(base::Code::kResourceExhausted), "429 1");
  EXPECT_EQ(later(base::Code::kUnavailable), "503 1");
  EXPECT_EQ(later(base::Code::kInternal), "500 ");
  bench.ready = false;
  EXPECT_EQ(bench.open_rest("GET", "/grps/v1/health/ready")->response.fields.find("retry-after"), "1");
}

TEST(GrpsAnswers, AMessageThatNamesAModelHearsWhichOneItWas) {
  Bench bench;
  for (auto name : {"add/1", "add/2"})
    bench.models[name].script = {{msg::Outputs{support::parse_tensors("sum INT32 [1,2] [1,2]"), {}, true}}};
  std::string rest = R"("gtensors":{"tensors":[{"name":"a","dtype":4,"shape":[1,2],"flat_int32":[1,2]}]}})";
  EXPECT_EQ(parse(bench.predict(R"({"model":"add",)" + rest).body).model(), "add-2");
  EXPECT_EQ(parse(bench.predict(R"({"model":"add-1.0",)" + rest, "?model=any").body).model(), "add-1");
  EXPECT_EQ(parse(bench.predict("{" + rest, "?model=add").body).model(), "") << "as the reference server's answers";
  pb::GrpsMessage question, reply;
  question.set_model("any");
  question.set_str_data("hi");
  for (auto method : {"Predict", "PredictStreaming"}) {
    auto a = bench.grpc(method, question.SerializeAsString());
    ASSERT_EQ(a.messages.size(), 1u);
    ASSERT_TRUE(reply.ParseFromString(a.messages[0]));
    EXPECT_EQ(reply.model(), "any-1");
  }
}

TEST(GrpsAnswers, WhatAnEngineSaysIsTextWhateverItsBytesAre) {
  Bench bench;
  bench.models["my-text"].script = {{msg::Failed{base::failure(base::Code::kInternal, "bad name: \xff\xfe")}}};
  pb::GrpsMessage question, reply;
  question.set_model("my-text");
  question.set_str_data("x");
  auto a = bench.grpc("Predict", question.SerializeAsString());
  ASSERT_EQ(a.messages.size(), 1u);
  ASSERT_TRUE(reply.ParseFromString(a.messages[0])) << "a string that is not UTF-8 spoils the message";
  EXPECT_TRUE(reply.status().msg().starts_with("bad name: ")) << reply.status().msg();
  EXPECT_EQ(parse(bench.predict(R"({"str_data":"x"})", "?model=my-text").body).status().code(), 500);
}

TEST(GrpsAnswers, ClientsTakeTurnsAsOthersDo) {
  Bench bench;
  auto x = bench.open_rest("POST", "/grps/v1/infer/predict?model=my-text", R"({"str_data":"x"})");
  ASSERT_EQ(bench.models["my-text"].held.size(), 1u);
  EXPECT_EQ(bench.models["my-text"].held[0]->tenant, marshal::tenant_of(x->request()));
  EXPECT_NE(bench.models["my-text"].held[0]->tenant, 0u);
}

}  // namespace
}  // namespace weir::grps
