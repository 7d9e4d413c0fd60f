// H2BlockCache: the encoded header blocks of one HTTP/2 connection, by their fields, so that the same fields are not
// encoded again.
//
// A header block (HPACK, RFC 7541) stands for the same fields only while the encoder's dynamic table is the same. So a
// block is kept only if it leaves the table unchanged (leaves_table()). A block that changes the table empties the
// cache, and so does a SETTINGS frame of the peer, which may change it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "base/stepped_charge.h"

namespace weir::wire {

class H2BlockCache {
 public:
  static constexpr size_t kMostBlock = 32;  // bytes of a block that is kept

  // Names a block; stale once it is forgotten, or another has its place.
  enum class Ref : uint32_t { kNone = 0 };

  // The block of `fields`; kNone: they have to be encoded.
  Ref find(std::span<const nghttp2_nv> fields) const;
  // Empty: it was forgotten.
  std::string_view block(Ref ref) const;

  // Call writes() before a block for `fields` is encoded, and wrote() with the block. The memory of the cache is
  // charged to `heads`; where there is none, nothing is kept.
  void writes(std::span<const nghttp2_nv> fields, base::SteppedCharge& heads);
  void wrote(std::string_view block);
  void forget();
  // Gives memory back, too, and its charge.
  void drop(base::SteppedCharge& heads);

 private:
  static constexpr uint32_t kMost = 4;
  static constexpr size_t kMostKey = 126;

  // The texts of fields, with their lengths.
  struct Key {
    uint8_t size = 0;  // 0: they are too long
    std::array<char, kMostKey> text;

    explicit Key(std::span<const nghttp2_nv> fields);
    Key() = default;
    std::string_view view() const { return {text.data(), size}; }
  };
  struct Block {
    Ref ref = Ref::kNone;
    Key key;
    uint8_t size = 0;
    std::array<char, kMostBlock> bytes;
  };
  struct Blocks {
    Key writing;
    uint32_t count = 0, replace = 0;
    std::array<Block, kMost> list;
  };

  std::unique_ptr<Blocks> blocks_;  // null until a second block is written
  uint32_t refs_ = 0;               // given so far
  bool wrote_ = false;
};

// Behind a block, `fields` that are right whatever the dynamic table holds: literals that are not added to it.
void append_literals(std::string& block, std::span<const nghttp2_nv> fields);

}  // namespace weir::wire
