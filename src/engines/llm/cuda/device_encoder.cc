#include "engines/llm/cuda/device_encoder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engines/llm/cuda/launches.h"
#include "engines/llm/cuda/plan.h"

namespace weir::llm::cuda {
namespace {

using base::Status;
using device::Copy;
using device::Way;

constexpr uint32_t kBlock = 16;  // positions of a block of keys and values

template <class T>
Status keep(base::Result<T> made, T& to) {
  if (!made) return made.error();
  to = std::move(*made);
  return {};
}

}  // namespace

DeviceEncoder::DeviceEncoder(device::Device& device, const Kernels& kernels, EncoderLimits limits, Widths widths,
                             DeviceEncoderOptions options)
    : queue_(device, kernels),
      limits_(limits),
      widths_(widths),
      options_(std::move(options)),
      graphs_(device, queue_.stream(), options_.graphs) {}

DeviceEncoder::~DeviceEncoder() { queue_.close(); }

Status DeviceEncoder::start() {
  return each([&] { return queue_.open(device::Device::Priority::kNormal); }, [&] { return make_room(); },
              [&] { return upload_constants(); }, [&] { return queue_.open_products(workspace_); },
              [&] { return warm(); });
}

Status DeviceEncoder::warm() {
  if (options_.capture_time.count() == 0) return {};
  auto status =
      each([&] { return queue_.time_products([&] { return choose_products(); }); }, [&] { return warm_graphs(); });
  if (!status.ok()) (void)queue_.drain();  // of what it will not outlive
  return status;
}

// A step of idle tokens alone; one run of each number of tokens loads what it takes.
Status DeviceEncoder::warm_graphs() {
  const auto until = std::chrono::steady_clock::now() + options_.capture_time;
  uint32_t loaded = 0;
  for (auto bucket : pack_buckets(limits_.pack_tokens)) {
    if (!graphs_.wanted() || std::chrono::steady_clock::now() >= until) break;
    const Args args = write({}, bucket);
    auto launch = [&] { return forward(args); };
    auto status = each([&] { return send(); },
                       [&] { return std::exchange(loaded, bucket.tokens) != bucket.tokens ? launch() : Status(); },
                       [&] { return graphs_.make(bucket.key(), launch); }, [&] { return queue_.drain(); });
    if (!status.ok()) return status;
  }
  return {};
}

// Packs of idle tokens, one for each number of rows for which the library chooses algorithms, so that none is chosen
// when a request waits.
Status DeviceEncoder::choose_products() {
  Status status;
  for (uint32_t size : prompt_sizes(limits_.pack_tokens)) {
    if (!status.ok()) break;
    const Args args = write({}, {size, 1});
    status = each([&] { return send(); }, [&] { return forward(args); }, [&] { return queue_.drain(); });
  }
  return status;
}

Status DeviceEncoder::make_room() {
  const size_t tokens = limits_.pack_tokens, hidden = limits_.hidden;
  const size_t q = size_t(widths_.heads) * widths_.dim, kv = size_t(widths_.kv_heads) * widths_.dim;
  size_t bytes = 0;
  auto room = [&](size_t each) { return std::exchange(bytes, bytes + aligned(tokens * each)); };
  const size_t rows = room(hidden * sizeof(float)), narrow = room(hidden * sizeof(Bf16));
  const size_t qkv = room((q + 2 * kv) * sizeof(Bf16)), queries = room(q * sizeof(Bf16));
  const size_t mixed = room(q * sizeof(Bf16)), keys = room(kv * sizeof(Bf16)), values = room(kv * sizeof(Bf16));
  const size_t inner = room(widths_.inner * sizeof(Bf16)), gated = room(widths_.gated * sizeof(Bf16));
  const size_t workspace = std::exchange(bytes, bytes + kWorkspace);
  // ids, kinds, positions, slots; chunks, tiles and ranges of texts, which have a token at least.
  const size_t args = tokens * (4 * sizeof(uint32_t) + sizeof(Chunk) + sizeof(Tile) + sizeof(PoolRange)) + 8 * kAlign;
  const size_t sums = tokens / EncoderLimits::taken(1) * hidden * sizeof(double);
  if (auto s = each([&] { return keep(queue_.device().buffer(bytes), room_); },
                    [&] { return keep(queue_.device().buffer(args), args_); },
                    [&] { return keep(queue_.device().pin(args), in_); },
                    [&] { return keep(queue_.device().buffer(sums), sums_); },
                    [&] { return keep(queue_.device().pin(sums), out_); });
      !s.ok())
    return s;
  auto halves = [&](size_t at) { return reinterpret_cast<Bf16*>(room_.data() + at); };
  rows_ = reinterpret_cast<float*>(room_.data() + rows), narrow_ = halves(narrow), qkv_ = halves(qkv);
  queries_ = halves(queries), mixed_ = halves(mixed), keys_ = halves(keys), values_ = halves(values);
  inner_ = halves(inner), gated_ = halves(gated), workspace_ = room_.data() + workspace;
  return {};
}

Status DeviceEncoder::upload_constants() {
  const size_t blocks = limits_.pack_tokens / kBlock, zeros = std::max<size_t>(limits_.pack_tokens, widths_.dim);
  std::vector<uint32_t> words(blocks + zeros, 0);
  std::iota(words.begin(), words.begin() + ptrdiff_t(blocks), 0u);
  const size_t bytes = words.size() * sizeof(uint32_t);
  base::check(bytes <= in_.size(), "arguments take more than constants");
  if (auto s = keep(queue_.device().buffer(bytes), constants_); !s.ok()) return s;
  std::memcpy(in_.data(), words.data(), bytes);
  if (auto s = queue_.copy(Way::kToDevice, Copy{constants_.data(), in_.data(), bytes}); !s.ok()) return s;
  table_ = reinterpret_cast<const uint32_t*>(constants_.data());
  zeros_ = table_ + blocks;
  return queue_.drain();
}

Status DeviceEncoder::run(const Pack& pack) {
  const size_t n = pack.ids.size();
  if (n > limits_.pack_tokens || pack.positions.size() != n || (!pack.types.empty() && pack.types.size() != n))
    return base::failure(base::Code::kInternal, "a pack's arrays are too long, or differ");
  auto status = queue(pack);
  if (auto drained = queue_.drain(); status.ok()) status = std::move(drained);
  if (!status.ok() && !queue_.device().fault().ok() && options_.broken) std::exchange(options_.broken, nullptr)(status);
  return status;
}

void DeviceEncoder::sum(size_t text, float* out) const {
  const auto* sum = reinterpret_cast<const double*>(out_.data()) + text * limits_.hidden;
  for (uint32_t d = 0; d < limits_.hidden; ++d) out[d] = float(sum[d]);
}

DeviceEncoder::Args DeviceEncoder::write(const Pack& pack) {
  uint32_t tiles = 0;
  for (const auto& text : pack.texts) tiles += (text.count + kQueryTile - 1) / kQueryTile;
  return write(pack,
               graphs_.wanted() ? pack_bucket(uint32_t(pack.ids.size()), tiles, limits_.pack_tokens) : PackBucket());
}

// A graph of a bucket fixes where arrays begin: chunks, of which there may be any number, come behind the others, and
// ranges, which no graph reads, last. Idle tokens have no slots, idle tiles a chunk of none.
DeviceEncoder::Args DeviceEncoder::write(const Pack& pack, PackBucket bucket) {
  std::vector<uint32_t> slots;
  std::vector<Chunk> chunks;
  std::vector<Tile> tiles;
  std::vector<PoolRange> ranges;
  uint32_t block = 0;
  for (const auto& text : pack.texts) {
    const auto pooled = pack.pooled(text);
    ranges.push_back({pooled.first, pooled.count});
    for (uint32_t i = 0; i < text.count; ++i) slots.push_back(block * kBlock + i);
    for (uint32_t query = 0; query < text.count; query += kQueryTile) tiles.push_back({uint32_t(chunks.size()), query});
    chunks.push_back({text.first, text.count, 0, block});
    block += EncoderLimits::taken(text.count) / kBlock;
  }
  base::check(block * kBlock <= limits_.pack_tokens, "a pack's texts take no more than there is");
  const auto tokens = std::max<size_t>(bucket.tokens, pack.ids.size());
  if (bucket.tokens > 0) {
    slots.resize(tokens, kNoSlot);
    tiles.resize(bucket.tiles, {uint32_t(chunks.size()), 0});
    chunks.push_back({0, 0, 0, 0});
  }
  args_bytes_ = 0;
  auto put = [&]<class T>(const std::vector<T>& values, size_t count) {
    const size_t bytes = values.size() * sizeof(T), whole = count * sizeof(T);
    const size_t at = std::exchange(args_bytes_, args_bytes_ + aligned(whole));
    if (bytes > 0) std::memcpy(in_.data() + at, values.data(), bytes);
    std::memset(in_.data() + at + bytes, 0, whole - bytes);
    return reinterpret_cast<const T*>(args_.data() + at);
  };
  Args args;
  args.ids = put(pack.ids, tokens);
  if (limits_.types > 0) args.kinds = put(pack.types, tokens);
  args.positions = put(pack.positions, tokens), args.slots = put(slots, tokens);
  args.tiles = put(tiles, tiles.size()), args.chunks = put(chunks, chunks.size());
  args.ranges = put(ranges, ranges.size()), args.texts = uint32_t(ranges.size());
  args.tokens = uint32_t(tokens), args.tile_count = uint32_t(tiles.size()), args.bucket = bucket;
  return args;
}

Status DeviceEncoder::send() { return queue_.copy(Way::kToDevice, Copy{args_.data(), in_.data(), args_bytes_}); }

Status DeviceEncoder::queue(const Pack& pack) {
  const Args args = write(pack);
  Copy out{out_.data(), sums_.data(), size_t(args.texts) * limits_.hidden * sizeof(double)};
  const Pool sums{.ranges = args.ranges,
                  .out = reinterpret_cast<double*>(sums_.data()),
                  .count = args.texts,
                  .hidden = limits_.hidden,
                  .exact = rows_};
  auto all = [&] { return forward(args); };
  return each(
      [&] { return send(); }, [&] { return args.bucket.tokens > 0 ? graphs_.run(args.bucket.key(), all) : all(); },
      [&] { return queue_.launch(queue_.kernels().pool, sums); }, [&] { return queue_.copy(Way::kToHost, out); });
}

Status DeviceEncoder::attend(const Args& args, Mask mask, uint32_t window, float scale) {
  PrefillAttention a{queries_,    keys_,  values_,         table_,        args.chunks,
                     args.tiles,  mixed_, args.tile_count, widths_.heads, widths_.kv_heads,
                     widths_.dim, kBlock, window,          scale,         mask};
  return queue_.launch(queue_.kernels().prefill_attention, a);
}

}  // namespace weir::llm::cuda
