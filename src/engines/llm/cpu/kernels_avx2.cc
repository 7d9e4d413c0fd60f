#include "engines/llm/cpu/kernels_body.h"

namespace weir::llm {

extern const Kernels kAvx2;
const Kernels kAvx2 = make_table("avx2");

}  // namespace weir::llm
