// Keys and values kept as int8 or E4M3, against the same numbers kept as they are computed.
#include "engines/llm/load/fp8.h"
#include "support.h"

namespace weir::llm {
namespace {

constexpr uint32_t kDim = 32, kGroup = 3;

// One head's keys and values, and three queries at its last position.
class OneHead {
 public:
  OneHead(WeightFormat form, KvFormat kept, const Kernels& with)
      : form_(form), with_(with), cache_(form, kept, 1, 1, kDim) {
    EXPECT_TRUE(cache_.reserve(16, 16).ok());
  }
  KvCache& cache() { return cache_; }
  void write(uint32_t position, float (*number)(uint32_t position, uint32_t d)) {
    float key[kDim], value[kDim];
    for (uint32_t d = 0; d < kDim; ++d) key[d] = number(position, d), value[d] = number(position + 7, d + 1);
    cache_.write(0, 0, position, key, value);
  }
  std::vector<std::byte> attend(uint32_t last_position) const {
    std::vector<float> q(kGroup * kDim), scratch(attention_scratch(kDim, cache_.kept()));
    for (size_t i = 0; i < q.size(); ++i) q[i] = float(int(i % 5) - 2) / 64;
    std::vector<std::byte> queries(q.size() * size_of(form_)), out(kGroup * kDim * size_of(form_));
    with_.convert[size_t(form_)](q.data(), uint32_t(q.size()), queries.data());
    std::vector<uint32_t> table(16);
    for (uint32_t i = 0; i < 16; ++i) table[i] = i;
    Attention a{};
    a.q = queries.data(), a.queries = 1, a.group = kGroup, a.head_dim = kDim;
    a.position = last_position, a.scale = 1 / 8.0f;
    a.kept = cache_.kept(), a.kv = cache_.of(0, 0), a.block_stride = cache_.block_bytes();
    a.table = table.data(), a.tiles_per_block = 1;
    a.out = out.data(), a.out_dim = kDim, a.scratch = scratch.data();
    with_.attend[size_t(form_)](a);
    return out;
  }

 private:
  WeightFormat form_;
  const Kernels& with_;
  KvCache cache_;
};

// Whole numbers whose largest is 127 or -127: each is itself, with a scale of 1.
float whole_number(uint32_t position, uint32_t d) {
  if (d % kDim == position % kDim) return position % 2 == 0 ? 127 : -127;
  return float(int((position * 31 + d * 17) % 253) - 126);
}

TEST(Int8Cache, NumbersThatNeedNoRoundingGiveTheSameBits) {
  for (auto* isa : {"portable", "avx2", "avx512", "avx512_bf16"})
    for (auto form : {WeightFormat::kF32, WeightFormat::kBf16}) {
      auto* with = kernels(isa);
      if (!with) continue;
      OneHead exact(form, KvFormat::kAsComputed, *with), bytes(form, KvFormat::kInt8, *with);
      for (uint32_t p = 0; p < 200; ++p) {
        exact.write(p, whole_number), bytes.write(p, whole_number);
        if (p != 0 && p != 15 && p != 16 && p != 127 && p != 128 && p != 199) continue;
        EXPECT_EQ(exact.attend(p), bytes.attend(p)) << isa << " position " << p;
      }
    }
}

// Numbers of E4M3 whose largest is 448: each is itself, with a scale of 1.
float small_float(uint32_t position, uint32_t d) {
  if (d % kDim == position % kDim) return position % 2 == 0 ? 448 : -448;
  return fp8_value((position * 31 + d * 17) % 127 + (d % 3 == 0 ? 128 : 0));
}

TEST(Fp8Cache, NumbersThatNeedNoRoundingGiveTheSameBits) {
  for (auto* isa : {"portable", "avx2", "avx512", "avx512_bf16"})
    for (auto form : {WeightFormat::kF32, WeightFormat::kBf16}) {
      auto* with = kernels(isa);
      if (!with) continue;
      OneHead exact(form, KvFormat::kAsComputed, *with), bytes(form, KvFormat::kFp8, *with);
      for (uint32_t p = 0; p < 140; ++p) {
        exact.write(p, small_float), bytes.write(p, small_float);
        if (p != 0 && p != 15 && p != 16 && p != 127 && p != 128 && p != 139) continue;
        EXPECT_EQ(exact.attend(p), bytes.attend(p)) << isa << " position " << p;
      }
    }
}

TEST(Fp8Cache, EveryCodeIsItsOwnAndOthersGoToTheNearest) {
  for (uint32_t code = 0; code < 0x7f; ++code) {
    const float value = fp8_value(code), next = fp8_value(code + 1), half = (value + next) / 2;
    EXPECT_EQ(fp8_from(value), code);
    EXPECT_EQ(fp8_from(-value), code | 0x80);
    if (code == 0x7e) break;  // 448
    EXPECT_EQ(fp8_from(std::nextafter(half, 0.f)), code);
    EXPECT_EQ(fp8_from(std::nextafter(half, 1e9f)), code + 1);
    EXPECT_EQ(fp8_from(half), code + code % 2) << "ties to even";
  }
  EXPECT_EQ(fp8_value(1), 0x1p-9f);
  EXPECT_EQ(fp8_value(8), 0x1p-6f);
  EXPECT_EQ(fp8_value(0x7e), kMostOfFp8);
}

TEST(Int8Cache, TakesAByteForEachNumberAndAScaleForEachVector) {
  EXPECT_EQ(KvCache(WeightFormat::kBf16, KvFormat::kInt8, 3, 2, 64).bytes(16), 3u * 2 * 16 * 2 * (64 + 4));
  EXPECT_EQ(KvCache(WeightFormat::kF32, KvFormat::kInt8, 3, 2, 64).bytes(16), 3u * 2 * 16 * 2 * (64 + 4));
  EXPECT_EQ(KvCache(WeightFormat::kF32, KvFormat::kFp8, 3, 2, 64).bytes(16), 3u * 2 * 16 * 2 * (64 + 4));
  EXPECT_EQ(KvCache(WeightFormat::kBf16, KvFormat::kAsComputed, 3, 2, 64).bytes(16), 3u * 2 * 16 * 2 * 64 * 2);
}

TEST(Int8Cache, NothingAndNextToNothingAreNothing) {
  for (auto kept : {KvFormat::kInt8, KvFormat::kFp8}) {
    OneHead bytes(WeightFormat::kF32, kept, kernels());
    bytes.write(0, [](uint32_t, uint32_t) { return 0.0f; });
    bytes.write(1, [](uint32_t, uint32_t) { return 1e-42f; });
    auto out = bytes.attend(1);
    for (size_t i = 0; i < kGroup * kDim; ++i) EXPECT_EQ(reinterpret_cast<const float*>(out.data())[i], 0) << i;
  }
}

// An earlier owner of a block may have left what is not finite behind its new owner's positions.
TEST(Int8Cache, PositionsThatAreNotSeenWeighNothing) {
  OneHead fresh(WeightFormat::kBf16, KvFormat::kInt8, kernels()), used(WeightFormat::kBf16, KvFormat::kInt8, kernels());
  for (uint32_t p = 0; p < 48; ++p) used.write(p, [](uint32_t, uint32_t) { return INFINITY; });
  for (uint32_t p = 0; p < 21; ++p) fresh.write(p, whole_number), used.write(p, whole_number);
  EXPECT_EQ(fresh.attend(20), used.attend(20));
}

TEST(Int8Cache, WhatIsNotFiniteIsNoNumber) {
  for (auto kept : {KvFormat::kInt8, KvFormat::kFp8}) {
    OneHead bytes(WeightFormat::kF32, kept, kernels());
    bytes.write(0, whole_number);
    bytes.write(1, [](uint32_t, uint32_t d) { return d == 3 ? INFINITY : 1.0f; });
    auto out = bytes.attend(1);
    EXPECT_TRUE(std::isnan(reinterpret_cast<const float*>(out.data())[0]));
  }
}

class Int8Models : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return models() + "/" + name; }
};

TEST_F(Int8Models, LogitsAreNearTheReferences) {
  for (auto [name, form] : {std::pair("llama", WeightFormat::kF32), std::pair("qwen3", WeightFormat::kF32),
                            std::pair("mistral", WeightFormat::kF32), std::pair("llama_bf16", WeightFormat::kBf16),
                            std::pair("gemma2", WeightFormat::kF32)}) {
    Expected expected(folder(name) + "/expected.safetensors");
    auto engine = make_transformer(folder(name), form, 2, kernels(), 16, KvFormat::kInt8);
    Stepper stepper(*engine);
    Sequence s{expected.ids(), {}};
    stepper.add(s, uint32_t(s.ids.size()), Stepper::Wanted::kAll);
    EXPECT_LT(worst(stepper.run(), expected.floats("logits"), engine->text().vocabulary), 4e-2) << name;
  }
}

TEST_F(Int8Models, LogitsDoNotDependOnChunksOrCompany) {
  for (auto [name, form] : {std::pair("qwen3", WeightFormat::kF32), std::pair("llama_bf16", WeightFormat::kBf16),
                            std::pair("mistral", WeightFormat::kF32)}) {
    auto ids = Expected(folder(name) + "/expected.safetensors").ids();
    auto engine = make_transformer(folder(name), form, 2, kernels(), 16, KvFormat::kInt8);
    for (uint32_t chunk : {1u, 3u, 17u, 64u}) expect_whole(*engine, ids, chunk, 0, name);
  }
}

}  // namespace
}  // namespace weir::llm
