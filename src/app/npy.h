// Npy: arrays as NumPy saves them. Grammar (numpy.lib.format): "\x93NUMPY", major, minor, header length (2 bytes LE in
// version 1, 4 in 2 and 3), a Python dict literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, data.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "msg/tensor.h"

namespace weir::app {

struct Npy {
  msg::DType dtype = msg::DType::kInvalid;
  msg::Shape shape;
  std::string data;  // little-endian, row-major
};

// Errors: INVALID_ARGUMENT for what is no such file, has another byte order, or holds objects or text.
base::Result<Npy> parse_npy(std::string_view file);

}  // namespace weir::app
