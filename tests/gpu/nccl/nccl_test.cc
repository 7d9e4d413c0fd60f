// NCCL as the module's collectives, over a library that notes, fails and hangs. The runtime is the test's own.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "engines/llm/cuda/kernels.h"
#include "engines/llm/cuda/nccl.h"
#include "fake_nccl.h"

namespace {

int chosen = -1;                       // device of this thread
cudaError_t last_error = cudaSuccess;  // of the runtime

}  // namespace

extern "C" cudaError_t cudaSetDevice(int device) {
  chosen = device;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

namespace weir::llm::cuda {
namespace {

constexpr int kFloat32 = 7, kSum = 0, kSystemError = 2, kIllegalAddress = 700;  // as the headers have them

class NcclCollectives : public testing::Test {
 protected:
  void SetUp() override {
    void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << ::dlerror();
    fake = reinterpret_cast<gpu::FakeNccl* (*)()>(::dlsym(library, "weir_fake_nccl"))();
    fake->fails = 0, fake->broken = 0, fake->hangs = false;
    fake->opened = 0, fake->destroyed = 0, fake->aborted = 0, fake->freed = 0, fake->queued = 0;
    ASSERT_EQ(open_communicators(kDevices, 2, ranks), 0);
  }

  static constexpr int32_t kDevices[] = {2, 3};
  gpu::FakeNccl* fake = nullptr;
  Communicator* ranks[2] = {};
  float values[5] = {};
  int stream = 0;
};

TEST_F(NcclCollectives, CollectivesAreFloatsInPlaceOnTheRanksDevice) {
  EXPECT_EQ(all_reduce({3, &stream}, ranks[1], values, 5), 0);
  EXPECT_EQ(chosen, 3);
  EXPECT_EQ(fake->rank, 3);
  EXPECT_EQ(fake->from, values);
  EXPECT_EQ(fake->to, values);
  EXPECT_EQ(fake->count, 5u);
  EXPECT_EQ(fake->type, kFloat32);
  EXPECT_EQ(fake->operation, kSum);
  EXPECT_EQ(fake->stream, &stream);
  EXPECT_EQ(broadcast({2, &stream}, ranks[0], values, 4), 0);
  EXPECT_EQ(fake->count, 4u);
  EXPECT_EQ(fake->root, 0);
  EXPECT_EQ(fake->rank, 2);
  for (auto* rank : ranks) EXPECT_EQ(close_communicator(rank), 0);
  EXPECT_EQ(fake->destroyed, 2);
}

TEST_F(NcclCollectives, AFailureIsTheRuntimesOwnWhereItHasOne) {
  fake->fails = kSystemError;
  EXPECT_EQ(all_reduce({2, nullptr}, ranks[0], values, 5), Code(kRefused));
  last_error = cudaError_t(kIllegalAddress);
  EXPECT_EQ(all_reduce({2, nullptr}, ranks[0], values, 5), kIllegalAddress);
  Communicator* none[2] = {};
  EXPECT_EQ(open_communicators(kDevices, 2, none), Code(kRefused));
  EXPECT_EQ(communicator_error(ranks[0]), Code(kRefused));
  fake->fails = 0;
  EXPECT_EQ(communicator_error(ranks[0]), 0);
  fake->broken = kSystemError;
  EXPECT_EQ(communicator_error(ranks[0]), Code(kRefused));
  for (auto* rank : ranks) close_communicator(rank);
}

TEST_F(NcclCollectives, NothingIsQueuedAfterAnAbort) {
  for (auto* rank : ranks) abort_communicator(rank), abort_communicator(rank);
  EXPECT_EQ(all_reduce({2, nullptr}, ranks[0], values, 5), 0);
  EXPECT_EQ(communicator_error(ranks[0]), 0);
  EXPECT_EQ(fake->queued, 0);
  for (auto* rank : ranks) EXPECT_EQ(close_communicator(rank), 0);
  EXPECT_EQ(fake->aborted, 2);
  EXPECT_EQ(fake->freed, 2);
  EXPECT_EQ(fake->destroyed, 0);
}

TEST_F(NcclCollectives, AnAbortWaitsForNoGraphAndTheCloseForThose) {
  fake->graphs = 2;
  for (auto* rank : ranks) abort_communicator(rank);
  while (fake->aborted < 2) std::this_thread::yield();
  EXPECT_EQ(communicator_error(ranks[0]), 0);
  EXPECT_EQ(fake->freed, 0);
  fake->graphs = 0;
  for (auto* rank : ranks) EXPECT_EQ(close_communicator(rank), 0);
  EXPECT_EQ(fake->freed, 2);
}

// As on a lost device, which frees nothing.
TEST_F(NcclCollectives, AGraphThatStaysKeepsNobodyForEver) {
  fake->graphs = 1;
  for (auto* rank : ranks) abort_communicator(rank);
  EXPECT_EQ(close_communicator(ranks[0]), Code(kRefused));
  fake->graphs = 0;
  EXPECT_EQ(close_communicator(ranks[1]), 0);
  while (fake->freed < 2) std::this_thread::yield();
}

TEST_F(NcclCollectives, AnAbortEndsACallThatHangs) {
  fake->hangs = true;
  std::thread caller([&] { EXPECT_EQ(all_reduce({2, nullptr}, ranks[0], values, 5), 0); });
  while (fake->queued == 0) std::this_thread::yield();
  abort_communicator(ranks[0]);
  caller.join();
  EXPECT_EQ(fake->aborted, 1);
  for (auto* rank : ranks) close_communicator(rank);
}

}  // namespace
}  // namespace weir::llm::cuda
