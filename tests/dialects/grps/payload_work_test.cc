// Long casts, copies and checks between a payload and a model: the bus's workers do them.
#include <gtest/gtest.h>

#include "bench.h"
#include "messages.h"
#include "support/held_workers.h"

namespace weir::grps {
namespace {

constexpr size_t kMany = 150'000;
const Bench::Headers kOctets{{"content-type", "application/octet-stream"}};

std::string repeated(std::string_view element, size_t count = kMany) {
  std::string out(element);
  for (size_t i = 1; i < count; ++i) (out += ',') += element;
  return out;
}
std::string strings(size_t count = kMany) {
  std::string out;
  for (size_t i = 0; i < count; ++i) msg::append_string(out, i % 2 ? "a" : "");
  return out;
}

struct GrpsPayloadWork : testing::Test {
  GrpsPayloadWork() { bench.bus.set_worker_pool(workers); }
  support::RpcBench::Opened post(std::string_view model, std::string_view body, std::string_view more = {},
                                 const Bench::Headers& headers = Bench::kJson) {
    return bench.open_rest("POST", "/grps/v1/infer/predict?model=" + std::string(model) + std::string(more), body,
                           headers);
  }
  // Runs what the workers have, of which there is some, and delivers it.
  void work() {
    ASSERT_EQ(workers.held.size(), 1u);
    workers.work();
    bench.bus.turn();
  }
  size_t seen(const std::string& model) { return bench.models[model].seen.size(); }

  support::HeldWorkers workers;
  Bench bench;
};

TEST_F(GrpsPayloadWork, ALongArrayIsCastByAWorker) {
  auto wrong = post("add", R"({"ndarray":[)" + repeated("0") + "]}");
  work();
  EXPECT_EQ(wrong->response.status, 400);
  EXPECT_NE(wrong->sent.find("expected INT32 [-1,2]"), std::string::npos) << wrong->sent;
  auto small = post("add", R"({"ndarray":[1,2]})");
  EXPECT_EQ(seen("add"), 1u) << "without a worker";
}

TEST_F(GrpsPayloadWork, ALongTensorOfTheWrongTypeIsCastByAWorker) {
  auto x = post("rare", R"({"gtensors":{"tensors":[{"name":"u","dtype":"DT_INT32","shape":[)" + std::to_string(kMany) +
                            R"(],"flat_int32":[)" + repeated("7") + "]}]}}");
  work();
  EXPECT_NE(x->sent.find("expected UINT16 [1]"), std::string::npos) << x->sent;
}

TEST_F(GrpsPayloadWork, OctetsBecomeAnElementOfBytesOnAWorker) {
  const std::string body(600 << 10, 'x');
  auto x = post("any", body, {}, kOctets);
  EXPECT_EQ(seen("any"), 0u);
  work();
  EXPECT_EQ(seen("any"), 1u);
  EXPECT_EQ(x->sent, "") << "its answer is looked at by a worker, too";
  work();
  EXPECT_TRUE(x->sent == body);
  auto numbers = post("digits", body, {}, kOctets);
  EXPECT_TRUE(workers.held.empty()) << "they stay where they are";
  EXPECT_EQ(numbers->response.status, 400);
}

TEST_F(GrpsPayloadWork, LongStringsAreCheckedByAWorkerBothWays) {
  auto x = post("any", R"({"gtensors":{"tensors":[{"name":"s","dtype":"DT_STRING","shape":[)" + std::to_string(kMany) +
                           R"(],"flat_string":[)" + repeated("\"\"") + "]}]}}");
  EXPECT_EQ(seen("any"), 0u);
  work();
  EXPECT_EQ(seen("any"), 1u);
  EXPECT_FALSE(x->headed);
  work();
  EXPECT_EQ(x->response.status, 200);
}

TEST_F(GrpsPayloadWork, AClientThatLeavesTakesItsWorkBack) {
  post("add", R"({"ndarray":[)" + repeated("0") + "]}").reset();
  work();
  EXPECT_EQ(seen("add"), 0u);
}

TEST_F(GrpsPayloadWork, WorkThatNobodyTakesIsTheRequestsFailure) {
  auto x = post("add", R"({"ndarray":[)" + repeated("0") + "]}");
  workers.refuse(base::try_again(base::Code::kResourceExhausted, "full"));
  bench.bus.turn();
  EXPECT_EQ(x->response.status, 429);
}

TEST_F(GrpsPayloadWork, OverGrpcTheSame) {
  pb::GrpsMessage request;
  request.set_model("add");
  auto* tensor = request.mutable_gtensors()->add_tensors();
  tensor->set_dtype(pb::DT_FLOAT32);
  tensor->add_shape(kMany);
  for (size_t i = 0; i < kMany; ++i) tensor->add_flat_float32(0);
  request.set_model("rare");
  tensor->set_name("h");
  auto x = bench.open_grpc("Predict", request.SerializeAsString());
  EXPECT_EQ(support::grpc_frames(x->sent).size(), 0u);
  work();
  auto frames = support::grpc_frames(x->sent);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_NE(frames[0].payload.find("expected BF16 [1]"), std::string::npos);
}

struct Answers : GrpsPayloadWork {
  support::RpcBench::Opened x =
      bench.open_rest("POST", "/grps/v1/infer/predict?model=flow&streaming=true", R"({"gmap":{"s_i32":{"n":1}}})",
                      {{"content-type", "application/json"}, {"accept", "application/x-ndjson"}});
  support::ScriptedInbox& inbox = bench.models["flow"];
  msg::Call* call = inbox.held.at(0);

  void answer(msg::DType dtype, size_t count, std::string data) {
    msg::Tensor t{"o", dtype, {int64_t(count)}, base::Bytes::adopt(std::move(data))};
    inbox.post(call, {msg::Outputs{{std::move(t)}, {}, false}});
  }
  void one() { answer(msg::DType::kInt32, 1, std::string(4, '\0')); }
  size_t lines() const { return size_t(std::count(x->sent.begin(), x->sent.end(), '\n')); }
};

TEST_F(Answers, ALongOneIsCastByAWorkerAndThoseBehindItWait) {
  one();
  answer(msg::DType::kUint16, kMany, std::string(2 * kMany, '\0'));
  one();
  inbox.finish(call, {msg::Done{}});
  bench.bus.turn();
  EXPECT_EQ(lines(), 1u);
  work();
  EXPECT_EQ(lines(), 3u);
  EXPECT_TRUE(x->ended);
}

TEST_F(Answers, OneWhoseStringsAreWrongIsTheEnd) {
  answer(msg::DType::kBytes, kMany + 1, strings());
  one();
  bench.bus.turn();
  EXPECT_EQ(lines(), 0u);
  work();
  EXPECT_EQ(x->response.status, 500);
  EXPECT_NE(x->sent.find("150000 BYTES elements, but 150001"), std::string::npos) << x->sent;
  EXPECT_TRUE(call->cancelled);
  inbox.finish(call, {msg::Done{}});
}

TEST_F(Answers, TheModelHasNoCreditForThoseThatWait) {
  answer(msg::DType::kUint16, kMany, std::string(2 * kMany, '\0'));
  bench.bus.turn();
  const int before = call->credit;
  for (int i = 0; i < 40; ++i) one();
  bench.bus.turn();
  EXPECT_EQ(call->credit, before);
  work();
  EXPECT_GT(call->credit, before);
  inbox.finish(call, {msg::Done{}});
}

}  // namespace
}  // namespace weir::grps
