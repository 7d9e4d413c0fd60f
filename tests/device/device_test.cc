// The promises of every kind of device, on the host and on the fake; and how the fake fails.
#include <thread>

#include "device/device.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "device/await.h"
#include "device/fake_device.h"
#include "device/host_device.h"

namespace weir::device {
namespace {

using base::Code;
using Drive = FakeDevice::Drive;
using Progress = Device::Progress;

constexpr size_t kN = 100'000;

void fill(PinnedBlock& block, int seed) {
  for (size_t i = 0; i < kN; ++i) block.data()[i] = std::byte((i * 31 + size_t(seed)) & 255);
}

// Up on one stream, down on another that waits for the first.
base::Status there_and_back(Device& device) {
  auto from = device.pin(kN), to = device.pin(kN);
  auto up = device.stream(), down = device.stream(Device::Priority::kUrgent);
  auto arrived = device.event(), back = device.event();
  auto buffer = device.buffer(kN);
  if (!buffer) return buffer.error();
  for (int round = 0; round < 3; ++round) {
    fill(*from, round);
    Copy whole{buffer->data(), from->data(), kN};
    if (auto s = device.copy(*up, Way::kToDevice, {&whole, 1}); !s.ok()) return s;
    if (auto s = device.record(*arrived, *up); !s.ok()) return s;
    if (auto s = device.wait(*down, *arrived); !s.ok()) return s;
    std::vector<Copy> halves = {{to->data(), buffer->data(), kN / 2},
                                {to->data() + kN / 2, buffer->data() + kN / 2, kN - kN / 2}};
    if (auto s = device.copy(*down, Way::kToHost, halves); !s.ok()) return s;
    if (auto s = device.record(*back, *down); !s.ok()) return s;
    if (auto s = await(device, *back); !s.ok()) return s;
    EXPECT_EQ(std::memcmp(from->data(), to->data(), kN), 0);
  }
  return {};
}

TEST(Device, BytesGoThereAndBackOnTheHost) {
  HostDevice device;
  EXPECT_EQ(there_and_back(device), base::Status());
  EXPECT_EQ(device.copied().to_device, 3 * kN);
  EXPECT_EQ(device.copied().to_host, 3 * kN);
  EXPECT_EQ(device.copied().copies, 9u);
}

TEST(Device, BytesGoThereAndBackOnAThreadOfTheDevice) {
  FakeDevice device(Drive::kThread);
  EXPECT_EQ(there_and_back(device), base::Status());
}

TEST(Device, BytesGoThereAndBackWhenTheDeviceWorksWhileItIsAsked) {
  FakeDevice device(Drive::kWhenAsked);
  EXPECT_EQ(there_and_back(device), base::Status());
}

// A graph adds one to a number on the device and copies it to the next; what is queued while it is recorded is not
// done.
void expect_graphs(Device& device) {
  auto stream = device.stream();
  auto event = device.event();
  auto numbers = device.buffer(2 * sizeof(int));
  auto* first = reinterpret_cast<int*>(numbers->data());
  ASSERT_TRUE(device.run(*stream, [first](void*) { return first[0] = first[1] = 0; }).ok());
  ASSERT_TRUE(device.capture(*stream).ok());
  ASSERT_TRUE(device.run(*stream, [first](void*) { return ++first[0], 0; }).ok());
  Copy copy{first + 1, first, sizeof(int)};
  ASSERT_TRUE(device.copy(*stream, Way::kOnDevice, {&copy, 1}).ok());
  auto graph = device.captured(*stream);
  ASSERT_TRUE(graph.has_value());
  auto wait = [&] {
    ASSERT_TRUE(device.record(*event, *stream).ok());
    ASSERT_EQ(await(device, *event), base::Status());
  };
  wait();
  EXPECT_EQ(first[0], 0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device.launch(*stream, *graph).ok());
  wait();
  EXPECT_EQ(first[0], 3);
  EXPECT_EQ(first[1], 3);
}

TEST(Device, GraphsAreDoneAgainInTheirTurn) {
  HostDevice host;
  expect_graphs(host);
  FakeDevice thread(Drive::kThread), asked(Drive::kWhenAsked);
  expect_graphs(thread);
  expect_graphs(asked);
}

TEST(Device, WorkThatFailsIsSaidAtOnceOrBreaksTheDevice) {
  HostDevice host;
  auto stream = host.stream();
  EXPECT_EQ(host.run(*stream, [](void*) { return 1; }).code, Code::kInternal);
  EXPECT_TRUE(host.fault().ok());
  FakeDevice fake(Drive::kWhenAsked);
  auto later = fake.stream();
  auto event = fake.event();
  EXPECT_TRUE(fake.run(*later, [](void*) { return 1; }).ok());
  EXPECT_TRUE(fake.record(*event, *later).ok());
  EXPECT_EQ(await(fake, *event).code, Code::kUnavailable);
  EXPECT_FALSE(fake.fault().ok());
}

TEST(Device, NothingIsDoneBeforeItsTurn) {
  FakeDevice device(Drive::kStepped);
  auto block = device.pin(64);
  auto buffer = device.buffer(64);
  auto first = device.stream(), second = device.stream();
  auto event = device.event();
  EXPECT_EQ(*device.progress(*event), Progress::kDone);  // nothing was recorded yet
  Copy copy{buffer->data(), block->data(), 64};
  ASSERT_TRUE(device.copy(*first, Way::kToDevice, {&copy, 1}).ok());
  ASSERT_TRUE(device.record(*event, *first).ok());
  ASSERT_TRUE(device.wait(*second, *event).ok());
  struct Flag final : Done {
    void done() noexcept override { set = true; }
    bool set = false;
  } flag;
  ASSERT_TRUE(device.then(*second, flag).ok());
  EXPECT_EQ(*device.progress(*event), Progress::kPending);
  EXPECT_EQ(device.queued(), 4u);
  EXPECT_TRUE(device.step());  // the copy
  EXPECT_EQ(*device.progress(*event), Progress::kPending);
  EXPECT_TRUE(device.step());  // the event
  EXPECT_EQ(*device.progress(*event), Progress::kDone);
  EXPECT_TRUE(device.step());  // the wait
  EXPECT_FALSE(flag.set);
  EXPECT_TRUE(device.step());
  EXPECT_TRUE(flag.set);
  EXPECT_FALSE(device.step());
}

TEST(Device, MemoryRunsOutWithoutAFault) {
  FakeDevice device(Drive::kStepped, 1000);
  auto most = device.buffer(900);
  ASSERT_TRUE(most.has_value());
  auto more = device.buffer(101);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(device.fault().ok());
  most = DeviceBuffer();
  EXPECT_TRUE(device.buffer(101).has_value());
  device.run_out(1);
  EXPECT_FALSE(device.buffer(1).has_value());
  EXPECT_TRUE(device.buffer(1).has_value());
  EXPECT_EQ(device.used(), 0u);
}

TEST(Device, APageableCopyIsAFaultOfTheFake) {
  FakeDevice device(Drive::kStepped);
  auto buffer = device.buffer(64);
  auto stream = device.stream();
  char pageable[64] = {};
  Copy copy{buffer->data(), pageable, 64};
  EXPECT_EQ(device.copy(*stream, Way::kToDevice, {&copy, 1}).code, Code::kUnavailable);
  EXPECT_FALSE(device.fault().ok());
}

TEST(Device, AfterAFaultEverythingSaysTheSameUntilTheRestart) {
  FakeDevice device(Drive::kWhenAsked);
  auto block = device.pin(64);
  auto buffer = device.buffer(64);
  auto stream = device.stream();
  auto event = device.event();
  Copy copy{buffer->data(), block->data(), 64};
  device.break_after(1);
  EXPECT_TRUE(device.copy(*stream, Way::kToDevice, {&copy, 1}).ok());
  auto fault = device.copy(*stream, Way::kToDevice, {&copy, 1});
  EXPECT_EQ(fault.code, Code::kUnavailable);
  EXPECT_EQ(device.fault(), fault);
  EXPECT_EQ(device.record(*event, *stream), fault);
  EXPECT_EQ(device.progress(*event).error(), fault);
  EXPECT_EQ(device.buffer(1).error(), fault);
  EXPECT_FALSE(device.step());

  auto before = device.epoch();
  EXPECT_EQ(device.restart(), base::Status());
  EXPECT_EQ(device.epoch(), before + 1);
  EXPECT_TRUE(device.fault().ok());
  EXPECT_EQ(device.used(), 0u);
  EXPECT_EQ(device.copy(*stream, Way::kToDevice, {&copy, 1}).code, Code::kUnavailable);  // of the older epoch
  EXPECT_TRUE(device.pinned(block->data(), 64));
  EXPECT_EQ(there_and_back(device), base::Status());
}

TEST(Device, ARestartWithoutAFaultLeavesEverythingAsItIs) {
  FakeDevice device(Drive::kStepped);
  auto buffer = device.buffer(64);
  EXPECT_TRUE(device.restart().ok());
  EXPECT_EQ(device.used(), 64u);
  EXPECT_EQ(device.epoch(), 1u);
}

TEST(Device, ARestartThatFailsIsForGood) {
  FakeDevice device(Drive::kStepped);
  device.fail(base::failure(Code::kUnavailable, "lost"), Device::Cure::kRestart);
  device.have(device::FakeDevice::Trouble::kNoRestart);
  EXPECT_EQ(device.restart().code, Code::kUnavailable);
  EXPECT_NE(device.restart().text.find("restart of the server"), std::string::npos);
  EXPECT_EQ(device.fault().text, "lost");
}

TEST(Device, AHangIsAFaultWithoutCureAndFreesNothing) {
  FakeDevice device(Drive::kThread);
  device.have(device::FakeDevice::Trouble::kHang);
  auto stream = device.stream();
  auto event = device.event();
  {
    auto buffer = device.buffer(64);
    ASSERT_TRUE(device.record(*event, *stream).ok());
    auto status = await(device, *event, std::chrono::milliseconds(1));
    EXPECT_EQ(status.code, Code::kUnavailable);
    EXPECT_NE(status.text.find("hangs"), std::string::npos);
  }
  EXPECT_EQ(device.used(), 64u);
  EXPECT_FALSE(device.restart().ok());
}

// How late the end of a wait is seen: a small share of it, whatever the kernel's slack.
TEST(PollBackoff, PausesAreAShareOfTheWaitAndExact) {
  using std::chrono::microseconds, std::chrono::nanoseconds;
  EXPECT_EQ(PollBackoff::pause(microseconds(0)), microseconds(2));
  EXPECT_EQ(PollBackoff::pause(microseconds(640)), microseconds(10));
  EXPECT_EQ(PollBackoff::pause(std::chrono::milliseconds(20)), microseconds(50));
  std::thread([] {
    EXPECT_EQ(::prctl(PR_SET_TIMERSLACK, 50000UL), 0);
    PollBackoff backoff;
    for (int i = 0; i < 300; ++i) backoff.wait();
    EXPECT_EQ(::prctl(PR_GET_TIMERSLACK), 1);
  }).join();
}

}  // namespace
}  // namespace weir::device
