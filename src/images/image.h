// Pictures: PNG, JPEG and WebP bytes -> RGB. Hostile input: the header is looked at before anything is decoded, and
// every error text is one of a fixed list, so that nothing of a library's state is ever shown.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::images {

constexpr uint64_t kMaxPixels = 16 << 20;

struct PictureHeader {
  enum class Kind : uint8_t { kPng, kJpeg, kWebp } kind = Kind::kPng;
  uint32_t width = 0, height = 0;
};

// Transparent pixels lie on white, as tests/reference/preprocess.py has it. Of an animation, nothing: it is refused.
struct Picture {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height][width][3]
};

// The kind is found by the first bytes; `mime` is not needed. Errors: INVALID_ARGUMENT.
base::Result<PictureHeader> read_picture_header(std::string_view data);
base::Result<Picture> decode(std::string_view data);

// Stretched to size x size, bilinear between the nearest two pixels each way, half-pixel centres, edges repeated:
// [size][size][3] in 0..255.
std::vector<float> stretch(const Picture& picture, uint32_t size);

}  // namespace weir::images
