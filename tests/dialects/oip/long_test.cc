// Requests and answers that are too long for a shard.
#include <gtest/gtest.h>

#include "base/extra_work.h"
#include "dialects/oip/long_work.h"
#include "requests.h"
#include "support/held_workers.h"
#include "support/text_models.h"
#include "wire/offload.h"

namespace weir::oip {
namespace {

using base::Code;

std::string long_json(size_t bytes) {
  std::string data = "1";
  while (data.size() < bytes) data += ",1";
  return R"({"id":"7","inputs":[{"name":"x","shape":[)" + std::to_string((data.size() + 1) / 2) +
         R"(],"datatype":"UINT8","data":[)" + data + "]}]}";
}

constexpr std::string_view kBestOne = R"({"inputs":[],"outputs":[{"name":"p","parameters":{"classification":1}}]})";

struct OipLong : testing::Test {
  OipLong() { bench.bus.set_worker_pool(workers); }
  // Runs the tasks of the workers, and delivers their results.
  void work() {
    while (!workers.held.empty()) workers.work(), bench.turn();
  }
  support::RpcBench::Opened post(std::string_view body, const OipBench::Headers& headers = {},
                                 std::string path = "/v2/models/any/infer") {
    return bench.open_rest("POST", std::move(path), body, headers);
  }
  msg::Event answer(size_t n, bool final = true) {
    msg::Outputs big;
    big.tensors.push_back({"p", msg::DType::kUint8, {int64_t(n)}, base::Bytes::adopt(std::string(n, '\7'))});
    big.final = final;
    return {std::move(big)};
  }
  static std::string sevens(size_t n) {
    std::string out = "7";
    for (size_t i = 1; i < n; ++i) out += ",7";
    return out;
  }

  support::HeldWorkers workers;
  OipBench bench;
};

// Lengths that alternate take the longest to count.
std::string short_strings(size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) msg::append_string(out, i % 2 ? "a" : "");
  return out;
}

TEST_F(OipLong, LongStringsAreCheckedByAWorkerBothWays) {
  constexpr size_t kCount = 100'000;
  const std::string data = short_strings(kCount);
  auto binary = [&](size_t count) {
    std::string json = R"({"inputs":[{"name":"s","datatype":"BYTES","shape":[)" + std::to_string(count) +
                       R"(],"parameters":{"binary_data_size":)" + std::to_string(data.size()) +
                       R"(}}],"parameters":{"binary_data_output":true}})";
    const OipBench::Headers headers{{"inference-header-content-length", std::to_string(json.size())}};
    return post(json + data, headers);
  };
  auto wrong = binary(kCount - 1);
  ASSERT_EQ(workers.held.size(), 1u);
  work();
  EXPECT_EQ(wrong->response.status, 400);
  EXPECT_NE(wrong->sent.find("more than 99999 BYTES elements, but 99999"), std::string::npos) << wrong->sent;
  auto too_few = binary(kCount * 2);
  EXPECT_TRUE(workers.held.empty());
  EXPECT_EQ(too_few->response.status, 400);

  msg::Outputs strings;
  strings.tensors.push_back({"p", msg::DType::kBytes, {int64_t(kCount)}, base::Bytes::copy_of(data)});
  bench.inbox("any").script.push_back({std::move(strings)});
  auto x = binary(kCount);
  EXPECT_TRUE(bench.inbox("any").seen.empty());
  ASSERT_EQ(workers.held.size(), 1u);
  workers.work(), bench.turn();
  EXPECT_EQ(bench.inbox("any").seen.size(), 1u);
  EXPECT_FALSE(x->headed);
  ASSERT_EQ(workers.held.size(), 1u) << "the answer's, too";
  work();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_TRUE(x->sent.ends_with(data));
}

TEST_F(OipLong, AMessageAboutStringsThatAWorkerRefusesDoesNotSpeakForTheModel) {
  constexpr size_t kCount = 100'000;
  inference::ModelInferRequest r;
  r.set_model_name("any");
  auto& in = *r.add_inputs();
  in.set_name("s"), in.set_datatype("BYTES"), in.add_shape(kCount - 1);
  r.add_raw_input_contents(short_strings(kCount));
  auto x = bench.open_grpc("ModelStreamInfer");
  bench.wire.data(*x, support::grpc_frame(r.SerializeAsString()));
  bench.turn();
  EXPECT_FALSE(workers.held.empty());
  work();
  const auto frames = support::grpc_frames(x->sent);
  ASSERT_EQ(frames.size(), 1u);
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(answer.ParseFromString(frames[0].payload));
  EXPECT_NE(answer.error_message().find("more than 99999 BYTES elements"), std::string::npos) << answer.error_message();
  EXPECT_FALSE(answer.infer_response().parameters().contains("triton_final_response"));
}

TEST_F(OipLong, LongStringsBecomeJsonInPieces) {
  msg::Outputs strings;
  strings.tensors.push_back({"p", msg::DType::kBytes, {100'000}, base::Bytes::adopt(short_strings(100'000))});
  bench.inbox("any").script.push_back({std::move(strings)});
  auto x = post(R"({"inputs":[]})");
  ASSERT_EQ(workers.held.size(), 1u);
  work();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_NE(x->sent.find(R"(["","a","",)"), std::string::npos) << x->sent.substr(0, 200);
}

TEST_F(OipLong, ARawBodyBecomesAnElementOfBytesOnAWorker) {
  auto x = post(std::string(300 << 10, 'x'), {{"inference-header-content-length", "0"}}, "/v2/models/text/infer");
  ASSERT_EQ(workers.held.size(), 1u) << x->sent;
  workers.work(), bench.turn();
  EXPECT_EQ(bench.inbox("text").seen.size(), 1u) << x->sent;
}

TEST_F(OipLong, ALongRequestIsReadByAWorker) {
  bench.inbox("any").script.push_back(outputs("p FP32 [1] [1]"));
  auto x = post(long_json(kLongRequest));
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_TRUE(bench.inbox("any").seen.empty());
  EXPECT_FALSE(x->headed);
  work();
  ASSERT_EQ(bench.inbox("any").seen.size(), 1u);
  EXPECT_TRUE(bench.inbox("any").seen[0].starts_with("any/1 rows=1 id=7 | x UINT8 ["));
  EXPECT_EQ(x->response.status, 200);
  EXPECT_NE(x->sent.find(R"("id":"7")"), std::string::npos);
}

uint64_t extra_work(const bus::OffloadCall& call) {
  const auto* work = dynamic_cast<const base::ExtraWork*>(call.task.get());
  return work ? work->extra_work() : 0;
}

TEST_F(OipLong, OnlyTheFormOfATextGoesToTheCompiler) {
  bench.models.add(support::text_spec("long", 2'000'000));
  auto& inbox = bench.inbox("long");
  for (auto [size, form] : {std::pair{size_t(20'000), "a{2}"}, std::pair{wire::kLongBody, "a{3}"}}) {
    const std::string text(size, 'x');
    const std::string more = R"(","exclude_input_in_output":false,"guided_regex":")" + std::string(form) + "\"}";
    auto x = post(R"({"text_input":")" + text + more, {}, "/v2/models/long/generate");
    ASSERT_EQ(workers.held.size(), 1u) << x->sent;
    EXPECT_EQ(extra_work(*workers.held[0]), 0u) << "the text";
    EXPECT_GE(workers.held[0]->bytes, size);
    workers.work(), bench.turn();
    ASSERT_EQ(workers.held.size(), 1u) << x->sent;
    EXPECT_EQ(extra_work(*workers.held[0]), base::kCompileWork);
    EXPECT_LT(workers.held[0]->bytes, 100u);
    work();
    ASSERT_EQ(inbox.held.size(), 1u) << x->sent;
    EXPECT_EQ(support::prompt_of(*inbox.held[0]), text);
    EXPECT_TRUE(inbox.held[0]->generation->constraint);
    support::ScriptedAnswer<support::ScriptedInbox>(inbox, inbox.held[0]).end();
    bench.turn();
    EXPECT_NE(x->sent.find("\"text_output\":\"" + text + '"'), std::string::npos);
  }
}

TEST_F(OipLong, AShortRequestAndAShortAnswerNeedNoWorker) {
  bench.inbox("any").script.push_back(answer(1000));
  EXPECT_EQ(post(R"({"inputs":[]})")->response.status, 200);
  EXPECT_TRUE(workers.held.empty());
}

TEST_F(OipLong, ALongRequestThatIsWrongIsRefusedWhenItHasBeenRead) {
  std::string body = long_json(kLongRequest);
  body.back() = ']';
  auto x = post(body);
  work();
  EXPECT_EQ(x->response.status, 400);
  EXPECT_NE(x->sent.find("JSON: "), std::string::npos);
  EXPECT_TRUE(bench.inbox("any").seen.empty());
}

TEST_F(OipLong, WorkersThatAreFullRefuse) {
  auto x = post(long_json(kLongRequest));
  workers.refuse(base::try_again(Code::kResourceExhausted, "full"));
  bench.turn();
  EXPECT_EQ(x->response.status, 429);
}

TEST_F(OipLong, AClientThatLeavesTakesItsWorkAlong) {
  post(long_json(kLongRequest)).reset();
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_TRUE(workers.held[0]->cancelled.load());
  work();
  EXPECT_TRUE(bench.inbox("any").seen.empty());
  bench.inbox("any").script.push_back(answer(kLongAnswer + 1));
  post(kBestOne).reset();
  EXPECT_TRUE(workers.held.at(0)->cancelled.load());
  work();
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST_F(OipLong, LongJsonBesideBinaryOutputsIsWrittenByAWorker) {
  auto both = answer(kLongAnswer + 1);
  auto& tensors = std::get<msg::Outputs>(both.what).tensors;
  tensors.push_back({"q", msg::DType::kUint8, {3}, base::Bytes::copy_of("abc")});
  bench.inbox("any").script.push_back(both);
  auto x = post(R"({"inputs":[],"outputs":[{"name":"p"},{"name":"q","parameters":{"binary_data":true}}]})");
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_FALSE(x->headed);
  work();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_NE(x->sent.find("\"data\":[" + sevens(kLongAnswer + 1) + "]}"), std::string::npos);
  EXPECT_TRUE(x->sent.ends_with("]}abc"));
}

TEST_F(OipLong, LongJsonAloneNeedsNoWorkerForItIsWrittenInPieces) {
  bench.inbox("any").script.push_back(answer(kLongAnswer + 1));
  EXPECT_EQ(post(R"({"inputs":[]})")->response.status, 200);
  EXPECT_TRUE(workers.held.empty());
}

TEST_F(OipLong, BinaryOutputsNeedNoWorkerHoweverLong) {
  bench.inbox("any").script.push_back(answer(1 << 20));
  EXPECT_EQ(post(R"({"parameters":{"binary_data_output":true},"inputs":[]})")->response.status, 200);
  EXPECT_TRUE(workers.held.empty());
}

TEST_F(OipLong, ALongClassificationIsDoneByAWorkerInBothProtocols) {
  bench.inbox("any").script.push_back(answer(kLongAnswer + 1));
  auto x = post(R"({"inputs":[],"outputs":[{"name":"p","parameters":{"classification":1,"binary_data":true}}]})");
  ASSERT_EQ(workers.held.size(), 1u);
  work();
  EXPECT_TRUE(x->sent.ends_with("7:0"));
  inference::ModelInferRequest request;
  request.set_model_name("any");
  auto& output = *request.add_outputs();
  output.set_name("p");
  (*output.mutable_parameters())["classification"].set_int64_param(1);
  auto y = bench.open_grpc("ModelInfer");
  bench.wire.data(*y, support::grpc_frame(request.SerializeAsString()));
  bench.wire.end(*y);
  bench.turn();
  ASSERT_EQ(workers.held.size(), 1u);
  work();
  inference::ModelInferResponse response;
  ASSERT_TRUE(response.ParseFromString(support::grpc_frames(y->sent).at(0).payload));
  EXPECT_TRUE(response.raw_output_contents(0).ends_with("7:0"));
}

std::string typed_request(std::string model, size_t elements, std::string id = "") {
  inference::ModelInferRequest request;
  request.set_model_name(std::move(model)), request.set_id(std::move(id));
  auto& in = *request.add_inputs();
  in.set_name("x"), in.set_datatype("INT8"), in.add_shape(int64_t(elements));
  for (size_t i = 0; i < elements; ++i) in.mutable_contents()->add_int_contents(1);
  return request.SerializeAsString();
}

TEST_F(OipLong, LongTypedContentsAreConvertedByAWorker) {
  bench.inbox("any").script.push_back(outputs("p FP32 [1] [1]"));
  auto call = [&](const std::string& message) {
    auto y = bench.open_grpc("ModelInfer");
    bench.wire.data(*y, support::grpc_frame(message));
    bench.wire.end(*y);
    bench.turn();
    return y;
  };
  EXPECT_EQ(support::grpc_status(*call(typed_request("any", 1000))), 0);
  EXPECT_TRUE(workers.held.empty());
  auto y = call(typed_request("any", kLongRequest));
  ASSERT_EQ(workers.held.size(), 1u);
  work();
  EXPECT_EQ(support::grpc_status(*y), 0);
  EXPECT_EQ(bench.inbox("any").seen.size(), 2u);
  EXPECT_EQ(support::grpc_status(*call(typed_request("nobody", kLongRequest))), 5);
  auto wrong = call(typed_request("any", kLongRequest) + "\x2a\x02\x08\x01");  // an input without a type
  work();
  EXPECT_EQ(support::grpc_status(*wrong), 3);
}

TEST_F(OipLong, AStreamsAnswersKeepTheirOrderAroundALongRequest) {
  bench.inbox("any").script.push_back(outputs("p FP32 [1] [1]"));
  auto y = bench.open_grpc("ModelStreamInfer");
  bench.wire.data(*y, support::grpc_frame(typed_request("any", kLongRequest, "long")));
  bench.wire.data(*y, support::grpc_frame(typed_request("any", 1, "short")));
  bench.wire.end(*y);
  bench.turn();
  EXPECT_TRUE(y->sent.empty());
  work();
  auto frames = support::grpc_frames(y->sent);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_NE(frames[0].payload.find("long"), std::string::npos);
  EXPECT_NE(frames[1].payload.find("short"), std::string::npos);
  EXPECT_EQ(support::grpc_status(*y), 0);
}

TEST_F(OipLong, AnErrorAmongAStreamsAnswersStaysBehindALongOne) {
  auto& script = bench.inbox("flow").script;
  script.push_back(answer(kLongAnswer + 1, false));
  std::get<msg::Outputs>(script.back().what).tensors[0].name = "o";
  script.push_back({msg::Failed{base::failure(Code::kNotFound, "not that one"), false}});
  script.push_back({msg::Done{}});
  auto request = flow_request("f");
  request.add_outputs()->set_name("o");
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(1);
  auto y = bench.open_grpc("ModelStreamInfer");
  bench.wire.data(*y, support::grpc_frame(request.SerializeAsString()));
  bench.turn();
  EXPECT_TRUE(y->sent.empty());
  work();
  auto frames = support::grpc_frames(y->sent);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_NE(frames[1].payload.find("not that one"), std::string::npos);
}

TEST_F(OipLong, EventsKeepTheirOrderAroundALongOne) {
  auto& script = bench.inbox("flow").script;
  script.push_back(outputs("o INT32 [1] [1]", false));
  script.push_back(answer(kLongAnswer + 1, false));
  script.push_back(outputs("o INT32 [1] [3]", false));
  script.push_back({msg::Failed{base::failure(Code::kAborted, "oh")}});
  auto x = post(R"({"inputs":[{"name":"n","shape":[1],"datatype":"INT32","data":[1]}]})", {},
                "/v2/models/flow/infer_stream");
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_NE(x->sent.find("\"data\":[1]"), std::string::npos);
  EXPECT_EQ(x->sent.find("\"data\":[3]"), std::string::npos);
  EXPECT_FALSE(x->ended);
  work();
  size_t first = x->sent.find("\"data\":[1]"), second = x->sent.find("\"data\":[7,7"),
         third = x->sent.find("\"data\":[3]"), last = x->sent.find("\"error\":\"oh\"");
  EXPECT_TRUE(first < second && second < third && third < last && last != std::string::npos);
  EXPECT_TRUE(x->ended);
}

TEST_F(OipLong, AnAnswerIsWrittenHoweverManyRequestsAreInFlight) {
  bench.inbox("any").script.push_back(answer(kLongAnswer + 1));
  std::vector<support::RpcBench::Opened> all;
  for (int i = 0; i < 1100; ++i) all.push_back(post(kBestOne));
  EXPECT_EQ(all.back()->response.status, 429) << "1,024 wait for the workers";
  work();
  EXPECT_EQ(all.front()->response.status, 200);
}

}  // namespace
}  // namespace weir::oip
