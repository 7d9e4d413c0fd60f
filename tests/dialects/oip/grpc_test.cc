// The calls of the service but ModelStreamInfer.
#include <gtest/gtest.h>

#include <random>

#include "dialects/oip/pb_infer.h"
#include "marshal/pb_wire.h"
#include "requests.h"

namespace weir::oip {
namespace {

using base::Code;
using std::chrono_literals::operator""ms;

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
  EXPECT_EQ(ask<ServerMetadataResponse>(bench, "ServerMetadata", ServerMetadataRequest()).extensions_size(), 14);
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

TEST(OipGrpc, RequestsOfControlAreBounded) {
  OipBench bench;
  constexpr size_t kMost = 16 << 10, kFields = 4096;
  auto unknown = [](size_t bytes) {  // field 15 of this length, in bytes as a whole
    inference::ModelMetadataRequest named;
    named.set_name("add");
    std::string out = named.SerializeAsString() + "\x7a";
    const size_t size = bytes - out.size() - 3;
    return out + char(0x80 | (size & 0x7f)) + char(0x80 | (size >> 7 & 0x7f)) + char(size >> 14) +
           std::string(size, 'x');
  };
  ASSERT_EQ(unknown(kMost).size(), kMost);
  EXPECT_EQ(bench.grpc("ModelMetadata", unknown(kMost)).status, 0);
  EXPECT_EQ(bench.grpc("ModelMetadata", unknown(kMost + 1)).status, int(Code::kInvalidArgument));
  auto load = [&](std::string_view field, size_t fields) {
    inference::RepositoryModelLoadRequest named;
    named.set_model_name("add");
    std::string message = named.SerializeAsString();
    for (size_t i = 1; i < fields; ++i) message += field;
    auto x = bench.open_grpc("RepositoryModelLoad");
    bench.wire.data(*x, support::grpc_frame(message));
    bench.wire.end(*x);
    return !x->ended;  // it is being loaded
  };
  EXPECT_TRUE(load("\x78\x01", kFields));
  EXPECT_FALSE(load("\x78\x01", kFields + 1));
  EXPECT_FALSE(load(std::string("\x1a\x04\x12\x02\x1a\x00", 6), kFields / 3 + 2)) << "at all depths";
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
  bench.sharing = Sharing::kNobody;
  for (auto method : {"SystemSharedMemoryRegister", "CudaSharedMemoryRegister"})
    EXPECT_EQ(bench.grpc(method, "").status, int(Code::kUnimplemented)) << method;
  for (auto method : {"SystemSharedMemoryStatus", "SystemSharedMemoryUnregister", "CudaSharedMemoryStatus",
                      "CudaSharedMemoryUnregister"})
    EXPECT_EQ(bench.grpc(method, "").messages, std::vector<std::string>{""}) << method;
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
  InferOptions options;
  ASSERT_TRUE(read_infer(message, base::heap(), call, options).ok());
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
    InferOptions options;
    return read_infer(base::Bytes::copy_of(message), base::heap(), call, options);
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

TEST(OipWire, FieldsAreCountedAtEveryDepth) {
  auto code = [](std::string_view message) {
    msg::Call call;
    InferOptions options;
    return read_infer(base::Bytes::copy_of(message), base::heap(), call, options);
  };
  auto many = [](size_t count, uint32_t number) {
    std::string out;
    for (size_t i = 0; i < count; ++i) marshal::put_bytes(out, number, "");
    return out;
  };
  auto within = [](uint32_t number, const std::string& value) {
    std::string out;
    marshal::put_bytes(out, number, value);
    return out;
  };
  const std::string refusal = "more than 65536 fields in ModelInferRequest";
  EXPECT_TRUE(code(many(65'000, 3)).ok());
  EXPECT_EQ(code(many(66'000, 3)).text, refusal);
  EXPECT_EQ(code(within(5, many(66'000, 1))).text, refusal);
  EXPECT_EQ(code(within(5, many(30'000, 1) + within(2, "BOOL")) + many(36'000, 3)).text, refusal) << "together";
  EXPECT_EQ(code(within(4, many(66'000, 1))).text, refusal);
  EXPECT_EQ(code(within(6, many(66'000, 1))).text, refusal);
  inference::ModelInferRequest strings;
  auto& input = *strings.add_inputs();
  input.set_name("s"), input.set_datatype("BYTES"), input.add_shape(70'000);
  for (int i = 0; i < 70'000; ++i) input.mutable_contents()->add_bytes_contents("x");
  EXPECT_TRUE(code(strings.SerializeAsString()).ok()) << "elements are not counted";
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
    InferOptions options;
    auto status = read_infer(base::Bytes::copy_of(bytes), base::heap(), call, options);
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
      InferOptions more;
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

}  // namespace
}  // namespace weir::oip
