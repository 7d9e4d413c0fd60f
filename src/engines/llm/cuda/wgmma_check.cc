#include "engines/llm/cuda/wgmma_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/plan.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;
using device::Way;

constexpr uint32_t kBlock = 16;       // positions
constexpr uint32_t kKeyHeads = 2;     // at most
constexpr int kRounds = 4;            // of the same work
constexpr float kAllowed = 1 / 64.f;  // of a value, or of one: weights are rounded to bfloat16
constexpr Bf16 kNan = 0xffff;         // where nobody may look

// The front of a text and the middle of another one, which takes several pieces of keys.
struct Text {
  uint32_t begin, count;
};
constexpr Text kTexts[] = {{0, 150}, {300, 70}};

// The arrays of a PrefillAttention, one after the other as they are in memory.
struct Problem {
  explicit Problem(const Shape& shape) : kv_heads(std::min(shape.kv_heads, kKeyHeads)), dim(shape.head_dim) {
    heads = shape.heads / shape.kv_heads * kv_heads;
    for (const Text& text : kTexts) add(text);
    q = put(numbers(size_t(tokens) * heads * dim));
    const size_t each = size_t(kv_heads) * dim;
    k = put(cache(each)), v = put(cache(each));
    std::vector<float> scores(heads);
    for (auto& score : scores) score = normal(random);
    sinks = put(scores), tables = put(blocks), chunks = put(parts), tiles = put(pieces);
    stuck = put(std::vector<uint32_t>{0});
    out = put(std::vector<Bf16>(size_t(tokens) * heads * dim, kNan));
  }

  size_t out_bytes() const { return bytes.size() - out; }
  PrefillAttention at(std::byte* base, const Shape& shape) const {
    auto in = [&]<class T>(size_t offset, const T*) { return reinterpret_cast<T*>(base + offset); };
    constexpr const Bf16* kHalves = nullptr;
    constexpr const uint32_t* kWords = nullptr;
    PrefillAttention a{};
    a.q = in(q, kHalves), a.k_cache = in(k, kHalves), a.v_cache = in(v, kHalves), a.out = in(out, kHalves);
    a.tables = in(tables, kWords), a.stuck = in(stuck, kWords);
    a.chunks = in(chunks, parts.data()), a.tiles = in(tiles, pieces.data()), a.count = uint32_t(pieces.size());
    a.heads = heads, a.kv_heads = kv_heads, a.dim = dim, a.block_size = kBlock, a.scale = shape.score_scale();
    return a;
  }
  const float* sinks_at(std::byte* base) const { return reinterpret_cast<const float*>(base + sinks); }

  uint32_t heads, kv_heads, dim;
  std::vector<std::byte> bytes;
  size_t stuck = 0;

 private:
  // A text's table names blocks that are not in order: 7 divides no number of them.
  void add(const Text& text) {
    const auto chunk = uint32_t(parts.size()), length = text.begin + text.count;
    parts.push_back({tokens, text.count, text.begin, uint32_t(blocks.size())});
    for (uint32_t query = 0; query < text.count; query += kQueryTile) pieces.push_back({chunk, query});
    const uint32_t count = (length + kBlock - 1) / kBlock, first = uint32_t(blocks.size());
    for (uint32_t i = 0; i < count; ++i) blocks.push_back(first + (i * 7 + 3) % count);
    tokens += text.count, lengths.push_back(length);
  }
  std::vector<Bf16> numbers(size_t count) {
    std::vector<Bf16> made(count);
    for (auto& number : made) number = narrow_bf16(normal(random));
    return made;
  }
  std::vector<Bf16> cache(size_t each) {
    std::vector<Bf16> made(blocks.size() * kBlock * each, kNan);
    for (size_t text = 0; text < lengths.size(); ++text)
      for (uint32_t position = 0; position < lengths[text]; ++position) {
        const size_t slot = blocks[parts[text].table + position / kBlock] * kBlock + position % kBlock;
        const auto row = numbers(each);
        std::copy(row.begin(), row.end(), made.begin() + ptrdiff_t(slot * each));
      }
    return made;
  }
  template <class T>
  size_t put(const std::vector<T>& values) {
    const size_t at = aligned(bytes.size());
    bytes.resize(at + values.size() * sizeof(T));
    std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(T));
    return at;
  }

  std::mt19937 random{90};
  std::normal_distribution<float> normal;
  uint32_t tokens = 0;
  std::vector<uint32_t> blocks, lengths;
  std::vector<Chunk> parts;
  std::vector<Tile> pieces;
  size_t q = 0, k = 0, v = 0, sinks = 0, tables = 0, chunks = 0, tiles = 0, out = 0;
};

class Trial {
 public:
  Trial(KernelQueue& queue, const Shape& shape) : queue_(queue), shape_(shape), problem_(shape) {}

  Status run() {
    auto memory = queue_.device().buffer(problem_.bytes.size());
    if (!memory) return memory.error();
    memory_ = std::move(*memory);
    auto host = queue_.device().pin(problem_.bytes.size());
    if (!host) return host.error();
    host_ = std::move(*host);
    for (uint32_t window : {0u, 100u})
      if (auto s = compare(window); !s.ok()) return s;
    return {};
  }

 private:
  // With a window heads have sinks, too.
  Status compare(uint32_t window) {
    PrefillAttention a = problem_.at(memory_.data(), shape_);
    a.window = window, a.sinks = window > 0 ? problem_.sinks_at(memory_.data()) : nullptr;
    auto expected = results(a);
    if (!expected) return expected.error();
    a.with = PrefillAttention::kWgmma;
    for (int round = 0; round < kRounds; ++round) {
      auto got = results(a);
      if (!got) return got.error();
      if (auto s = same(*expected, *got, window); !s.ok()) return s;
    }
    return {};
  }

  base::Result<std::vector<Bf16>> results(const PrefillAttention& a) {
    std::memcpy(host_.data(), problem_.bytes.data(), problem_.bytes.size());
    const size_t bytes = problem_.bytes.size();
    auto status = queue_.copy(Way::kToDevice, Copy{memory_.data(), host_.data(), bytes});
    if (status.ok()) status = queue_.launch(queue_.kernels().prefill_attention, a);
    if (status.ok()) status = queue_.copy(Way::kToHost, Copy{host_.data(), memory_.data(), bytes});
    if (auto drained = queue_.drain(); status.ok()) status = std::move(drained);
    if (!status.ok()) return status;
    uint32_t stuck = 0;
    std::memcpy(&stuck, host_.data() + problem_.stuck, sizeof stuck);
    if (stuck > 0)
      return base::failure(base::Code::kInternal, "barrier " + std::to_string(stuck) + " was waited for in vain");
    std::vector<Bf16> out(problem_.out_bytes() / sizeof(Bf16));
    std::memcpy(out.data(), host_.data() + bytes - problem_.out_bytes(), problem_.out_bytes());
    return out;
  }

  static Status same(const std::vector<Bf16>& expected, const std::vector<Bf16>& got, uint32_t window) {
    size_t wrong = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const float want = widen_bf16(expected[i]);
      wrong += !(std::abs(widen_bf16(got[i]) - want) <= kAllowed * std::max(1.f, std::abs(want)));
    }
    if (wrong == 0) return {};
    return base::failure(base::Code::kInternal, std::to_string(wrong) + " of " + std::to_string(expected.size()) +
                                                    " numbers differ, window " + std::to_string(window));
  }

  KernelQueue& queue_;
  const Shape& shape_;
  const Problem problem_;
  device::DeviceBuffer memory_;
  device::PinnedBlock host_;
};

bool is_hopper(const device::Device::Info& info) { return info.index >= 0 && info.major == 9 && info.minor == 0; }

bool could_take(const Shape& shape) {
  PrefillAttention a{};
  a.heads = shape.heads, a.kv_heads = shape.kv_heads, a.dim = shape.head_dim, a.cap = shape.attention_cap;
  return takes_wgmma(a);
}

}  // namespace

Status try_wgmma(KernelQueue& queue, const Shape& shape) { return Trial(queue, shape).run(); }

base::Result<PrefillAttention::With> choose_prefill(KernelQueue& queue, const Shape& shape, Wgmma wanted,
                                                    const device::Device::Info& device) {
  if (wanted == Wgmma::kOff || !is_hopper(device) || !could_take(shape)) return PrefillAttention::kMma;
  auto status = queue.device().epoch() > 1 ? base::failure(base::Code::kAborted, "the device was started anew")
                                           : try_wgmma(queue, shape);
  if (status.ok()) {
    base::log::verbose("prefill attention takes wgmma", {{"device", device.id}});
    return PrefillAttention::kWgmma;
  }
  base::log::warning("prefill attention does without wgmma", {{"device", device.id}, {"reason", status.text}});
  if (queue.lost())
    return base::failure(status.code, status.text +
                                          "; it was lost while wgmma was tried, which the parameter wgmma: off"
                                          " leaves out");
  return PrefillAttention::kMma;
}

}  // namespace weir::llm::cuda
