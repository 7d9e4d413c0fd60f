// Resizing beside Pillow 9.4: the sums of what its Image.resize makes of the same pictures.
#include "images/resize.h"

#include <gtest/gtest.h>

namespace weir::images {
namespace {

// Noise that is the same everywhere.
Picture noise(uint32_t width, uint32_t height) {
  Picture out{width, height, {}};
  uint32_t state = 12345;
  for (size_t i = 0; i < size_t(width) * height * 3; ++i) {
    state = (state * 1103515245u + 12345u) & 0x7fffffffu;
    out.rgb.push_back(uint8_t(state >> 16));
  }
  return out;
}

uint64_t sum_of(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

struct Case {
  uint32_t width, height, to_width, to_height;
  uint64_t sums[4];  // by filter
};

TEST(Resize, EveryFilterMakesTheSameBytesAsPillow) {
  constexpr Filter kFilters[] = {Filter::kNearest, Filter::kBilinear, Filter::kBicubic, Filter::kLanczos};
  for (const Case& c : {
           Case{37, 23, 16, 16, {0x6eca39460d7c8636u, 0x12690d4cd94a210bu, 0x80e9428377c6817cu, 0xde12c044f13c9d2bu}},
           Case{37, 23, 64, 50, {0x45621fa7ef9511e0u, 0x3265e48f31f42691u, 0x74c0c0114cafcbc8u, 0xae026563abf89683u}},
           Case{37, 23, 37, 10, {0x6805a86366ccc286u, 0x4ad70f02c3c4231cu, 0xf91905692870334bu, 0xee8d1f23662bdce0u}},
           Case{5, 200, 20, 23, {0x4bc2248749cfdf0du, 0x20d3893ba853eb0eu, 0x7c8e96d838583a05u, 0x5765612d22a6d2deu}},
           Case{1, 1, 3, 2, {0x838ab1cf865717ebu, 0x838ab1cf865717ebu, 0x838ab1cf865717ebu, 0x838ab1cf865717ebu}},
           Case{2, 3, 1, 1, {0x1a332e1b66772eadu, 0x37804f1ae5a45a6cu, 0x376b6e1ae592330fu, 0x37756e1ae59a8794u}},
       })
    for (size_t f = 0; f < 4; ++f) {
      const Picture made = resize(noise(c.width, c.height), c.to_width, c.to_height, kFilters[f]);
      EXPECT_EQ(made.rgb.size(), size_t(c.to_width) * c.to_height * 3);
      EXPECT_EQ(sum_of(made.rgb), c.sums[f])
          << c.width << "x" << c.height << " to " << c.to_width << "x" << c.to_height << ", filter " << f;
    }
}

TEST(Crop, WhatLiesOutsideIsBlack) {
  const Picture in = noise(2, 2);
  EXPECT_EQ(crop(in, 0, 0, 2, 2).rgb, in.rgb);
  const Picture out = crop(in, 1, -1, 2, 2);  // of its lower left corner alone something is there
  EXPECT_EQ(out.rgb, (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, in.rgb[3], in.rgb[4], in.rgb[5], 0, 0, 0}));
  EXPECT_EQ(crop(in, 5, 5, 1, 1).rgb, (std::vector<uint8_t>(3)));
}

}  // namespace
}  // namespace weir::images
