// The CUDA device over a table that is a fake (fake_module.cc), and the real module where it was built.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "device/await.h"
#include "device/cuda/sticky.h"
#include "device/cuda_device.h"
#include "device/devices.h"

namespace weir::device {
namespace {

using base::Code;

constexpr const char* kPresent = "libc.so.6";  // stands for libcuda.so.1

// Tells the fake module how to behave, until the end of the test.
struct FakeModuleMode {
  explicit FakeModuleMode(const char* word) { ::setenv("WEIR_FAKE_CUDA", word, 1); }
  ~FakeModuleMode() { ::unsetenv("WEIR_FAKE_CUDA"); }
};

TEST(CudaModule, WithoutADriverItSaysWhichLibraryIsMissing) {
  auto module = open_cuda({WEIR_FAKE_MODULE}, "libweir_no_such_driver.so.1");
  ASSERT_FALSE(module.has_value());
  EXPECT_EQ(module.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(module.error().text, "no CUDA: libweir_no_such_driver.so.1 not found");
}

TEST(CudaModule, SaysWhatElseIsMissing) {
  EXPECT_NE(open_cuda({"/nowhere/libweir_cuda.so"}, kPresent).error().text.find("without its module"),
            std::string::npos);
  EXPECT_NE(open_cuda({WEIR_OTHER_LIBRARY}, kPresent).error().text.find("another build"), std::string::npos);
  {
    FakeModuleMode old("old");
    EXPECT_EQ(open_cuda({WEIR_FAKE_MODULE}, kPresent).error().text,
              "no CUDA: the driver knows CUDA 12.8, 13.0 is needed");
  }
  FakeModuleMode none("none");
  EXPECT_EQ(open_cuda({WEIR_FAKE_MODULE}, kPresent).error().text, "no CUDA: an error");
}

TEST(CudaModule, AnOlderDriverGetsTheModuleOfAnOlderCuda) {
  const std::vector<std::string> both{WEIR_FAKE_MODULE, WEIR_FAKE_OLDER_MODULE};
  auto newest = open_cuda(both, kPresent);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->path, WEIR_FAKE_MODULE);
  EXPECT_EQ(newest->passed_over, "");
  FakeModuleMode old("old");
  auto older = open_cuda(both, kPresent);
  ASSERT_TRUE(older.has_value()) << older.error().text;
  EXPECT_EQ(older->path, WEIR_FAKE_OLDER_MODULE);
  EXPECT_EQ(older->runtime, 11080);
  EXPECT_EQ(older->passed_over, "libweir_fake_cuda.so needs a driver for CUDA 13, and this one is for 12.8");
}

TEST(CudaModule, EveryPlaceHasModulesOfOlderCudas) {
  const auto places = module_places("");
  ASSERT_EQ(places.size(), 9u);
  for (size_t i = 0; i < places.size(); i += 3) {
    EXPECT_TRUE(places[i].ends_with("/libweir_cuda.so")) << places[i];
    EXPECT_TRUE(places[i + 1].ends_with("/libweir_cuda12.so")) << places[i + 1];
    EXPECT_TRUE(places[i + 2].ends_with("/libweir_cuda11.so")) << places[i + 2];
  }
  EXPECT_EQ(module_places("/a/b.so"), std::vector<std::string>{"/a/b.so"});
}

TEST(CudaModule, TheRealOneOpensWithoutAGpu) {
  if (std::string(WEIR_REAL_MODULE).empty()) GTEST_SKIP() << "built without CUDA";
  auto module = open_cuda({WEIR_REAL_MODULE}, kPresent);
  if (module) GTEST_SKIP() << "there is a GPU";
  EXPECT_TRUE(module.error().text.starts_with("no CUDA: ")) << module.error().text;
  EXPECT_EQ(module.error().text.find("module"), std::string::npos) << module.error().text;
}

// The errors of which CUDA's header says, in the comment before a code, that only a new process helps.
std::set<int> errors_that_end_the_process(std::istream& header) {
  std::set<int> codes;
  std::string comment;
  for (std::string line; std::getline(header, line);) {
    const size_t begin = std::min(line.find_first_not_of(" *"), line.size()), is = line.find('=');
    if (line.find("/**") != line.npos) comment.clear();
    if (line.compare(begin, 9, "cudaError") != 0 || is == line.npos)
      comment += line.substr(begin) + ' ';
    else if (comment.find("must be terminated and relaunched") != comment.npos)
      codes.insert(std::atoi(line.c_str() + is + 1)), comment.clear();
  }
  return codes;
}

TEST(StickyErrors, AreThoseThatTheHeaderSaysEndTheProcess) {
  std::ifstream header(WEIR_CUDA_ERRORS);
  if (!header) GTEST_SKIP() << "no header of CUDA here";
  const auto codes = errors_that_end_the_process(header);
  EXPECT_GE(codes.size(), 10u);
  for (int code : codes) EXPECT_TRUE(cuda::is_lost_by(code)) << code;
  for (int harmless : {1, 2, 3, 100, 101, 400, 600, 801, 900}) EXPECT_FALSE(cuda::is_lost_by(harmless)) << harmless;
}

class FakeCuda : public ::testing::Test {
 protected:
  FakeCuda() : module_(open_cuda({WEIR_FAKE_MODULE}, kPresent)) { device_ = *CudaDevice::open(*module_->api, 1); }
  base::Result<CudaModule> module_;
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(FakeCuda, SaysWhatItIs) {
  EXPECT_EQ(module_->devices, 2);
  EXPECT_NE(module_->symbol(cuda::kEntry), nullptr);
  EXPECT_EQ(module_->symbol("nothing"), nullptr);
  EXPECT_EQ(device_->info().id, "cuda:1");
  EXPECT_EQ(device_->info().name, "Fake H100");
  EXPECT_EQ(device_->info().bus_id, "0000:02:00.0");
  EXPECT_EQ(device_->info().multiprocessors, 132u);
}

TEST_F(FakeCuda, CopiesThereAndBack) {
  auto block = device_->pin(4096);
  ASSERT_TRUE(block.has_value());
  EXPECT_TRUE(device_->pinned(block->data(), block->size()));
  EXPECT_FALSE(device_->pinned(block->data(), block->size() + 1));
  auto buffer = device_->buffer(100);
  auto stream = device_->stream();
  auto event = device_->event();
  std::memset(block->data(), 7, 100);
  Copy up{buffer->data(), block->data(), 100}, down{block->data() + 200, buffer->data(), 100};
  ASSERT_TRUE(device_->copy(*stream, Way::kToDevice, {&up, 1}).ok());
  ASSERT_TRUE(device_->copy(*stream, Way::kToHost, {&down, 1}).ok());
  ASSERT_TRUE(device_->record(*event, *stream).ok());
  EXPECT_TRUE(await(*device_, *event).ok());
  EXPECT_EQ(block->data()[299], std::byte(7));
}

TEST_F(FakeCuda, TooMuchMemoryIsNoFault) {
  auto buffer = device_->buffer(size_t(1) << 40);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(device_->fault().ok());
}

TEST_F(FakeCuda, SaysHowMuchMemoryIsFree) {
  auto before = device_->memory();
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->total, device_->info().memory);
  {
    auto buffer = device_->buffer(1 << 20);
    EXPECT_EQ(device_->memory()->free, before->free - (1 << 20));
  }
  EXPECT_EQ(device_->memory()->free, before->free);
}

TEST_F(FakeCuda, AllocatingSpoilsACapture) {
  auto stream = device_->stream();
  ASSERT_TRUE(device_->capture(*stream).ok());
  EXPECT_FALSE(device_->buffer(100).has_value());
  EXPECT_FALSE(device_->captured(*stream).has_value());
  EXPECT_TRUE(device_->fault().ok());
  ASSERT_TRUE(device_->capture(*stream).ok());
  EXPECT_TRUE(device_->captured(*stream).has_value());
}

TEST_F(FakeCuda, AStickyErrorIsAFaultThatAResetMends) {
  auto stream = device_->stream();
  auto event = device_->event();
  {
    FakeModuleMode sticky("sticky");
    auto status = device_->record(*event, *stream);
    EXPECT_EQ(status.code, Code::kUnavailable);
    EXPECT_EQ(status.text, "cuda:1: an illegal memory access was encountered");
  }
  EXPECT_FALSE(device_->fault().ok());
  EXPECT_TRUE(device_->restart().ok());
  EXPECT_TRUE(device_->stream().has_value());
  EXPECT_EQ(device_->record(*event, *stream).code, Code::kUnavailable);
}

TEST_F(FakeCuda, AResetThatFailsIsForGood) {
  auto stream = device_->stream();
  auto event = device_->event();
  FakeModuleMode sticky("sticky");
  EXPECT_FALSE(device_->record(*event, *stream).ok());
  EXPECT_NE(device_->restart().text.find("restart of the server"), std::string::npos);
}

TEST(Devices, AreFoundByTheirNames) {
  Devices devices({.cuda = DeviceOptions::Use::kOff, .module = ""});
  EXPECT_EQ(devices.cuda().text, "no CUDA: it is switched off");
  EXPECT_EQ((*devices.find("host"))->info().id, "host");
  EXPECT_EQ((*devices.find("fake"))->info().id, "fake");
  EXPECT_EQ(devices.find("cuda").error().code, Code::kFailedPrecondition);
  EXPECT_EQ(devices.find("cuda:0").error().code, Code::kFailedPrecondition);
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1"})
    EXPECT_EQ(devices.find(bad).error().code, Code::kInvalidArgument) << bad;
  EXPECT_TRUE(devices.slab_memory(1 << 20).has_value());
}

}  // namespace
}  // namespace weir::device
