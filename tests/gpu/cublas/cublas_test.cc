// Products by way of cuBLASLt: its own source, over a library that fails on request (fake_library.cc), and the
// emulator's kernels where it refuses.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/reference.h"
#include "fake_library.h"

// The runtime, as far as cublas.cc uses it.
extern "C" {
__attribute__((visibility("default"))) int weir_fake_runtime_error = 0;
int cudaSetDevice(int);
int cudaGetLastError();
int cudaDriverGetVersion(int* version);
int cudaEventCreate(void** event);
int cudaEventDestroy(void* event);
int cudaEventRecord(void* event, void* stream);
int cudaEventSynchronize(void* event);
int cudaEventElapsedTime(float* milliseconds, void* begin, void* end);
int cudaSetDevice(int) { return 0; }
int cudaGetLastError() { return std::exchange(weir_fake_runtime_error, 0); }
int cudaDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cudaEventCreate(void** event) { return *event = event, 0; }
int cudaEventDestroy(void*) { return 0; }
int cudaEventRecord(void*, void*) { return 0; }
int cudaEventSynchronize(void*) { return 0; }
}

namespace weir::llm::cuda {

Code matmul_open(int32_t device, void* workspace, Matmuls** out);
Code matmul_close(Matmuls* matmuls);
Code matmul(const Launch& launch, Matmuls* matmuls, const Matmul& a);

namespace {

constexpr int kNoMemory = 3, kInvalid = 7, kMismatch = 8, kFailed = 13, kInternal = 14, kUnsupported = 15;
constexpr uint32_t kRows = 20, kOutputs = 24, kInputs = 64;

gpu::FakeCublas& fake() {
  static auto* library = ::dlopen(WEIR_FAKE_CUBLAS, RTLD_NOW | RTLD_LOCAL);
  static auto* all = static_cast<gpu::FakeCublas*>(::dlsym(library, "weir_fake_cublas"));
  return *all;
}

}  // namespace
}  // namespace weir::llm::cuda

// The time of the algorithm that ran last.
extern "C" int cudaEventElapsedTime(float* milliseconds, void*, void*) {
  const auto& fake = weir::llm::cuda::fake();
  const uint64_t ran = fake.ran.empty() ? 0 : fake.ran.back();
  *milliseconds = ran < fake.times.size() ? fake.times[ran] : 1.f;
  return 0;
}

namespace weir::llm::cuda {
namespace {

class Cublas : public ::testing::Test {
 protected:
  Cublas() : x_(random(kRows * kInputs)), weight_(random(kOutputs * kInputs)), bias_(kOutputs) {
    fake() = {};
    weir_fake_runtime_error = 0;
    for (uint32_t i = 0; i < kOutputs; ++i) bias_[i] = float(i) / 8;
    EXPECT_EQ(matmul_open(0, nullptr, &matmuls_), 0);
  }
  ~Cublas() override { EXPECT_EQ(matmul_close(matmuls_), 0); }

  static std::vector<Bf16> random(size_t count) {
    static std::mt19937 engine(7);
    std::vector<Bf16> out(count);
    for (auto& value : out) value = narrow_bf16(float(int(engine() % 64)) / 32 - 1);
    return out;
  }
  // A timed product of enough rows, and the one that follows it: the algorithms of the second.
  std::vector<uint64_t> after_a_timed_one(std::vector<float> times) {
    constexpr uint32_t kMany = 128;
    fake() = {};
    fake().times = std::move(times);
    const auto x = random(kMany * kInputs);
    std::vector<float> out(kMany * kOutputs);
    Matmul a{x.data(), weight_.data(), nullptr, out.data(), kMany, kOutputs, kInputs, Matmul::Into::kF32, true};
    Matmuls* own = nullptr;
    EXPECT_EQ(matmul_open(0, nullptr, &own), 0);
    EXPECT_EQ(matmul({}, own, a), 0);
    fake().ran.clear();
    a.timed = false;
    EXPECT_EQ(matmul({}, own, a), 0);
    EXPECT_EQ(matmul_close(own), 0);
    return fake().ran;
  }
  Matmul work(void* out, Matmul::Into into, uint32_t rows = kRows) const {
    const float* bias = into == Matmul::Into::kBf16 ? nullptr : bias_.data();
    return {x_.data(), weight_.data(), bias, out, rows, kOutputs, kInputs, into, false, 0.5f};
  }
  // One product, and how far it is from the host's.
  Code multiply(uint32_t rows = kRows) {
    std::vector<float> got(rows * kOutputs, 1), expect = got;
    const Code code = matmul({}, matmuls_, work(got.data(), Matmul::Into::kAddF32, rows));
    reference::matmul(work(expect.data(), Matmul::Into::kAddF32, rows));
    for (size_t i = 0; code == 0 && i < got.size(); ++i) EXPECT_NEAR(got[i], expect[i], 1e-3) << i;
    return code;
  }

  std::vector<Bf16> x_, weight_;
  std::vector<float> bias_;
  Matmuls* matmuls_ = nullptr;
};

TEST_F(Cublas, RowsOfOursAreItsColumns) {
  EXPECT_EQ(multiply(), 0);
  std::vector<Bf16> got(kRows * kOutputs), expect = got;
  EXPECT_EQ(matmul({}, matmuls_, work(got.data(), Matmul::Into::kBf16)), 0);
  reference::matmul(work(expect.data(), Matmul::Into::kBf16));
  EXPECT_EQ(got, expect);
  EXPECT_EQ(fake().ran, (std::vector<uint64_t>{0, 0}));
}

TEST_F(Cublas, AnAlgorithmThatIsRefusedGivesWayToTheNextOnce) {
  fake().results = {kUnsupported, kInvalid};
  EXPECT_EQ(multiply(), 0);
  EXPECT_EQ(fake().ran, std::vector<uint64_t>{2});
  const uint32_t tries = fake().tries, searches = fake().searches;
  EXPECT_EQ(multiply(), 0);
  EXPECT_EQ(fake().ran, (std::vector<uint64_t>{2, 2}));
  EXPECT_EQ(fake().tries, tries + 1);
  EXPECT_EQ(fake().searches, searches);
}

TEST_F(Cublas, WhatAllAlgorithmsRefuseIsDoneByOurKernelFromThenOn) {
  for (int status : {kMismatch, kFailed, kInternal, kUnsupported}) {
    fake() = {};
    fake().results = {status, status, status, status};
    EXPECT_EQ(multiply(uint32_t(kRows - status % 3)), 0) << status;
    EXPECT_TRUE(fake().ran.empty());
    const uint32_t tries = fake().tries;
    EXPECT_EQ(multiply(uint32_t(kRows - status % 3)), 0);
    EXPECT_EQ(fake().tries, tries);
  }
}

TEST_F(Cublas, AShapeWithoutAlgorithmsIsDoneByOurKernel) {
  fake().found = 0;
  EXPECT_EQ(multiply(), 0);
  EXPECT_EQ(fake().tries, 0u);
}

TEST_F(Cublas, AnAlgorithmThatDoesNotFitTheShapeIsSearchedForAnew) {
  EXPECT_EQ(multiply(), 0);
  EXPECT_EQ(fake().searches, 1u);  // for the bucket
  fake().check = kUnsupported;
  EXPECT_EQ(multiply(kRows - 1), 0);
  EXPECT_EQ(fake().searches, 2u);
}

// 2: cudaErrorMemoryAllocation; a product for which there is no memory now is not one that cannot be done.
TEST_F(Cublas, NoMemoryIsSaidAndForgotten) {
  fake().results = {kNoMemory};
  EXPECT_EQ(multiply(), 2);
  fake().results.clear();
  EXPECT_EQ(multiply(), 0);
  EXPECT_EQ(fake().ran, std::vector<uint64_t>{0});
}

// 700: cudaErrorIllegalAddress. 999, cudaErrorUnknown, is said by no status of the library alone.
TEST_F(Cublas, OnlyTheRuntimesOwnErrorLosesTheDevice) {
  fake().results = {kInternal, kInternal, kInternal, kInternal};
  fake().runtime_error = 700;
  EXPECT_EQ(multiply(), 700);
  fake().runtime_error = 0;
  EXPECT_EQ(multiply(), 0);
}

TEST_F(Cublas, TheFastestOfTheAlgorithmsIsKeptWhereItIsClearlyFaster) {
  EXPECT_EQ(after_a_timed_one({3, 2, 1, 4}), std::vector<uint64_t>{2});
  EXPECT_EQ(after_a_timed_one({3, 2.9f, 4, 4}), std::vector<uint64_t>{0});
  EXPECT_EQ(after_a_timed_one({}), std::vector<uint64_t>{0});
}

TEST_F(Cublas, ProductsOfFewRowsAndThoseThatSomebodyNeedsAreNotTried) {
  fake().times = {3, 2, 1, 4};
  EXPECT_EQ(multiply(), 0);
  EXPECT_EQ(fake().ran, std::vector<uint64_t>{0});
}

TEST_F(Cublas, ALibraryThatCannotStartSaysWhy) {
  Matmuls* none = nullptr;
  fake().create = kNoMemory;
  EXPECT_EQ(matmul_open(0, nullptr, &none), 2);
  fake().create = 1;  // not initialised
  EXPECT_EQ(matmul_open(0, nullptr, &none), 3);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace weir::llm::cuda
