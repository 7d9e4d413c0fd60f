// Preprocessing beside Pillow and numpy: the sums of the pixels that they make of the same files.
#include "images/preprocess.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace weir::images {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(WEIR_ROOT "/tests/fuzz/corpus/image/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

uint64_t sum(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

Preprocessing resize_to(Preprocessing::Resize kind, uint32_t width, uint32_t height) {
  Preprocessing how;
  how.resize = kind, how.resize_width = width, how.resize_height = height;
  return how;
}

TEST(Preprocess, ImageNetsTransformsGiveTheSameNumbers) {
  auto how = resize_to(Preprocessing::Resize::kShortSide, 6, 6);
  how.crop_width = how.crop_height = 4;
  how.mean = {0.485, 0.456, 0.406}, how.std = {0.229, 0.224, 0.225};
  auto pixels = read_pixels(file("rgb.png"), how);
  ASSERT_TRUE(bool(pixels)) << pixels.error().text;
  EXPECT_EQ(sum(pixels->values), 0x5ac619e15b89ea29u);
  std::vector<float> made(pixels->values.size());
  normalize(*pixels, how, made.data());
  EXPECT_NEAR(made[0], -1.6555357, 1e-6);
  EXPECT_NEAR(made[2], -1.5699118, 1e-6);
  EXPECT_NEAR(made[made.size() - 1], -0.4623964, 1e-6);
}

TEST(Preprocess, LayoutsAndColours) {
  auto how = resize_to(Preprocessing::Resize::kExact, 3, 8);
  how.filter = Filter::kBicubic;
  how.colors = Preprocessing::Colors::kBgr, how.layout = Preprocessing::Layout::kNhwc;
  auto pixels = read_pixels(file("rgb.png"), how);
  ASSERT_TRUE(bool(pixels));
  EXPECT_EQ(sum(pixels->values), 0xc8a9d3cde18aebf9u);
  Preprocessing gray;
  gray.colors = Preprocessing::Colors::kGray;
  gray.crop_width = gray.crop_height = 9;  // larger than the picture
  pixels = read_pixels(file("rgb.png"), gray);
  ASSERT_TRUE(bool(pixels));
  EXPECT_EQ(sum(pixels->values), 0x31567806806f69e5u);
}

TEST(Preprocess, WhatIsNoPictureOrTooLargeIsRefusedBeforeItIsDecoded) {
  EXPECT_EQ(read_pixels("", {}).error().text, "the image is neither PNG nor JPEG nor WebP");
  EXPECT_EQ(read_pixels(file("huge.png"), {}).error().text, "the image has more than 16 Mpixel");
  EXPECT_FALSE(read_pixels(file("truncated.png"), {}));
}

TEST(Preprocess, APictureThatIsMuchTallerThanWideIsNotBlownUp) {
  const std::string png = file("rgb.png");  // 5 x 7
  EXPECT_FALSE(read_pixels(png, resize_to(Preprocessing::Resize::kExact, 4096, 8192)));
  EXPECT_TRUE(read_pixels(png, resize_to(Preprocessing::Resize::kExact, 1, 4096)));
}

}  // namespace
}  // namespace weir::images
