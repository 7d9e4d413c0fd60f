// Models on a device: the host and the fake in place of a GPU, with IO binding on the CPU; and the providers of GPUs,
// with a library that has them for show (fake_gpu_library.cc) and a module of CUDA on the host's memory.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "device/devices.h"
#include "engines/onnx/device_engine.h"
#include "support.h"

namespace weir::onnx {
namespace {

using base::Code;
using msg::DType;
using testing::HasSubstr;
using testing::Not;

msg::ModelSpec on(const std::string& device, std::map<std::string, std::string> more = {}) {
  msg::ModelSpec wanted;
  wanted.name = "m", wanted.version = "1";
  wanted.parameters = std::move(more);
  if (!device.empty()) wanted.parameters["device"] = device;
  return wanted;
}

// A batch of the model "two".
sched::Batch two(uint32_t rows, float first) {
  std::vector<float> a(rows * size_t(3)), b(rows * size_t(3));
  for (size_t i = 0; i < a.size(); ++i) a[i] = first + float(i), b[i] = 0.25F * float(i);
  sched::Batch batch;
  batch.rows = rows, batch.inputs = {floats("a", {rows, 3}, a), floats("b", {rows, 3}, b)};
  return batch;
}

class OnnxDevice : public WithRuntime {
 protected:
  std::unique_ptr<sched::Engine> load(const std::string& name, msg::ModelSpec wanted) {
    auto engine = runtime_.load(wanted, data_file(name + ".onnx"), base::heap(), {&devices_});
    EXPECT_TRUE(engine.has_value()) << name << ": " << engine.error().text;
    return engine ? std::move(*engine) : nullptr;
  }

  device::Devices devices_{device::DeviceOptions{}};
};

TEST_F(OnnxDevice, TheAnswersAreThoseOfTheHost) {
  auto host = load("two", on(""));
  for (const char* device : {"host", "fake"}) {
    auto engine = load("two", on(device));
    ASSERT_TRUE(engine);
    EXPECT_EQ(2u, engine->depth());
    EXPECT_EQ(device, engine->place());
    EXPECT_EQ(host->spec().max_batch, engine->spec().max_batch);
    for (uint32_t rows : {1U, 8U, 3U, 200U}) {
      auto here = two(rows, 1), there = two(rows, 1);
      ASSERT_EQ(base::Status(), host->step(here));
      ASSERT_EQ(base::Status(), engine->step(there));
      ASSERT_EQ(2u, there.outputs.size());
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(here.outputs[i].name + here.outputs[i].shape.text(),
                  there.outputs[i].name + there.outputs[i].shape.text());
        EXPECT_EQ(here.outputs[i].data.view(), there.outputs[i].data.view());
      }
    }
  }
}

TEST_F(OnnxDevice, EveryTypeOfNumberComesBackAsItWent) {
  for (int t = int(DType::kBool); t <= int(DType::kBf16); ++t) {
    auto dtype = DType(t);
    if (dtype == DType::kBytes) continue;
    std::string lower(name(dtype));
    for (char& c : lower) c = char(std::tolower(c));
    auto engine = load("identity_" + lower, on("fake"));
    ASSERT_TRUE(engine);
    std::string raw;
    for (size_t i = 0; i < 8 * size_of(dtype); ++i) raw += dtype == DType::kBool ? char(i & 1) : char(i * 37 + 1);
    auto b = batch(2, {{"x", dtype, {2, 4}, base::Bytes::copy_of(raw)}});
    ASSERT_EQ(base::Status(), engine->step(b)) << lower;
    EXPECT_EQ(raw, b.outputs[0].data.view()) << lower;
  }
}

// As lanes do it: the second is launched before the first has landed.
TEST_F(OnnxDevice, BatchesAreUnderWaySideBySide) {
  auto engine = load("two", on("fake"));
  for (int round = 0; round < 20; ++round) {
    sched::Batch batches[2] = {two(4, float(round)), two(9, 100)};
    batches[1].slot = 1;
    for (auto& b : batches) ASSERT_EQ(base::Status(), engine->launch(b));
    for (auto& b : batches) {
      for (;;) {
        auto landing = engine->poll(b);
        ASSERT_TRUE(landing) << landing.error().text;
        if (*landing == sched::Engine::Landing::kLanded) break;
      }
      auto sum = values(b.outputs[0]), a = values(b.inputs[0]), c = values(b.inputs[1]);
      for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(a[i] + c[i], sum[i]);
    }
  }
}

TEST_F(OnnxDevice, OutputsThatNobodyWantsAreNotMade) {
  auto engine = load("two", on("host"));
  auto b = two(2, 1);
  b.wanted = {false, true};
  ASSERT_EQ(base::Status(), engine->step(b));
  EXPECT_EQ(DType::kInvalid, b.outputs[0].dtype);
  EXPECT_EQ(0.25F * 2, values(b.outputs[1])[1]);
}

// An error of the library is the batch's: the device, and the batch beside it, go on.
TEST_F(OnnxDevice, AnErrorOfAStepIsItsOwn) {
  for (const char* device : {"host", "fake"}) {
    auto engine = load("two", on(device));
    auto wrong = batch(1, {floats("a", {1, 4}, {1, 2, 3, 4}), floats("b", {1, 4}, {1, 2, 3, 4})});
    EXPECT_EQ(Code::kInvalidArgument, engine->step(wrong).code);
    EXPECT_TRUE(wrong.outputs.empty());
    auto short_of_bytes = batch(1, {floats("a", {1, 3}, {1, 2}), floats("b", {1, 3}, {1, 2, 3})});
    EXPECT_EQ(Code::kInvalidArgument, engine->step(short_of_bytes).code);
    auto good = two(1, 1);
    EXPECT_EQ(base::Status(), engine->step(good));
  }
  auto engine = load("identity_bool", on("host"));
  auto odd = batch(1, {{"x", DType::kBool, {1, 4}, base::Bytes::copy_of("\1\2\1\1")}});
  EXPECT_THAT(engine->step(odd).text, HasSubstr("neither 0 nor 1"));
}

// Strings, and outputs of a size that nobody knows before the step.
TEST_F(OnnxDevice, WhatCannotBeThereIsLeftToTheLibrary) {
  for (const char* name : {"identity_bytes", "dynamic"}) {
    auto engine = load(name, on("host"));
    ASSERT_TRUE(engine) << name;
    EXPECT_EQ(1u, engine->depth()) << name;
    EXPECT_FALSE(why_not_on_device(engine->spec()).empty()) << name;
  }
}

TEST_F(OnnxDevice, WhatThereIsNotIsAnError) {
  auto refused = [&](msg::ModelSpec wanted) {
    auto engine = runtime_.load(wanted, data_file("two.onnx"), base::heap(), {&devices_});
    return engine ? "it loads" : engine.error().text;
  };
  EXPECT_THAT(refused(on("host", {{"in_flight", "9"}})), HasSubstr("'in_flight': a whole number from 1 to 8"));
  EXPECT_THAT(refused(on("host", {{"pinned", "0"}})), HasSubstr("'pinned': a size"));
  EXPECT_THAT(refused(on("host", {{"providers", "rocm"}})), HasSubstr("expected cuda, tensorrt and openvino"));
  EXPECT_THAT(refused(on("host", {{"providers", "openvino,openvino"}})), HasSubstr("is there twice"));
  EXPECT_THAT(refused(on("host", {{"cuda.gpu_mem_limit", "1"}})), HasSubstr("does not use the provider 'cuda'"));
  EXPECT_THAT(refused(on("host", {{"providers", "cuda"}, {"cuda.gpu_mem_limits", "1"}})),
              HasSubstr("did you mean 'cuda.gpu_mem_limit'?"));
  // Options that name files or libraries are not a model's.
  for (const char* key : {"tensorrt.trt_engine_cache_path", "tensorrt.trt_extra_plugin_lib_paths",
                          "tensorrt.trt_timing_cache_path", "openvino.cache_dir", "openvino.load_config"})
    EXPECT_THAT(refused(on("host", {{"providers", "tensorrt openvino"}, {key, "/tmp/x"}})),
                HasSubstr("it is not taken from a model"))
        << key;
  for (const char* key :
       {"session.optimized_model_external_initializers_file_name", "session.load_model_format", "optimization.x"})
    EXPECT_THAT(refused(on("", {{key, "x"}})), HasSubstr("it is not taken from a model")) << key;
  EXPECT_EQ("it loads", refused(on("", {{"session.set_denormal_as_zero", "1"}})));
  // The library that `./dev setup` brings computes on the CPU.
  EXPECT_THAT(refused(on("", {{"providers", "openvino"}})), HasSubstr("ONNX Runtime has no provider 'openvino' here"));
}

// A GPU for show: two devices of a module of CUDA that is none.
class OnnxGpu : public WithRuntime {
 protected:
  void SetUp() override {
    WithRuntime::SetUp();
    if (IsSkipped()) return;
    log_ = "/tmp/weir_onnx_gpu_" + std::to_string(::getpid());
    std::filesystem::remove(log_);
    ::setenv("FAKE_GPU_ONNXRUNTIME", std::getenv("WEIR_ONNXRUNTIME"), 1);
    ::setenv("FAKE_GPU_LOG", log_.c_str(), 1);
    options_.library = FAKE_GPU_LIBRARY;
    with_gpus_ = std::make_unique<Runtime>(options_);
    ASSERT_NE(nullptr, ::dlopen(FAKE_DRIVER, RTLD_NOW)) << ::dlerror();  // its name is that of CUDA's driver
    device::DeviceOptions options;
    options.module = WEIR_FAKE_MODULE;
    devices_ = std::make_unique<device::Devices>(options);
    ASSERT_EQ(2u, devices_->cuda_count()) << devices_->cuda().text;
  }
  void TearDown() override { std::filesystem::remove(log_); }

  std::string asked() const { return slurp(log_); }
  base::Result<std::unique_ptr<sched::Engine>> load(const std::string& name, const msg::ModelSpec& wanted) {
    return with_gpus_->load(wanted, data_file(name + ".onnx"), base::heap(), {devices_.get()});
  }

  std::string log_;
  Options options_;
  std::unique_ptr<device::Devices> devices_;
  std::unique_ptr<Runtime> with_gpus_;
};

TEST_F(OnnxGpu, ASessionComputesOnTheDeviceAndTheStreamOfItsEngine) {
  auto engine = load("two", on("cuda:1", {{"cuda.gpu_mem_limit", "1000000000"}, {"cuda.use_tf32", "0"}}));
  ASSERT_TRUE(engine) << engine.error().text;
  EXPECT_EQ("cuda:1", (*engine)->place());
  EXPECT_EQ(asked(),
            "provider C device_id=1 gpu_mem_limit=1000000000 use_tf32=0 user_compute_stream=something\n"
            "run option disable_synchronize_execution_providers=1\nmemory Cuda 1\n");
  auto b = batch(2, {floats("a", {2, 3}, {1, 2, 3, 4, 5, 6}), floats("b", {2, 3}, {1, 1, 1, 2, 2, 2})});
  ASSERT_EQ(base::Status(), (*engine)->step(b));
  EXPECT_EQ((std::vector<float>{2, 3, 4, 6, 7, 8}), values(b.outputs[0]));
  EXPECT_EQ((std::vector<float>{1, 2, 3, 8, 10, 12}), values(b.outputs[1]));
}

TEST_F(OnnxGpu, ProvidersAreAskedInTheOrderThatIsNamed) {
  auto engine = load("two", on("cuda:0", {{"providers", "tensorrt, cuda"}, {"tensorrt.trt_fp16_enable", "1"}}));
  ASSERT_TRUE(engine) << engine.error().text;
  EXPECT_THAT(asked(), HasSubstr("provider T device_id=0 trt_fp16_enable=1 user_compute_stream=something\n"
                                 "provider C device_id=0 user_compute_stream=something\n"));
}

// Each size of batches has a graph in each slot, which is there before the first request; others have none.
TEST_F(OnnxGpu, RunsOfOneShapeAreCudaGraphs) {
  auto wanted = on("cuda:0", {{"cuda.enable_cuda_graph", "1"}, {"in_flight", "2"}});
  wanted.max_batch = 6, wanted.batching.preferred = {3};
  auto loaded = load("two", wanted);
  ASSERT_TRUE(loaded) << loaded.error().text;
  auto& engine = **loaded;
  ASSERT_EQ(6u, engine.spec().max_batch);
  std::string captures;
  for (int graph = 1; graph <= 2 * 5; ++graph) captures += "graph " + std::to_string(graph) + " captured\n";
  EXPECT_THAT(asked(), testing::EndsWith(captures));  // 1, 2, 3, 4 and 6 rows
  EXPECT_THAT(asked(), HasSubstr("enable_cuda_graph=1"));
  std::filesystem::remove(log_);
  for (int round = 0; round < 3; ++round)
    for (uint32_t rows : {6U, 1U, 5U, 3U}) {
      sched::Batch batches[2] = {two(rows, float(round)), two(rows, 50)};
      batches[1].slot = 1;
      for (auto& b : batches) ASSERT_EQ(base::Status(), engine.launch(b));
      for (auto& b : batches) {
        for (auto landing = engine.poll(b); *landing != sched::Engine::Landing::kLanded; landing = engine.poll(b))
          ASSERT_TRUE(landing) << landing.error().text;
        auto sum = values(b.outputs[0]), a = values(b.inputs[0]), c = values(b.inputs[1]);
        ASSERT_EQ(rows * 3, sum.size());
        for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(a[i] + c[i], sum[i]);
      }
    }
  auto some = two(6, 1);
  some.wanted = {false, true};
  ASSERT_EQ(base::Status(), engine.step(some));
  std::string round;
  for (const char* line : {"graph 5 replayed\ngraph 10 replayed\n", "graph 1 replayed\ngraph 6 replayed\n",
                           "no graph\nno graph\n", "graph 3 replayed\ngraph 8 replayed\n"})
    round += line;
  EXPECT_EQ(round + round + round + "no graph\n", asked());
}

TEST_F(OnnxGpu, AShapeThatIsNotFixedHasNoGraph) {
  for (const char* name : {"dynamic", "identity_bytes"}) {
    auto engine = load(name, on("cuda:0", {{"cuda.enable_cuda_graph", "1"}}));
    ASSERT_FALSE(engine) << name;
    EXPECT_EQ(Code::kFailedPrecondition, engine.error().code);
    EXPECT_THAT(engine.error().text, HasSubstr("parameter 'cuda.enable_cuda_graph'"));
  }
  // Others run as they do without.
  EXPECT_TRUE(load("two", on("", {{"cuda.enable_cuda_graph", "1"}, {"providers", "cuda"}})));
}

// An instance on the CPU of a model that has others on GPUs.
TEST_F(OnnxGpu, WithoutAGpuTheProvidersOfGpusAreNotAsked) {
  ASSERT_TRUE(load("two", on("", {{"providers", "tensorrt,cuda"}, {"cuda.use_tf32", "0"}})));
  EXPECT_EQ("", asked());
}

// The library copies strings by itself, on a stream of its own.
TEST_F(OnnxGpu, WhatTheLibraryCopiesHasNoStreamOfOurs) {
  auto engine = load("identity_bytes", on("cuda:0"));
  ASSERT_TRUE(engine) << engine.error().text;
  EXPECT_EQ(1u, (*engine)->depth());
  EXPECT_THAT(asked(), testing::EndsWith("provider C device_id=0\n"));
}

}  // namespace
}  // namespace weir::onnx
