// A test tells the library that stands in for libcublasLt.so how to behave, and asks it afterwards what it did. The two
// meet through one symbol, `weir_fake_cublas`.
#pragma once

#include <cstdint>
#include <vector>

namespace weir::gpu {

struct FakeCublas {
  // The first algorithm that a search finds is number 0. An algorithm's product gives results[its number], and success
  // beyond the end.
  std::vector<int> results;
  int found = 4;              // algorithms of a search
  int check = 0, create = 0;  // of cublasLtMatmulAlgoCheck and cublasLtCreate
  int runtime_error = 0;      // what a product that fails leaves in the runtime
  uint32_t searches = 0, tries = 0;
  std::vector<float> times;   // of its product; 1 beyond the end
  std::vector<uint64_t> ran;  // algorithms whose products were made
};

}  // namespace weir::gpu
