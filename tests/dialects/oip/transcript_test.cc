// tests/data/oip/infer.txt: one table of cases drives REST and gRPC. Beside the lines of support/transcript.h:
//   rest: <JSON>        body of POST /v2/models/<model>/infer
//   grpc: <text>        ModelInferRequest in text format, without model_name
//   call: <text>        the Call that both make, as describe() writes it; none = none must be made
//   rest reply: <status> <body>
//   grpc reply: <message in text format>      or
//   grpc error: <code name> <text>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "bench.h"
#include "inference.pb.h"
#include "support/transcript.h"

namespace weir::oip {
namespace {

using google::protobuf::TextFormat;
using support::Case;

void check_call(OipBench& bench, const Case& c) {
  std::vector<std::string> expected;
  if (c.count("call")) expected.push_back(c.at("call"));
  EXPECT_EQ(bench.models.seen(c.at("model")), expected);
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

void run_rest(const Case& c) {
  OipBench bench;
  support::script(bench.models, c);
  auto answer = bench.rest("POST", "/v2/models/" + c.at("model") + "/infer", c.at("rest"));
  check_call(bench, c);
  EXPECT_EQ(std::to_string(answer.status) + " " + answer.body, c.at("rest reply"));
  EXPECT_EQ(answer.type, "application/json");
}

void run_grpc(const Case& c) {
  OipBench bench;
  support::script(bench.models, c);
  inference::ModelInferRequest request;
  ASSERT_TRUE(TextFormat::ParseFromString(c.at("grpc"), &request));
  request.set_model_name(c.at("model"));
  auto answer = bench.grpc("ModelInfer", request.SerializeAsString());
  check_call(bench, c);
  if (c.count("grpc error")) {
    EXPECT_EQ(std::string(base::name(base::Code(answer.status))) + " " + answer.body, c.at("grpc error"));
    EXPECT_TRUE(answer.messages.empty());
    return;
  }
  ASSERT_EQ(answer.status, 0) << answer.body;
  ASSERT_EQ(answer.messages.size(), 1u);
  inference::ModelInferResponse reply, expected;
  ASSERT_TRUE(reply.ParseFromString(answer.messages[0]));
  ASSERT_TRUE(TextFormat::ParseFromString(c.at("grpc reply"), &expected));
  EXPECT_EQ(reply.ShortDebugString(), expected.ShortDebugString());
}

TEST(OipTranscripts, EveryCaseOverRestAndGrpc) {
  auto cases = support::read_cases(OIP_DATA "/infer.txt");
  EXPECT_GE(cases.size(), 30u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.at("title"));
    if (c.count("rest")) run_rest(c);
    if (c.count("grpc")) run_grpc(c);
  }
}

}  // namespace
}  // namespace weir::oip
