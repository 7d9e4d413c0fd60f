#include "device/gpu_watch.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace weir::device {
namespace {

TEST(GpuWatch, ReadsWhatEachGpuTells) {
  auto watch = GpuWatch::open(WEIR_FAKE_NVML);
  ASSERT_TRUE(watch.has_value()) << watch.error().text;
  auto gpus = (*watch)->latest();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].uuid, "GPU-aaaa");
  EXPECT_EQ(gpus[0].name, "Fake H100");
  EXPECT_GE(*gpus[0].utilization, 0.4);
  EXPECT_EQ(gpus[0].memory_used, uint64_t(1) << 30);
  EXPECT_EQ(gpus[0].memory_total, uint64_t(80) << 30);
  EXPECT_DOUBLE_EQ(*gpus[0].power, 123.456);
  EXPECT_DOUBLE_EQ(*gpus[0].power_limit, 700);
  EXPECT_DOUBLE_EQ(*gpus[0].energy, 5000.5);
  EXPECT_EQ(gpus[1].index, 1u);
  EXPECT_EQ(gpus[1].uuid, "GPU-bbbb");
  EXPECT_FALSE(gpus[1].power || gpus[1].power_limit || gpus[1].energy);
  EXPECT_DOUBLE_EQ(*gpus[1].memory_utilization, 0.2);
}

TEST(GpuWatch, LooksAgainByItself) {
  auto watch = GpuWatch::open(WEIR_FAKE_NVML, std::chrono::milliseconds(1));
  ASSERT_TRUE(watch.has_value());
  auto first = *(*watch)->latest()[0].utilization;
  while (*(*watch)->latest()[0].utilization < first + 0.02) std::this_thread::yield();
}

TEST(GpuWatch, SaysWhyThereIsNothingToWatch) {
  EXPECT_EQ(GpuWatch::open("libweir_no_such_nvml.so.1").error().text, "libweir_no_such_nvml.so.1 not found");
  EXPECT_NE(GpuWatch::open(WEIR_OTHER_LIBRARY).error().text.find("too old"), std::string::npos);
  ::setenv("WEIR_FAKE_NVML_DOWN", "1", 1);
  EXPECT_EQ(GpuWatch::open(WEIR_FAKE_NVML).error().text, "NVML: Driver Not Loaded");
  ::unsetenv("WEIR_FAKE_NVML_DOWN");
}

}  // namespace
}  // namespace weir::device
