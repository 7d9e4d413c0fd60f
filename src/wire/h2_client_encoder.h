// H2ClientEncoder: encodes the heads of requests on one HTTP/2 connection of ours as header blocks (HPACK, RFC 7541).
// Most requests have the same head: once its block leaves the dynamic table unchanged, it is cached and copied.
//
// Fields that differ with each request, such as deadlines and traces, are not part of a cached block. They are appended
// as literals without indexing, since they would only fill the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "wire/client_codec.h"

namespace weir::wire {

class H2ClientEncoder {
 public:
  static constexpr size_t kMost = 4;         // heads that are kept
  static constexpr size_t kMostBlock = 512;  // bytes of a block that is kept
  static constexpr size_t kMostText = 2048;  // bytes of the head that it stands for

  H2ClientEncoder();

  // Valid until the next call. Empty: the library has no memory for it, and nothing more can be encoded.
  std::string_view block(const ClientRequest& request);
  // The server's SETTINGS_HEADER_TABLE_SIZE; the next block tells it that we know. False: no memory, as above.
  bool resize_table(uint32_t bytes);

 private:
  struct Known {
    ClientRequest::Form form;
    std::string texts;  // of the head, each behind its length
    std::string block;
  };
  struct Free {
    void operator()(nghttp2_hd_deflater* deflater) const { nghttp2_hd_deflate_del(deflater); }
  };
  const Known* find(const ClientRequest& request) const;
  bool encode(const ClientRequest& request);
  void keep(const ClientRequest& request);

  std::unique_ptr<nghttp2_hd_deflater, Free> deflater_;
  std::vector<Known> known_;
  size_t replace_ = 0;  // the one that the next takes the place of
  std::string block_;
  std::vector<nghttp2_nv> list_;
};

}  // namespace weir::wire
