// Products of three rows and more with a weight in codes: tiles of coded_tiles.cuh.
#include "engines/llm/cuda/coded_tiles.cuh"
#include "engines/llm/cuda/matmul.h"

namespace weir::llm::cuda {
namespace {

// A tile of rows of x from `first_row` on, and of the weight from `first_output` on.
template <Format kFormat>
struct MatmulTile {
  const Matmul& a;
  const uint32_t first_row, first_output, inputs = a.inputs;
  const DeviceMatrix& weight = a.weight;

  __device__ const Bf16* x(uint32_t row) const {
    return first_row + row < a.rows ? a.x + size_t(first_row + row) * inputs : nullptr;
  }
  __device__ const unsigned char* codes(uint32_t column) const {
    return first_output + column < a.outputs ? row_of<kFormat>(weight, first_output + column, inputs) : nullptr;
  }
  template <class C>
  __device__ void put(const TilePart<kFormat, C>& part) const {
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    if (!part.has_sums()) return;
#pragma unroll
    for (uint32_t m = 0; m < C::kHigh; ++m)
#pragma unroll
      for (uint32_t n = 0; n < C::kWide; ++n)
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t row = first_row + part.row + m * 16 + g + i / 2 * 8;
          const uint32_t output = first_output + part.column + n * 8 + t * 2 + i % 2;
          if (row < a.rows && output < a.outputs) put_product(a, row, output, part.sum[m][n][i]);
        }
  }
};

template <Format kFormat, class C>
__global__ void __launch_bounds__(C::kThreads) coded_kernel(Matmul a) {
  auto* stages = dynamic_shared<unsigned char>();
  const MatmulTile<kFormat> tile{a, blockIdx.y * C::kRows, blockIdx.x * C::kColumns};
  TilePart<kFormat, C> part;
  typename TilePart<kFormat, C>::Scales scales{};
  part.load_scales(scales, tile, 0);
  await_inputs();
  part.run(tile, stages, scales);
  tile.put(part);
}

template <Format kFormat, class C>
Code start(const Launch& launch, const Matmul& a) {
  const uint32_t across = (a.outputs + C::kColumns - 1) / C::kColumns, down = (a.rows + C::kRows - 1) / C::kRows;
  if (down > 65535) return kBadShape;
  return run(launch, coded_kernel<kFormat, C>, dim3(across, down), C::kThreads, kTileBytes<kFormat, C>, a);
}

template <Format kFormat>
Code start(const Launch& launch, const Matmul& a) {
  if (a.rows <= FewRows::kRows) return start<kFormat, FewRows>(launch, a);
  return a.rows <= SomeRows::kRows ? start<kFormat, SomeRows>(launch, a) : start<kFormat, ManyRows>(launch, a);
}

template <Format kFormat>
Code load_of(int32_t device) {
  return load_kernels(device, coded_kernel<kFormat, FewRows>, coded_kernel<kFormat, SomeRows>,
                      coded_kernel<kFormat, ManyRows>);
}

}  // namespace

Code coded_matmul(const Launch& launch, const Matmul& a) {
  return with_format(a.weight.format, [&](auto format) { return start<format.value>(launch, a); });
}

Code load_coded(int32_t device) {
  return with_each_format([device](auto format) { return load_of<format.value>(device); });
}

}  // namespace weir::llm::cuda
