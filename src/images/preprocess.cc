#include "images/preprocess.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::images {
namespace {

using Colors = Preprocessing::Colors;
using Layout = Preprocessing::Layout;
using Resize = Preprocessing::Resize;

base::Result<Picture> resized(Picture picture, const Preprocessing& how) {
  if (how.resize == Resize::kNone) return picture;
  uint64_t width = how.resize_width, height = how.resize_height;
  if (how.resize == Resize::kShortSide) {  // torchvision cuts the other side off to a whole number
    const uint64_t side = how.resize_height;
    width = picture.width <= picture.height ? side : side * picture.width / picture.height;
    height = picture.height <= picture.width ? side : side * picture.height / picture.width;
  }
  if (width * height > kMaxPixels || width * picture.height > kMaxPixels)
    return base::invalid("the image is too narrow or too flat to be resized");
  return resize(picture, uint32_t(width), uint32_t(height), how.filter);
}

// Python's round(): a half goes to the even side.
int64_t half(int64_t n) { return std::lrint(double(n) / 2); }

Picture cropped(Picture picture, const Preprocessing& how) {
  if (how.crop_width == 0) return picture;
  const int64_t left = half(int64_t(picture.width) - how.crop_width),
                top = half(int64_t(picture.height) - how.crop_height);
  return crop(picture, left, top, how.crop_width, how.crop_height);
}

// Pillow's "L".
uint8_t gray(const uint8_t* rgb) {
  return uint8_t((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

}  // namespace

base::Result<Pixels> read_pixels(std::string_view data, const Preprocessing& how) {
  auto decoded = decode(data);
  if (!decoded) return decoded.error();
  auto fitted = resized(std::move(*decoded), how);
  if (!fitted) return fitted.error();
  const Picture picture = cropped(std::move(*fitted), how);
  const size_t count = size_t(picture.width) * picture.height, channels = how.channels();
  Pixels out{picture.width, picture.height, {}};
  out.values.resize(count * channels);
  const size_t next_pixel = how.layout == Layout::kNhwc ? channels : 1,
               next_color = how.layout == Layout::kNhwc ? 1 : count;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* rgb = picture.rgb.data() + i * 3;
    uint8_t* to = out.values.data() + i * next_pixel;
    if (channels == 1) {
      *to = gray(rgb);
      continue;
    }
    const bool reversed = how.colors == Colors::kBgr;
    for (size_t c = 0; c < 3; ++c) to[c * next_color] = rgb[reversed ? 2 - c : c];
  }
  return out;
}

void normalize(const Pixels& pixels, const Preprocessing& how, float* out) {
  const size_t channels = how.channels(), count = size_t(pixels.width) * pixels.height;
  std::array<std::array<float, 256>, 3> table;  // by channel and value
  for (size_t c = 0; c < 3; ++c)
    for (size_t v = 0; v < 256; ++v)
      table[c][v] = (float(double(v) * how.scale) - float(how.mean[c])) / float(how.std[c]);
  for (size_t i = 0; i < pixels.values.size(); ++i) {
    const size_t c = how.layout == Layout::kNhwc ? i % channels : i / count;
    out[i] = table[c][pixels.values[i]];
  }
}

}  // namespace weir::images
