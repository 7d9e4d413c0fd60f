// The protocols of interop_server, which is otherwise the weir of src/app: this file stands in for src/app/dialects.cc,
// and names one protocol in one line.
#include "app/config.h"
#include "interop/interop.h"

namespace weir::app {

std::vector<ServedDialect> all_dialects() {
  std::vector<ServedDialect> all;
  all.push_back({interop::make_dialect()});
  return all;
}

}  // namespace weir::app
