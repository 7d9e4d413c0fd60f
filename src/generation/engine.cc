#include "generation/engine.h"

namespace weir::generation {

void TokenStep::clear() {
  rows.clear();
  ids.clear(), positions.clear(), slots.clear(), tables.clear();
  patches.clear(), logits_requests.clear(), readouts.clear(), pools.clear();
}

}  // namespace weir::generation
