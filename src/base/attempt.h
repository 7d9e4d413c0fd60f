// attempt(): the border that exceptions do not cross. Whoever runs somebody else's work (a loop its hooks, a bus its
// Sinks, a lane its scheduler) runs it inside, and ends with the Status what the work was for: the request, the
// sequence, the connection or the session, never the process.
#pragma once

#include <string_view>
#include <utility>

#include "base/status.h"

namespace weir::base {

// Inside a catch block only: what has been thrown, as a Status. std::bad_alloc is RESOURCE_EXHAUSTED and worth trying
// again; anything else is INTERNAL, and goes to the log with `where` ("a timer", "a turn hook").
Status thrown(std::string_view where) noexcept;

// Runs `work`. OK, or what it has thrown.
template <class Work>
Status attempt(std::string_view where, Work&& work) {
  try {
    std::forward<Work>(work)();
    return {};
  } catch (...) {
    return thrown(where);
  }
}

}  // namespace weir::base
