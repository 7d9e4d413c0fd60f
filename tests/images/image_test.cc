// Pictures from strangers. The files are the fuzz target's corpus.
#include "images/image.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace weir::images {
namespace {

std::string picture(const std::string& name) {
  std::ifstream in(WEIR_ROOT "/tests/fuzz/corpus/image/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Pictures, EveryFormatGivesItsPixels) {
  auto expected = [](uint32_t i) { return int(uint8_t(i)); };
  auto png = decode(picture("rgb.png"));
  ASSERT_TRUE(bool(png)) << png.error().text;
  EXPECT_EQ(png->width, 5u);
  EXPECT_EQ(png->height, 7u);
  for (uint32_t i = 0; i < 7 * 5 * 3; ++i) ASSERT_EQ(int(png->rgb[i]), expected(i));
  for (auto* name :
       {"rgba.png", "rgb.jpeg", "rgb.webp", "progressive.jpeg", "palette.png", "grey.jpeg", "grey_alpha.png"}) {
    auto other = decode(picture(name));
    ASSERT_TRUE(bool(other)) << name << other.error().text;
    EXPECT_EQ(other->rgb.size(), size_t(105));
    EXPECT_NEAR(other->rgb[52], 52, 30) << name;
  }
}

TEST(Pictures, PrintersColoursAreMixed) {
  auto seen = decode(picture("cmyk.jpeg"));  // rgb.png by way of ink
  ASSERT_TRUE(bool(seen)) << seen.error().text;
  ASSERT_EQ(seen->rgb.size(), size_t(105));
  for (uint32_t i = 0; i < 105; ++i) EXPECT_NEAR(seen->rgb[i], i, 6) << i;
}

TEST(Pictures, WhatIsTransparentLiesOnWhite) {
  for (auto* name : {"clear.png", "clear.webp", "clear_palette.png"}) {
    auto seen = decode(picture(name));  // nothing, half of red, blue
    ASSERT_TRUE(bool(seen)) << name << seen.error().text;
    EXPECT_EQ(seen->rgb, (std::vector<uint8_t>{255, 255, 255, 255, 127, 127, 0, 0, 255})) << name;
  }
}

TEST(Pictures, WhatIsTooLargeOrMovesIsRefusedByItsHeader) {
  EXPECT_EQ(read_picture_header(picture("huge.png")).error().text, "the image has more than 16 Mpixel");
  EXPECT_EQ(read_picture_header(picture("animated.png")).error().text, "the image is an animation");
  EXPECT_EQ(read_picture_header(picture("animated.webp")).error().text, "the image is an animation");
}

TEST(Pictures, DamageIsToldInFixedWords) {
  EXPECT_EQ(decode("").error().text, "the image is neither PNG nor JPEG nor WebP");
  EXPECT_EQ(decode("GIF89a").error().text, "the image is neither PNG nor JPEG nor WebP");
  EXPECT_EQ(decode(picture("truncated.png")).error().text, "the image is damaged");
  for (auto* name : {"rgb.png", "rgb.jpeg", "rgb.webp"}) {
    std::string whole = picture(name);
    for (size_t n = 0; n < whole.size(); n += 7) {
      auto cut = decode(whole.substr(0, n));
      EXPECT_TRUE(cut || cut.error().text.starts_with("the image is ")) << name << " " << n;
    }
  }
}

// Viewers read over them, too.
TEST(Pictures, StrayBytesBetweenThePartsOfAJpegCostNoPixels) {
  const std::string whole = picture("rgb.jpeg");
  const auto expected = decode(whole);
  ASSERT_TRUE(expected);
  for (const char* marker : {"\xff\xdb", "\xff\xd9"}) {  // the tables', and the end
    std::string stray = whole;
    stray.insert(stray.rfind(marker), 2, '\0');
    auto seen = decode(stray);
    ASSERT_TRUE(seen) << seen.error().text;
    EXPECT_EQ(seen->rgb, expected->rgb);
  }
}

TEST(Pictures, AJpegWithoutItsEndIsDamaged) {
  const std::string whole = picture("rgb.jpeg");
  EXPECT_EQ(decode(whole.substr(0, whole.size() - 2)).error().text, "the image is damaged");
}

TEST(Pictures, StretchingTakesHalfPixelCentresAndRepeatsEdges) {
  Picture two{2, 1, {0, 0, 0, 100, 100, 100}};
  auto out = stretch(two, 4);
  EXPECT_EQ(out[0], 0);
  EXPECT_FLOAT_EQ(out[3], 25);
  EXPECT_FLOAT_EQ(out[6], 75);
  EXPECT_EQ(out[9], 100);
  Picture same{1, 1, {7, 8, 9}};
  EXPECT_EQ(stretch(same, 1), (std::vector<float>{7, 8, 9}));
}

}  // namespace
}  // namespace weir::images
