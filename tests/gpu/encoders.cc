// Whole encoders of Llama-like families on the GPU: against the kernels' host versions with the same random weights.
#include "device/host_device.h"
#include "engines/llm/cuda/device_rotary.h"
#include "engines/llm/cuda/reference.h"
#include "model.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

constexpr double kStates = 3e-2;  // of the largest: some steps of bfloat16

llm::Pack texts_of(const std::vector<uint32_t>& lengths, uint32_t vocabulary, llm::Pooling pooling) {
  llm::Pack pack;
  pack.pooling = pooling;
  for (uint32_t length : lengths) {
    pack.texts.push_back({uint32_t(pack.ids.size()), length});
    for (uint32_t i = 0; i < length; ++i)
      pack.ids.push_back((uint32_t(pack.ids.size()) * 7919 + 13) % vocabulary), pack.positions.push_back(i);
  }
  return pack;
}

// The embeddings of a pack's texts; empty with what went wrong in `error`.
std::vector<float> embeddings_of(device::Device& device, const Kernels& kernels, const llm::Shape& shape, uint64_t seed,
                                 const llm::Pack& pack, DeviceEncoderOptions options, std::string& error) {
  auto weights = random_device_weights(shape, seed, device);
  if (!weights) return error = weights.error().text, std::vector<float>();
  llm::EncoderLimits limits{shape.vocabulary, 0, shape.hidden, shape.max_length, 512, 0, llm::Places::kAmongTokens};
  auto encoder = DeviceRotary::make(device, kernels, shape, std::move(*weights), limits, std::move(options));
  if (!encoder) return error = encoder.error().text, std::vector<float>();
  for (int again = 0; again < 3; ++again)  // then as a graph, if it is small
    if (auto s = (*encoder)->run(pack); !s.ok()) return error = s.text, std::vector<float>();
  std::vector<float> out(pack.texts.size() * shape.hidden);
  for (size_t t = 0; t < pack.texts.size(); ++t)
    llm::embed(**encoder, pack, t, llm::Scale::kAsItIs, out.data() + t * shape.hidden);
  return out;
}

void check_random_encoder(Lab& lab, const char* name, const llm::Shape& shape, const std::vector<uint32_t>& lengths,
                          llm::Pooling pooling) {
  const uint64_t seed = lab.random();
  const auto pack = texts_of(lengths, shape.vocabulary, pooling);
  device::HostDevice host;
  std::string problem;
  auto ours = embeddings_of(lab.device, *lab.kernels, shape, seed, pack, {}, problem);
  auto theirs =
      embeddings_of(host, reference::table(), shape, seed, pack, {.capture_time = std::chrono::seconds(1)}, problem);
  lab.check(std::string("encoder, ") + name + (problem.empty() ? "" : ": " + problem), worst_of(ours, theirs), kStates);
}

}  // namespace

void check_encoder_models(Lab& lab) {
  const bool full = lab.scale == Lab::Scale::kFull;
  const std::vector<uint32_t> lengths =
      full ? std::vector<uint32_t>{1, 70, 16, 300} : std::vector<uint32_t>{1, 70, 16, 5};
  llm::Shape both = full ? random_shape(1000, 512, 2, 8, 2, 64, 1024) : random_shape(200, 128, 2, 2, 1, 64, 128);
  both.encoder = true, both.causal = false;
  using Pooling = llm::Pooling;
  for (auto pooling : {Pooling::kMean, Pooling::kFirst, Pooling::kLast})
    check_random_encoder(lab, "both directions", both, lengths, pooling);
  llm::Shape causal = full ? random_shape(1000, 512, 2, 4, 2, 128, 1024) : random_shape(200, 128, 2, 2, 1, 64, 128);
  causal.encoder = true, causal.qk_norm = true, causal.windows[1] = 20;
  check_random_encoder(lab, "one direction, head norms, a window", causal, lengths, Pooling::kLast);
}

}  // namespace weir::gpu
