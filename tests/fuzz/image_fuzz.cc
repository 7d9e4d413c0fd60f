// Any bytes as a picture: refused with a fixed text, or decoded to as many bytes as its header says.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "images/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir::images;  // NOLINT: a program of one file
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto header = read_picture_header(text);
  if (header && uint64_t(header->width) * header->height > 1 << 20) return 0;  // keeps the fuzzer fast
  auto picture = decode(text);
  if (!header && picture) std::abort();
  if (!picture) return 0;
  if (picture->rgb.size() != size_t(picture->width) * picture->height * 3) std::abort();
  if (stretch(*picture, 16).size() != 16 * 16 * 3) std::abort();
  return 0;
}
