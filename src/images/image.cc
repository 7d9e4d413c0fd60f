#include "images/image.h"

#include <algorithm>
#include <cmath>

#include "images/image_formats.h"

namespace weir::images {

base::Result<PictureHeader> read_picture_header(std::string_view data) {
  PictureHeader header;
  if (data.starts_with("\x89PNG\r\n\x1a\n"))
    header.kind = PictureHeader::Kind::kPng;
  else if (data.starts_with("\xff\xd8\xff"))
    header.kind = PictureHeader::Kind::kJpeg;
  else if (data.size() >= 12 && data.starts_with("RIFF") && data.substr(8, 4) == "WEBP")
    header.kind = PictureHeader::Kind::kWebp;
  else
    return base::invalid("the image is neither PNG nor JPEG nor WebP");
  base::Status status = header.kind == PictureHeader::Kind::kPng    ? read_png_header(data, header)
                        : header.kind == PictureHeader::Kind::kJpeg ? read_jpeg_header(data, header)
                                                                    : read_webp_header(data, header);
  if (!status.ok()) return status;
  if (header.width == 0 || header.height == 0) return base::invalid("the image is empty");
  if (uint64_t(header.width) * header.height > kMaxPixels) return base::invalid("the image has more than 16 Mpixel");
  return header;
}

base::Result<Picture> decode(std::string_view data) {
  auto header = read_picture_header(data);
  if (!header) return header.error();
  Picture picture{header->width, header->height, {}};
  picture.rgb.resize(size_t(header->width) * header->height * 3);
  bool good = header->kind == PictureHeader::Kind::kPng    ? decode_png(data, picture)
              : header->kind == PictureHeader::Kind::kJpeg ? decode_jpeg(data, picture)
                                                           : decode_webp(data, picture);
  if (!good) return base::invalid("the image is damaged");
  return picture;
}

std::vector<float> stretch(const Picture& picture, uint32_t size) {
  struct Between {
    uint32_t a, b;
    float part;  // of b
  };
  auto line = [size](uint32_t pixels) {
    std::vector<Between> out(size);
    for (uint32_t i = 0; i < size; ++i) {
      float at = (float(i) + 0.5f) * float(pixels) / float(size) - 0.5f;
      float low = std::floor(at);
      auto clamp = [&](float v) { return uint32_t(std::clamp(v, 0.0f, float(pixels - 1))); };
      out[i] = {clamp(low), clamp(low + 1), at - low};
    }
    return out;
  };
  auto across = line(picture.width), down = line(picture.height);
  std::vector<float> out(size_t(size) * size * 3);
  auto* to = out.data();
  for (const auto& y : down) {
    const uint8_t* top = picture.rgb.data() + size_t(y.a) * picture.width * 3;
    const uint8_t* bottom = picture.rgb.data() + size_t(y.b) * picture.width * 3;
    for (const auto& x : across)
      for (int c = 0; c < 3; ++c) {
        float upper = float(top[x.a * 3 + c]) * (1 - x.part) + float(top[x.b * 3 + c]) * x.part;
        float lower = float(bottom[x.a * 3 + c]) * (1 - x.part) + float(bottom[x.b * 3 + c]) * x.part;
        *to++ = upper * (1 - y.part) + lower * y.part;
      }
  }
  return out;
}

void lay_on_white(std::span<const uint8_t> rgba, Picture& picture) {
  for (size_t i = 0; i < rgba.size() / 4; ++i) {
    uint32_t alpha = rgba[i * 4 + 3], white = 255 * (255 - alpha);
    for (size_t c = 0; c < 3; ++c) picture.rgb[i * 3 + c] = uint8_t((rgba[i * 4 + c] * alpha + white + 127) / 255);
  }
}

}  // namespace weir::images
