#include "engines/llm/cpu/kernels_body.h"

namespace weir::llm {

extern const Kernels kAvx512Bf16;
const Kernels kAvx512Bf16 = make_table("avx512_bf16");

}  // namespace weir::llm
