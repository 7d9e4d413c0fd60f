#include "wire/h2_field_coding.h"

#include <new>

namespace weir::wire {
namespace {

constexpr size_t kTable = 4096;  // bytes: RFC 9113 §6.5.2

}  // namespace

H2FieldCoding::H2FieldCoding() {
  if (nghttp2_hd_inflate_new2(&inflater_, memory_.functions()) != 0) throw std::bad_alloc();
  if (nghttp2_hd_deflate_new2(&deflater_, kTable, memory_.functions()) == 0) return;
  nghttp2_hd_inflate_del(inflater_);
  throw std::bad_alloc();
}

H2FieldCoding::~H2FieldCoding() {
  memory_.wake();
  nghttp2_hd_inflate_del(inflater_);
  nghttp2_hd_deflate_del(deflater_);
}

std::string H2FieldCoding::encode(std::span<const nghttp2_nv> fields) {
  memory_.wake();
  const size_t most = nghttp2_hd_deflate_bound(deflater_, fields.data(), fields.size());
  if (most > kMostBlock) return {};
  std::string block(most, '\0');
  const ssize_t n = nghttp2_hd_deflate_hd(deflater_, reinterpret_cast<uint8_t*>(block.data()), block.size(),
                                          fields.data(), fields.size());
  block.resize(n < 0 ? 0 : size_t(n));
  return block;
}

bool H2FieldCoding::resize_table(uint32_t bytes) {
  memory_.wake();
  return nghttp2_hd_deflate_change_table_size(deflater_, bytes) == 0;
}

}  // namespace weir::wire
