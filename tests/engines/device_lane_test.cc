// A lane that drives a device: batches of many calls while the fake works on its own thread, runs out of memory,
// breaks.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "device/devices.h"
#include "device/fake_device.h"
#include "device/pool.h"
#include "engines/identity/identity.h"
#include "sched/lane.h"

namespace weir::identity {
namespace {

using base::Code;

// What came back, by code.
class Desk final : public msg::Home {
 public:
  void post(std::vector<msg::Mail>& burst) override {
    for (auto& m : burst) post_here(std::move(m));
    burst.clear();
  }
  void post_here(msg::Mail&& mail) override {
    std::lock_guard lock(mutex_);
    auto* failed = std::get_if<msg::Failed>(&mail.event.what);
    auto* outputs = std::get_if<msg::Outputs>(&mail.event.what);
    ++codes_[failed ? failed->status.code : Code::kOk];
    if (outputs && outputs->tensors.at(0).data.view() != mail.call->inputs.at(0).data.view()) ++wrong;
    ++count_;
    changed_.notify_all();
  }
  std::map<Code, int> until(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= n; });
    return codes_;
  }
  int wrong = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Code, int> codes_;
  size_t count_ = 0;
};

class DeviceLane : public ::testing::Test {
 protected:
  DeviceLane() {
    spec.name = "echo", spec.parameters["device"] = "fake";
    std::vector<std::unique_ptr<sched::Engine>> engines;
    for (int i = 0; i < 2; ++i)
      engines.push_back(load(spec, {&devices, &slabs, [this](base::Status) { ++broken; }}).value());
    spec = engines[0]->spec();
    spec.batching.max_queue = 0;
    lanes = sched::make_lanes(std::move(engines), spec, stats, slabs);
  }
  void put(size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      auto& call = calls[i];
      call.home = &desk, call.rows = 1;
      call.inputs = {
          {"x", msg::DType::kUint8, {int64_t(100 + i)}, base::Bytes::copy_of(std::string(100 + i, char(i)))}};
      lanes->put(&call);
    }
  }
  device::FakeDevice& fake() { return static_cast<device::FakeDevice&>(**devices.find("fake")); }

  device::Devices devices{{.cuda = device::DeviceOptions::Use::kOff, .module = ""}};
  device::SlabPool slabs{uint64_t(64) << 20};
  std::atomic<int> broken{0};
  msg::ModelSpec spec;
  bus::ModelStats stats;
  Desk desk;
  std::vector<msg::Call> calls = std::vector<msg::Call>(400);
  std::unique_ptr<msg::Inbox> lanes;  // first to go
};

TEST_F(DeviceLane, EveryCallGetsItsOwnBytesBack) {
  put(0, 400);
  EXPECT_EQ(desk.until(400), (std::map<Code, int>{{Code::kOk, 400}}));
  EXPECT_EQ(desk.wrong, 0);
  EXPECT_EQ(broken, 0);
}

TEST_F(DeviceLane, ABrokenDeviceAnswersEveryCallAndTellsOncePerEngine) {
  put(0, 100);
  fake().break_after(37);
  put(100, 400);
  auto codes = desk.until(400);
  EXPECT_EQ(codes[Code::kOk] + codes[Code::kUnavailable], 400);
  EXPECT_GT(codes[Code::kUnavailable], 0);
  EXPECT_EQ(desk.wrong, 0);
  lanes.reset();
  EXPECT_GE(broken, 1);
  EXPECT_LE(broken, 2);
}

}  // namespace
}  // namespace weir::identity
