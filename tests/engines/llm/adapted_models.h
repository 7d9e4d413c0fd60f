// The folders that adapters.py makes, for all tests of this program.
#pragma once

#include <string>

#include "support.h"

namespace weir::llm {

inline const std::string& adapted_models() {
  static const MadeFolder made("adapters.py");
  return made.path;
}

}  // namespace weir::llm
