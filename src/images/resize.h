// Resizing as Pillow does it (its Image.resize with reducing_gap off, libImaging/Resample.c), bit by bit: networks are
// trained on pictures that went through it.
//
// Each output pixel is the sum of the input pixels under a filter that is as wide as the scale asks for (nothing is
// skipped when a picture becomes smaller), rows first, then columns, in fixed point with 8 bits in between.
#pragma once

#include <cstdint>

#include "images/image.h"

namespace weir::images {

enum class Filter : uint8_t { kNearest, kBilinear, kBicubic, kLanczos };

// 1 to kMaxPixels pixels, both ways. Takes time by the pixels of both pictures.
Picture resize(const Picture& picture, uint32_t width, uint32_t height, Filter filter);

// The part of the picture from (left, top) on; what lies outside of it is black.
Picture crop(const Picture& picture, int64_t left, int64_t top, uint32_t width, uint32_t height);

}  // namespace weir::images
