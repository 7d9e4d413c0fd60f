// H2RequestHeads: the heads of requests on one HTTP/2 connection of ours as header blocks (RFC 7541). Most of them are
// the same: a head is encoded by the library until its block leaves the dynamic table as it is, and then it is copied.
//
// Fields that are another with each request, as deadlines and traces, are no part of that. They are put behind it as
// literals that are not added to the table, which they would only fill.
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

class H2RequestHeads {
 public:
  static constexpr size_t kMost = 4;         // heads that are kept
  static constexpr size_t kMostBlock = 512;  // bytes of a block that is kept
  static constexpr size_t kMostText = 2048;  // bytes of the head that it stands for

  H2RequestHeads();

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
