// H2ResponseFields: makes the lists of fields of a response's head and trailers, as libnghttp2's encoder takes them, or
// finds their encoded blocks in the connection's H2BlockCache.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "base/release.h"
#include "wire/h2_connection.h"

namespace weir::wire {

class H2ResponseFields {
 public:
  explicit H2ResponseFields(H2Connection& connection) : connection_(connection) {}

  // Valid until the next call, and while the Exchange lives.
  std::span<const nghttp2_nv> head(const H2Exchange& x);
  // The fields to encode, or the block that has them encoded.
  struct ToSend {
    H2BlockCache::Ref known;
    std::span<const nghttp2_nv> fields;  // empty where there is a block
  };
  ToSend head_to_send(const H2Exchange& x);
  ToSend trailers_to_send(const H2Exchange& x);
  // Gives memory back.
  void drop() { base::release(list_); }

 private:
  std::span<const nghttp2_nv> trailers(const H2Exchange& x);
  ToSend known_or(std::span<const nghttp2_nv> fields) const;
  void add(std::string_view name, std::string_view value);
  void add(const Fields& fields);

  H2Connection& connection_;
  H2BlockCache::Ref grpc_head_{}, grpc_end_{};  // those that most gRPC answers have
  std::vector<nghttp2_nv> list_;
};

}  // namespace weir::wire
