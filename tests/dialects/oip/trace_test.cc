#include "dialects/oip/trace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "bench.h"
#include "requests.h"

namespace weir::oip {
namespace {

using nlohmann::json;

// A file that goes with the test.
struct TracePath {
  TracePath() : path(testing::TempDir() + "weir_trace_" + std::to_string(::getpid())) {}
  ~TracePath() { std::filesystem::remove(path); }
  std::string text() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const std::string path;
};

TEST(OipTrace, LevelsAreKeptInTheirOrderAndAnEmptyListGoesBackToTheStart) {
  Traces traces;
  ASSERT_TRUE(
      traces.begin_with({{"trace_level", {"TIMESTAMPS"}}, {"trace_rate", {"1"}}, {"trace_count", {"-1"}}}).ok());
  const auto first = traces.settings("");
  EXPECT_EQ(first, (Traces::Settings{{"log_frequency", {"0"}},
                                     {"trace_count", {"-1"}},
                                     {"trace_file", {""}},
                                     {"trace_level", {"TIMESTAMPS"}},
                                     {"trace_mode", {"triton"}},
                                     {"trace_rate", {"1"}}}));
  ASSERT_TRUE(traces.change("m", {{"trace_rate", {"12"}}, {"log_frequency", {"34"}}}).ok());
  ASSERT_TRUE(traces.change("", {{"trace_level", {"TENSORS", "TIMESTAMPS"}}, {"trace_rate", {"56"}}}).ok());
  EXPECT_EQ(traces.settings("m").at("trace_level"), (std::vector<std::string>{"TIMESTAMPS", "TENSORS"}));
  EXPECT_EQ(traces.settings("m").at("trace_rate")[0], "12");
  EXPECT_EQ(traces.settings("m").at("log_frequency")[0], "34");
  ASSERT_TRUE(traces.change("", {{"trace_level", {}}, {"trace_rate", {}}, {"trace_count", {}}}).ok());
  EXPECT_EQ(traces.settings(""), first);
  EXPECT_TRUE(traces.begin("other"));
  ASSERT_TRUE(traces.change("", {{"trace_level", {"OFF"}}}).ok());
  EXPECT_FALSE(traces.begin("other"));
  EXPECT_FALSE(traces.begin_with({{"trace_level", {"ALL"}}}).ok());
}

TEST(OipTrace, TensorsAreCutToABound) {
  TracedTensors traced;
  std::vector<msg::Tensor> tensors;
  const std::string numbers(40'000'000, '\1');
  tensors.push_back({"large", msg::DType::kInt32, {10'000'000}, base::Bytes::copy_of(numbers)});
  tensors.push_back({"flags", msg::DType::kBool, {1, 3}, base::Bytes::copy_of(std::string("\1\0\1", 3))});
  tensors.push_back({"words", msg::DType::kBytes, {2}, base::Bytes::copy_of(std::string("\2\0\0\0a\"\0\0\0\0", 10))});
  tensors.push_back({"none", msg::DType::kFp32, {0, 4}, {}});
  tensors.push_back({"scalar", msg::DType::kFp32, {}, base::Bytes::copy_of(std::string(4, '\0'))});
  traced.add("TENSOR_QUEUE_INPUT", tensors);
  const auto& all = traced.all();
  EXPECT_EQ(all[0].whole, "10000000");
  EXPECT_LE(all[0].data.size(), 3 * TracedTensors::kMostBytes);
  EXPECT_EQ(std::stoul(all[0].shape), size_t(std::count(all[0].data.begin(), all[0].data.end(), ',')) + 1);
  EXPECT_EQ(all[1].data + " " + all[1].shape + all[1].whole, "1,0,1 1,3");
  EXPECT_EQ(all[2].data + " " + all[2].shape + all[2].whole, R"("a\"","" 2)");
  EXPECT_EQ(all[3].data + " " + all[3].shape + all[3].whole, " 0,4");
  EXPECT_EQ(all[4].shape, "1");
  const std::vector<msg::Tensor> many(1000, tensors[1]);
  traced.add("TENSOR_BACKEND_OUTPUT", many);
  EXPECT_EQ(traced.all().size(), TracedTensors::kMostTensors);
}

TEST(OipTrace, AFileHasWhatTritonsToolsRead) {
  TracePath place;
  base::Metrics metrics;
  {
    OipBench bench;
    bench.traces.write_to(TraceFile::open(place.path, 1 << 20, metrics).value());
    ASSERT_EQ(
        bench.rest("POST", "/v2/trace/setting", R"({"trace_level":["TIMESTAMPS","TENSORS"],"trace_rate":"1"})").status,
        200);
    bench.inbox("add").script.push_back(outputs("sum INT32 [1,2] [4,6]"));
    bench.grpc("ModelInfer", add_request(1, 2).SerializeAsString());
    bench.rest("POST", "/v2/models/add/infer",
               R"({"id":"me","inputs":[{"name":"a","datatype":"INT32","shape":[1,2],"data":[1,2]}]})");
    EXPECT_EQ(bench.traces.settings("").at("trace_file")[0], place.path);
    bench.traces.write_to(nullptr);
  }
  const json traces = json::parse(place.text());
  ASSERT_EQ(traces.at(0), json({{"id", 1}, {"model_name", "add"}, {"model_version", 1}, {"request_id", ""}}));
  EXPECT_EQ(traces.at(1).at("timestamps").at(0).at("name"), "GRPC_WAITREAD_START");
  EXPECT_EQ(traces.at(2).at("activity"), "TENSOR_QUEUE_INPUT");
  json output, names;
  for (const auto& element : traces)
    if (element.at("id") == 2 && element.contains("timestamps"))
      for (const auto& time : element.at("timestamps")) names.push_back(time.at("name"));
    else if (element.at("id") == 2 && element.value("activity", "") == "TENSOR_BACKEND_OUTPUT")
      output = element.at("tensor");
  EXPECT_EQ(output, json({{"name", "sum"}, {"data", "4,6"}, {"shape", "1,2"}, {"dtype", "INT32"}}));
  EXPECT_EQ(names.front(), "HTTP_RECV_START");
  EXPECT_EQ(names.back(), "HTTP_SEND_END");
}

TEST(OipTrace, ARequestWhoseClientLeavesIsWritten) {
  TracePath place;
  base::Metrics metrics;
  {
    OipBench bench;
    bench.traces.write_to(TraceFile::open(place.path, 1 << 20, metrics).value());
    ASSERT_TRUE(
        bench.traces.begin_with({{"trace_level", {"TIMESTAMPS"}}, {"trace_rate", {"1"}}, {"trace_count", {"2"}}}).ok());
    auto unary =
        bench.open_rest("POST", "/v2/models/add/infer",
                        R"({"id":"one","inputs":[{"name":"a","datatype":"INT32","shape":[1,2],"data":[1,2]}]})");
    auto stream = bench.open_grpc("ModelStreamInfer");
    bench.wire.data(*stream, support::grpc_frame(add_request(1, 2, "two").SerializeAsString()));
    bench.turn();
    ASSERT_EQ(bench.inbox("add").held.size(), 2u);
    unary.reset();
    stream.reset();
    bench.traces.write_to(nullptr);
  }
  const json traces = json::parse(place.text());
  ASSERT_EQ(traces.size(), 4u);
  EXPECT_EQ(traces.at(0).at("request_id"), "one");
  EXPECT_EQ(traces.at(2).at("request_id"), "two");
  for (const auto& time : traces.at(1).at("timestamps")) EXPECT_NE(time.at("name"), "QUEUE_START");
}

TEST(OipTrace, AFileThatIsFullIsAWholeOne) {
  TracePath place;
  base::Metrics metrics;
  TracedTensors none;
  const FinishedTrace trace{1, "m", "1", "r", "oip-rest", nullptr, &none};
  {
    auto file = TraceFile::open(place.path, 200, metrics).value();
    testing::internal::CaptureStderr();
    for (int i = 0; i < 100; ++i) file->put(trace);
    testing::internal::GetCapturedStderr();
  }
  const size_t written = json::parse(place.text()).size();
  EXPECT_GT(written, 1u);
  EXPECT_LT(written, 5u);
  EXPECT_FALSE(TraceFile::open("/nowhere/at/all", 200, metrics));
  EXPECT_FALSE(TraceFile::open("-", 200, metrics));
}

TEST(OipTrace, APipeThatNobodyReadsYetHoldsNothingUp) {
  TracePath place;
  ASSERT_EQ(::mkfifo(place.path.c_str(), 0600), 0);
  base::Metrics metrics;
  TracedTensors none;
  auto file = TraceFile::open(place.path, 10, metrics).value();
  file->put({1, "m", "1", "r", "oip-rest", nullptr, &none});
  const int reader = ::open(place.path.c_str(), O_RDONLY);
  ASSERT_GE(reader, 0);
  file.reset();
  std::string got(1 << 16, 0);
  const ssize_t n = ::read(reader, got.data(), got.size());
  ::close(reader);
  EXPECT_EQ(json::parse(got.substr(0, size_t(n))).at(0).at("id"), 1);
}

TEST(OipTrace, TensorsAreChargedAndThoseWithoutMemoryAreLeftOutAndCounted) {
  base::MemoryLedger memory(12 << 10);  // one of them
  base::Metrics metrics;
  OipBench bench;
  bench.traces.charge_to(memory, metrics);
  ASSERT_TRUE(bench.traces.begin_with({{"trace_level", {"TENSORS"}}, {"trace_rate", {"1"}}}).ok());
  const auto text = base::Bytes::copy_of(std::string("\0\x10\0\0", 4) + std::string(4096, 'a'));
  std::vector<msg::Tensor> tensors(3, {"t", msg::DType::kBytes, {1}, text});
  {
    auto traced = bench.traces.begin("add");
    traced->tensors.add("TENSOR_QUEUE_INPUT", tensors);
    EXPECT_EQ(traced->tensors.all().size(), 1u);
    EXPECT_EQ(traced->tensors.left_out(), 2u);
    EXPECT_GT(memory.held(base::MemoryKind::kDecoding), 4096u);
    testing::internal::CaptureStderr();
    bench.traces.finished(*traced, "add", msg::Call(), "oip-rest", base::Code::kOk);
    testing::internal::GetCapturedStderr();
  }
  EXPECT_EQ(memory.held(base::MemoryKind::kDecoding), 0u);
  EXPECT_NE(metrics.text().find("weir_trace_tensors_dropped_total 2\n"), std::string::npos);
}

// A reader that stops for longer than the writer waits: a trace is cut short, and others are lost.
TEST(OipTrace, AFileFromWhichTracesWereLostIsAWholeOne) {
  TracePath place;
  ASSERT_EQ(::mkfifo(place.path.c_str(), 0600), 0);
  const int reader = ::open(place.path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  base::Metrics metrics;
  TracedTensors large, none;  // more than a pipe holds
  const auto text = base::Bytes::copy_of(std::string("\0\x10\0\0", 4) + std::string(4096, 'a'));
  large.add("TENSOR_QUEUE_INPUT", std::vector<msg::Tensor>(32, {"t", msg::DType::kBytes, {1}, text}));
  std::string got;
  testing::internal::CaptureStderr();
  auto file = TraceFile::open(place.path, 1 << 30, metrics).value();
  for (uint64_t id : {1, 2, 3}) file->put({id, "m", "1", "r", "oip-rest", nullptr, &large});
  while (metrics.text().find("weir_trace_file_dropped_total 2\n") == std::string::npos) std::this_thread::yield();
  ::fcntl(reader, F_SETFL, 0);
  std::thread reads([&] {
    std::string buffer(1 << 16, 0);
    for (ssize_t n; (n = ::read(reader, buffer.data(), buffer.size())) > 0;) got.append(buffer, 0, size_t(n));
  });
  file->put({4, "m", "1", "r", "oip-rest", nullptr, &none});
  file.reset();
  reads.join();
  testing::internal::GetCapturedStderr();
  ::close(reader);
  json traces, lost;
  for (const auto& element : json::parse(got))
    if (element.contains("model_name"))
      traces.push_back(element.at("id"));
    else if (element.contains("dropped"))
      lost.push_back(element);
  EXPECT_EQ(traces, json({1, 4}));
  EXPECT_EQ(lost, json::parse(R"([{"id":0,"dropped":2}])"));
}

}  // namespace
}  // namespace weir::oip
