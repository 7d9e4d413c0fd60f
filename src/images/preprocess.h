// Preprocessing: the bytes of a picture -> the numbers that a network takes, as torchvision's transforms make them from
// Pillow's pictures: resize, crop from the middle, scale, (x - mean) / std, layout.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "images/resize.h"

namespace weir::images {

struct Preprocessing {
  enum class Layout : uint8_t { kNchw, kNhwc };
  enum class Colors : uint8_t { kRgb, kBgr, kGray };
  // kShortSide: the shorter side becomes `resize_height`, and the other one keeps the picture's proportions.
  enum class Resize : uint8_t { kNone, kShortSide, kExact };

  Resize resize = Resize::kNone;
  uint32_t resize_width = 0, resize_height = 0;
  uint32_t crop_width = 0, crop_height = 0;  // 0: the picture is not cropped
  Filter filter = Filter::kBilinear;
  Colors colors = Colors::kRgb;
  Layout layout = Layout::kNchw;
  double scale = 1.0 / 255;
  std::array<double, 3> mean{0, 0, 0}, std{1, 1, 1};

  uint32_t channels() const { return colors == Colors::kGray ? 1 : 3; }
};

// Pixels, as the layout has them.
struct Pixels {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> values;
};

// Decodes, resizes and crops. Time and memory go by kMaxPixels, whatever the picture claims to be. Errors:
// INVALID_ARGUMENT, of fixed text.
base::Result<Pixels> read_pixels(std::string_view data, const Preprocessing& how);
// Scales and normalises; `out` has room for as many floats as there are values.
void normalize(const Pixels& pixels, const Preprocessing& how, float* out);

}  // namespace weir::images
