#include <csetjmp>
#include <cstdio>
// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

#include "images/image_formats.h"

namespace weir::images {
namespace {

constexpr uint8_t kStartOfScan = 0xda, kAlone = 0x01;  // markers
constexpr int kMaxScans = 64;                          // of a progressive file; each costs a pass over all of it

// Before the pixels: a byte that belongs to no segment is one, and a segment kPerSegment, however short. The library
// takes up to 0.1 µs for a segment, of which 32 MiB have eight million.
constexpr size_t kMostSteps = 16 << 10, kPerSegment = 16;

// Whether the library comes to the pixels, or to an error, within kMostSteps.
bool begins_soon(std::string_view data) {
  size_t at = 2;
  for (size_t left = kMostSteps; left >= kPerSegment; --left) {
    if (data.size() - at < 4) return true;
    const auto byte = [&](size_t i) { return uint8_t(data[at + i]); };
    if (byte(0) != 0xff || byte(1) == 0xff || byte(1) == 0) {
      ++at;
      continue;
    }
    const uint8_t marker = byte(1);
    if (marker == JPEG_EOI || marker == kStartOfScan) return true;
    const bool has_length = marker != kAlone && (marker < JPEG_RST0 || marker >= kStartOfScan);
    const size_t size = has_length ? size_t(byte(2)) << 8 | byte(3) : 0;
    if (size > data.size() - at - 2) return true;
    at += 2 + size;
    left -= kPerSegment - 1;
  }
  return false;
}

// Cyan, magenta, yellow and black, each as the light that it lets through: all such files have them the way Adobe's
// have, whatever they say.
void mix(const unsigned char* inks, uint32_t pixels, unsigned char* rgb) {
  for (uint32_t i = 0; i < pixels; ++i)
    for (uint32_t c = 0; c < 3; ++c)
      rgb[i * 3 + c] = uint8_t((uint32_t(inks[i * 4 + c]) * inks[i * 4 + 3] + 127) / 255);
}

// Warnings that cost no pixels: bytes between the parts of a file that belong to none, and versions and colour codes
// that the library does not know, where it does what all viewers do.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_JFIF_MAJOR || warning == JWRN_ADOBE_XFORM;
}

// The library reports errors by a call that must not return; nothing with a destructor lives between setjmp and there.
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf out;

  explicit Decoder(std::string_view data) : data_(data) {
    info.err = jpeg_std_error(&errors);
    info.client_data = this;
    errors.error_exit = [](j_common_ptr c) { std::longjmp(static_cast<Decoder*>(c->client_data)->out, 1); };
    errors.output_message = [](j_common_ptr) {};
    errors.emit_message = [](j_common_ptr c, int level) {
      if (level < 0 && !is_harmless(c->err->msg_code)) c->err->error_exit(c);  // a warning: the data are damaged
    };
    progress.progress_monitor = [](j_common_ptr c) {
      auto* self = static_cast<Decoder*>(c->client_data);
      if (c->is_decompressor && self->info.input_scan_number > kMaxScans) c->err->error_exit(c);
    };
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }

  bool head() {
    if (setjmp(out)) return false;
    jpeg_create_decompress(&info);
    info.client_data = this;
    info.progress = &progress;
    info.mem->max_memory_to_use = 256 << 20;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(data_.data()), static_cast<unsigned long>(data_.size()));
    return jpeg_read_header(&info, TRUE) == JPEG_HEADER_OK;
  }
  bool pixels(Picture& picture) {
    if (setjmp(out)) return false;
    // The library makes RGB of everything but printers' colours.
    const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info);
    if (info.output_width != picture.width || info.output_height != picture.height ||
        info.output_components != (inks ? 4 : 3))
      return false;
    JSAMPARRAY line = info.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, picture.width * 4, 1);
    while (info.output_scanline < info.output_height) {
      unsigned char* row = picture.rgb.data() + size_t(info.output_scanline) * picture.width * 3;
      jpeg_read_scanlines(&info, inks ? line : &row, 1);
      if (inks) mix(line[0], picture.width, row);
    }
    return true;
  }

 private:
  std::string_view data_;
};

}  // namespace

base::Status read_jpeg_header(std::string_view data, PictureHeader& header) {
  Decoder decoder(data);
  if (!begins_soon(data) || !decoder.head()) return base::invalid("the image is damaged");
  header.width = decoder.info.image_width, header.height = decoder.info.image_height;
  return {};
}

bool decode_jpeg(std::string_view data, Picture& picture) {
  Decoder decoder(data);
  return decoder.head() && decoder.pixels(picture);
}

}  // namespace weir::images
