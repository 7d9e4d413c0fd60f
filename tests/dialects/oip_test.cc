#include "dialects/oip/oip.h"

#include <gtest/gtest.h>

#include <random>

#include "base/log.h"
#include "dialects/oip/pb_infer.h"
#include "inference.pb.h"
#include "marshal/pb_wire.h"
#include "oip_bench.h"
#include "wire/coding.h"

namespace weir::oip {
namespace {

using base::Code;
using std::chrono_literals::operator""ms;

std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inference::ModelInferRequest add_request(int32_t a, int32_t b, std::string id = "") {
  inference::ModelInferRequest r;
  r.set_model_name("add");
  r.set_id(id);
  auto& in = *r.add_inputs();
  in.set_name("a");
  in.set_datatype("INT32");
  in.add_shape(1);
  in.add_shape(2);
  in.mutable_contents()->add_int_contents(a);
  in.mutable_contents()->add_int_contents(b);
  return r;
}

inference::ModelInferRequest flow_request(std::string id) {
  auto r = add_request(1, 2, std::move(id));
  r.set_model_name("flow");
  r.mutable_inputs(0)->set_name("n");
  r.mutable_inputs(0)->clear_shape();
  r.mutable_inputs(0)->add_shape(1);
  r.mutable_inputs(0)->mutable_contents()->mutable_int_contents()->Truncate(1);
  return r;
}

msg::Event outputs(std::string_view tensors, bool final = true) {
  return {msg::Outputs{parse_tensors(tensors), {}, final}};
}

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
  EXPECT_EQ(bench.rest("POST", "/v2/models/add/infer", "12345678", raw).body,
            R"({"error":"a raw request needs a model with one input; 'add' has 2"})");
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
  EXPECT_EQ(x->ledger().protocol, "oip-rest");
  EXPECT_EQ(x->ledger().model, "any");
  EXPECT_EQ(x->ledger().queue, std::chrono::microseconds(10));
  EXPECT_EQ(x->ledger().compute, std::chrono::microseconds(30));
  auto unknown = bench.open_rest("POST", "/v2/models/nothing/infer", R"({"inputs":[]})");
  EXPECT_EQ(unknown->ledger().model, "");  // never a client's word
  EXPECT_EQ(unknown->ledger().code, Code::kNotFound);
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
  expect("/v2/models/ad/ready", 404, R"({"error":"Request for unknown model 'ad': did you mean 'add'?"})");
  expect("/v2/models/add/versions/9/ready", 404, R"({"error":"model 'add' has no version '9'; it serves 1"})");
  bench.control.is_ready = false;
  expect("/v2/health/live", 200, R"({"live":true})");
  expect("/v2/health/ready", 400, R"({"ready":false,"error":"the server is not ready"})");
}

TEST(OipRest, MetadataConfigAndIndex) {
  OipBench bench;
  EXPECT_EQ(bench.rest("GET", "/v2").body,
            R"({"name":"weir","version":"1.2.3","extensions":["classification","model_repository","schedule_policy",)"
            R"("model_configuration","binary_tensor_data","parameters","statistics","trace","logging","generate"]})");
  EXPECT_EQ(bench.rest("GET", "/v2/models").body, R"({"models":["add","any","blob","digits","flow","text"]})");
  EXPECT_EQ(bench.rest("GET", "/v2/models/digits").body,
            R"({"name":"digits","versions":["1"],"platform":"onnxruntime_onnx",)"
            R"("inputs":[{"name":"image","datatype":"FP32","shape":[-1,2]}],)"
            R"("outputs":[{"name":"p","datatype":"FP32","shape":[-1,3]}],"properties":{}})");
  auto config = bench.rest("GET", "/v2/models/add/config").body;
  for (auto part :
       {R"("max_batch_size":4)", R"("data_type":"TYPE_INT32")", R"("dims":[2])", R"("backend":"onnxruntime")",
        R"("kind":"KIND_CPU")", R"("decoupled":false)", R"("optional":true)", R"("data_type":"TYPE_STRING")"})
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
  stats.inference_count = 5;
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
      R"({"log_file":"","log_info":false,"log_warning":true,"log_error":true,"log_verbose_level":2,"log_format":"ISO8601"})");
  EXPECT_FALSE(base::log::enabled(base::log::Level::kInfo));
  EXPECT_EQ(bench.rest("POST", "/v2/logging", R"({"log_file":"/tmp/x"})").status, 501);
  EXPECT_EQ(bench.rest("POST", "/v2/logging", R"({"log_info":true,"log_error":1})").status, 400);
  EXPECT_FALSE(base::log::enabled(base::log::Level::kInfo));  // all or nothing
  bench.rest("POST", "/v2/logging", R"({"log_info":true,"log_verbose_level":0})");
  EXPECT_EQ(bench.rest("GET", "/v2/logging").status, 200);
}

TEST(OipRest, TraceSettingsAreServerWideOrPerModel) {
  OipBench bench;
  std::string off =
      R"({"log_frequency":"0","trace_count":"-1","trace_file":"","trace_level":["OFF"],"trace_rate":"1000"})";
  EXPECT_EQ(bench.rest("GET", "/v2/trace/setting").body, off);
  auto a = bench.rest("POST", "/v2/models/add/trace/setting",
                      R"({"trace_level":["TIMESTAMPS"],"trace_rate":1,"trace_count":"2"})");
  EXPECT_EQ(a.body,
            R"({"log_frequency":"0","trace_count":"2","trace_file":"","trace_level":["TIMESTAMPS"],"trace_rate":"1"})");
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
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"trace_level":["TENSORS"]})").status, 501);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"trace_rate":"0"})").status, 400);
  EXPECT_EQ(bench.rest("POST", "/v2/trace/setting", R"({"nonsense":"0"})").status, 400);
}

TEST(OipRest, SharedMemoryIsNotOffered) {
  OipBench bench;
  EXPECT_EQ(bench.rest("GET", "/v2/systemsharedmemory/status").status, 501);
  EXPECT_EQ(bench.rest("POST", "/v2/cudasharedmemory/region/r/register", "{}").body,
            R"({"error":"shared memory is not offered"})");
}

// ---- The calls of the service

template <class Response, class Request>
Response ask(OipBench& bench, std::string method, const Request& request) {
  auto a = bench.grpc(method, request.SerializeAsString());
  EXPECT_EQ(a.status, 0) << method << ": " << a.body;
  Response out;
  EXPECT_TRUE(a.messages.size() == 1 && out.ParseFromString(a.messages[0])) << method;
  return out;
}

TEST(OipGrpc, HealthMetadataAndStatistics) {
  OipBench bench;
  using namespace inference;
  EXPECT_TRUE(ask<ServerLiveResponse>(bench, "ServerLive", ServerLiveRequest()).live());
  EXPECT_TRUE(ask<ServerReadyResponse>(bench, "ServerReady", ServerReadyRequest()).ready());
  ModelReadyRequest ready;
  ready.set_name("add");
  EXPECT_TRUE(ask<ModelReadyResponse>(bench, "ModelReady", ready).ready());
  for (auto name : {"broken", "nothing"}) {
    ready.set_name(name);
    EXPECT_FALSE(ask<ModelReadyResponse>(bench, "ModelReady", ready).ready());
  }
  EXPECT_EQ(ask<ServerMetadataResponse>(bench, "ServerMetadata", ServerMetadataRequest()).extensions_size(), 10);
  ModelMetadataRequest metadata;
  metadata.set_name("add");
  auto m = ask<ModelMetadataResponse>(bench, "ModelMetadata", metadata);
  EXPECT_EQ(m.inputs(1).name(), "b");
  EXPECT_EQ(m.inputs(1).shape(0), -1);
  ModelConfigRequest config;
  config.set_name("flow");
  EXPECT_TRUE(ask<ModelConfigResponse>(bench, "ModelConfig", config).config().model_transaction_policy().decoupled());
  EXPECT_EQ(ask<ModelStatisticsResponse>(bench, "ModelStatistics", ModelStatisticsRequest()).model_stats_size(), 6);
  RepositoryIndexRequest index;
  index.set_ready(true);
  EXPECT_EQ(ask<RepositoryIndexResponse>(bench, "RepositoryIndex", index).models_size(), 6);
  EXPECT_EQ(bench.grpc("ModelMetadata", ModelMetadataRequest().SerializeAsString()).status, int(Code::kNotFound));
  EXPECT_EQ(bench.grpc("ModelMetadata", "\xff\xff").status, int(Code::kInvalidArgument));
  EXPECT_EQ(bench.grpc("ModelMetadata", std::string(70000, '\0')).status, int(Code::kInvalidArgument));
}

TEST(OipGrpc, RepositoryAndSettings) {
  OipBench bench;
  using namespace inference;
  RepositoryModelLoadRequest load;
  load.set_model_name("add");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  auto x = bench.open_grpc("RepositoryModelLoad");
  bench.wire.data(*x, support::grpc_frame(load.SerializeAsString()));
  bench.wire.end(*x);
  EXPECT_EQ(bench.control.asked.at(0), "load add config={}");
  EXPECT_FALSE(x->ended);
  bench.control.waiting[0]({});
  EXPECT_EQ(support::grpc_status(*x), 0);
  load.set_model_name("../x");
  EXPECT_EQ(bench.grpc("RepositoryModelLoad", load.SerializeAsString()).status, int(Code::kInvalidArgument));

  LogSettingsRequest log;
  (*log.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  auto set = ask<LogSettingsResponse>(bench, "LogSettings", log);
  EXPECT_EQ(set.settings().at("log_verbose_level").uint32_param(), 1u);
  EXPECT_TRUE(set.settings().at("log_error").bool_param());
  (*log.mutable_settings())["log_verbose_level"].set_uint32_param(0);
  ask<LogSettingsResponse>(bench, "LogSettings", log);
  TraceSettingRequest trace;
  trace.set_model_name("add");
  (*trace.mutable_settings())["trace_rate"].add_value("5");
  EXPECT_EQ(ask<TraceSettingResponse>(bench, "TraceSetting", trace).settings().at("trace_rate").value(0), "5");
  for (auto method : {"SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
                      "CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister"})
    EXPECT_EQ(bench.grpc(method, "").status, int(Code::kUnimplemented)) << method;
}

// ---- ModelInfer

TEST(OipGrpc, RawInputsAliasTheMessageAndLargeOutputsAreNotCopied) {
  inference::ModelInferRequest r;
  r.set_model_name("any");
  auto& in = *r.add_inputs();
  in.set_name("x");
  in.set_datatype("UINT8");
  in.add_shape(10000);
  r.add_raw_input_contents(std::string(10000, 'x'));
  auto message = base::Bytes::adopt(r.SerializeAsString());
  msg::Call call;
  Wishes wishes;
  ASSERT_TRUE(read_infer(message, base::heap(), call, wishes).ok());
  EXPECT_EQ(call.inputs[0].data.slab(), message.slab());
  msg::Parameters none;
  auto pieces = write_infer({"any", "1", "", none, call.inputs}, Envelope::kBare);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].data(), call.inputs[0].data.data());
  std::string whole;
  for (const auto& piece : pieces) whole += piece.view();
  inference::ModelInferResponse reply;
  ASSERT_TRUE(reply.ParseFromString(whole));
  EXPECT_EQ(reply.raw_output_contents(0).size(), 10000u);
  whole.clear();
  for (const auto& piece : write_infer({"any", "1", "", none, call.inputs}, Envelope::kStream)) whole += piece.view();
  inference::ModelStreamInferResponse streamed;
  ASSERT_TRUE(streamed.ParseFromString(whole));
  EXPECT_EQ(streamed.infer_response().ShortDebugString(), reply.ShortDebugString());
}

TEST(OipGrpc, SmallMessagesCannotBecomeLargeOnes) {
  auto code = [](std::string_view message) {
    msg::Call call;
    Wishes wishes;
    return read_infer(base::Bytes::copy_of(message), base::heap(), call, wishes);
  };
  std::string inputs, raws, unknown;
  for (int i = 0; i < 257; ++i)
    inputs += std::string(
        "\x2a\x06\x12\x04"
        "BOOL",
        8),
        raws += std::string("\x3a\0", 2);
  EXPECT_EQ(code(inputs).text, "more than 256 inputs");
  EXPECT_EQ(code(raws).text, "more than 256 raw_input_contents");
  for (int i = 0; i < 40000; ++i) unknown += "\x78\x01";
  EXPECT_EQ(code(unknown).text, "more than 64 KiB of unknown fields in ModelInferRequest");
  EXPECT_TRUE(code(std::string_view(unknown).substr(0, 60000)).ok());
  EXPECT_EQ(code("\x0a\x02\xff\xfe").text, "model_name is not UTF-8");
  inference::ModelInferRequest named;
  named.add_inputs()->set_name(std::string(1025, 'n'));
  EXPECT_EQ(code(named.SerializeAsString()).text, "an input's name has at most 1024 bytes");
  EXPECT_EQ(code("\x0a\x7f").text, "malformed protobuf in ModelInferRequest");
}

// Whatever libprotobuf writes is read as libprotobuf would; whatever is broken is refused or at least survived.
TEST(OipGrpc, RandomRequestsAreReadAsLibprotobufReadsThem) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    inference::ModelInferRequest r;
    r.set_model_name("m" + std::to_string(random() % 3));
    if (random() % 2) r.set_id("é");
    if (random() % 2) (*r.mutable_parameters())["k"].set_double_param(0.5);
    if (random() % 2) (*r.mutable_parameters())["i"].set_int64_param(-5);
    for (size_t n = random() % 4; n > 0; --n) {
      auto& in = *r.add_inputs();
      in.set_name("x" + std::to_string(n));
      in.set_datatype("FP32");
      in.add_shape(int64_t(random() % 3));
      r.add_raw_input_contents(std::string(random() % 20, char(random())));
    }
    if (random() % 2) r.add_outputs()->set_name("y");
    std::string bytes = r.SerializeAsString();
    msg::Call call;
    Wishes wishes;
    auto status = read_infer(base::Bytes::copy_of(bytes), base::heap(), call, wishes);
    ASSERT_TRUE(status.ok()) << status.text;
    EXPECT_EQ(call.model, r.model_name());
    EXPECT_EQ(call.id, r.id());
    EXPECT_EQ(call.parameters.size(), size_t(r.parameters_size()));
    ASSERT_EQ(call.inputs.size(), size_t(r.inputs_size()));
    for (int i = 0; i < r.inputs_size(); ++i) {
      EXPECT_EQ(call.inputs[size_t(i)].data.view(), r.raw_input_contents(i));
      EXPECT_EQ(call.inputs[size_t(i)].shape[0], r.inputs(i).shape(0));
    }
    for (int i = 0; i < 5 && !bytes.empty(); ++i) {
      std::string bad = bytes;
      bad[random() % bad.size()] = char(random());
      if (random() % 3 == 0) bad.resize(random() % (bad.size() + 1));
      msg::Call ignored;
      Wishes more;
      auto verdict = read_infer(base::Bytes::copy_of(bad), base::heap(), ignored, more);
      EXPECT_TRUE(verdict.ok() || verdict.code == Code::kInvalidArgument || verdict.code == Code::kUnimplemented);
    }
  }
}

TEST(OipGrpc, ACancelledCallIsAbandoned) {
  OipBench bench;
  auto x = bench.open_grpc("ModelInfer");
  bench.wire.data(*x, support::grpc_frame(add_request(1, 2).SerializeAsString()));
  bench.wire.end(*x);
  auto& inbox = bench.inbox("add");
  msg::Call* call = inbox.held.at(0);
  x.reset();
  EXPECT_TRUE(call->cancelled);
  inbox.finish(call, {msg::Failed{base::failure(Code::kCancelled, "left")}});
  bench.turn();
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST(OipGrpc, TheDeadlineEndsTheCall) {
  OipBench bench;
  auto x = bench.open_grpc("ModelInfer", {{"grpc-timeout", "50m"}});
  bench.wire.data(*x, support::grpc_frame(add_request(1, 2).SerializeAsString()));
  bench.wire.end(*x);
  bench.wire.advance(*x, 60ms);
  EXPECT_EQ(support::grpc_status(*x), int(Code::kDeadlineExceeded));
}

// ---- ModelStreamInfer

class OipStream : public testing::Test {
 protected:
  void open(const OipBench::Headers& headers = {}) { x_ = bench_.open_grpc("ModelStreamInfer", headers); }
  void send(const inference::ModelInferRequest& r) {
    bench_.wire.data(*x_, support::grpc_frame(r.SerializeAsString()));
    bench_.turn();
  }
  // "id:value", "id:error text", with '!' behind final ones.
  std::string heard() {
    std::string out;
    for (const auto& frame : support::grpc_frames(x_->sent)) {
      inference::ModelStreamInferResponse r;
      EXPECT_TRUE(r.ParseFromString(frame.payload));
      if (!out.empty()) out += " ";
      out += r.infer_response().id() + ":";
      if (!r.error_message().empty()) {
        out += r.error_message();
        continue;
      }
      if (r.infer_response().raw_output_contents_size())
        out += std::to_string(int(r.infer_response().raw_output_contents(0)[0]));
      if (r.infer_response().parameters().at("triton_final_response").bool_param()) out += "!";
    }
    return out;
  }
  void answer(std::string model, size_t i, int value, bool final = true) {
    auto& inbox = bench_.inbox(model);
    bool batched = model == "add";
    auto event = outputs(
        (batched ? "sum INT32 [1,2] [" : "o INT32 [1] [") + std::to_string(value) + (batched ? ",0]" : "]"), final);
    final ? inbox.finish(inbox.held.at(i), std::move(event)) : inbox.post(inbox.held.at(i), std::move(event));
    bench_.turn();
  }

  OipBench bench_;
  support::RpcBench::Opened x_;
};

TEST_F(OipStream, OrdinaryAnswersComeInTheOrderOfTheirRequests) {
  open();
  for (auto id : {"a", "b", "c"}) send(add_request(1, 2, id));
  answer("add", 2, 3);
  EXPECT_EQ(heard(), "");
  answer("add", 0, 1);
  EXPECT_EQ(heard(), "a:1!");
  answer("add", 0, 2);
  EXPECT_EQ(heard(), "a:1! b:2! c:3!");
}

TEST_F(OipStream, DecoupledAnswersComeAsTheyAreMade) {
  open();
  send(add_request(1, 2, "slow"));
  send(flow_request("f"));
  answer("flow", 0, 7, false);
  answer("flow", 0, 8, false);
  EXPECT_EQ(heard(), "f:7 f:8");
  auto& inbox = bench_.inbox("flow");
  inbox.finish(inbox.held.at(0), {msg::Done{}});
  bench_.turn();
  EXPECT_EQ(heard(), "f:7 f:8");  // the empty end is not told unless asked for
  answer("add", 0, 1);
  EXPECT_EQ(heard(), "f:7 f:8 slow:1!");
}

TEST_F(OipStream, TheEmptyEndIsToldToThoseWhoAsk) {
  open();
  auto r = flow_request("f");
  (*r.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  send(r);
  send(r);
  answer("flow", 0, 7, false);
  auto& inbox = bench_.inbox("flow");
  inbox.finish(inbox.held.at(0), {msg::Done{}});
  inbox.finish(inbox.held.at(0), {msg::Outputs{{}, {}, true}});
  bench_.turn();
  EXPECT_EQ(heard(), "f:7 f:! f:!");
}

TEST_F(OipStream, AFailureIsAMessageAndTheStreamGoesOn) {
  open();
  send(add_request(1, 2, "a"));
  auto bad = add_request(1, 2, "b");
  bad.mutable_inputs(0)->set_datatype("FP32");
  send(bad);
  EXPECT_EQ(heard(), "");
  answer("add", 0, 1);
  EXPECT_EQ(heard(), "a:1! b:input 'a': FP32 data belongs in fp32_contents, but the contents have int_contents");
  send(add_request(1, 2, "c"));
  auto& inbox = bench_.inbox("add");
  inbox.finish(inbox.held.at(0), {msg::Failed{base::failure(Code::kInternal, "broke")}});
  bench_.turn();
  EXPECT_TRUE(heard().ends_with("c:broke"));
  EXPECT_FALSE(x_->ended);
  bench_.wire.end(*x_);
  EXPECT_EQ(support::grpc_status(*x_), 0);
}

TEST_F(OipStream, TheFirstFailureEndsTheStreamWhenAskedTo) {
  open({{"triton_grpc_error", "true"}});
  send(add_request(1, 2, "a"));
  auto unknown = add_request(1, 2, "b");
  unknown.set_model_name("nothing");
  send(unknown);
  EXPECT_EQ(support::grpc_status(*x_), int(Code::kNotFound));
  EXPECT_TRUE(bench_.inbox("add").held.at(0)->cancelled);
}

TEST_F(OipStream, TheHalfCloseWaitsForAll) {
  open();
  send(add_request(1, 2, "a"));
  send(flow_request("f"));
  bench_.wire.end(*x_);
  answer("add", 0, 1);
  EXPECT_FALSE(x_->ended);
  answer("flow", 0, 2);
  EXPECT_TRUE(x_->ended);
  EXPECT_EQ(heard(), "a:1! f:2!");
  EXPECT_EQ(support::grpc_status(*x_), 0);
  EXPECT_EQ(bench_.bus.in_flight(), 0u);
}

TEST_F(OipStream, CreditComesBackOnlyWhenThePeerDrains) {
  open();
  send(flow_request("f"));
  msg::Call* call = bench_.inbox("flow").held.at(0);
  EXPECT_EQ(call->credit.load(), 64);
  answer("flow", 0, 1, false);
  EXPECT_EQ(call->credit.load(), 65);
  x_->fake_backlog = wire::Exchange::kHighWater + 1;
  answer("flow", 0, 2, false);
  answer("flow", 0, 3, false);
  EXPECT_EQ(call->credit.load(), 65);
  x_->fake_backlog = 0;
  x_->reader()->on_drain(*x_);
  EXPECT_EQ(call->credit.load(), 67);
}

TEST_F(OipStream, AClientThatLeavesCancelsAllItsCalls) {
  open();
  send(add_request(1, 2, "a"));
  send(flow_request("f"));
  x_.reset();
  EXPECT_TRUE(bench_.inbox("add").held.at(0)->cancelled);
  EXPECT_TRUE(bench_.inbox("flow").held.at(0)->cancelled);
}

TEST_F(OipStream, AClientThatOutrunsTheModelIsHeldBack) {
  constexpr size_t kMost = 256, kSent = 300;
  open();
  for (size_t i = 0; i < kSent; ++i) send(add_request(1, 2, std::to_string(i)));
  auto& inbox = bench_.inbox("add");
  EXPECT_EQ(inbox.held.size(), kMost);
  for (size_t i = 0; i < 10; ++i) answer("add", 0, 3);
  bench_.wire.advance(*x_, std::chrono::milliseconds(100));
  EXPECT_EQ(inbox.held.size(), kMost);
  while (!inbox.held.empty()) {
    answer("add", 0, 3);
    bench_.wire.advance(*x_, std::chrono::milliseconds(100));
  }
  EXPECT_EQ(support::grpc_frames(x_->sent).size(), kSent);
  EXPECT_FALSE(x_->ended);
}

// The bench's limit is 600.
TEST_F(OipStream, TheStreamsOfOneConnectionShareALimitAndNoneStarves) {
  std::vector<support::RpcBench::Opened> streams;
  for (int s = 0; s < 4; ++s) {
    open();
    streams.push_back(std::move(x_));
  }
  auto send_to = [&](size_t s) {
    bench_.wire.data(*streams[s], support::grpc_frame(add_request(1, 2, std::to_string(s)).SerializeAsString()));
    bench_.turn();
  };
  for (size_t s = 0; s < 3; ++s)
    for (int i = 0; i < 300; ++i) send_to(s);
  auto& inbox = bench_.inbox("add");
  EXPECT_EQ(inbox.held.size(), 600u);
  send_to(3);
  EXPECT_EQ(inbox.held.size(), 601u) << "a stream that has nothing under way";
  send_to(3);
  EXPECT_EQ(inbox.held.size(), 601u);
  streams[0].reset();  // its client leaves
  for (auto& s : streams)
    if (s) bench_.wire.advance(*s, std::chrono::milliseconds(100));
  size_t left = 0;
  while (!inbox.held.empty()) {
    if (!inbox.held.front()->cancelled) ++left;
    answer("add", 0, 3);
    for (auto& s : streams)
      if (s) bench_.wire.advance(*s, std::chrono::milliseconds(100));
  }
  EXPECT_EQ(left, 602u);
}

}  // namespace
}  // namespace weir::oip
