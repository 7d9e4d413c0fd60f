// H2FieldCoding: libnghttp2's coders of header blocks (HPACK, RFC 7541) for one HTTP/2 connection, and their memory.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "wire/h2_memory.h"

namespace weir::wire {

// More of a block may come.
enum class BlockRest : uint8_t { kFollows, kNone };

// Decodes the next `piece` of a block; take(name, value) gets each field, and returns false to stop. False: the block
// cannot be decoded, nor can any after it.
template <class Take>
bool inflate_block(nghttp2_hd_inflater* inflater, std::string_view piece, BlockRest rest, Take&& take) {
  auto text = [](const uint8_t* at, size_t n) { return std::string_view(reinterpret_cast<const char*>(at), n); };
  for (;;) {
    nghttp2_nv field;
    int flags = 0;
    const ssize_t n = nghttp2_hd_inflate_hd2(inflater, &field, &flags, reinterpret_cast<const uint8_t*>(piece.data()),
                                             piece.size(), rest == BlockRest::kNone ? 1 : 0);
    if (n < 0) return false;
    piece.remove_prefix(size_t(n));
    const bool found = flags & NGHTTP2_HD_INFLATE_EMIT;
    if (found && !take(text(field.name, field.namelen), text(field.value, field.valuelen))) return true;
    if (flags & NGHTTP2_HD_INFLATE_FINAL) {
      nghttp2_hd_inflate_end_headers(inflater);
      return true;
    }
    if (!found && piece.empty()) return true;
  }
}

class H2FieldCoding {
 public:
  // Throws std::bad_alloc.
  H2FieldCoding();
  ~H2FieldCoding();
  H2FieldCoding(const H2FieldCoding&) = delete;

  nghttp2_hd_inflater* inflater() {
    memory_.wake();
    return inflater_;
  }
  // The block that says `fields`. Empty: it would be larger than kMostBlock, and nothing has been written; or there is
  // no memory for it, and no other can be written.
  static constexpr size_t kMostBlock = 64 << 10;  // as a bound of it
  std::string encode(std::span<const nghttp2_nv> fields);
  // The peer's SETTINGS_HEADER_TABLE_SIZE. False: no memory.
  bool resize_table(uint32_t bytes);
  // They are not used for a while.
  void rest() { memory_.rest(); }

 private:
  H2Memory memory_;  // outlives the two
  nghttp2_hd_inflater* inflater_ = nullptr;
  nghttp2_hd_deflater* deflater_ = nullptr;
};

}  // namespace weir::wire
