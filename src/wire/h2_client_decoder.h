// H2ClientDecoder: decodes the header blocks of responses (HPACK, RFC 7541) on one HTTP/2 connection of ours. Most
// servers send the same head and the same trailers with every response: these are cached by their blocks, and neither
// decoded nor validated again. The cache works as H2HeadCache does (h2_head_cache.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "wire/exchange.h"
#include "wire/h2_client_head_rules.h"
#include "wire/h2_field_coding.h"

namespace weir::wire {

class H2ClientDecoder {
 public:
  using Block = H2ClientHeadRules::Block;
  static constexpr size_t kMost = 4;         // heads that are kept, and as many trailers
  static constexpr size_t kMostBlock = 512;  // bytes of a block that is kept
  static constexpr size_t kMostText = 2048;  // bytes of the fields that it stands for

  struct Head {
    bool well_formed = false;
    int status = 0;
    int64_t content_length = -1;  // of that field; -1: there is none
    Fields fields;     // the others, without spaces around their values; incomplete where `bytes` is beyond `most`
    size_t bytes = 0;  // of all of them, as Fields::bytes() counts
  };

  // Fields beyond `most` bytes of a block are not kept.
  explicit H2ClientDecoder(size_t most);

  // Decodes a block that came in one frame. Null: it cannot be decoded, nor can any after it. Valid until the next
  // call.
  const Head* read(std::string_view block, Block kind);

  // Decodes a block that comes in several frames, piece by piece. Null: as above; else what has been read so far.
  void begin(Block kind);
  const Head* add(std::string_view piece, BlockRest rest);

 private:
  struct Known {
    std::string block;
    Head head;
  };
  struct KnownOfKind {
    std::vector<Known> list;
    std::string last;    // the last block that was unknown
    size_t replace = 0;  // the one that the next takes the place of
  };
  struct Free {
    void operator()(nghttp2_hd_inflater* inflater) const { nghttp2_hd_inflate_del(inflater); }
  };

  void field(std::string_view name, std::string_view value);
  void note_unknown(std::string_view block, KnownOfKind& known);
  void forget();

  const size_t most_;
  std::unique_ptr<nghttp2_hd_inflater, Free> inflater_;
  H2ClientHeadRules rules_;
  Head head_;
  std::array<KnownOfKind, 2> known_;  // heads, trailers
};

}  // namespace weir::wire
