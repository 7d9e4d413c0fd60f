// Products of pairs of a row and an expert whose weight is in codes, tile by tile (grouped.cu), as tiles of
// coded_tiles.cuh.
#include "engines/llm/cuda/coded_tiles.cuh"
#include "engines/llm/cuda/expert_rows.cuh"
#include "engines/llm/cuda/gates.cuh"
#include "engines/llm/cuda/matmul.h"

namespace weir::llm::cuda {
namespace {

using Into = ExpertMatmul::Into;

// The pairs of a tile, and outputs of its expert from `first` on.
template <Format kFormat, Into kInto>
struct PairTile {
  static constexpr uint32_t kOf = kRowsOf<kInto>;
  const ExpertMatmul& a;
  const uint32_t *pairs, *rows;         // those of the tile, and their rows of x
  const uint32_t count, expert, first;  // pairs; the first row of the expert's weight
  const uint32_t inputs = a.inputs;
  const DeviceMatrix& weight = a.weight;

  __device__ const Bf16* x(uint32_t row) const { return row < count ? a.x + size_t(rows[row]) * inputs : nullptr; }
  __device__ const unsigned char* codes(uint32_t column) const {
    const uint32_t row = row_of_column<kInto>(a, first, column);
    return row != kNoIndex ? row_of<kFormat>(weight, expert + row, inputs) : nullptr;
  }
  template <class C>
  __device__ void put(const TilePart<kFormat, C>& part) const {
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    if (!part.has_sums()) return;
    const float* bias = a.bias ? a.bias + expert : nullptr;
#pragma unroll
    for (uint32_t m = 0; m < C::kHigh; ++m)
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t row = part.row + m * 16 + half * 8 + g;
        if (row >= count) continue;
#pragma unroll
        for (uint32_t n = 0; n < C::kWide; n += kOf)
#pragma unroll
          for (uint32_t i = 0; i < 2; ++i) {
            const uint32_t output = first + (part.column + n * 8) / kOf + t * 2 + i;
            if (output < a.outputs)
              put_one(size_t(pairs[row]) * a.outputs + output, part.sum[m][n][half * 2 + i],
                      part.sum[m][n + kOf - 1][half * 2 + i], bias ? bias + output : nullptr);
          }
      }
  }
  __device__ void put_one(size_t to, float sum, float up, const float* bias) const {
    if (bias) sum += bias[0], up += bias[(kOf - 1) * a.outputs];
    if constexpr (kInto == ExpertMatmul::kSwiGlu)
      static_cast<Bf16*>(a.out)[to] = narrow(gated(a.kind, sum, up));
    else
      static_cast<float*>(a.out)[to] = sum;
  }
};

template <Format kFormat, class C, Into kInto>
__global__ void __launch_bounds__(C::kThreads) grouped_coded_kernel(ExpertMatmul a) {
  __shared__ uint32_t pairs[C::kRows], rows[C::kRows];
  auto* stages = dynamic_shared<unsigned char>();
  await_inputs();
  const ExpertTile tile = a.tiles[blockIdx.y];
  if (tile.count == 0) return;
  for (uint32_t r = threadIdx.x; r < tile.count; r += C::kThreads) {
    pairs[r] = a.order[tile.first + r];
    rows[r] = pairs[r] / a.per;
  }
  __syncthreads();
  const uint32_t expert = row_of_expert<kInto>(a, tile.expert);
  const PairTile<kFormat, kInto> source{a,          pairs,  rows,
                                        tile.count, expert, blockIdx.x * (C::kColumns / kRowsOf<kInto>)};
  TilePart<kFormat, C> part;
  typename TilePart<kFormat, C>::Scales scales{};
  part.load_scales(scales, source, 0);
  part.run(source, stages, scales);
  source.put(part);
}

template <Format kFormat, class C, Into kInto>
Code start(const Launch& launch, const ExpertMatmul& a) {
  const uint32_t each = C::kColumns / kRowsOf<kInto>, tiles = expert_tiles(a.pairs, a.count);
  if (tiles > 65535) return kBadShape;
  return run(launch, grouped_coded_kernel<kFormat, C, kInto>, dim3((a.outputs + each - 1) / each, tiles), C::kThreads,
             kTileBytes<kFormat, C>, a);
}

template <Format kFormat, Into kInto>
Code start(const Launch& launch, const ExpertMatmul& a) {
  switch (expert_tile_rows(a.pairs, a.count)) {
    case FewRows::kRows: return start<kFormat, FewRows, kInto>(launch, a);
    case SomeRows::kRows: return start<kFormat, SomeRows, kInto>(launch, a);
    default: return start<kFormat, ManyRows, kInto>(launch, a);
  }
}

template <Format kFormat>
Code start(const Launch& launch, const ExpertMatmul& a) {
  return a.into == ExpertMatmul::kSwiGlu ? start<kFormat, ExpertMatmul::kSwiGlu>(launch, a)
                                         : start<kFormat, ExpertMatmul::kF32>(launch, a);
}

template <Format kFormat>
Code load_of(int32_t device) {
  constexpr Into kF32 = ExpertMatmul::kF32, kSwiGlu = ExpertMatmul::kSwiGlu;
  return load_kernels(device, grouped_coded_kernel<kFormat, FewRows, kF32>,
                      grouped_coded_kernel<kFormat, FewRows, kSwiGlu>, grouped_coded_kernel<kFormat, SomeRows, kF32>,
                      grouped_coded_kernel<kFormat, SomeRows, kSwiGlu>, grouped_coded_kernel<kFormat, ManyRows, kF32>,
                      grouped_coded_kernel<kFormat, ManyRows, kSwiGlu>);
}

}  // namespace

Code coded_expert_matmul(const Launch& launch, const ExpertMatmul& a) {
  return with_format(a.weight.format, [&](auto format) { return start<format.value>(launch, a); });
}

Code load_grouped_coded(int32_t device) {
  return with_each_format([device](auto format) { return load_of<format.value>(device); });
}

}  // namespace weir::llm::cuda
