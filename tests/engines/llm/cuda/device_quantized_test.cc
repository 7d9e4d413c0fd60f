// Weights that a device keeps in fewer bits, with the kernels' host versions: against the CPU engine with the same
// codes, and against the checkpoint's numbers. The kernels themselves: tests/gpu/products.cc, tests/gpu/model.cc.
#include <atomic>
#include <new>
#include <numeric>

#include "device/host_device.h"
#include "device_support.h"
#include "engines/llm/cuda/coded_rows.h"

namespace weir::llm {
namespace {

using cuda::Format;

// A share of the largest logit: both sum the same codes, but round what layers make in other places.
constexpr double kAlike = 2e-2;

class DeviceQuantized : public testing::Test {
 protected:
  void SetUp() override {
    if (quantized().empty() || models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::unique_ptr<DeviceTransformer> engine(const std::string& folder, device::Device& device, Keep keep,
                                                   uint32_t threads = 1) {
    auto out = try_device(folder, device, {}, cuda::reference::table(), {}, {keep, threads});
    EXPECT_TRUE(bool(out)) << folder << (out ? "" : out.error().text);
    return out ? std::move(*out) : nullptr;
  }
};

// How a device keeps the matrices of a model's second layer.
struct Kept {
  std::vector<Format> formats;
  uint32_t widened = 0;
};
Kept kept_of(const std::string& path, Keep keep) {
  device::HostDevice host;
  auto folder = Folder::open(path);
  auto shape = parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = Store::open(*folder);
  auto weights = cuda::load_device_weights(*shape, {}, *store, host, {}, {keep, 1});
  EXPECT_TRUE(bool(weights)) << path << (weights ? "" : weights.error().text);
  if (!weights) return {};
  const cuda::DeviceLayer& layer = weights->layers[1];
  return {{layer.qkv.format, layer.out.format, layer.gate_up.format, layer.down.format}, weights->widened};
}
std::vector<Format> formats_of(const std::string& path, Keep keep) { return kept_of(path, keep).formats; }

template <class Engine>
std::vector<float> all_logits(Engine& engine, const std::vector<uint32_t>& ids) {
  BasicStepper<Engine> stepper(engine);
  Sequence s{ids, {}};
  const auto prompt = uint32_t(ids.size()) - 4;
  stepper.add(s, prompt, LogitsOf::kAll);
  auto out = stepper.run();
  while (s.stored < ids.size()) {  // steps of one row, whose norm and product are one kernel
    stepper.add(s, 1, LogitsOf::kLast);
    const auto more = stepper.run();
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

std::vector<uint32_t> some_ids() {
  std::vector<uint32_t> ids(24);
  for (uint32_t i = 0; i < ids.size(); ++i) ids[i] = (i * 37 + 11) % 160;
  return ids;
}

struct StoredSo {
  const char* name;
  Format format;         // that a device keeps its layers in
  Format down = format;  // the same of `down`, whose inputs may be no whole 32s
};
constexpr StoredSo kStored[] = {
    {"gptq", Format::kInt4},
    {"gptq_zeros", Format::kInt4},
    {"gptq_v2", Format::kInt4},
    {"gptq_mixed", Format::kBf16},
    {"gptq_8", Format::kInt8},
    {"gptq_8_zeros", Format::kBf16},
    {"awq", Format::kInt4},
    {"packed", Format::kInt4},
    {"packed_odd", Format::kBf16},
    {"packed_8", Format::kInt8},
    {"packed_zeros", Format::kInt4},
    {"int8", Format::kInt8},
    {"fp8_blocks", Format::kFp8, Format::kBf16},
    {"fp8_channels", Format::kBf16},
    {"fp8_tensor", Format::kFp8},
    {"gptq_fused", Format::kInt4},
};

TEST_F(DeviceQuantized, ACheckpointsCodesStayCodesAndGiveItsLogits) {
  for (const auto& [name, format, down] : kStored) {
    device::HostDevice host;
    const std::string folder = quantized() + "/" + name;
    const Expected expected(folder + "/expected.safetensors");
    EXPECT_EQ(formats_of(folder, Keep::kAsStored), (std::vector<Format>{format, format, format, down})) << name;
    EXPECT_EQ(formats_of(folder, Keep::kWhole), std::vector<Format>(4, Format::kBf16)) << name;
    auto coded = engine(folder, host, Keep::kAsStored);
    ASSERT_TRUE(coded);
    DeviceStepper stepper(*coded);
    Sequence s{expected.ids(), {}};
    stepper.add(s, uint32_t(s.ids.size()), Wanted::kAll);
    EXPECT_LT(worst(stepper.run(), expected.floats("logits"), coded->text().vocabulary), kAlike) << name;
  }
}

// The log tells how many there are.
TEST_F(DeviceQuantized, MatricesThatBecomeBfloat16AreCounted) {
  for (const auto& [name, format, down] : kStored) {
    const Kept kept = kept_of(quantized() + "/" + name, Keep::kAsStored);
    const bool any = std::count(kept.formats.begin(), kept.formats.end(), Format::kBf16) > 0;
    EXPECT_EQ(kept.widened > 0, any) << name << ' ' << kept.widened;
    EXPECT_EQ(kept_of(quantized() + "/" + name, Keep::kWhole).widened, 0u) << name << ": bfloat16 is asked for";
  }
  EXPECT_EQ(kept_of(models() + "/llama_bf16", Keep::kAsStored).widened, 0u) << "it has no codes";
}

TEST_F(DeviceQuantized, LogitsAreTheCpuEnginesWithTheSameCodes) {
  const std::string llama = models() + "/llama_bf16";
  const auto ids = some_ids();
  for (Keep keep : {Keep::kInt8, Keep::kInt4}) {
    EXPECT_EQ(formats_of(llama, keep), std::vector<Format>(4, keep == Keep::kInt8 ? Format::kInt8 : Format::kInt4));
    device::HostDevice host;
    auto ours = engine(llama, host, keep, 3);
    ASSERT_TRUE(ours);
    auto theirs = make_transformer(llama, WeightFormat::kBf16, 2, kernels(), 16, KvFormat::kAsComputed, keep);
    EXPECT_LT(worst(all_logits(*ours, ids), all_logits(*theirs, ids), ours->text().vocabulary), kAlike);
  }
  for (auto* name : {"gptq", "awq", "fp8_blocks", "int8"}) {
    device::HostDevice host;
    const std::string folder = quantized() + "/" + name;
    auto ours = engine(folder, host, Keep::kAsStored);
    ASSERT_TRUE(ours);
    auto theirs = make_transformer(folder, WeightFormat::kBf16);
    EXPECT_LT(worst(all_logits(*ours, ids), all_logits(*theirs, ids), ours->text().vocabulary), kAlike) << name;
  }
}

// A model of 4 bits is further from it than the CPU engine's codes are from the device's: the test above
// would notice weights that are not quantized.
TEST_F(DeviceQuantized, FewerBitsAreNoticed) {
  const std::string llama = models() + "/llama_bf16";
  const auto ids = some_ids();
  device::HostDevice host;
  auto whole = engine(llama, host, Keep::kWhole), coded = engine(llama, host, Keep::kInt4);
  ASSERT_TRUE(whole && coded);
  EXPECT_GT(worst(all_logits(*coded, ids), all_logits(*whole, ids), whole->text().vocabulary), 2 * kAlike);
}

TEST_F(DeviceQuantized, LogitsDoNotDependOnChunksOrCompany) {
  for (Keep keep : {Keep::kInt8, Keep::kInt4}) {
    device::HostDevice host;
    auto made = engine(models() + "/llama_bf16", host, keep);
    ASSERT_TRUE(made);
    for (uint32_t chunk : {1u, 17u}) expect_whole(*made, some_ids(), chunk, 5, "llama_bf16");
  }
}

// Ranks cut inputs at whole groups, or keep a matrix as bfloat16 of its numbers.
TEST_F(DeviceQuantized, TwoDevicesTogetherGiveTheLogitsOfOne) {
  const auto ids = some_ids();
  for (const auto& [folder, keep] :
       {std::pair(models() + "/llama_bf16", Keep::kInt4), std::pair(models() + "/llama_bf16", Keep::kInt8),
        std::pair(quantized() + "/fp8_tensor", Keep::kAsStored)}) {
    device::HostDevice one, first, second;
    auto alone = engine(folder, one, keep);
    auto together = on_ranks(folder, {&first, &second}, {}, cuda::reference::table(), {keep, 1});
    ASSERT_TRUE(alone && together) << (together ? "" : together.error().text);
    EXPECT_LT(worst(all_logits(**together, ids), all_logits(*alone, ids), alone->text().vocabulary), 5e-2) << folder;
  }
}

// Codes of a matrix whose numbers are known, and back.
std::vector<float> numbers(uint32_t outputs, uint32_t inputs) {
  std::vector<float> out(size_t(outputs) * inputs);
  for (size_t i = 0; i < out.size(); ++i) out[i] = float(int(i * 7919 % 1009) - 504) / 504;
  return out;
}

TEST(DeviceCodes, ARowIsItsNumbersWithinHalfACode) {
  for (const auto& [keep, levels] : {std::pair(Keep::kInt8, 127.f), std::pair(Keep::kInt4, 8.f)}) {
    const uint32_t outputs = 5, inputs = 160;
    const auto from = numbers(outputs, inputs);
    auto plan = cuda::plan_codes(keep, inputs);
    ASSERT_NE(plan.how.format, Format::kBf16);
    std::vector<std::byte> rows(outputs * plan.how.pitch);
    cuda::write_rows(plan.how.pitch, 0, rows, 1, [&]() -> cuda::WriteRow {
      return [&, coder = cuda::RowCoder(plan)](size_t row, std::byte* to) mutable {
        coder.write(&from[row * inputs], to);
      };
    });
    plan.how.data = rows.data();
    std::vector<float> back(inputs);
    for (uint32_t o = 0; o < outputs; ++o) {
      cuda::read_numbers(plan.how, o, inputs, back.data());
      // The largest of its side has the last code; of the other side there is one code less with 4 bits.
      for (uint32_t i = 0; i < inputs; ++i)
        EXPECT_NEAR(back[i], from[o * inputs + i], (keep == Keep::kInt4 ? 1.01f : 0.51f) / levels) << o << ' ' << i;
    }
  }
}

// Stages end anywhere in a row, and threads begin anywhere.
TEST(DeviceCodes, PiecesOfRowsAreThoseOfTheWhole) {
  constexpr size_t kPitch = 96, kRows = 40000;
  auto make = []() -> cuda::WriteRow {
    return [](size_t row, std::byte* to) {
      for (size_t i = 0; i < kPitch; ++i) to[i] = std::byte(row * 31 + i);
    };
  };
  std::vector<std::byte> whole(kPitch * kRows), pieces(whole.size());
  cuda::write_rows(kPitch, 0, whole, 1, make);
  EXPECT_EQ(whole[kPitch * 777 + 5], std::byte(777 * 31 + 5));
  for (size_t from = 0, n = 1; from < pieces.size(); from += n, n = n * 3 + 1) {
    n = std::min(n, pieces.size() - from);
    cuda::write_rows(kPitch, from, {&pieces[from], n}, 3, make);
  }
  EXPECT_EQ(pieces, whole);
}

TEST(DeviceCodes, ARowHasItsCodesAndTheScalesOfItsGroups) {
  EXPECT_EQ(cuda::row_bytes(Format::kInt8, 4096, 128, false), 4096u + 32 * 4);
  EXPECT_EQ(cuda::row_bytes(Format::kInt4, 4096, 32, false), 2048u + 128 * 4);
  EXPECT_EQ(cuda::row_bytes(Format::kInt4, 4096, 128, true), 2048u + 32 * 8);
}

TEST(DeviceCodes, WhatAProductCannotTakeStaysBfloat16) {
  EXPECT_EQ(cuda::plan_codes(Keep::kInt4, 40).how.format, Format::kBf16);   // no whole steps
  EXPECT_EQ(cuda::plan_codes(Keep::kInt8, 160).how.format, Format::kInt8);  // the last group is shorter
  const std::vector<float> floats = numbers(2, 256);
  const Array array{Stored::kF32, {2, 256}, std::as_bytes(std::span(floats))};
  const Weight weight(array);
  const Weight* const weights[] = {&weight};
  EXPECT_EQ(cuda::plan_codes(weights, Keep::kInt8, 128, 128).how.format, Format::kInt8);
  EXPECT_EQ(cuda::plan_codes(weights, Keep::kInt8, 64, 128).how.format, Format::kBf16);  // would cut a group
  EXPECT_EQ(cuda::plan_codes(weights, Keep::kInt4, 64, 128).how.format, Format::kInt4);
  EXPECT_EQ(cuda::plan_codes(weights, Keep::kAsStored, 0, 256).how.format, Format::kBf16);
}

// A share that is no whole groups begins at one on some ranks alone.
TEST(DeviceCodes, AllRanksKeepAMatrixInTheSameWay) {
  for (const auto& [inputs, ranks] : {std::pair(320u, 2u), std::pair(256u, 4u), std::pair(256u, 2u)}) {
    const std::vector<float> floats = numbers(2, inputs);
    const Array array{Stored::kF32, {2, inputs}, std::as_bytes(std::span(floats))};
    const Weight weight(array);
    const Weight* const weights[] = {&weight};
    const uint32_t share = inputs / ranks;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(cuda::plan_codes(weights, Keep::kInt8, rank * share, share).how.format,
                share % 128 == 0 ? Format::kInt8 : Format::kBf16)
          << inputs << ' ' << rank;
  }
}

// The one that calls waits for the others, and gets what any of them throws.
TEST(DeviceCodes, WhatAThreadThrowsIsThrownToTheLoader) {
  std::vector<std::byte> to(size_t(8) << 20);
  for (int thrower = 0; thrower < 4; ++thrower) {
    std::atomic<int> made{0};
    auto make = [&]() -> cuda::WriteRow {
      return [throws = made++ == thrower](size_t, std::byte*) {
        if (throws) throw std::bad_alloc();
      };
    };
    EXPECT_THROW(cuda::write_rows(64, 0, to, 4, make), std::bad_alloc) << thrower;
  }
}

}  // namespace
}  // namespace weir::llm
