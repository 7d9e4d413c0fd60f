#include <gtest/gtest.h>

#include "base/log.h"
#include "bus/memory_use.h"
#include "requests.h"
#include "support/model_spec.h"
#include "wire/coding.h"

namespace weir::oip {
namespace {

using base::Code;

// ---- Binary tensors over REST

TEST(OipRest, BinaryInputsFollowTheJsonAndAliasTheBody) {
  OipBench bench;
  std::string json = R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
                     R"({"name":"y","shape":[1],"datatype":"INT32","data":[7]},)"
                     R"({"name":"z","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]})";
  std::string body = json + floats({1, 2, 3});
  auto x = bench.open_rest("POST", "/v2/models/any/infer", body,
                           {{"inference-header-content-length", std::to_string(json.size())}});
  auto& inbox = bench.inbox("any");
  ASSERT_EQ(inbox.held.size(), 1u);
  EXPECT_EQ(inbox.seen[0], "any/1 rows=1 | x FP32 [2] [1.0,2.0] | y INT32 [1] [7] | z FP32 [1] [3.0]");
  EXPECT_EQ(inbox.held[0]->inputs[0].data.data(), x->content().data() + json.size());
}

TEST(OipRest, BinaryOutputsFollowTheirJson) {
  OipBench bench;
  bench.inbox("any").script.push_back(outputs("p FP32 [2] [1,2]; q BYTES [1] [\"hi\"]"));
  for (
      std::string body :
      {R"({"parameters":{"binary_data_output":true},"inputs":[]})",
       R"({"inputs":[],"outputs":[{"name":"p","parameters":{"binary_data":true}},{"name":"q","parameters":{"binary_data":true}}]})"}) {
    auto a = bench.rest("POST", "/v2/models/any/versions/1/infer", body);
    EXPECT_EQ(a.status, 200);
    EXPECT_EQ(a.type, "application/octet-stream");
    std::string json =
        R"({"model_name":"any","model_version":"1","outputs":[{"name":"p","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
        R"({"name":"q","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6}}]})";
    EXPECT_EQ(a.header_length, std::to_string(json.size()));
    EXPECT_EQ(a.body, json + floats({1, 2}) + std::string("\2\0\0\0hi", 6));
  }
  auto mixed = bench.rest("POST", "/v2/models/any/infer",
                          R"({"parameters":{"binary_data_output":true},"inputs":[],"outputs":[)"
                          R"({"name":"p","parameters":{"binary_data":false}},{"name":"q"}]})");
  EXPECT_TRUE(mixed.body.find("\"data\":[1.0,2.0]") != std::string::npos) << mixed.body;
  EXPECT_TRUE(mixed.body.ends_with(std::string("\2\0\0\0hi", 6)));
}

TEST(OipRest, BinaryRepliesAreCompressedWhenAskedFor) {
  OipBench bench;
  msg::Outputs big;
  big.tensors.push_back({"p", msg::DType::kUint8, {100000}, base::Bytes::adopt(std::string(100000, 'a'))});
  bench.inbox("any").script.push_back({big});
  auto x = bench.open_rest("POST", "/v2/models/any/infer", R"({"parameters":{"binary_data_output":true},"inputs":[]})",
                           {{"accept-encoding", "gzip"}});
  EXPECT_EQ(x->response.fields.find("content-encoding"), "gzip");
  EXPECT_EQ(x->response.fields.find("content-length"), std::to_string(x->sent.size()));
  base::Bytes whole;
  auto in = std::as_bytes(std::span(x->sent));
  ASSERT_EQ(wire::inflate_whole(wire::Coding::kGzip, in, {.ratio = 10000}, base::heap(), &whole), wire::Inflate::kDone);
  EXPECT_TRUE(whole.view().ends_with(std::string(100000, 'a')));
}

TEST(OipRest, BinaryRepliesThatWouldKeepOthersWaitingGoOutAsTheyAre) {
  OipBench bench;
  msg::Outputs big;
  big.tensors.push_back({"p", msg::DType::kUint8, {2 << 20}, base::Bytes::adopt(std::string(2 << 20, 'a'))});
  bench.inbox("any").script.push_back({big});
  auto x = bench.open_rest("POST", "/v2/models/any/infer", R"({"parameters":{"binary_data_output":true},"inputs":[]})",
                           {{"accept-encoding", "gzip"}});
  EXPECT_FALSE(x->response.fields.has("content-encoding"));
  EXPECT_GT(x->sent.size(), 2u << 20);
}

TEST(OipRest, BadBinaryLengthsAreRefused) {
  OipBench bench;
  auto infer = [&](std::string json, std::string tail, std::string header) {
    return bench.rest("POST", "/v2/models/any/infer", json + tail, {{"inference-header-content-length", header}}).body;
  };
  std::string json = R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}]})";
  std::string n = std::to_string(json.size());
  EXPECT_EQ(infer(json, "1234", n),
            R"({"error":"input 'x': 'binary_data_size' is 8, but only 4 bytes are left behind the JSON"})");
  EXPECT_EQ(infer(json, "123456789", n), R"({"error":"1 bytes follow the binary data of the inputs"})");
  for (auto bad : {"-1", "99999", "x", "", "18446744073709551616", "5 "})
    EXPECT_EQ(infer(json, "12345678", bad),
              R"({"error":"Inference-Header-Content-Length takes a number of bytes within the body"})");
  EXPECT_TRUE(bench.inbox("any").seen.empty());
}

TEST(OipRest, ARawBodyIsTheOneInput) {
  OipBench bench;
  bench.inbox("blob").script.push_back(outputs("y FP32 [1] [9]"));
  bench.inbox("text").script.push_back(outputs("t BYTES [1] [\"ok\"]"));
  bench.inbox("digits").script.push_back(outputs("p FP32 [2,3] [1,2,3,4,5,6]"));
  OipBench::Headers raw{{"inference-header-content-length", "0"}};
  auto a = bench.rest("POST", "/v2/models/blob/infer", floats({1, 2, 3, 4}), raw);
  EXPECT_EQ(bench.inbox("blob").seen.back(), "blob/1 rows=1 | x FP32 [2,2] [1.0,2.0,3.0,4.0]");
  EXPECT_EQ(a.type, "application/octet-stream");
  EXPECT_TRUE(a.body.ends_with(floats({9})));
  bench.rest("POST", "/v2/models/text/infer", "any bytes", raw);
  EXPECT_EQ(bench.inbox("text").seen.back(), "text/1 rows=1 | s BYTES [1] [\"any bytes\"]");
  bench.rest("POST", "/v2/models/digits/infer", floats({1, 2, 3, 4}), raw);
  EXPECT_EQ(bench.inbox("digits").seen.back(), "digits/1 rows=2 | image FP32 [2,2] [1.0,2.0,3.0,4.0]");
  EXPECT_EQ(bench.rest("POST", "/v2/models/digits/infer", "12345", raw).status, 400);
  auto one = bench.open_rest("POST", "/v2/models/add/infer", std::string("\1\0\0\0\2\0\0\0", 8), raw);
  EXPECT_EQ(bench.inbox("add").seen.back(), "add/1 rows=1 | a INT32 [1,2] [1,2]") << "its other input is optional";
}

TEST(OipRest, AClientThatLeavesCancelsItsCall) {
  OipBench bench;
  auto x = bench.open_rest("POST", "/v2/models/any/infer", R"({"inputs":[]})");
  auto& inbox = bench.inbox("any");
  msg::Call* call = inbox.held.at(0);
  x.reset();
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(inbox.pokes, 1);
  EXPECT_EQ(bench.bus.in_flight(), 1u);
  inbox.finish(call, outputs("o FP32 [1] [1]"));
  bench.turn();
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST(OipRest, TheLedgerKnowsModelCodeAndTimes) {
  OipBench bench;
  bench.inbox("any").script.push_back(outputs("o FP32 [1] [1]"));
  auto x = bench.open_rest("POST", "/v2/models/any/infer", R"({"inputs":[]})");
  EXPECT_EQ(x->record().protocol, "oip-rest");
  EXPECT_EQ(x->record().model, "any");
  EXPECT_EQ(x->record().queue, std::chrono::microseconds(10));
  EXPECT_EQ(x->record().compute, std::chrono::microseconds(30));
  auto unknown = bench.open_rest("POST", "/v2/models/nothing/infer", R"({"inputs":[]})");
  EXPECT_EQ(unknown->record().model, "");  // never a client's word
  EXPECT_EQ(unknown->record().code, Code::kNotFound);
}

TEST(OipRest, AStreamIsOneEventPerAnswer) {
  OipBench bench;
  auto& inbox = bench.inbox("flow");
  std::string body = R"({"id":"s","inputs":[{"name":"n","shape":[1],"datatype":"INT32","data":[2]}]})";
  auto x = bench.open_rest("POST", "/v2/models/flow/infer_stream", body);
  msg::Call* call = inbox.held.at(0);
  EXPECT_EQ(call->credit.load(), 64);
  inbox.post(call, outputs("o INT32 [1] [1]", false));
  bench.turn();
  EXPECT_EQ(x->response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  std::string event =
      R"(data: {"model_name":"flow","model_version":"1","id":"s","outputs":[{"name":"o","datatype":"INT32","shape":[1],"data":[1]}]})";
  EXPECT_EQ(x->sent, event + "\n\n");
  EXPECT_FALSE(x->ended);
  inbox.finish(call, {msg::Failed{base::failure(Code::kInternal, "broke")}});
  bench.turn();
  EXPECT_EQ(x->sent, event + "\n\ndata: {\"error\":\"broke\"}\n\n");
  EXPECT_TRUE(x->ended);
}

// ---- Everything else over REST

TEST(OipRest, HealthHasAJsonBodyAndABareType) {
  OipBench bench;
  auto expect = [&](std::string target, int status, std::string body) {
    auto a = bench.rest("GET", target);
    EXPECT_EQ(a.status, status) << target;
    EXPECT_EQ(a.body, body);
    EXPECT_EQ(a.type, "application/json");
  };
  expect("/v2/health/live", 200, R"({"live":true})");
  expect("/v2/health/ready", 200, R"({"ready":true})");
  expect("/v2/models/add/ready", 200, R"({"name":"add","ready":true})");
  expect("/v2/models/add/versions/1/ready", 200, R"({"name":"add","ready":true})");
  expect("/v2/models/broken/ready", 400,
         R"({"name":"broken","ready":false,"error":"model 'broken' version 1 is not ready: the file is cut"})");
  expect("/v2/models/ad/ready", 404,
         R"({"error":"Request for unknown model: 'ad' is not found; did you mean 'add'?"})");
  expect("/v2/models/add/versions/9/ready", 404,
         R"({"error":"Request for unknown model: 'add' version 9 is not found; it serves 1"})");
  bench.control.not_ready = "1 of 2 models is not ready: 'broken' version 1: \"cut\"";
  expect("/v2/health/live", 200, R"({"live":true})");
  expect("/v2/health/ready", 400,
         R"({"ready":false,"error":"1 of 2 models is not ready: 'broken' version 1: \"cut\""})");
  expect("/v2/models/add/ready", 200, R"({"name":"add","ready":true})");  // whatever becomes of others
  bench.control.is_accepting = false;
  expect("/v2/models/add/ready", 400, R"({"name":"add","ready":false,"error":"the server is not ready"})");
}

TEST(OipRest, ASlashBehindTheRootIsTheRoot) {
  OipBench bench;
  EXPECT_EQ(bench.rest("GET", "/v2/").body, bench.rest("GET", "/v2").body);
  EXPECT_EQ(bench.rest("GET", "/v2/").status, 200);
}

TEST(OipRest, OnlyWhatModelsMakeIsCompressed) {
  OipBench bench;
  auto& add = bench.served("add");
  for (int i = 0; i < 100; ++i) add.spec.parameters["parameter" + std::to_string(i)] = "a value that repeats itself";
  OipBench::Headers gzip{{"accept-encoding", "gzip, deflate"}};
  for (const char* path : {"/v2", "/v2/models/add", "/v2/models/add/config", "/v2/models/stats", "/v2/logging"}) {
    auto x = bench.open_rest("GET", path, "", gzip);
    EXPECT_EQ(x->response.status, 200) << path;
    EXPECT_FALSE(x->response.fields.has("content-encoding")) << path;
    EXPECT_EQ(x->sent.front(), '{') << path;
  }
  EXPECT_GT(bench.rest("GET", "/v2/models/add/config").body.size(), 2000u) << "else nothing was worth it";
  for (const char* path : {"/v2/models/any/infer", "/v2/models/any/generate"}) {
    bool infer = std::string_view(path).ends_with("infer");
    auto x = bench.open_rest(
        "POST", path, infer ? R"({"inputs":[{"name":"i","shape":[1],"datatype":"INT32","data":[1]}]})" : "{}", gzip);
    auto& inbox = bench.inbox("any");
    std::string zeros = "0";
    for (int i = 1; i < 2000; ++i) zeros += ",0";
    inbox.finish(inbox.held.at(0), outputs("o INT32 [2000] [" + zeros + "]"));
    bench.turn();
    EXPECT_EQ(x->response.fields.find("content-encoding"), "gzip") << path << ' ' << x->sent.substr(0, 200);
  }
}

TEST(OipRest, ARawBodyThatIsNoWholeRowsSaysHowManyBytesARowTakes) {
  OipBench bench;
  auto a = bench.rest("POST", "/v2/models/digits/infer", "x", {{"inference-header-content-length", "0"}});
  EXPECT_EQ(a.status, 400);
  EXPECT_EQ(a.body,
            R"({"error":"input 'image' is FP32 [-1,2]: the body must have a multiple of 8 bytes, but has 1 byte"})");
}

TEST(OipRest, MetadataConfigAndIndex) {
  OipBench bench;
  EXPECT_EQ(
      bench.rest("GET", "/v2").body,
      R"({"name":"weir","version":"1.2.3","extensions":["classification","model_repository",)"
      R"x("model_repository(unload_dependents)","schedule_policy","sequence","sequence(string_id)","model_configuration",)x"
      R"("binary_tensor_data","parameters","statistics","trace","logging","generate",)"
      R"("system_shared_memory"]})");
  EXPECT_EQ(bench.rest("GET", "/v2/models").body, R"({"models":["add","any","blob","digits","flow","text"]})");
  EXPECT_EQ(bench.rest("GET", "/v2/models/digits").body,
            R"({"name":"digits","versions":["1"],"platform":"onnxruntime_onnx",)"
            R"("inputs":[{"name":"image","datatype":"FP32","shape":[-1,2]}],)"
            R"("outputs":[{"name":"p","datatype":"FP32","shape":[-1,3]}],"properties":{}})");
  auto config = bench.rest("GET", "/v2/models/add/config").body;
  for (auto part :
       {R"("max_batch_size":4)", R"("data_type":"TYPE_INT32")", R"("dims":[2])", R"("backend":"onnxruntime")",
        R"("kind":"KIND_MODEL")", R"("decoupled":false)", R"("optional":true)", R"("data_type":"TYPE_STRING")"})
    EXPECT_NE(config.find(part), config.npos) << part << " in " << config;
  EXPECT_EQ(config.find("dynamic_batching"), config.npos);
  EXPECT_EQ(bench.rest("POST", "/v2/repository/index", R"({"ready":false})").body.substr(0, 70),
            R"([{"name":"add","version":"1","state":"READY","reason":""},{"name":"dig)");
  auto ready = bench.rest("POST", "/v2/repository/index", R"({"ready":true})").body;
  EXPECT_EQ(ready.find("broken"), ready.npos);
  EXPECT_NE(bench.rest("POST", "/v2/repository/index").body.find("the file is cut"), ready.npos);
  EXPECT_EQ(bench.rest("POST", "/v2/repository/index", "nonsense").status, 400);
  EXPECT_EQ(bench.rest("GET", "/v2/models/broken/config").status, 503);
}

TEST(OipRest, StatisticsHaveAllDurationsAsNumbers) {
  OipBench bench;
  auto& stats = bench.served("add").stats;
  stats.inference_count.add(5);
  stats.success.add(12345678901, 5);
  stats.record_batch(4, 1, 2, 3);
  auto body = bench.rest("GET", "/v2/models/add/stats").body;
  EXPECT_NE(body.find(R"("success":{"count":5,"ns":12345678901})"), body.npos) << body;
  for (auto name :
       {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"})
    EXPECT_NE(body.find("\"" + std::string(name) + "\":{\"count\":"), body.npos) << name;
  EXPECT_NE(body.find(R"("batch_stats":[{"batch_size":4,)"), body.npos) << body;
  auto all = bench.rest("GET", "/v2/models/stats").body;
  EXPECT_NE(all.find(R"("name":"text")"), all.npos);
}

TEST(OipRest, AWorkerWritesTheStatisticsOfManyModels) {
  OipBench bench;
  EXPECT_EQ(bench.rest("GET", "/v2/models/stats").status, 200);
  EXPECT_EQ(bench.offload.sent, 0u);
  for (int i = 0; i < 300; ++i) bench.models.add(support::model_spec("many-" + std::to_string(i), {}, {}));
  bench.bus.publish(bench.models.catalog);
  auto opened = bench.open_rest("GET", "/v2/models/stats");
  EXPECT_FALSE(opened->responding());
  bench.offload.work();
  const auto answer = OipBench::answer(*opened);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.type, "application/json");
  EXPECT_TRUE(answer.body.starts_with("{\"model_stats\":[{\"name\":\"add\"")) << answer.body.substr(0, 100);
  EXPECT_NE(answer.body.find("\"name\":\"many-299\""), std::string::npos);
}

struct MemoryInbox final : msg::Inbox, bus::TellsMemory {
  void put(msg::Call*) override {}
};

TEST(OipRest, StatisticsHaveTheMemoryOfEachPlaceAsTritonReportsIt) {
  std::unique_ptr<msg::Inbox> scripted;  // the bench has a pointer to it until its end
  OipBench bench;
  auto inbox = std::make_unique<MemoryInbox>();
  inbox->set_memory(
      {{"weights", "cuda:1", 100}, {"weights", "cpu", 30}, {"kv", "cuda:1", 5'000'000'000}, {"kv", "cpu", 7}});
  scripted = std::exchange(bench.served("add").inbox, std::move(inbox));
  auto body = bench.rest("GET", "/v2/models/add/stats").body;
  EXPECT_NE(body.find(R"("memory_usage":[{"type":"CPU","id":0,"byte_size":37},)"
                      R"({"type":"GPU","id":1,"byte_size":5000000100}])"),
            body.npos)
      << body;
}

TEST(OipRest, LoadAndUnloadAnswerWhenTheyAreDone) {
  OipBench bench;
  auto x = bench.open_rest("POST", "/v2/repository/models/add/load",
                           R"({"parameters":{"config":"{}","file:1/model.onnx":"AAEC"}})");
  EXPECT_FALSE(x->headed);
  EXPECT_EQ(bench.control.asked[0], "load add config={} file:1/model.onnx=" + std::string("\0\1\2", 3));
  bench.control.waiting[0]({});
  EXPECT_EQ(x->sent, R"({"name":"add","load":true})");
  auto y =
      bench.open_rest("POST", "/v2/repository/main/models/add/unload", R"({"parameters":{"unload_dependents":true}})");
  EXPECT_EQ(bench.control.asked[1], "unload add and dependents");
  bench.control.waiting[1](base::failure(Code::kUnavailable, "busy"));
  EXPECT_EQ(y->response.status, 503);
  EXPECT_EQ(y->sent, R"({"error":"busy"})");
  auto gone = bench.open_rest("POST", "/v2/repository/models/add/load");
  gone.reset();
  bench.control.waiting[2]({});  // nobody is there any more
  for (auto name : {"..", "a%2Fb", ".hidden", "a%20b", "%00"})
    EXPECT_EQ(bench.rest("POST", "/v2/repository/models/" + std::string(name) + "/load").status, 400) << name;
  EXPECT_EQ(bench.control.asked.size(), 3u);
}

TEST(OipRest, LogSettingsWorkAtRunTime) {
  OipBench bench;
  auto a = bench.rest("POST", "/v2/logging", R"({"log_info":false,"log_verbose_level":2})");
  EXPECT_EQ(
      a.body,
      R"({"log_file":"","log_info":false,"log_warning":true,"log_error":true,"log_verbose_level":2,"log_format":"default"})");
  EXPECT_FALSE(base::log::enabled(base::log::Level::kInfo));
  auto file = bench.rest("POST", "/v2/logging", R"({"log_file":"/tmp/x"})");
  EXPECT_EQ(file.status, 501);
  EXPECT_TRUE(file.body.starts_with(R"({"error":"log file location can not be updated through network protocol: )"));
  EXPECT_EQ(bench.rest("POST", "/v2/logging", R"({"log_info":true,"log_error":1})").status, 400);
  EXPECT_FALSE(base::log::enabled(base::log::Level::kInfo));  // all or nothing
  bench.rest("POST", "/v2/logging", R"({"log_info":true,"log_verbose_level":0})");
  EXPECT_EQ(bench.rest("GET", "/v2/logging").status, 200);
}

// Triton has the first two: its clients compare what they set with what they read.
TEST(OipRest, ALogFormatIsReadBackAsItWasSet) {
  OipBench bench;
  for (std::string word : {"ISO8601", "JSON", "default"}) {
    const std::string wanted = "\"log_format\":\"" + word + '"';
    auto set = bench.rest("POST", "/v2/logging", '{' + wanted + '}');
    EXPECT_EQ(set.status, 200) << word;
    EXPECT_NE(set.body.find(wanted), std::string::npos) << set.body;
    EXPECT_NE(bench.rest("GET", "/v2/logging").body.find(wanted), std::string::npos) << word;
  }
}

TEST(OipRest, TraceSettingsAreServerWideOrPerModel) {
  OipBench bench;
  std::string off =
      R"({"log_frequency":"0","trace_count":"-1","trace_file":"","trace_level":["OFF"],"trace_mode":"triton","trace_rate":"1000"})";
  EXPECT_EQ(bench.rest("GET", "/v2/trace/setting").body, off);
  auto a = bench.rest("POST", "/v2/models/add/trace/setting",
                      R"({"trace_level":["TIMESTAMPS"],"trace_rate":1,"trace_count":"2"})");
  EXPECT_EQ(
      a.body,
      R"({"log_frequency":"0","trace_count":"2","trace_file":"","trace_level":["TIMESTAMPS"],"trace_mode":"triton","trace_rate":"1"})");
  EXPECT_EQ(bench.rest("GET", "/v2/trace/setting").body, off);
  bench.inbox("add").script.push_back(outputs("sum INT32 [1,2] [1,2]"));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) bench.grpc("ModelInfer", add_request(1, 2).SerializeAsString());
  EXPECT_EQ(bench.traces.settings("add").at("trace_count")[0], "0");
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      bench.rest("POST", "/v2/models/add/trace/setting", R"({"trace_level":null,"trace_rate":[],"trace_count":null})")
          .body,
      off);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", off).body, off);  // what it says may be sent back
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"trace_file":null,"log_frequency":[]})").body, off);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"trace_file":"/tmp/traces"})").status, 501);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"trace_mode":"opentelemetry"})").status, 501);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"trace_level":["TENSOR"]})").status, 400);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"trace_rate":"0"})").status, 400);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"nonsense":"0"})").status, 400);
}

TEST(OipRest, SharedMemoryThatIsOffIsRefusedAndHasNoRegions) {
  OipBench bench;
  bench.sharing = Sharing::kNobody;
  EXPECT_EQ(bench.rest("GET", "/v2/systemsharedmemory/status").body, "[]");
  EXPECT_EQ(bench.rest("POST", "/v2/systemsharedmemory/unregister").status, 200);
  EXPECT_EQ(bench.rest("GET", "/v2/cudasharedmemory/status").body, "[]");
  EXPECT_EQ(bench.rest("POST", "/v2/cudasharedmemory/unregister").status, 200);
  auto refused = bench.rest("POST", "/v2/systemsharedmemory/region/r/register", R"({"key":"/r","byte_size":1})");
  EXPECT_EQ(refused.status, 501);
  EXPECT_EQ(refused.body, R"x({"error":"shared memory is off (oip.shared_memory)"})x");
  EXPECT_EQ(bench.rest("GET", "/v2").body.find("system_shared_memory"), std::string::npos);
}

}  // namespace
}  // namespace weir::oip
