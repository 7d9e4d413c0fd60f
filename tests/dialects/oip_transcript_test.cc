// tests/data/oip/infer.txt: one table of cases drives REST and gRPC. Grammar of the file, line by line:
//   == <title>          begins a case         # … and empty lines mean nothing
//   model: <name>       whose Inbox is scripted (default: add)
//   rest: <JSON>        body of POST /v2/models/<model>/infer
//   grpc: <text>        ModelInferRequest in text format, without model_name
//   call: <text>        the Call that both make, as describe() writes it; none = none must be made
//   answer: <tensors>   what the engine answers, as parse_tensors() reads it
//   fail: <code> <text> … or how it fails
//   rest reply: <status> <body>
//   grpc reply: <message in text format>      or
//   grpc error: <code name> <text>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "inference.pb.h"
#include "oip_bench.h"

namespace weir::oip {
namespace {

using google::protobuf::TextFormat;
using Case = std::map<std::string, std::string>;

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("== ")) {
      cases.push_back({{"title", line.substr(3)}, {"model", "add"}});
      continue;
    }
    size_t colon = line.find(": ");
    if (cases.empty() || colon == line.npos) throw std::runtime_error("bad line: " + line);
    cases.back()[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return cases;
}

base::Code code_named(std::string_view name) {
  for (int c = 0; c <= 16; ++c)
    if (base::name(base::Code(c)) == name) return base::Code(c);
  throw std::runtime_error("no code " + std::string(name));
}

void script(OipBench& bench, const Case& c) {
  if (!c.count("answer") && !c.count("fail")) return;
  auto& inbox = bench.inbox(c.at("model"));
  if (c.count("answer")) {
    inbox.script.push_back({msg::Outputs{parse_tensors(c.at("answer")), {}, true}});
  } else if (c.count("fail")) {
    const std::string& text = c.at("fail");
    size_t space = text.find(' ');
    inbox.script.push_back({msg::Failed{base::failure(code_named(text.substr(0, space)), text.substr(space + 1))}});
  }
}

void check_call(OipBench& bench, const Case& c) {
  std::vector<std::string> expected;
  if (c.count("call")) expected.push_back(c.at("call"));
  EXPECT_EQ(bench.seen(c.at("model")), expected);
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

void run_rest(const Case& c) {
  OipBench bench;
  script(bench, c);
  auto answer = bench.rest("POST", "/v2/models/" + c.at("model") + "/infer", c.at("rest"));
  check_call(bench, c);
  EXPECT_EQ(std::to_string(answer.status) + " " + answer.body, c.at("rest reply"));
  EXPECT_EQ(answer.type, "application/json");
}

void run_grpc(const Case& c) {
  OipBench bench;
  script(bench, c);
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
  auto cases = read_cases(OIP_DATA "/infer.txt");
  EXPECT_GE(cases.size(), 30u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.at("title"));
    if (c.count("rest")) run_rest(c);
    if (c.count("grpc")) run_grpc(c);
  }
}

}  // namespace
}  // namespace weir::oip
