// A lane that drives a device: batches of many calls while the fake works on its own thread, runs out of memory,
// breaks.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <vector>

#include "../../sched/event_recorder.h"
#include "device/devices.h"
#include "device/fake_device.h"
#include "device/pool.h"
#include "engines/identity/identity.h"
#include "sched/lane.h"

namespace weir::identity {
namespace {

// Whether a Call got its own bytes back, or the code of its failure.
std::string words(const msg::Mail& mail) {
  if (auto* failed = std::get_if<msg::Failed>(&mail.event.what)) return std::string(base::name(failed->status.code));
  auto& out = std::get<msg::Outputs>(mail.event.what).tensors.at(0);
  return out.data.view() == mail.call->inputs.at(0).data.view() ? "ok" : "wrong";
}

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
      call.home = &recorder, call.rows = 1;
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
  sched::EventRecorder recorder{words};
  std::vector<msg::Call> calls = std::vector<msg::Call>(400);
  std::unique_ptr<msg::Inbox> lanes;  // first to go
};

TEST_F(DeviceLane, EveryCallGetsItsOwnBytesBack) {
  put(0, 400);
  recorder.until(400);
  EXPECT_EQ(recorder.all(), (std::map<std::string, int>{{"ok", 400}}));
  EXPECT_EQ(broken, 0);
}

// Rows of 40 kB in pinned memory, of which several run together: they go up from where they lie.
TEST_F(DeviceLane, LargeRowsInPinnedMemoryComeBackToTheirCalls) {
  device::SlabPool pinned(uint64_t(64) << 20, device::block_memory(fake().pin(size_t(64) << 20).value()));
  std::vector<std::unique_ptr<sched::Engine>> engines;
  msg::ModelSpec batched = spec;
  batched.max_batch = 8, batched.any_tensors = false;
  batched.inputs = {{"x", msg::DType::kUint8, {-1}, false, {}}}, batched.outputs = batched.inputs;
  engines.push_back(load(batched, {&devices, &pinned, [this](base::Status) { ++broken; }}).value());
  batched = engines[0]->spec();
  batched.batching.dynamic = true, batched.batching.max_queue = 0;
  lanes = sched::make_lanes(std::move(engines), batched, stats, pinned);
  for (size_t i = 0; i < 100; ++i) {
    auto& call = calls[i];
    base::Block block(pinned.take(40'000));
    const std::string bytes(40'000, char(i));
    block.append(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
    call.home = &recorder, call.rows = 1;
    call.inputs = {{"x", msg::DType::kUint8, {1, 40'000}, block.freeze()}};
    lanes->put(&call);
  }
  recorder.until(100);
  EXPECT_EQ(recorder.all(), (std::map<std::string, int>{{"ok", 100}}));
  EXPECT_LT(stats.execution_count, 100u) << "some ran together";
  lanes.reset();
}

TEST_F(DeviceLane, ABrokenDeviceAnswersEveryCallAndTellsOncePerEngine) {
  put(0, 100);
  fake().break_after(37);
  put(100, 400);
  recorder.until(400);
  auto heard = recorder.all();
  EXPECT_EQ(heard["ok"] + heard["UNAVAILABLE"], 400);
  EXPECT_GT(heard["UNAVAILABLE"], 0);
  lanes.reset();
  EXPECT_GE(broken, 1);
  EXPECT_LE(broken, 2);
}

}  // namespace
}  // namespace weir::identity
