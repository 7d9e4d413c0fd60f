// The implementation of the table's matmul: a kernel of our own for few rows, cuBLASLt for more. What the library
// refuses is done by our kernel, a few rows at a time: slower, and right. Of weights in codes all is done by kernels of
// our own.
//
// cuBLASLt is opened with dlopen when the first model needs it: the module then loads, and does all else, on machines
// that have a driver but no toolkit, and nobody pays for half a gigabyte of library without a language model.
#pragma once

#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {

inline constexpr uint32_t kThinRows = 2;      // from three on, an H100's tensor cores read weights faster
inline constexpr uint32_t kThinRowsMost = 8;  // that thin_matmul takes

// The library's algorithm is chosen for numbers of rows up to this one, the last of them, so that few choices do.
constexpr uint32_t row_bucket(uint32_t rows) {
  const uint32_t step = rows <= 64 ? 8 : rows <= 1024 ? 64 : 512;
  return (rows + step - 1) / step * step;
}

// Whether thin_matmul is the faster way: at most kThinRows rows, and aligned.
bool is_thin(const Matmul& a);
// Inputs a multiple of 8, 16-byte aligned x and weight.
bool is_aligned(const Matmul& a);
Code thin_matmul(const Launch& launch, const Matmul& a);

// Products with weights in codes: up to kThinRows rows; any number of rows.
Code thin_coded_matmul(const Launch& launch, const Matmul& a);
Code coded_matmul(const Launch& launch, const Matmul& a);
// The same by expert, tile by tile.
Code coded_expert_matmul(const Launch& launch, const ExpertMatmul& a);

// The library, for one device. Of the emulator it is the host version.
class Library;
// kNoLibrary where it cannot be opened. `workspace`: kWorkspace bytes.
Code open_library(int32_t device, void* workspace, Library** out);
Code close_library(Library* library);
// kRefused where it cannot do this product, which costs the device nothing; other codes are the runtime's.
Code library_matmul(const Launch& launch, Library& library, const Matmul& a);

}  // namespace weir::llm::cuda
