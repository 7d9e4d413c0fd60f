// Models of text by way of GraphPipe.
#include <gtest/gtest.h>

#include "base/log.h"
#include "graphpipe_bench.h"
#include "marshal/tenant.h"

namespace weir::graphpipe {
namespace {

constexpr const char* kRequest =
    R"({"req_type":"InferRequest","req":{"config":"{\"stream\":true}","input_tensors":[{"type":"Int32","shape":[1,2],)"
    R"("data":[1,0,0,0,2,0,0,0]}]}})";

TEST(GraphPipeText, AnAnswerInPiecesIsRefusedAtTheFirst) {
  Bench bench;
  auto x = bench.open("POST", "/graphpipe/add", bench.schema.request(kRequest));
  auto& inbox = bench.inbox("add");
  ASSERT_EQ(inbox.held.size(), 1u);
  msg::Call* call = inbox.held[0];
  inbox.post(call, outputs("sum INT32 [1,2] [1,2]", false));
  bench.turn();
  EXPECT_EQ(x->response.status, 400);
  EXPECT_EQ(x->ledger().code, base::Code::kUnimplemented);
  EXPECT_NE(x->sent.find("model 'add' answers in more than one piece, which GraphPipe cannot say"), std::string::npos);
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(call->tenant, marshal::tenant_of(x->request())) << "so that clients take turns";
  inbox.finish(call, {msg::Done{}});
  bench.turn();
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST(GraphPipeText, WhatAnEngineSaysIsTextWhateverItsBytesAre) {
  Bench bench;
  bench.inbox("add").script = {{msg::Failed{base::failure(base::Code::kInternal, "bad name: \xff\xfe")}}};
  auto x = bench.open("POST", "/graphpipe/add", bench.schema.request(kRequest));
  EXPECT_EQ(x->sent.find("\xff\xfe"), std::string::npos);
  EXPECT_NE(x->sent.find("bad name: "), std::string::npos);
}

}  // namespace
}  // namespace weir::graphpipe
