// Models of text by way of GraphPipe.
#include <gtest/gtest.h>

#include <new>

#include "base/log.h"
#include "base/memory_ledger.h"
#include "bench.h"
#include "dialects/graphpipe/reply.h"
#include "dialects/graphpipe/types.h"
#include "marshal/tenant.h"
#include "support/fake_offload.h"
#include "wire/offload.h"

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
  EXPECT_EQ(x->record().code, base::Code::kUnimplemented);
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

TEST(GraphPipeText, LongRequestsAndLongStringsAreWorkersWork) {
  support::FakeOffload offload;
  GraphPipeOptions options;
  options.offload = &offload;
  Bench bench(options);
  const std::string word(wire::kLongBody, 'w');
  const std::string request = bench.schema.request(
      R"({"req_type":"InferRequest","req":{"input_names":["name"],"input_tensors":[{"type":"String","shape":[1],)"
      R"("string_val":[")" +
      word + R"("]}]}})");
  auto& inbox = bench.inbox("any");
  auto x = bench.open("POST", "/graphpipe/any", request);
  EXPECT_EQ(offload.waiting(), 1u);
  EXPECT_TRUE(inbox.held.empty());
  offload.work_one();
  ASSERT_EQ(inbox.held.size(), 1u);
  msg::Tensor echo = inbox.held[0]->inputs.at(0);
  EXPECT_EQ(echo.data.size(), 4 + word.size());
  inbox.finish(inbox.held[0], {msg::Outputs{{echo}, {}, true}});
  bench.turn();
  EXPECT_FALSE(x->ended) << "a worker writes it";
  offload.work_one();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_NE(bench.schema.text("InferResponse", x->sent).find(word), std::string::npos);
  auto bad = bench.open("POST", "/graphpipe/any", std::string(wire::kLongBody + 1, '\xff'));
  offload.work();
  EXPECT_EQ(bad->response.status, 400);
  bench.open("POST", "/graphpipe/any", request).reset();
  EXPECT_EQ(offload.cancelled, 1u);
  offload.refusal = base::try_again(base::Code::kResourceExhausted, "full");
  EXPECT_EQ(bench.open("POST", "/graphpipe/any", request)->response.status, 400);
}

TEST(GraphPipeText, LongStringsOfAModelAreCheckedByTheWorkerThatWritesThem) {
  support::FakeOffload offload;
  GraphPipeOptions options;
  options.offload = &offload;
  Bench bench(options);
  auto request = [&](const char* shape) {
    return bench.schema.request(
        std::string(
            R"({"req_type":"InferRequest","req":{"input_names":["s"],"input_tensors":[{"type":"String","shape":)") +
        shape + R"(,"string_val":["a","b"]}]}})");
  };
  EXPECT_NE(bench.open("POST", "/graphpipe/any", request("[1]"))->sent.find("2 BYTES elements, but 1 by its shape [1]"),
            std::string::npos);
  auto x = bench.open("POST", "/graphpipe/any", request("[2]"));
  auto& inbox = bench.inbox("any");
  ASSERT_EQ(inbox.held.size(), 1u);
  std::string data;
  for (int i = 0; i < 100'000; ++i) msg::append_string(data, i % 2 ? "a" : "");
  msg::Tensor words{"s", msg::DType::kBytes, {100'001}, base::Bytes::adopt(std::move(data))};
  inbox.finish(inbox.held[0], {msg::Outputs{{std::move(words)}, {}, true}});
  bench.turn();
  EXPECT_FALSE(x->ended);
  ASSERT_EQ(offload.waiting(), 1u);
  offload.work();
  EXPECT_EQ(x->record().code, base::Code::kInternal);
  EXPECT_NE(x->sent.find("100000 BYTES elements, but 100001"), std::string::npos);
}

// Says what was asked for; grants `most` bytes.
struct CountedSlabs final : base::SlabSource {
  explicit CountedSlabs(size_t m) : most(m) {}
  base::Slab* take(size_t bytes) override {
    asked.push_back(bytes);
    return bytes <= most ? base::heap_slab(bytes) : nullptr;
  }
  base::MemoryLedger* ledger() override { return &none; }

  const size_t most;
  std::vector<size_t> asked;
  base::MemoryLedger none{0};
};

std::string joined(const std::vector<base::Bytes>& pieces) {
  std::string out;
  for (const auto& piece : pieces) out += piece.view();
  return out;
}

TEST(GraphPipeText, RoomForAnAnswersStringsIsTakenOnceAndBeforeTheyAreWritten) {
  constexpr size_t kEmpty = 70'000;
  std::string words;
  for (const char* word : {"", "a", "abc", "abcd"}) msg::append_string(words, word);
  std::vector<msg::Tensor> tensors;
  tensors.push_back({"a", msg::DType::kBytes, {kEmpty}, base::Bytes::adopt(std::string(4 * kEmpty, '\0'))});
  tensors.push_back({"b", msg::DType::kBytes, {2, 2}, base::Bytes::adopt(std::move(words))});
  tensors.push_back({"c", msg::DType::kUint8, {100}, base::Bytes::adopt(std::string(100, 'c'))});
  tensors.push_back({"d", msg::DType::kUint8, {8000}, base::Bytes::adopt(std::string(8000, 'd'))});
  tensors.push_back({"e", msg::DType::kUint8, {3}, base::Bytes::adopt(std::string(3, 'e'))});
  const std::vector<size_t> order{3, 0, 1, 2, 4, 0};
  CountedSlabs slabs(size_t(1) << 30);
  auto pieces = write_tensors(tensors, order, slabs);
  ASSERT_TRUE(pieces);
  const std::string whole = joined(*pieces);
  ASSERT_EQ(slabs.asked.size(), 1u);
  EXPECT_GE(slabs.asked[0] + 8000, whole.size());
  EXPECT_LE(slabs.asked[0], whole.size()) << "12 bytes for each empty string";
  EXPECT_EQ(whole, joined(*write_tensors(tensors, order)));
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(whole.data()), whole.size());
  EXPECT_TRUE(verifier.VerifyBuffer<fb::InferResponse>(nullptr));
  EXPECT_EQ(
      flatbuffers::GetRoot<fb::InferResponse>(whole.data())->output_tensors()->Get(2)->string_val()->Get(3)->str(),
      "abcd");
  CountedSlabs spent(1 << 16);
  EXPECT_THROW((void)write_tensors(tensors, order, spent), std::bad_alloc);
}

}  // namespace
}  // namespace weir::graphpipe
