// submit(): a Call to the version that it names, as a dialect submits it that has found that in the Catalog.
#pragma once

#include "bus/bus.h"

namespace weir::support {

inline base::Status submit(bus::Bus& bus, msg::Call* call) {
  auto found = bus.catalog().find(call->model, call->version);
  return found ? bus.submit(call, **found) : found.error();
}

}  // namespace weir::support
