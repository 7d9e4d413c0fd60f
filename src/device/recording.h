// Recording: a graph of a device that is not CUDA. It has the operations that a stream was given between capture() and
// captured(), and does them again, in their order, at every launch.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "device/copy.h"

namespace weir::device {

struct Recording {
  struct Op {
    std::vector<Copy> copies;
    std::function<int32_t(void* stream)> work;  // after the copies; may be empty
  };
  std::vector<Op> ops;

  // Returns the code of the work that failed, or 0.
  static int32_t run(const Op& op) {
    for (const auto& c : op.copies)
      if (c.bytes > 0) std::memcpy(c.to, c.from, c.bytes);
    return op.work ? op.work(nullptr) : 0;
  }
  int32_t run() const {
    for (const auto& op : ops)
      if (auto code = run(op)) return code;
    return 0;
  }
};

}  // namespace weir::device
