// Tensors in shared memory: regions, what lies in them, and what their owners do to them meanwhile.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client_object.h"
#include "dialects/oip/shared_memory/shared_inputs.h"
#include "requests.h"
#include "support/held_workers.h"

namespace weir::oip {
namespace {

using base::Code;

struct OipSharedMemory : testing::Test {
  OipBench bench;

  OipBench::Answer enter(const std::string& name, const std::string& key, uint64_t bytes, uint64_t offset = 0) {
    return bench.rest("POST", "/v2/systemsharedmemory/region/" + name + "/register",
                      "{\"key\":\"" + key + "\",\"offset\":" + std::to_string(offset) +
                          ",\"byte_size\":" + std::to_string(bytes) + "}");
  }
  static std::string place(std::string_view region, uint64_t bytes, uint64_t offset = 0) {
    return R"("parameters":{"shared_memory_region":")" + std::string(region) + R"(","shared_memory_byte_size":)" +
           std::to_string(bytes) + R"(,"shared_memory_offset":)" + std::to_string(offset) + "}";
  }
  static std::string input(std::string_view type, size_t count, const std::string& place) {
    return R"({"inputs":[{"name":"x","datatype":")" + std::string(type) + R"(","shape":[)" + std::to_string(count) +
           "]," + place + "}]";
  }
};

TEST_F(OipSharedMemory, RegionsAreRegisteredListedAndUnregistered) {
  ClientObject object(8192);
  EXPECT_EQ(enter("r", object.key(), 4000, 100).status, 200);
  std::string row = R"([{"name":"r","key":")" + object.key() + R"(","offset":100,"byte_size":4000}])";
  EXPECT_EQ(bench.rest("GET", "/v2/systemsharedmemory/status").body, row);
  EXPECT_EQ(bench.rest("GET", "/v2/systemsharedmemory/region/r/status").body, row);
  auto again = enter("r", object.key(), 4000);
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(again.body, R"({"error":"shared memory region 'r' already in manager"})");
  EXPECT_EQ(bench.rest("GET", "/v2/cudasharedmemory/status").body, "[]");
  EXPECT_EQ(bench.rest("GET", "/v2/cudasharedmemory/region/r/status").body,
            R"({"error":"The region named 'r' is registered as system shared memory, not cuda shared memory"})");
  EXPECT_EQ(bench.rest("POST", "/v2/cudasharedmemory/unregister").status, 200);
  EXPECT_EQ(bench.rest("POST", "/v2/systemsharedmemory/region/r/unregister").status, 200);
  EXPECT_EQ(bench.rest("POST", "/v2/systemsharedmemory/region/r/unregister").status, 200);
  EXPECT_EQ(bench.rest("GET", "/v2/systemsharedmemory/region/r/status").status, 404);
  EXPECT_EQ(bench.rest("GET", "/v2").body.find(R"("system_shared_memory")") == std::string::npos, false);
}

TEST_F(OipSharedMemory, OnlyPlainNamesOfRegularObjectsAreOpened) {
  ClientObject object(4096);
  const std::string fifo = "weir_test_fifo_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(("/dev/shm/" + fifo).c_str(), 0600), 0);
  ASSERT_EQ(::symlink("/etc/passwd", ("/dev/shm/" + fifo + "_link").c_str()), 0);
  for (auto& [key, status] : std::vector<std::pair<std::string, int>>{{"", 400},
                                                                      {"/", 400},
                                                                      {"/.", 400},
                                                                      {"/..", 400},
                                                                      {"//x", 400},
                                                                      {"/../etc/passwd", 400},
                                                                      {"/a/b", 400},
                                                                      {"\\u0000", 400},
                                                                      {std::string(256, 'a'), 400},
                                                                      {std::string(1 << 20, 'a'), 400},
                                                                      {"/" + fifo, 400},
                                                                      {"/" + fifo + "_link", 500},
                                                                      {"/weir_test_that_is_not_there", 500}})
    EXPECT_EQ(enter("r", key, 1).status, status) << key.substr(0, 40);
  ::unlink(("/dev/shm/" + fifo).c_str());
  ::unlink(("/dev/shm/" + fifo + "_link").c_str());
  EXPECT_EQ(enter("r", object.key(), 0).status, 400);
  EXPECT_EQ(enter("r", object.key(), 4097).status, 400);
  EXPECT_EQ(enter("r", object.key(), 1, 4096).status, 400);
  EXPECT_EQ(enter("r", object.key(), 2, UINT64_MAX).status, 400);
  EXPECT_EQ(enter("r", object.key(), 1 << 20, uint64_t(INT64_MAX) - 10).status, 400);
  EXPECT_EQ(enter(std::string(257, 'n'), object.key(), 1).status, 400);
  EXPECT_EQ(bench.rest("GET", "/v2/systemsharedmemory/status").body, "[]");
  EXPECT_EQ(enter("r", object.key().substr(1), 4096).status, 200);
}

TEST_F(OipSharedMemory, FloatsAreTheClientsMemoryItselfAndIndicesAreCopied) {
  ClientObject object(8192);
  object.put<float>(4096, {1, 2});
  object.put<int64_t>(4104, {5});
  ASSERT_EQ(enter("r", object.key(), 4096, 4096).status, 200);
  auto x = bench.open_rest("POST", "/v2/models/any/infer", input("FP32", 2, place("r", 8)) + "}");
  auto y = bench.open_rest("POST", "/v2/models/any/infer", input("INT64", 1, place("r", 8, 8)) + "}");
  ASSERT_EQ(bench.inbox("any").seen.size(), 2u);
  EXPECT_EQ(bench.inbox("any").seen[0], "any/1 rows=1 | x FP32 [2] [1.0,2.0]");
  EXPECT_EQ(bench.inbox("any").seen[1], "any/1 rows=1 | x INT64 [1] [5]");
  object.put<float>(4096, {3, 4});
  object.put<int64_t>(4104, {6});
  EXPECT_EQ(support::describe(*bench.inbox("any").held[0]), "any/1 rows=1 | x FP32 [2] [3.0,4.0]");
  EXPECT_EQ(support::describe(*bench.inbox("any").held[1]), "any/1 rows=1 | x INT64 [1] [5]");
}

TEST_F(OipSharedMemory, OutputsAreWrittenToTheRegionAndTheAnswerHasTheirTypesAndShapes) {
  ClientObject object(4096);
  ASSERT_EQ(enter("r", object.key(), 4096).status, 200);
  bench.inbox("any").script.push_back(outputs("p FP32 [2] [1,2]; q INT32 [1] [9]"));
  auto answer = bench.rest("POST", "/v2/models/any/infer",
                           R"({"inputs":[],"outputs":[{"name":"p",)" + place("r", 100, 64) + R"(},{"name":"q"}]})");
  EXPECT_EQ(answer.body, R"({"model_name":"any","model_version":"1","outputs":[{"name":"p","datatype":"FP32","shape":)"
                         R"([2]},{"name":"q","datatype":"INT32","shape":[1],"data":[9]}]})");
  EXPECT_EQ(object.get<float>(64, 2), (std::vector<float>{1, 2}));
  auto small =
      bench.rest("POST", "/v2/models/any/infer", R"({"inputs":[],"outputs":[{"name":"p",)" + place("r", 7) + "}]}");
  EXPECT_EQ(small.status, 400);
  EXPECT_EQ(small.body, R"({"error":"shared memory size specified with the request for output 'p' (7 bytes) should be )"
                        R"(at least 8 bytes to hold the results"})");
}

TEST_F(OipSharedMemory, RangesOutsideOfARegionAreRefused) {
  ClientObject object(4096);
  ASSERT_EQ(enter("r", object.key(), 100).status, 200);
  struct Case {
    uint64_t bytes, offset;
    const char* why;
  };
  for (const Case& c : {Case{1, 100, "Invalid offset for shared memory region: 'r'"},
                        Case{101, 0, "Invalid offset + byte size for shared memory region: 'r'"},
                        Case{UINT64_MAX, 1, "Invalid offset + byte size for shared memory region: 'r'"},
                        Case{1, UINT64_MAX, "Invalid offset for shared memory region: 'r'"}}) {
    auto in = bench.rest("POST", "/v2/models/any/infer", input("UINT8", 1, place("r", c.bytes, c.offset)) + "}");
    auto out = bench.rest("POST", "/v2/models/any/infer",
                          R"({"inputs":[],"outputs":[{"name":"p",)" + place("r", c.bytes, c.offset) + "}]}");
    EXPECT_EQ(in.body, std::string("{\"error\":\"") + c.why + "\"}");
    EXPECT_EQ(out.body, in.body);
  }
  auto wrong = bench.rest("POST", "/v2/models/any/infer", input("FP32", 3, place("r", 8)) + "}");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_TRUE(bench.inbox("any").seen.empty());
}

TEST_F(OipSharedMemory, AnInputThatIsGivenTwiceIsRefused) {
  ClientObject object(4096);
  ASSERT_EQ(enter("r", object.key(), 100).status, 200);
  std::string both = input("UINT8", 1, place("r", 1) + R"(,"data":[1])") + "}";
  EXPECT_EQ(bench.rest("POST", "/v2/models/any/infer", both).status, 400);
}

TEST_F(OipSharedMemory, AnObjectThatShrinksFailsTheRequestsThatUseIt) {
  ClientObject object(8192);
  object.put<float>(4096, {1});
  ASSERT_EQ(enter("r", object.key(), 8192).status, 200);
  bench.inbox("any").echo = true;
  EXPECT_EQ(bench.rest("POST", "/v2/models/any/infer", input("FP32", 1, place("r", 4, 4096)) + "}").status, 200);
  bench.inbox("any").echo = false;
  auto x = bench.open_rest("POST", "/v2/models/any/infer", input("FP32", 1, place("r", 4, 4096)) + "}");
  object.resize(4096);
  // The engine reads zeros, and the answer is an error.
  msg::Call* call = bench.inbox("any").held.at(0);
  EXPECT_EQ(support::describe(*call), "any/1 rows=1 | x FP32 [1] [0.0]");
  bench.inbox("any").finish(call, outputs("p FP32 [1] [1]"));
  bench.turn();
  EXPECT_EQ(x->response.status, 400);
  EXPECT_NE(x->sent.find("'r' has lost memory"), std::string::npos) << x->sent;
  // It stays lost, also when the object grows again, and also for what lies before the gap.
  object.resize(8192);
  for (const char* type : {"FP32", "INT32"})
    EXPECT_EQ(bench.rest("POST", "/v2/models/any/infer", input(type, 1, place("r", 4)) + "}").status, 400) << type;
  EXPECT_EQ(bench.rest("POST", "/v2/systemsharedmemory/region/r/unregister").status, 200);
  EXPECT_EQ(enter("r", object.key(), 8192).status, 200);
  bench.inbox("any").script.push_back(outputs("p FP32 [1] [1]"));
  object.resize(0);
  auto out =
      bench.rest("POST", "/v2/models/any/infer", R"({"inputs":[],"outputs":[{"name":"p",)" + place("r", 4) + "}]}");
  EXPECT_EQ(out.status, 400);
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST_F(OipSharedMemory, ARegionThatIsUnregisteredMeanwhileStaysForTheRequestsInside) {
  ClientObject object(4096);
  object.put<float>(0, {1, 2});
  bench.shared_bytes = 8192;
  ASSERT_EQ(enter("r", object.key(), 4096).status, 200);
  std::string request = input("FP32", 2, place("r", 8)) + R"(,"outputs":[{"name":"p",)" + place("r", 8, 8) + "}]}";
  auto x = bench.open_rest("POST", "/v2/models/any/infer", request);
  EXPECT_EQ(bench.rest("POST", "/v2/systemsharedmemory/unregister").status, 200);
  EXPECT_EQ(bench.rest("GET", "/v2/systemsharedmemory/status").body, "[]");
  EXPECT_EQ(bench.rest("POST", "/v2/models/any/infer", request).status, 404);
  EXPECT_EQ(enter("s", object.key(), 4096).status, 429);  // its room is still taken
  auto& inbox = bench.inbox("any");
  EXPECT_EQ(support::describe(*inbox.held.at(0)), "any/1 rows=1 | x FP32 [2] [1.0,2.0] | wants p");
  inbox.finish(inbox.held.at(0), outputs("p FP32 [2] [3,4]"));
  bench.turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(object.get<float>(8, 2), (std::vector<float>{3, 4}));
  x.reset();
  bench.rest("POST", "/v2/models/any/infer", "{\"inputs\":[]}");  // the Call is used again, and lets go
  EXPECT_EQ(enter("s", object.key(), 4096).status, 200);
}

TEST_F(OipSharedMemory, RegionsAreBoundedInNumberAndBytesAndOneClientHasHalf) {
  ClientObject object(1 << 20);
  bench.shared_bytes = 1 << 20;
  EXPECT_EQ(enter("r", object.key(), (512 << 10) + 1).status, 429);
  EXPECT_EQ(enter("r", object.key(), 512 << 10).status, 200);
  EXPECT_EQ(enter("s", object.key(), 1).status, 429);
  bench.rest("POST", "/v2/systemsharedmemory/unregister");
  int entered = 0;
  for (int i = 0; i < 600; ++i) entered += enter("r" + std::to_string(i), object.key(), 1).status == 200;
  EXPECT_EQ(entered, int(SharedRegions::kMostRegions / 2));
  bench.rest("POST", "/v2/systemsharedmemory/unregister");
  EXPECT_EQ(enter("r", object.key(), 512 << 10).status, 200);
}

TEST_F(OipSharedMemory, EachTenantHasRegionsOfItsOwn) {
  ClientObject object(4096);
  wire::Identity a, b;
  a.tenant_number = 2, b.tenant_number = 4;
  wire::Request of_a, of_b;
  of_a.identity = &a, of_b.identity = &b;
  RegionRecord record{RegionKind::kSystem, "r", object.key(), 0, 0, 100};
  EXPECT_TRUE(bench.regions.add(of_a, record).ok());
  EXPECT_TRUE(bench.regions.list(of_b, RegionKind::kSystem, "").value().empty());
  RegionRange range{"r", 0, 1, nullptr};
  EXPECT_EQ(bench.regions.find(of_b, range).code, Code::kNotFound);
  bench.regions.remove_all(of_b, RegionKind::kSystem);
  EXPECT_TRUE(bench.regions.find(of_a, range).ok());
  EXPECT_TRUE(bench.regions.add(of_b, record).ok());
}

TEST_F(OipSharedMemory, ByDefaultItIsForClientsOfThisMachineThatNoProxyStandsBefore) {
  bench.sharing = Sharing::kLocal;
  auto may = [&](std::string address, wire::Network network, const char* field = nullptr) {
    wire::PeerInfo peer{std::move(address), wire::Security::kCleartext};
    peer.network = network;
    wire::Request request;
    request.peer = &peer;
    if (field) request.fields.add(field, "192.0.2.1");
    return bench.regions.check(request).ok();
  };
  using wire::Network;
  EXPECT_TRUE(may("127.0.0.1:5", Network::kLoopback));
  EXPECT_TRUE(may("[::1]:5", Network::kLoopback));
  EXPECT_TRUE(may("unix", Network::kOther));
  EXPECT_FALSE(may("192.0.2.1:5", Network::kOther));
  EXPECT_FALSE(may("192.0.2.1:5", Network::kLoopback));  // by way of a proxy that has named its client
  for (const char* field : {"forwarded", "x-forwarded-for", "x-real-ip", "via"})
    EXPECT_FALSE(may("127.0.0.1:5", Network::kLoopback, field)) << field;
}

inference::ModelInferRequest three_inputs(bool shared) {
  inference::ModelInferRequest r;
  r.set_model_name("any");
  for (const char* name : {"x", "y", "z"}) {
    auto& in = *r.add_inputs();
    in.set_name(name);
    in.set_datatype("UINT8");
    in.add_shape(1);
    if (shared && name[0] == 'y') {
      auto& parameters = *in.mutable_parameters();
      parameters["shared_memory_region"].set_string_param("r");
      parameters["shared_memory_byte_size"].set_int64_param(1);
    }
  }
  r.add_raw_input_contents("\1");
  r.add_raw_input_contents("\3");
  return r;
}

TEST_F(OipSharedMemory, RawContentsBelongToTheInputsThatAreNotShared) {
  ClientObject object(4096);
  object.put<uint8_t>(0, {2});
  ASSERT_EQ(enter("r", object.key(), 1).status, 200);
  auto request = three_inputs(true);
  bench.inbox("any").echo = true;
  auto answer = bench.grpc("ModelInfer", request.SerializeAsString());
  ASSERT_EQ(answer.status, 0) << answer.body;
  inference::ModelInferResponse response;
  ASSERT_TRUE(response.ParseFromString(answer.messages.at(0)));
  EXPECT_EQ(response.raw_output_contents(1), "\2");
  EXPECT_EQ(response.raw_output_contents(2), "\3");
  // Raw contents may also stand before the inputs.
  inference::ModelInferRequest raw, inputs;
  *raw.mutable_raw_input_contents() = request.raw_input_contents();
  inputs = request;
  inputs.clear_raw_input_contents();
  EXPECT_EQ(bench.grpc("ModelInfer", raw.SerializeAsString() + inputs.SerializeAsString()).messages, answer.messages);
  EXPECT_EQ(bench.grpc("ModelInfer", three_inputs(false).SerializeAsString()).status, int(Code::kInvalidArgument));
}

TEST_F(OipSharedMemory, OverGrpcAnOutputInARegionHasAnEmptyPlaceAmongTheRawContents) {
  ClientObject object(1 << 16);
  ASSERT_EQ(enter("r", object.key(), 1 << 16).status, 200);
  inference::ModelInferRequest request;
  request.set_model_name("any");
  auto& p = *request.add_outputs();
  p.set_name("p");
  (*p.mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*p.mutable_parameters())["shared_memory_byte_size"].set_int64_param(1 << 16);
  request.add_outputs()->set_name("q");
  msg::Outputs made;
  made.tensors.push_back({"p", msg::DType::kUint8, {1 << 16}, base::Bytes::adopt(std::string(1 << 16, 'p'))});
  made.tensors.push_back({"q", msg::DType::kUint8, {1}, base::Bytes::copy_of("q")});
  bench.inbox("any").script.push_back({made});
  auto answer = bench.grpc("ModelInfer", request.SerializeAsString());
  inference::ModelInferResponse response;
  ASSERT_EQ(answer.status, 0) << answer.body;
  ASSERT_TRUE(response.ParseFromString(answer.messages.at(0)));
  ASSERT_EQ(response.raw_output_contents_size(), 2);
  EXPECT_EQ(response.raw_output_contents(0), "");
  EXPECT_EQ(response.raw_output_contents(1), "q");
  EXPECT_EQ(response.outputs(0).shape(0), 1 << 16);
  EXPECT_EQ(object.get<char>((1 << 16) - 1, 1)[0], 'p');
  // A stream says the same.
  auto streamed = bench.grpc("ModelStreamInfer", request.SerializeAsString());
  inference::ModelStreamInferResponse one;
  ASSERT_TRUE(one.ParseFromString(streamed.messages.at(0)));
  EXPECT_EQ(one.infer_response().raw_output_contents(0), "");
}

TEST_F(OipSharedMemory, LongCopiesAreMadeByAWorkerAndAClientThatLeavesTakesThemAlong) {
  support::HeldWorkers workers;
  bench.bus.set_worker_pool(workers);
  const size_t elements = kLongCopy / 8 + 1;
  ClientObject object(elements * 8);
  object.put<int64_t>((elements - 1) * 8, {42});
  ASSERT_EQ(enter("r", object.key(), elements * 8).status, 200);
  std::string body = input("INT64", elements, place("r", elements * 8)) + "}";
  bench.inbox("any").script.push_back(outputs("p FP32 [1] [1]"));
  auto x = bench.open_rest("POST", "/v2/models/any/infer", body);
  EXPECT_FALSE(x->headed);
  ASSERT_EQ(workers.held.size(), 1u);
  workers.work(), bench.turn(), bench.turn();
  EXPECT_EQ(x->response.status, 200);
  ASSERT_EQ(bench.inbox("any").seen.size(), 1u);
  EXPECT_TRUE(bench.inbox("any").seen[0].ends_with(",42]"));
  bench.open_rest("POST", "/v2/models/any/infer", body).reset();
  auto shrunk = bench.open_rest("POST", "/v2/models/any/infer", body);
  object.resize(4096);
  workers.work(), bench.turn();
  EXPECT_EQ(shrunk->response.status, 400);
  EXPECT_EQ(bench.inbox("any").seen.size(), 1u);
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST_F(OipSharedMemory, WithoutCudaItsRegionsAreRefusedInTritonsWords) {
  auto refused = bench.rest("POST", "/v2/cudasharedmemory/region/c/register",
                            R"({"raw_handle":{"b64":"AAAA"},"device_id":0,"byte_size":4})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, R"({"error":"failed to register CUDA shared memory region: 'c', GPUs not supported"})");
}

}  // namespace
}  // namespace weir::oip
