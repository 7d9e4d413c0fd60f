// The bounds of what is read of a picture: pixels, scans of a JPEG, and time.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include "images/image.h"
#include "support/cpu_time.h"

namespace weir::images {
namespace {

std::string big_endian(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

// A PNG as far as its header is looked at, with so many chunks of nothing before its end.
std::string png(uint32_t width, uint32_t height, size_t chunks = 0) {
  std::string out = "\x89PNG\r\n\x1a\n" + big_endian(13) + "IHDR" + big_endian(width) + big_endian(height) +
                    std::string("\x08\x02\0\0\0", 5) + "sums";
  for (size_t i = 0; i < chunks; ++i) out += big_endian(0) + "tEXtsums";
  return out + big_endian(0) + "IDATsums";
}

std::string refused(const std::string& picture) {
  auto header = read_picture_header(picture);
  return header ? "" : header.error().text;
}

TEST(PictureBounds, APictureHasSixteenMegapixelsAndNoMore) {
  EXPECT_EQ(refused(png(4096, 4096)), "");
  EXPECT_EQ(refused(png(1, 16 << 20)), "");
  for (auto [width, height] : {std::pair(4096u, 4097u), {1u, (16u << 20) + 1}, {65536u, 65536u}, {1u << 31, 1u << 31}})
    EXPECT_EQ(refused(png(width, height)), "the image has more than 16 Mpixel") << width << ' ' << height;
}

TEST(PictureBounds, LookingForAnAnimationTakesTimeInProportion) {
  auto look = [](size_t n) { EXPECT_EQ(refused(png(8, 8, n)), ""); };
  EXPECT_LE(support::growth(50'000, look), 2.5);
}

// A grey JPEG of 64 x `height`, in so many scans; 0: all at once.
std::string jpeg(uint32_t height, int scans) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &made, &size);
  info.image_width = 64, info.image_height = height, info.input_components = 1, info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  // One for the averages, one for each of the 63 other coefficients, and one more bit of the averages.
  std::vector<jpeg_scan_info> script(1, {1, {0}, 0, 0, 0, scans > 64 ? 1 : 0});
  for (int k = 1; k < 64 && int(script.size()) < scans; ++k)
    script.push_back({1, {0}, k, int(script.size()) + 1 == scans ? 63 : k, 0, 0});
  if (scans > 64) script.push_back({1, {0}, 0, 0, 1, 0});
  if (scans > 0) info.scan_info = script.data(), info.num_scans = int(script.size());
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> line(64);
  for (uint32_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < line.size(); ++x) line[x] = uint8_t(x * 3 + y * (x % 7));
    unsigned char* row = line.data();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string out(reinterpret_cast<const char*>(made), size);
  std::free(made);
  return out;
}

TEST(PictureBounds, AJpegHasAThousandSegmentsBeforeItsPixelsAndNoMore) {
  constexpr size_t kBehindJfif = 20;
  const auto with = [](std::string_view part, size_t n) {
    std::string out = jpeg(64, 0), parts;
    while (n-- > 0) parts += part;
    return out.insert(kBehindJfif, parts);
  };
  using std::string_view;
  const string_view empty("\xff\xe1\0\2", 4), junk("\0", 1), restart("\xff\xd0", 2), fill("\xff", 1);
  for (auto [part, few, many] : {std::tuple(empty, 1000, 1100), {junk, 10'000, 20'000}, {fill, 10'000, 20'000}}) {
    EXPECT_TRUE(decode(with(part, size_t(few))).has_value()) << few;
    EXPECT_EQ(refused(with(part, size_t(many))), "the image is damaged") << many;
  }
  EXPECT_EQ(refused(with(restart, 20'000)), "the image is damaged");
  const std::string long_part = std::string("\xff\xe1\xff\xff", 4) + std::string(65533, 'x');
  EXPECT_TRUE(decode(with(long_part, 100)).has_value()) << "much of a camera's own";
}

TEST(PictureBounds, AJpegHasSixtyFourScansAndNoMore) {
  for (int scans : {0, 2, 63, 64}) EXPECT_TRUE(decode(jpeg(64, scans)).has_value()) << scans;
  auto more = decode(jpeg(64, 65));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().text, "the image is damaged");
}

TEST(PictureBounds, DecodingTakesTimeInProportion) {
  for (int scans : {0, 64}) {
    const std::string pictures[] = {jpeg(1024, scans), jpeg(2048, scans)};
    auto read = [&](size_t n) { EXPECT_TRUE(decode(pictures[n - 1]).has_value()); };
    EXPECT_LE(support::growth(1, read), 2.5) << scans;
  }
}

}  // namespace
}  // namespace weir::images
