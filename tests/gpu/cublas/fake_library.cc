// libcublasLt.so on the host: products of column-major matrices of bfloat16, as plainly as can be; it fails where a
// test says so (fake_library.h).
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engines/llm/cuda/bf16.h"
#include "fake_library.h"

extern "C" __attribute__((visibility("default"))) weir::gpu::FakeCublas weir_fake_cublas;
weir::gpu::FakeCublas weir_fake_cublas;
extern "C" int weir_fake_runtime_error;  // the test's runtime

namespace {

using Bf16 = uint16_t;

struct Product {
  bool turned = false;
  const float* bias = nullptr;
  bool with_bias = false;
};
struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t stride;
};

Product& product(cublasLtMatmulDesc_t d) { return *reinterpret_cast<Product*>(d); }
Layout& layout(cublasLtMatrixLayout_t l) { return *reinterpret_cast<Layout*>(l); }

float at(const Layout& l, const void* data, uint64_t row, uint64_t column) {
  const size_t i = size_t(column) * size_t(l.stride) + row;
  return l.type == CUDA_R_32F ? static_cast<const float*>(data)[i]
                              : weir::llm::cuda::widen_bf16(static_cast<const Bf16*>(data)[i]);
}
void put(const Layout& l, void* data, uint64_t row, uint64_t column, float value) {
  const size_t i = size_t(column) * size_t(l.stride) + row;
  if (l.type == CUDA_R_32F)
    static_cast<float*>(data)[i] = value;
  else
    static_cast<Bf16*>(data)[i] = weir::llm::cuda::narrow_bf16(value);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  if (weir_fake_cublas.create) return cublasStatus_t(weir_fake_cublas.create);
  *handle = reinterpret_cast<cublasLtHandle_t>(&weir_fake_cublas);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t, cudaDataType_t) {
  *out = reinterpret_cast<cublasLtMatmulDesc_t>(new Product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete &product(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  auto word = [&] {
    int32_t out = 0;
    std::memcpy(&out, value, std::min(bytes, sizeof out));
    return out;
  };
  if (name == CUBLASLT_MATMUL_DESC_TRANSA)
    product(d).turned = word() == CUBLAS_OP_T;
  else if (name == CUBLASLT_MATMUL_DESC_EPILOGUE)
    product(d).with_bias = word() == CUBLASLT_EPILOGUE_BIAS;
  else if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof(void*))
    std::memcpy(&product(d).bias, value, bytes);
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride) {
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete &layout(l);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  *out = reinterpret_cast<cublasLtMatmulPreference_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete reinterpret_cast<int*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  ++weir_fake_cublas.searches;
  *count = std::min(most, weir_fake_cublas.found);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = uint64_t(i);
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t*, cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  return cublasStatus_t(weir_fake_cublas.check);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void*, size_t,
                              cudaStream_t) {
  auto& fake = weir_fake_cublas;
  const uint64_t number = algorithm->data[0];
  ++fake.tries;
  if (number < fake.results.size() && fake.results[number] != 0) {
    weir_fake_runtime_error = fake.runtime_error;
    return cublasStatus_t(fake.results[number]);
  }
  const Product& p = product(desc);
  const Layout &la = layout(a_layout), &lb = layout(b_layout), &ld = layout(d_layout);
  if (!p.turned || la.rows != lb.rows || la.columns != ld.rows || lb.columns != ld.columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  fake.ran.push_back(number);
  const float one = *static_cast<const float*>(alpha), old = *static_cast<const float*>(beta);
  for (uint64_t column = 0; column < ld.columns; ++column)
    for (uint64_t row = 0; row < ld.rows; ++row) {
      double sum = 0;
      for (uint64_t k = 0; k < la.rows; ++k) sum += double(at(la, a, k, row)) * at(lb, b, k, column);
      float value = one * float(sum) + (old == 0 ? 0 : old * at(layout(c_layout), c, row, column));
      put(ld, d, row, column, value + (p.with_bias ? p.bias[row] : 0));
    }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
