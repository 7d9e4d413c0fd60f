#include <webp/decode.h>

#include "engines/llm/image_formats.h"

namespace weir::llm {
namespace {
const uint8_t* bytes(std::string_view data) { return reinterpret_cast<const uint8_t*>(data.data()); }
}  // namespace

base::Status look_at_webp(std::string_view data, PictureHeader& header) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes(data), data.size(), &features) != VP8_STATUS_OK)
    return base::invalid("the image is damaged");
  if (features.has_animation) return base::invalid("the image is an animation");
  header.width = uint32_t(features.width), header.height = uint32_t(features.height);
  return {};
}

bool decode_webp(std::string_view data, Picture& picture) {
  std::vector<uint8_t> rgba(size_t(picture.width) * picture.height * 4);
  if (!WebPDecodeRGBAInto(bytes(data), data.size(), rgba.data(), rgba.size(), int(picture.width * 4))) return false;
  for (size_t i = 0; i < rgba.size() / 4; ++i)
    for (size_t c = 0; c < 3; ++c) picture.rgb[i * 3 + c] = uint8_t((rgba[i * 4 + c] * rgba[i * 4 + 3] + 127) / 255);
  return true;
}

}  // namespace weir::llm
