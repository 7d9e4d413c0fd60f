// Results made of hidden states, on the host.
#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda::reference {

void read_out(const ReadOut& a) {
  for (size_t i = 0; i < a.count; ++i)
    for (size_t c = 0; c < a.concepts; ++c) {
      const float *x = a.stream + size_t(a.tokens[i]) * a.hidden, *v = a.vectors + c * a.hidden;
      double sum = 0;
      for (size_t d = 0; d < a.hidden; ++d) sum += double(x[d]) * v[d];
      a.out[i * a.stride + c] = float(sum);
    }
}

void pool(const Pool& a) {
  for (size_t i = 0; i < a.count; ++i) {
    double* sum = a.out + i * a.hidden;
    const uint32_t before = a.ranges[i].before;
    for (size_t d = 0; d < a.hidden; ++d) sum[d] = before == kNoIndex ? 0 : a.before[before * size_t(a.hidden) + d];
    for (size_t t = a.ranges[i].first; t < size_t(a.ranges[i].first) + a.ranges[i].count; ++t)
      for (size_t d = 0; d < a.hidden; ++d)
        sum[d] += double(a.exact ? a.exact[t * a.hidden + d] : widen_bf16(a.in[t * a.hidden + d]));
  }
}

}  // namespace weir::llm::cuda::reference
