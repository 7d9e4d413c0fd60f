// Lanes of engines on a device: batches under way at once, lack of memory, faults, hangs. The device is the fake, which
// works on a thread of its own, or step by step.
#include "sched/device_engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <thread>

#include "device/fake_device.h"
#include "device/pool.h"
#include "event_recorder.h"
#include "fake_deadline_timer.h"
#include "sched/lane.h"

namespace weir::sched {
namespace {

using base::Code;
using device::FakeDevice;
using Drive = FakeDevice::Drive;

// y = 2 x, computed by the device.
class OnDevice final : public DeviceEngine {
 public:
  explicit OnDevice(Deps deps) : DeviceEngine(std::move(deps)) {}
  const msg::ModelSpec& spec() const override { return spec_; }

 private:
  base::Status plan(Batch& batch, std::vector<size_t>& bytes) override {
    const auto& x = batch.inputs[0];
    batch.outputs = {{"y", x.dtype, x.shape, {}}};
    bytes.push_back(batch.input_bytes(0));
    return {};
  }
  base::Status compute(const Batch&, const device::Stream& run, std::span<const Transfer> in,
                       std::span<const Transfer> out) override {
    auto x = in[0], y = out[0];
    return device().run(run, [x, y](void*) {
      for (size_t i = 0; i < x.bytes / sizeof(float); ++i)
        reinterpret_cast<float*>(y.device)[i] = 2 * reinterpret_cast<const float*>(x.device)[i];
      return 0;
    });
  }
  // The computation of a negative x fails.
  base::Status outcome(const Batch& batch) override {
    const auto& x = batch.inputs[0].data;
    for (size_t i = 0; i < x.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, x.data() + i, sizeof value);
      if (value < 0) return base::invalid("negative");
    }
    return {};
  }
  msg::ModelSpec spec_;
};

// The server's pool, pinned for a device, which says what was taken from it.
struct PinnedSlabs final : base::SlabSource {
  explicit PinnedSlabs(device::Device& device)
      : pool(uint64_t(8) << 20, device::block_memory(device.pin(size_t(8) << 20).value())) {}
  base::Slab* take(size_t bytes) override {
    taken.push_back(bytes);
    return pool.take(bytes);
  }
  device::SlabPool pool;
  std::vector<size_t> taken;
};

constexpr size_t kOperations = 8;  // of one batch: up, arrived, wait, compute, computed, wait, down, landed

struct DeviceLab {
  enum class Slabs : uint8_t { kHeap, kPinned };
  explicit DeviceLab(Drive drive, uint64_t memory = uint64_t(64) << 20, std::chrono::nanoseconds patience = 1h,
                     uint32_t max_batch = 4, Slabs slabs = Slabs::kHeap)
      : device(drive), pool(device, memory), spec(spec_of(max_batch, -1)) {
    if (slabs == Slabs::kPinned) pinned.emplace(device);
    DeviceEngine::Deps deps;
    deps.device = &device, deps.memory = &pool;
    deps.slabs = pinned ? static_cast<base::SlabSource*>(&*pinned) : &base::heap();
    deps.pinned = uint64_t(8) << 20, deps.patience = patience;
    deps.broken = [this](base::Status) { ++broken; };
    auto engine = std::make_unique<OnDevice>(deps);
    EXPECT_EQ(engine->start(), base::Status());
    std::vector<std::unique_ptr<Engine>> engines;
    engines.push_back(std::move(engine));
    lanes = make_lanes(std::move(engines), spec, stats, base::heap(), deadline_timer);
  }
  msg::Call& put(float value, int64_t width = 2, base::Duration queue_timeout = {}) {
    auto& call = calls.emplace_back();
    fill(call, 1, value, width);
    call.home = &recorder, call.queue_timeout = queue_timeout;
    lanes->put(&call);
    return call;
  }
  // Its rows lie in the server's pinned pool.
  void put_pinned(float value, int64_t width) {
    auto& call = calls.emplace_back();
    fill(call, 1, value, width);
    base::Block block(pinned->pool.take(size_t(width) * sizeof(float)));
    block.append(call.inputs[0].data.data(), call.inputs[0].data.size());
    call.inputs[0].data = block.freeze();
    call.home = &recorder;
    lanes->put(&call);
  }
  // Lets the lane work until so many operations are queued.
  void until_queued(size_t operations) {
    while (device.queued() != operations) std::this_thread::yield();
  }
  // As many batches are under way as there may be: of one Call of value 1, and of one of value 2.
  void fill_up() {
    put(1);
    until_queued(kOperations);
    put(2);
    until_queued(2 * kOperations);
  }
  void run_until_answered(size_t n) {
    while (recorder.ended() < n)
      if (!device.step()) std::this_thread::yield();
  }

  FakeDevice device;
  device::BufferPool pool;
  std::optional<PinnedSlabs> pinned;
  msg::ModelSpec spec;
  bus::ModelStats stats;
  EventRecorder recorder;
  std::atomic<int> broken{0};
  std::deque<msg::Call> calls;
  std::shared_ptr<FakeDeadlineTimer> deadline_timer = std::make_shared<FakeDeadlineTimer>();
  std::unique_ptr<msg::Inbox> lanes;  // first to go
};

TEST(DeviceEngine, TheNextBatchIsPreparedWhileOneIsUnderWayAndTheOneAfterItWaits) {
  DeviceLab t(Drive::kStepped);
  t.fill_up();
  t.put(3), t.put(4);
  EXPECT_EQ(t.stats.pending, 2);
  EXPECT_EQ(t.recorder.of(t.calls[0]), "nothing");
  t.run_until_answered(4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(t.recorder.of(t.calls[size_t(i)]), std::to_string(2 * (i + 1)) + "x1");
  EXPECT_EQ(t.stats.execution_count, 3u) << "those that waited ran together";
  EXPECT_EQ(t.pool.used(), 0u);
  EXPECT_EQ(t.device.used(), device::BufferPool::kChunk) << "one allocation for all of them";
}

TEST(DeviceEngine, AnswersComeInTheOrderOfTheBatchesWithTimesThatAscend) {
  DeviceLab t(Drive::kThread);
  for (int i = 0; i < 50; ++i) t.put(float(i));
  t.recorder.until(50);
  base::Time last{};
  for (auto& call : t.calls) {
    expect_ascending(call.times);
    EXPECT_LE(last, call.times.finished);
    last = call.times.finished;
  }
}

TEST(DeviceEngine, TheTimelineShowsBatchesSideBySide) {
  DeviceLab t(Drive::kStepped);
  t.fill_up();
  t.run_until_answered(2);
  EXPECT_EQ(t.stats.places, std::vector<std::string>{"fake"});
  auto batches = t.stats.timeline.latest();
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_LT(batches[1].gathered, batches[0].computed) << "the second was prepared before the first was computed";
  for (const auto& b : batches) {
    EXPECT_EQ(b.rows, 1u);
    EXPECT_LE(b.queued, b.started);
    EXPECT_LE(b.started, b.gathered);
    EXPECT_LE(b.gathered, b.arrived);
    EXPECT_LE(b.arrived, b.computed);
    EXPECT_LE(b.computed, b.landed);
    EXPECT_LE(b.landed, b.finished);
  }
}

TEST(DeviceEngine, RowsInPinnedMemoryGoUpFromWhereTheyLie) {
  constexpr int64_t kWidth = 10'000;
  constexpr size_t kRow = kWidth * sizeof(float);
  DeviceLab t(Drive::kStepped, uint64_t(64) << 20, 1h, 4, DeviceLab::Slabs::kPinned);
  t.put_pinned(1, kWidth);
  t.until_queued(kOperations);
  t.put_pinned(2, kWidth);
  t.until_queued(2 * kOperations);
  t.pinned->taken.clear();
  t.put_pinned(3, kWidth), t.put_pinned(4, kWidth);
  t.run_until_answered(4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(t.recorder.of(t.calls[size_t(i)]), std::to_string(2 * (i + 1)) + "x1");
  EXPECT_EQ(t.stats.execution_count, 3u) << "those that waited ran together";
  EXPECT_EQ(t.pinned->taken, std::vector<size_t>{2 * kRow}) << "of their outputs, not of their inputs";
  t.calls.clear();
}

TEST(DeviceEngine, SmallRowsAreGathered) {
  DeviceLab t(Drive::kStepped, uint64_t(64) << 20, 1h, 4, DeviceLab::Slabs::kPinned);
  t.put_pinned(1, 2);
  t.until_queued(kOperations);
  t.put_pinned(2, 2);
  t.until_queued(2 * kOperations);
  t.pinned->taken.clear();
  t.put_pinned(3, 2), t.put_pinned(4, 2);
  t.run_until_answered(4);
  EXPECT_EQ(t.recorder.of(t.calls[3]), "8x1");
  EXPECT_EQ(t.pinned->taken, (std::vector<size_t>{16, 16})) << "of inputs and of outputs";
  t.calls.clear();
}

TEST(DeviceEngine, WithoutMemoryABatchWaitsForTheOneBeforeIt) {
  constexpr int64_t kWidth = 100'000;  // 800 kB up and down
  DeviceLab t(Drive::kStepped, 1'000'000);
  t.put(1, kWidth);
  t.until_queued(kOperations);
  t.put(2, kWidth);
  t.run_until_answered(2);
  EXPECT_EQ(t.recorder.of(t.calls[0]), "2x1");
  EXPECT_EQ(t.recorder.of(t.calls[1]), "4x1");
  EXPECT_EQ(t.broken, 0);
}

TEST(DeviceEngine, ABatchThatIsTooLargeRunsCallByCallAndACallThatIsFailsAlone) {
  constexpr int64_t kWidth = 100'000;
  DeviceLab t(Drive::kStepped, 1'000'000);
  t.put(1);
  t.until_queued(kOperations);
  t.put(2, kWidth), t.put(3, kWidth);
  auto& huge = t.put(4, 2 * kWidth);
  t.run_until_answered(4);
  EXPECT_EQ(t.recorder.of(t.calls[1]), "4x1");
  EXPECT_EQ(t.recorder.of(t.calls[2]), "6x1");
  EXPECT_EQ(t.recorder.of(huge), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(t.broken, 0);
  auto& small = t.put(5);
  t.run_until_answered(5);
  EXPECT_EQ(t.recorder.of(small), "10x1");
}

TEST(DeviceEngine, AComputationThatFailsIsTheFaultOfNobodyElse) {
  DeviceLab t(Drive::kStepped);
  t.fill_up();
  t.put(3), t.put(-4);  // they run together, and then one by one
  t.run_until_answered(4);
  EXPECT_EQ(t.recorder.of(t.calls[0]), "2x1");
  EXPECT_EQ(t.recorder.of(t.calls[2]), "6x1");
  EXPECT_EQ(t.recorder.of(t.calls[3]), "INVALID_ARGUMENT");
  EXPECT_EQ(t.broken, 0);
  EXPECT_EQ(t.pool.used(), 0u);
}

TEST(DeviceEngine, AFaultFailsWhatIsUnderWayAndWhatComesAfterAndIsToldOnce) {
  DeviceLab t(Drive::kStepped);
  t.put(1);
  t.until_queued(kOperations);
  t.put(2), t.put(3);
  t.device.fail(base::failure(Code::kUnavailable, "lost"), device::Device::Cure::kRestart);
  t.recorder.until(3);
  t.put(4);
  t.recorder.until(4);
  EXPECT_EQ(t.recorder.all(), (std::map<std::string, int>{{"UNAVAILABLE", 4}}));
  EXPECT_EQ(t.broken, 1);
  t.lanes.reset();
  EXPECT_TRUE(t.device.restart().ok());
  EXPECT_TRUE(t.pool.take(1).has_value());
}

TEST(DeviceEngine, ADeviceThatHangsIsFoundOutAndNothingWaitsForItAnyMore) {
  DeviceLab t(Drive::kThread, uint64_t(64) << 20, 2ms);
  t.device.have(device::FakeDevice::Trouble::kHang);
  for (int i = 0; i < 6; ++i) t.put(float(i));
  t.recorder.until(6);
  EXPECT_EQ(t.recorder.all(), (std::map<std::string, int>{{"UNAVAILABLE", 6}}));
  EXPECT_EQ(t.broken, 1);
  EXPECT_NE(t.device.fault().text.find("hangs"), std::string::npos);
}

TEST(DeviceEngine, AQueueTimeoutIsAnsweredOnTimeWhileTheDeviceHangs) {
  DeviceLab t(Drive::kStepped);
  t.fill_up();
  auto& late = t.put(3, 2, 5ms);
  t.deadline_timer->advance(5ms);
  EXPECT_EQ(t.recorder.of(late), "UNAVAILABLE");
  t.run_until_answered(3);
}

// Every point at which a device can break: nobody hears another's rows, everybody hears once.
TEST(DeviceEngine, WhereverItBreaksEveryCallIsAnsweredOnce) {
  for (uint32_t after = 0; after < 40; after += 3) {
    DeviceLab t(Drive::kThread);
    for (int i = 0; i < 10; ++i) t.put(float(i));
    t.device.break_after(after);
    for (int i = 10; i < 30; ++i) t.put(float(i));
    t.recorder.until(30);
    for (int i = 0; i < 30; ++i) {
      auto text = t.recorder.of(t.calls[size_t(i)]);
      EXPECT_TRUE(text == "UNAVAILABLE" || text == std::to_string(2 * i) + "x1")
          << text << " for " << i << " after " << after;
    }
    t.lanes.reset();
    EXPECT_LE(t.broken, 1);
  }
}

TEST(DeviceEngine, MemoryThatRunsOutNowAndThenCostsNoAnswer) {
  DeviceLab t(Drive::kThread, uint64_t(64) << 20, 1h, 8);
  t.device.run_out(2);
  for (int i = 0; i < 200; ++i) t.put(float(i), 2 + i % 3 * 1000);
  t.recorder.until(200);
  int failed = 0;
  for (int i = 0; i < 200; ++i) {
    auto text = t.recorder.of(t.calls[size_t(i)]);
    failed += text == "RESOURCE_EXHAUSTED";
    EXPECT_TRUE(text == "RESOURCE_EXHAUSTED" || text == std::to_string(2 * i) + "x1") << text;
  }
  EXPECT_LE(failed, 1);
}

}  // namespace
}  // namespace weir::sched
