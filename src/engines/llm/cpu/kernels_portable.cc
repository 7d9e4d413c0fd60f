#include "engines/llm/cpu/kernels_body.h"

namespace weir::llm {

extern const Kernels kPortable;
const Kernels kPortable = make_table("portable");

}  // namespace weir::llm
