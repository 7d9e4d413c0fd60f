// Whether prefill attention takes Hopper's kernel: the try, which runs on the host with kernels that are right or
// wrong, and what is made of it.
#include "engines/llm/cuda/wgmma_check.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "device/fake_device.h"
#include "device/host_device.h"
#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda {
namespace {

using Priority = device::Device::Priority;

Shape some_shape() {
  Shape shape;
  shape.heads = 8, shape.kv_heads = 4, shape.head_dim = 64;
  return shape;
}

uint32_t tries = 0;  // launches of Hopper's kernel
Code counted(const Launch& launch, const PrefillAttention& a) {
  tries += a.with == PrefillAttention::kWgmma;
  return reference::table().prefill_attention(launch, a);
}
// Wrong in a single number, and only the third time.
Code wrong(const Launch& launch, const PrefillAttention& a) {
  const Code code = counted(launch, a);
  if (a.with == PrefillAttention::kWgmma && tries == 3) a.out[77] = narrow_bf16(widen_bf16(a.out[77]) + 0.1f);
  return code;
}
Code wrong_with_window(const Launch& launch, const PrefillAttention& a) {
  const Code code = counted(launch, a);
  if (a.with == PrefillAttention::kWgmma && a.window > 0) a.out[0] = 0xffff;
  return code;
}
Code stuck(const Launch& launch, const PrefillAttention& a) {
  if (a.with == PrefillAttention::kWgmma) *a.stuck = 3;
  return counted(launch, a);
}
Code refused(const Launch& launch, const PrefillAttention& a) {
  return a.with == PrefillAttention::kWgmma ? Code(kRefused) : counted(launch, a);
}

struct Tried {
  explicit Tried(Code (*prefill)(const Launch&, const PrefillAttention&), device::Device* other = nullptr)
      : kernels(reference::table()), queue(other ? *other : host, with(prefill)) {
    tries = 0;
    EXPECT_TRUE(queue.open(Priority::kNormal).ok());
  }
  const Kernels& with(Code (*prefill)(const Launch&, const PrefillAttention&)) {
    kernels.prefill_attention = prefill;
    return kernels;
  }
  base::Status status() { return try_wgmma(queue, some_shape()); }

  device::HostDevice host;
  Kernels kernels;
  KernelQueue queue;
};

TEST(WgmmaCheck, KernelsThatAgreePassInTheHeadsOfManyModels) {
  for (auto [heads, kv_heads, dim] : {std::array{8u, 4u, 64u}, {3u, 1u, 128u}, {8u, 2u, 128u}, {14u, 2u, 64u}}) {
    Tried tried(counted);
    Shape shape;
    shape.heads = heads, shape.kv_heads = kv_heads, shape.head_dim = dim;
    const auto status = try_wgmma(tried.queue, shape);
    EXPECT_TRUE(status.ok()) << status.text;
    EXPECT_EQ(tries, 8u) << "of both windows four rounds";
  }
}

TEST(WgmmaCheck, AWrongNumberAStuckBarrierAndARefusalAreNamed) {
  EXPECT_EQ(Tried(wrong).status().text, "1 of 56320 numbers differ, window 0");
  EXPECT_EQ(Tried(wrong_with_window).status().text, "1 of 56320 numbers differ, window 100");
  EXPECT_EQ(Tried(stuck).status().text, "barrier 3 was waited for in vain");
  EXPECT_FALSE(Tried(refused).status().ok());
}

device::Device::Info hopper() {
  device::Device::Info info;
  info.id = "cuda:0", info.index = 0, info.major = 9;
  return info;
}

TEST(WgmmaCheck, HopperTakesItWhereItWasTriedWell) {
  Tried good(counted);
  EXPECT_EQ(choose_prefill(good.queue, some_shape(), Wgmma::kOn, hopper()).value(), PrefillAttention::kWgmma);
  for (auto kernel : {wrong, stuck, refused}) {
    Tried bad(kernel);
    EXPECT_EQ(choose_prefill(bad.queue, some_shape(), Wgmma::kOn, hopper()).value(), PrefillAttention::kMma);
  }
}

TEST(WgmmaCheck, NothingIsTriedWhereItCannotBeTaken) {
  Tried tried(counted);
  auto chosen = [&](const Shape& shape, Wgmma wanted, const device::Device::Info& device) {
    return choose_prefill(tried.queue, shape, wanted, device).value();
  };
  EXPECT_EQ(chosen(some_shape(), Wgmma::kOff, hopper()), PrefillAttention::kMma);
  EXPECT_EQ(chosen(some_shape(), Wgmma::kOn, tried.host.info()), PrefillAttention::kMma);
  for (auto [major, minor] : {std::pair{8u, 0u}, {8u, 9u}, {10u, 0u}, {12u, 0u}}) {
    auto other = hopper();
    other.major = major, other.minor = minor;
    EXPECT_EQ(chosen(some_shape(), Wgmma::kOn, other), PrefillAttention::kMma);
  }
  auto wide = some_shape(), alone = some_shape(), capped = some_shape();
  wide.head_dim = 256, alone.kv_heads = alone.heads, capped.attention_cap = 50;
  for (const Shape& shape : {wide, alone, capped})
    EXPECT_EQ(chosen(shape, Wgmma::kOn, hopper()), PrefillAttention::kMma);
  EXPECT_EQ(tries, 0u);
}

TEST(WgmmaCheck, ADeviceThatTheTryBreaksIsAnErrorAndItsNextLifeDoesWithout) {
  device::FakeDevice device(device::FakeDevice::Drive::kThread);
  {
    Tried tried(counted, &device);
    device.break_after(4);
    auto chosen = choose_prefill(tried.queue, some_shape(), Wgmma::kOn, hopper());
    ASSERT_FALSE(chosen);
    EXPECT_NE(chosen.error().text.find("wgmma: off"), std::string::npos) << chosen.error().text;
  }
  ASSERT_TRUE(device.restart().ok());
  Tried next(counted, &device);
  EXPECT_EQ(choose_prefill(next.queue, some_shape(), Wgmma::kOn, hopper()).value(), PrefillAttention::kMma);
  EXPECT_EQ(tries, 0u);
}

}  // namespace
}  // namespace weir::llm::cuda
