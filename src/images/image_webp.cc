#include <webp/decode.h>

#include "images/image_formats.h"

namespace weir::images {
namespace {
const uint8_t* bytes(std::string_view data) { return reinterpret_cast<const uint8_t*>(data.data()); }
}  // namespace

base::Status read_webp_header(std::string_view data, PictureHeader& header) {
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
  lay_on_white(rgba, picture);
  return true;
}

}  // namespace weir::images
