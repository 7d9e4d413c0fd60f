// NCCL's rules for those who use it, of which the host's collectives know nothing: graphs that go before the
// communicators, graphs on all ranks or on none, nothing that is launched after an abort; and faults seen at once.
#include <atomic>
#include <chrono>
#include <new>

#include "device/fake_device.h"
#include "device/host_device.h"
#include "device_support.h"

namespace weir::llm {
namespace {

using device::FakeDevice;

// Counts its graphs, their launches, and copies; captures fail on request.
class CountingDevice : public device::HostDevice {
 public:
  std::atomic<int> graphs{0}, launches{0}, copies{0};
  std::atomic<bool> captures{true}, throws{false};

 private:
  base::Result<void*> do_captured(void* stream) override {
    if (throws) throw std::bad_alloc();
    auto made = HostDevice::do_captured(stream);
    if (!captures) {
      HostDevice::do_free(device::Kind::kGraph, *made);
      return base::failure(base::Code::kResourceExhausted, "no memory for a graph");
    }
    ++graphs;
    return made;
  }
  void do_free(device::Kind kind, void* raw) override {
    graphs -= kind == device::Kind::kGraph;
    HostDevice::do_free(kind, raw);
  }
  base::Status do_copy(void* stream, device::Way way, std::span<const device::Copy> all) override {
    ++copies;
    return HostDevice::do_copy(stream, way, all);
  }
  base::Status do_launch(void* stream, void* graph) override {
    ++launches;
    return HostDevice::do_launch(stream, graph);
  }
};

// The host's collectives; each end notes how many graphs there are when it is closed.
CountingDevice* counted[2];
int closed = 0, graphs_at_close = 0;
cuda::Code close_counted(cuda::Communicator* communicator) {
  ++closed;
  for (auto* device : counted) graphs_at_close += device->graphs;
  return cuda::reference::kCollectives.close(communicator);
}

class LlmRankGroup : public testing::Test {
 protected:
  LlmRankGroup() {
    counted[0] = &first_, counted[1] = &second_, closed = graphs_at_close = 0;
    collectives_.close = close_counted, kernels_.collectives = &collectives_;
  }
  std::unique_ptr<DeviceTransformer> engine() { return on_ranks(kChat, {&first_, &second_}, {}, kernels_).value(); }

  cuda::Collectives collectives_ = cuda::reference::kCollectives;
  cuda::Kernels kernels_ = cuda::reference::table();
  CountingDevice first_, second_;
};

TEST_F(LlmRankGroup, GraphsAreGoneWhenTheCollectivesAreClosed) {
  auto model = engine();
  talk(*model, prompts(), 6, greedy());
  EXPECT_GT(first_.graphs, 0);
  EXPECT_EQ(first_.graphs, second_.graphs);
  model.reset();
  EXPECT_EQ(closed, 2);
  EXPECT_EQ(graphs_at_close, 0);
}

TEST_F(LlmRankGroup, WhereOneRankHasNoGraphNoneIsLaunched) {
  const auto alone = talk(*on_device(kChat, first_), prompts(), 8, greedy()).tokens;
  for (auto* failing : {&first_, &second_}) {
    failing->captures = false, first_.launches = 0;
    EXPECT_EQ(talk(*engine(), prompts(), 8, greedy()).tokens, alone);
    EXPECT_EQ(first_.launches, 0);
    EXPECT_EQ(second_.launches, 0);
    failing->captures = true;
  }
}

TEST_F(LlmRankGroup, AnExceptionOfARankFailsTheStep) {
  for (auto* failing : {&first_, &second_}) {
    auto model = engine();
    failing->throws = true;
    base::Status status;
    for (int i = 0; i < 4 && status.ok(); ++i) {
      DeviceStepper stepper(*model);
      Sequence s{{prompts()[0][0]}, {}};
      stepper.add(s, 1, Wanted::kLast);
      status = model->step(stepper.step);
    }
    EXPECT_FALSE(status.ok());
    failing->throws = false;
  }
}

// A step of the first prompt, submitted.
struct Submitted {
  explicit Submitted(DeviceTransformer& engine) : stepper(engine), sequence{prompts()[0], {}} {
    stepper.add(sequence, uint32_t(sequence.ids.size()), Wanted::kLast);
    status = engine.submit(stepper.step);
  }
  DeviceStepper stepper;
  Sequence sequence;
  base::Status status;
};

// Nor are arguments written: devices that go on may still read those of the step before.
TEST_F(LlmRankGroup, NothingIsLaunchedOnceTheModelIsLost) {
  auto model = engine();
  talk(*model, prompts(), 6, greedy());
  Submitted step(*model);
  ASSERT_TRUE(step.status.ok());
  second_.fail(base::failure(base::Code::kUnavailable, "broken"), device::Device::Cure::kRestart);
  EXPECT_EQ(model->collect(step.stepper.step).code, base::Code::kUnavailable);
  const int launches = first_.launches, copies = first_.copies;
  for (int i = 0; i < 4; ++i) {
    DeviceStepper stepper(*model);
    Sequence s{{prompts()[0][0]}, {}};
    stepper.add(s, 1, Wanted::kLast);
    EXPECT_EQ(model->submit(stepper.step).code, base::Code::kUnavailable);
  }
  EXPECT_EQ(first_.launches, launches);
  EXPECT_EQ(first_.copies, copies);
}

// The first one waits for it in a collective, and has no fault of its own.
TEST(LlmRankGroupFakes, AFaultOfAnotherRankIsSeenAtOnce) {
  FakeDevice first(FakeDevice::Drive::kThread), second(FakeDevice::Drive::kThread, uint64_t(64) << 20, 1);
  auto model = on_ranks(kChat, {&first, &second}).value();
  second.have(FakeDevice::Trouble::kHang);
  Submitted step(*model);
  ASSERT_TRUE(step.status.ok()) << step.status.text;
  const auto began = std::chrono::steady_clock::now();
  second.fail(base::failure(base::Code::kUnavailable, "an illegal access"), device::Device::Cure::kRestart);
  auto status = model->collect(step.stepper.step);
  EXPECT_EQ(status.code, base::Code::kUnavailable);
  EXPECT_NE(status.text.find("an illegal access"), std::string::npos) << status.text;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

}  // namespace
}  // namespace weir::llm
