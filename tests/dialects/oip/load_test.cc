// Requests to load a model that bring its files with them.
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "bench.h"
#include "inference.pb.h"

namespace weir::oip {
namespace {

using base::Code;

constexpr std::string_view kLoad = "/v2/repository/models/add/load";
const std::string kFile(size_t(1) << 20, '\5');

std::string long_json(std::string_view file) {
  return R"({"parameters":{"config":"{}","file:1/model.onnx":")" + std::string(file) + R"("}})";
}

std::string long_message(std::string_view model = "add") {
  inference::RepositoryModelLoadRequest load;
  load.set_model_name(std::string(model));
  (*load.mutable_parameters())["config"].set_string_param("{}");
  (*load.mutable_parameters())["file:1/model.onnx"].set_bytes_param(kFile);
  return load.SerializeAsString();
}

struct OipLoad : testing::Test {
  support::RpcBench::Opened grpc(std::string_view message) {
    auto x = bench.open_grpc("RepositoryModelLoad");
    bench.wire.data(*x, support::grpc_frame(message));
    bench.wire.end(*x);
    return x;
  }
  OipBench bench;
  const std::string wanted = "load add config={} file:1/model.onnx=" + kFile;
};

TEST_F(OipLoad, AWorkerReadsALongRequest) {
  auto x = bench.open_rest("POST", std::string(kLoad), long_json(base::base64_encode(kFile)));
  ASSERT_EQ(bench.offload.waiting(), 1u);
  EXPECT_TRUE(bench.control.asked.empty());
  bench.offload.work();
  ASSERT_EQ(bench.control.asked.size(), 1u);
  EXPECT_TRUE(bench.control.asked[0] == wanted);
  EXPECT_FALSE(x->headed);
  bench.control.waiting[0]({});
  EXPECT_EQ(x->sent, R"({"name":"add","load":true})");
}

TEST_F(OipLoad, AWorkerReadsALongMessage) {
  auto x = grpc(long_message());
  ASSERT_EQ(bench.offload.waiting(), 1u);
  EXPECT_TRUE(bench.control.asked.empty());
  bench.offload.work();
  ASSERT_EQ(bench.control.asked.size(), 1u);
  EXPECT_TRUE(bench.control.asked[0] == wanted);
  EXPECT_FALSE(x->ended);
  bench.control.waiting[0]({});
  EXPECT_EQ(support::grpc_status(*x), 0);
}

TEST_F(OipLoad, ALongRequestWithMistakesLoadsNothing) {
  auto rest = bench.open_rest("POST", std::string(kLoad), long_json(std::string(1 << 20, '!')));
  auto broken = grpc(long_message() + "\x7a");
  auto elsewhere = grpc(long_message("../x"));
  EXPECT_EQ(bench.offload.waiting(), 3u);
  bench.offload.work();
  EXPECT_EQ(OipBench::answer(*rest).body, R"({"error":"load parameter 'file:1/model.onnx' is not base64"})");
  EXPECT_EQ(support::grpc_status(*broken), int(Code::kInvalidArgument));
  EXPECT_EQ(support::grpc_status(*elsewhere), int(Code::kInvalidArgument));
  EXPECT_TRUE(bench.control.asked.empty());
}

TEST_F(OipLoad, ALongRequestOfAClientThatHasLeftIsNotRead) {
  auto rest = bench.open_rest("POST", std::string(kLoad), long_json(base::base64_encode(kFile)));
  auto rpc = grpc(long_message());
  ASSERT_EQ(bench.offload.waiting(), 2u);
  rest.reset(), rpc.reset();
  EXPECT_EQ(bench.offload.cancelled, 2u);
  EXPECT_TRUE(bench.control.asked.empty());
}

TEST_F(OipLoad, ALongRequestThatNoWorkerTakesIsRefused) {
  bench.offload.refusal = base::failure(Code::kUnavailable, "the workers are busy");
  auto rest = bench.open_rest("POST", std::string(kLoad), long_json(base::base64_encode(kFile)));
  EXPECT_EQ(OipBench::answer(*rest).status, 503);
  EXPECT_EQ(support::grpc_status(*grpc(long_message())), int(Code::kUnavailable));
  EXPECT_TRUE(bench.control.asked.empty());
}

TEST_F(OipLoad, ARequestToUnloadIsSmall) {
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("add");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(true);
  auto x = bench.open_grpc("RepositoryModelUnload");
  bench.wire.data(*x, support::grpc_frame(unload.SerializeAsString()));
  bench.wire.end(*x);
  EXPECT_EQ(bench.control.asked.at(0), "unload add and dependents");
  (*unload.mutable_parameters())["more"].set_string_param(std::string(20'000, 'x'));
  EXPECT_EQ(bench.grpc("RepositoryModelUnload", unload.SerializeAsString()).status, int(Code::kInvalidArgument));
  EXPECT_EQ(bench.control.asked.size(), 1u);
}

}  // namespace
}  // namespace weir::oip
