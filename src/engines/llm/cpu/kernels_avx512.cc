#include "engines/llm/cpu/kernels_body.h"

namespace weir::llm {

extern const Kernels kAvx512;
const Kernels kAvx512 = make_table("avx512");

}  // namespace weir::llm
