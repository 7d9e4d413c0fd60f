#include "device/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "device/fake_device.h"
#include "device/host_device.h"
#include "support/sizes.h"

namespace weir::device {
namespace {

using base::Code;
using Drive = FakeDevice::Drive;

TEST(BufferPool, PartsOfOneBufferAreAlignedAndApart) {
  FakeDevice device(Drive::kStepped);
  BufferPool pool(device, 64 * kMiB);
  auto a = pool.take(1), b = pool.take(300), c = pool.take(2 * kMiB), nothing = pool.take(0);
  for (auto* part : {&*a, &*b, &*c, &*nothing}) EXPECT_EQ(reinterpret_cast<uintptr_t>(part->data()) % 256, 0u);
  EXPECT_EQ(b->size(), 300u);
  EXPECT_NE(a->data(), b->data());
  EXPECT_EQ(device.used(), BufferPool::kChunk);
  EXPECT_EQ(pool.held(), BufferPool::kChunk);
  EXPECT_EQ(pool.used(), 256 + 512 + 2 * kMiB + 256);
}

TEST(BufferPool, WhatComesBackIsUsedAgainWithoutTheDriver) {
  FakeDevice device(Drive::kStepped);
  BufferPool pool(device, 64 * kMiB);
  for (int i = 0; i < 100; ++i) {
    auto part = pool.take(20 * kMiB);
    ASSERT_TRUE(part.has_value());
  }
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.held(), BufferPool::kChunk);
}

TEST(BufferPool, TheLimitAsksToTryAgainAndIsNoFault) {
  FakeDevice device(Drive::kStepped, 512 * kMiB);
  BufferPool pool(device, 40 * kMiB);
  auto a = pool.take(30 * kMiB);
  auto b = pool.take(8 * kMiB);  // in a buffer of its own, as small as it can be
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(pool.held(), 40 * kMiB);
  auto c = pool.take(8 * kMiB);
  ASSERT_FALSE(c.has_value());
  EXPECT_EQ(c.error().code, Code::kResourceExhausted);
  EXPECT_NE(c.error().text.find("the limit of 40MiB"), std::string::npos) << c.error().text;
  EXPECT_FALSE(c.error().details.empty());
  EXPECT_TRUE(device.fault().ok());
  EXPECT_FALSE(pool.take(41 * kMiB).has_value());
}

TEST(BufferPool, BuffersThatNobodyUsesMakeRoomForALargerOne) {
  FakeDevice device(Drive::kStepped, 512 * kMiB);
  BufferPool pool(device, 60 * kMiB);
  pool.take(1);
  EXPECT_EQ(pool.held(), 32 * kMiB);
  EXPECT_TRUE(pool.take(50 * kMiB).has_value());
  EXPECT_EQ(pool.held(), 50 * kMiB);
}

TEST(BufferPool, TheDevicesOwnLackOfMemoryIsSaid) {
  FakeDevice device(Drive::kStepped, 8 * kMiB);
  BufferPool pool(device, 1024 * kMiB);
  EXPECT_TRUE(pool.take(5 * kMiB).has_value()) << "less than the usual size, where that does not fit";
  auto much = pool.take(9 * kMiB);
  EXPECT_EQ(much.error().code, Code::kResourceExhausted);
}

TEST(BufferPool, ARestartBeginsAnewAndOldPartsComeBackWithoutEffect) {
  FakeDevice device(Drive::kStepped);
  BufferPool pool(device, 64 * kMiB);
  auto old = pool.take(5 * kMiB);
  device.fail(base::failure(Code::kUnavailable, "lost"), Device::Cure::kRestart);
  EXPECT_EQ(pool.take(1).error().text, "lost");
  ASSERT_TRUE(device.restart().ok());
  EXPECT_EQ(device.used(), 0u);
  auto fresh = pool.take(kMiB);
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(pool.used(), kMiB);
  *old = BufferPool::Part();
  EXPECT_EQ(pool.used(), kMiB);
  *fresh = BufferPool::Part();
  EXPECT_EQ(pool.used(), 0u);
}

TEST(BufferPool, ThreadsTakeAndGiveAtOnceAndNeverShareAByte) {
  HostDevice device;
  BufferPool pool(device, 256 * kMiB);
  auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::deque<BufferPool::Part> parts;
    for (int i = 0; i < 2000; ++i) {
      auto part = pool.take(random() % 20'000);
      ASSERT_TRUE(part.has_value());
      std::memset(part->data(), int(seed), part->size());
      parts.push_back(std::move(*part));
      if (parts.size() < 8) continue;
      for (size_t b = 0; b < parts.front().size(); b += 97) ASSERT_EQ(parts.front().data()[b], std::byte(seed));
      parts.pop_front();
    }
  };
  std::thread a(work, 1), b(work, 2);
  a.join(), b.join();
  EXPECT_EQ(pool.used(), 0u);
}

}  // namespace
}  // namespace weir::device
