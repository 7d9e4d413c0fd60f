#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "device/devices.h"
#include "device/fake_device.h"
#include "device/pool.h"
#include "engines/identity/device_identity.h"
#include "engines/identity/identity.h"

namespace weir::identity {
namespace {

using base::Code;
using msg::DType;

device::DeviceOptions off() { return {.cuda = device::DeviceOptions::Use::kOff, .module = ""}; }

class OnDevice : public ::testing::Test {
 protected:
  base::Result<std::unique_ptr<sched::Engine>> load_on(const std::string& id,
                                                       std::map<std::string, std::string> more = {}) {
    msg::ModelSpec wanted;
    wanted.name = "echo";
    wanted.parameters = std::move(more);
    wanted.parameters["device"] = id;
    return load(wanted, {&devices, &slabs, [this](base::Status s) { broken.push_back(std::move(s)); }});
  }
  device::FakeDevice& fake() { return static_cast<device::FakeDevice&>(**devices.find("fake")); }

  device::Devices devices{off()};
  device::SlabPool slabs{uint64_t(256) << 20};
  std::vector<base::Status> broken;
};

std::string bytes_of(size_t n, unsigned seed) {
  std::string out(n, '\0');
  for (size_t i = 0; i < n; ++i) out[i] = char(i * 7 + seed);
  return out;
}

sched::Batch batch_of(std::vector<size_t> sizes, unsigned seed = 0) {
  sched::Batch batch;
  batch.rows = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    batch.inputs.push_back({"t" + std::to_string(i),
                            DType::kUint8,
                            {int64_t(sizes[i])},
                            base::Bytes::copy_of(bytes_of(sizes[i], seed + unsigned(i)))});
  return batch;
}

void expect_same(const sched::Batch& batch) {
  ASSERT_EQ(batch.outputs.size(), batch.inputs.size());
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    EXPECT_EQ(batch.outputs[i].name, batch.inputs[i].name);
    EXPECT_EQ(batch.outputs[i].shape, batch.inputs[i].shape);
    EXPECT_TRUE(batch.outputs[i].data.view() == batch.inputs[i].data.view()) << i;
    if (!batch.inputs[i].data.empty()) {
      EXPECT_NE(batch.outputs[i].data.data(), batch.inputs[i].data.data());
    }
  }
}

TEST_F(OnDevice, EveryByteComesBackFromTheHostAndFromTheFake) {
  for (const char* id : {"host", "fake"}) {
    auto engine = load_on(id);
    ASSERT_TRUE(engine.has_value()) << engine.error().text;
    EXPECT_FALSE((*engine)->is_inline());
    for (auto sizes : std::vector<std::vector<size_t>>{{1}, {0}, {}, {3, 0, 257}, {100, (5u << 20) + 3, 1u << 20}}) {
      auto batch = batch_of(sizes, unsigned(sizes.size()));
      ASSERT_EQ((*engine)->step(batch), base::Status()) << id;
      expect_same(batch);
    }
  }
  EXPECT_TRUE(broken.empty());
  EXPECT_GE(fake().copied().to_device, (6u << 20));
  EXPECT_EQ(fake().copied().to_device, fake().copied().to_host);
}

TEST_F(OnDevice, WithoutTheDeviceItDoesNotLoad) {
  EXPECT_EQ(load_on("cuda").error().text, "no CUDA: it is switched off");
  EXPECT_EQ(load_on("tpu").error().code, Code::kInvalidArgument);
  EXPECT_EQ(load_on("host", {{"delay_us", "5"}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(load_on("fake", {{"pinned", "much"}}).error().code, Code::kInvalidArgument);
  msg::ModelSpec wanted;
  wanted.parameters["device"] = "host";
  EXPECT_EQ(load(wanted).error().code, Code::kFailedPrecondition);
}

TEST_F(OnDevice, AFullPinnedPoolAsksToTryAgainAndBreaksNothing) {
  auto engine = load_on("fake", {{"pinned", "4MiB"}});
  auto batch = batch_of({3u << 20});
  auto status = (*engine)->step(batch);
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_TRUE(batch.outputs.empty());
  auto small = batch_of({1000});
  EXPECT_EQ((*engine)->step(small), base::Status());
  EXPECT_TRUE(broken.empty());
}

TEST_F(OnDevice, DeviceMemoryThatRunsOutFailsTheBatchAlone) {
  auto engine = load_on("fake");
  fake().run_out(2);  // neither the usual buffer, nor one that just suffices
  auto batch = batch_of({1000});
  EXPECT_EQ((*engine)->step(batch).code, Code::kResourceExhausted);
  EXPECT_EQ((*engine)->step(batch), base::Status());
  expect_same(batch);
}

TEST_F(OnDevice, WithAComputationInBetweenEveryByteComesBack) {
  auto engine = load_on("fake", {{"compute", "copy"}, {"in_flight", "3"}});
  ASSERT_TRUE(engine.has_value()) << engine.error().text;
  EXPECT_EQ((*engine)->depth(), 3u);
  EXPECT_EQ((*engine)->place(), "fake");
  auto batch = batch_of({3, 0, (5u << 20) + 3});
  ASSERT_EQ((*engine)->step(batch), base::Status());
  expect_same(batch);
  EXPECT_EQ(load_on("fake", {{"compute", "much"}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(load_on("fake", {{"in_flight", "0"}}).error().code, Code::kInvalidArgument);
}

TEST_F(OnDevice, ABrokenDeviceIsToldOnceAndTheNextLoadRestartsIt) {
  auto engine = load_on("fake");
  auto other = load_on("fake");
  for (uint32_t after = 0; after < 4; ++after) {  // in the middle of a step, too
    fake().break_after(after);
    auto batch = batch_of({1000, 10u << 20});
    EXPECT_EQ((*engine)->step(batch).code, Code::kUnavailable);
    EXPECT_EQ((*engine)->step(batch).code, Code::kUnavailable);
    ASSERT_EQ(broken.size(), after + 1) << after;
    EXPECT_EQ(broken.back().code, Code::kUnavailable);
    engine = load_on("fake");
    ASSERT_TRUE(engine.has_value()) << engine.error().text;
    EXPECT_EQ((*engine)->step(batch), base::Status());
    expect_same(batch);
  }
  // Another model of the same device finds out at its next step.
  auto batch = batch_of({10});
  EXPECT_EQ((*other)->step(batch).code, Code::kUnavailable);
  EXPECT_EQ(broken.size(), 5u);
}

TEST_F(OnDevice, OutputsOutliveTheEngine) {
  auto batch = batch_of({5000});
  {
    auto engine = load_on("fake");
    ASSERT_EQ((*engine)->step(batch), base::Status());
  }
  expect_same(batch);
}

}  // namespace
}  // namespace weir::identity
