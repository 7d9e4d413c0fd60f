// One pair of functions per format: the header, and the pixels of a picture whose sizes are set and whose rgb has room.
#pragma once

#include <span>

#include "images/image.h"

namespace weir::images {

// Errors: INVALID_ARGUMENT, of fixed text.
base::Status read_png_header(std::string_view data, PictureHeader& header);
base::Status read_jpeg_header(std::string_view data, PictureHeader& header);
base::Status read_webp_header(std::string_view data, PictureHeader& header);
// False: damaged.
bool decode_png(std::string_view data, Picture& picture);
bool decode_jpeg(std::string_view data, Picture& picture);
bool decode_webp(std::string_view data, Picture& picture);

// Red, green, blue, alpha, as many as the picture has pixels, over white: what a viewer shows of a page.
void lay_on_white(std::span<const uint8_t> rgba, Picture& picture);

}  // namespace weir::images
