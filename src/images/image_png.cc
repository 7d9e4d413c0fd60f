#include <png.h>

#include <vector>

#include "images/image_formats.h"

namespace weir::images {
namespace {

uint32_t big_endian(std::string_view data, size_t at) {
  auto* p = reinterpret_cast<const unsigned char*>(data.data()) + at;
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 | p[3];
}

// A PNG is a list of chunks: length, type, data, checksum. An animation has an acTL chunk before its first pixels
// (IDAT).
bool animated(std::string_view data) {
  for (size_t at = 8; at + 12 <= data.size();) {
    uint32_t length = big_endian(data, at);
    std::string_view type = data.substr(at + 4, 4);
    if (type == "acTL") return true;
    if (type == "IDAT" || length > data.size() - at - 12) return false;
    at += 12 + size_t(length);
  }
  return false;
}

}  // namespace

base::Status read_png_header(std::string_view data, PictureHeader& header) {
  if (data.size() < 33 || big_endian(data, 8) != 13 || data.substr(12, 4) != "IHDR")
    return base::invalid("the image is damaged");
  if (animated(data)) return base::invalid("the image is an animation");
  header.width = big_endian(data, 16), header.height = big_endian(data, 20);
  return {};
}

bool decode_png(std::string_view data, Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, data.data(), data.size())) return false;
  bool fits = image.width == picture.width && image.height == picture.height;
  bool clear = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  image.format = clear ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  std::vector<uint8_t> rgba(fits && clear ? size_t(picture.width) * picture.height * 4 : 0);
  uint8_t* pixels = clear ? rgba.data() : picture.rgb.data();
  bool good =
      fits && png_image_finish_read(&image, nullptr, pixels, png_int_32(picture.width * (clear ? 4 : 3)), nullptr);
  png_image_free(&image);
  if (good && clear) lay_on_white(rgba, picture);
  return good;
}

}  // namespace weir::images
