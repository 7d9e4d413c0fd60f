// Keys and values as codes on a device, with the kernels' host versions: what they take, against the CPU engine with
// the same format and against bfloat16, in any company, copied, and on several devices.
#include "device/host_device.h"
#include "device_support.h"
#include "engines/llm/cuda/choice.h"
#include "engines/llm/llm.h"

namespace weir::llm {
namespace {

using cuda::KvCodes;

struct KvCase {
  KvFormat format;
  KvCodes codes;
  double near;  // of the largest logit: how far those of bfloat16 may be
};
constexpr KvCase kKvCases[] = {{KvFormat::kInt8, KvCodes::kInt8, 4e-2}, {KvFormat::kFp8, KvCodes::kFp8, 0.12}};

std::vector<uint32_t> some_ids(uint32_t count) {
  std::vector<uint32_t> ids;
  for (uint32_t t = 0; t < count; ++t) ids.push_back((t * 97 + 5) % 3000);
  return ids;
}

// In chunks, the last of one token, so that both attentions take part.
template <class Engine>
std::vector<float> logits_in_chunks(Engine& engine, const std::vector<uint32_t>& ids) {
  BasicStepper<Engine> stepper(engine);
  Sequence s{ids, {}};
  std::vector<float> out;
  for (uint32_t chunk : {33u, 40u, 1u, 1u}) {
    stepper.add(s, chunk, Wanted::kLast);
    const auto logits = stepper.run();
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

TEST(LlmDeviceCodes, TakeAByteForEachNumberAndAScaleForEachVector) {
  device::HostDevice host;
  const auto whole = on_device(kChat, host);
  const auto shape = parse_shape(Folder::open(kChat)->read("config.json", 1 << 20).value());
  for (const auto& [format, codes, near] : kKvCases) {
    EXPECT_EQ(cuda::codes_of(format), codes);
    const auto engine = on_device(kChat, host, {.kv_codes = codes});
    ASSERT_TRUE(engine && whole && shape);
    const size_t vectors = size_t(2) * shape->layers * shape->kv_heads;
    EXPECT_EQ(whole->kv_bytes(16), 16 * vectors * shape->head_dim * 2);
    EXPECT_EQ(engine->kv_bytes(16), 16 * vectors * (shape->head_dim + 4));
  }
}

TEST(LlmDeviceCodes, LogitsAreTheCpuEnginesAndNearThoseOfBfloat16) {
  device::HostDevice host;
  const auto ids = some_ids(75);
  const auto whole = logits_in_chunks(*on_device(kChat, host), ids);
  for (const auto& [format, codes, near] : kKvCases) {
    const auto ours = on_device(kChat, host, {.kv_codes = codes});
    const auto theirs = make_transformer(kChat, WeightFormat::kBf16, 2, kernels(), 16, format);
    const auto here = logits_in_chunks(*ours, ids);
    const uint32_t vocabulary = ours->text().vocabulary;
    // A number that one of them rounds the other way is a step of its codes off.
    EXPECT_LT(worst(here, logits_in_chunks(*theirs, ids), vocabulary), near) << uint32_t(codes);
    EXPECT_LT(worst(here, whole, vocabulary), near) << uint32_t(codes);
    EXPECT_NE(here, whole) << "no number was rounded";
  }
}

TEST(LlmDeviceCodes, LogitsDoNotDependOnChunksOrCompany) {
  device::HostDevice host;
  for (const auto& [format, codes, near] : kKvCases) {
    const auto engine = on_device(kChat, host, {.kv_codes = codes});
    for (uint32_t chunk : {1u, 17u}) expect_whole(*engine, some_ids(60), chunk, 5, "chat");
  }
}

TEST(LlmDeviceCodes, AForkGoesOnAsItsOriginal) {
  device::HostDevice host;
  for (const auto& [format, codes, near] : kKvCases)
    expect_fork(*on_device(kChat, host, {.kv_codes = codes}), some_ids(40));
}

TEST(LlmDeviceCodes, AreLoadedAsTheParameterSays) {
  device::Devices devices({.cuda = device::DeviceOptions::Use::kOff, .module = ""});
  auto blocks = [&](const char* format) {
    msg::ModelSpec wanted;
    wanted.parameters = {{"device", "host"}, {"kv_cache_dtype", format}, {"kv_cache", "2MiB"}};
    auto loaded = load(wanted, std::string(kChat) + "/config.json", {&devices, {}});
    EXPECT_TRUE(bool(loaded)) << (loaded ? "" : loaded.error().text);
    return loaded ? std::get<generation::TokenModel>(*loaded).engine->kv_bytes(16) : 0;
  };
  EXPECT_EQ(blocks("fp8"), blocks("int8"));
  EXPECT_EQ(blocks("fp8_e4m3"), blocks("fp8"));
  EXPECT_LT(blocks("fp8"), blocks("auto") * 0.6);
}

}  // namespace
}  // namespace weir::llm
