#include "engines/identity/identity.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weir::identity {
namespace {

using msg::DType;

msg::ModelSpec with_delay(std::string us) {
  msg::ModelSpec wanted;
  wanted.name = "echo";
  if (!us.empty()) wanted.parameters["delay_us"] = std::move(us);
  return wanted;
}

TEST(Identity, ReturnsEveryInputWithoutCopyingIt) {
  auto engine = load(with_delay(""));
  ASSERT_TRUE(engine.has_value());
  EXPECT_TRUE((*engine)->spec().any_tensors);
  EXPECT_EQ((*engine)->spec().name, "echo");
  sched::Batch batch;
  batch.rows = 1;
  batch.inputs = {{"a", DType::kBf16, {3, 0}, {}},
                  {"b", DType::kBytes, {}, base::Bytes::copy_of(std::string("\3\0\0\0abc", 7))},
                  {"c", DType::kFp32, {1, 2}, base::Bytes::copy_of("12345678")}};
  ASSERT_EQ((*engine)->step(batch), base::Status());
  ASSERT_EQ(batch.outputs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.outputs[i].name, batch.inputs[i].name);
    EXPECT_EQ(batch.outputs[i].dtype, batch.inputs[i].dtype);
    EXPECT_EQ(batch.outputs[i].shape, batch.inputs[i].shape);
    EXPECT_EQ(batch.outputs[i].data.data(), batch.inputs[i].data.data());
  }
}

TEST(Identity, RunsOnALaneWhereItsConfigurationHasCallsWaitForOthers) {
  auto wanted = with_delay("");
  EXPECT_TRUE((*load(wanted))->is_inline());
  wanted.max_batch = 4;
  wanted.batching.dynamic = true;
  wanted.batching.max_delay = std::chrono::seconds(5);
  EXPECT_TRUE((*load(wanted))->is_inline());  // the server's defaults
  wanted.configured.batching = wanted.batching;
  EXPECT_FALSE((*load(wanted))->is_inline());
  wanted.batching.max_delay = {};
  EXPECT_TRUE((*load(wanted))->is_inline());
}

TEST(Identity, DeclaredOutputsNameTheInputsInTheirOrder) {
  auto wanted = with_delay("");
  wanted.inputs = {{.name = "a", .dtype = DType::kFp32}, {.name = "b", .dtype = DType::kInt32}};
  wanted.outputs = {{.name = "x", .dtype = DType::kFp32}, {.name = "y", .dtype = DType::kInt32}};
  auto engine = load(wanted);
  ASSERT_TRUE(engine.has_value());
  sched::Batch batch;
  batch.rows = 1;
  batch.inputs = {{"b", DType::kInt32, {1}, base::Bytes::copy_of("1234")},
                  {"other", DType::kInt32, {1}, base::Bytes::copy_of("1234")},
                  {"a", DType::kFp32, {1}, base::Bytes::copy_of("1234")}};
  ASSERT_EQ((*engine)->step(batch), base::Status());
  EXPECT_EQ(batch.outputs[0].name, "y");
  EXPECT_EQ(batch.outputs[1].name, "other");
  EXPECT_EQ(batch.outputs[2].name, "x");
  wanted.outputs[1].dtype = DType::kFp32;
  auto refused = load(wanted);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().text, "output 'y' is FP32, and input 'b', which it repeats, is INT32");
}

TEST(Identity, AbsentOptionalInputsComeBackAsZeros) {
  auto wanted = with_delay("");
  wanted.max_batch = 4;
  const auto input = [](const char* name, DType dtype, msg::Shape shape) {
    return msg::TensorSpec{.name = name, .dtype = dtype, .shape = shape, .optional = true};
  };
  wanted.inputs = {input("a", DType::kFp32, {2}), input("b", DType::kFp32, {2}), input("s", DType::kBytes, {1}),
                   input("open", DType::kFp32, {-1}), input("huge", DType::kFp32, {1 << 20})};
  wanted.outputs = {input("A", DType::kFp32, {2}), input("B", DType::kFp32, {2}), input("S", DType::kBytes, {1}),
                    input("OPEN", DType::kFp32, {-1}), input("HUGE", DType::kFp32, {1 << 20})};
  auto engine = load(wanted);
  ASSERT_TRUE(engine.has_value());
  sched::Batch batch;
  batch.rows = 3;
  batch.inputs = {{"b", DType::kFp32, {3, 2}, base::Bytes::copy_of("123456789012345678901234")}};
  ASSERT_EQ((*engine)->step(batch), base::Status());
  ASSERT_EQ(batch.outputs.size(), 3u);
  EXPECT_EQ(batch.outputs[0].name, "B");
  EXPECT_EQ(batch.outputs[1].name, "A");
  EXPECT_EQ(batch.outputs[1].shape, msg::Shape({3, 2}));
  EXPECT_EQ(batch.outputs[1].data.view(), std::string(24, '\0'));
  EXPECT_EQ(batch.outputs[2].name, "S");
  EXPECT_EQ(batch.outputs[2].shape, msg::Shape({3, 1}));
  EXPECT_EQ(batch.outputs[2].data.view(), std::string(12, '\0'));
  wanted.inputs[0].optional = false;  // whoever must bring it is told so elsewhere
  ASSERT_EQ((*load(wanted))->step(batch), base::Status());
  EXPECT_EQ(batch.outputs.size(), 2u);
}

TEST(Identity, IsInlineUnlessItHasADelay) {
  EXPECT_TRUE((*load(with_delay("")))->is_inline());
  EXPECT_TRUE((*load(with_delay("0")))->is_inline());
  EXPECT_FALSE((*load(with_delay("5")))->is_inline());
}

TEST(Identity, TakesAtLeastItsDelay) {
  auto engine = load(with_delay("2000"));
  sched::Batch batch;
  auto before = std::chrono::steady_clock::now();
  ASSERT_EQ((*engine)->step(batch), base::Status());
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::microseconds(2000));
}

TEST(Identity, RefusesADelayThatIsNoNumber) {
  for (const char* bad : {"", "x", "-1", "1.5", "5us", "60000001", "99999999999999"}) {
    auto wanted = with_delay("0");
    wanted.parameters["delay_us"] = bad;
    auto engine = load(wanted);
    ASSERT_FALSE(engine.has_value()) << bad;
    EXPECT_EQ(engine.error().code, base::Code::kInvalidArgument);
  }
}

TEST(Identity, TakesTritonsDelayInMilliseconds) {
  auto wanted = with_delay("");
  wanted.parameters["execute_delay_ms"] = "2";
  auto engine = load(wanted);
  ASSERT_TRUE(engine.has_value());
  EXPECT_FALSE((*engine)->is_inline());
  sched::Batch batch;
  auto before = std::chrono::steady_clock::now();
  ASSERT_EQ((*engine)->step(batch), base::Status());
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(2));
  wanted.parameters["execute_delay_ms"] = "60001";
  EXPECT_EQ(load(wanted).error().code, base::Code::kInvalidArgument);
}

TEST(Identity, MayBeSteppedFromManyShardsAtOnce) {
  auto engine = load(with_delay(""));
  auto data = base::Bytes::copy_of("shared");
  std::vector<std::thread> shards;
  for (int s = 0; s < 4; ++s)
    shards.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        sched::Batch batch;
        batch.inputs = {{"x", DType::kUint8, {6}, data}};
        ASSERT_EQ((*engine)->step(batch), base::Status());
        ASSERT_EQ(batch.outputs[0].data.view(), "shared");
      }
    });
  for (auto& t : shards) t.join();
}

}  // namespace
}  // namespace weir::identity
