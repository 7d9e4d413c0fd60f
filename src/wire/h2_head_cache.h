// H2HeadCache: the decoded request heads of one HTTP/2 connection, by their header blocks. Most clients send the same
// head with every request: its block is then not decoded again.
//
// A header block (HPACK, RFC 7541) decodes to the same fields only while the decoder's dynamic table is the same. So a
// block is kept only if it leaves the table unchanged, which indexed fields and literals without indexing do (§6.1,
// §6.2.2, §6.2.3). A block that changes the table, or that does not come in one piece, empties the cache. A cached head
// is not validated again: it was when it was decoded (h2_head_rules.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/exchange.h"

namespace weir::wire {

// Whether the header block leaves the dynamic table unchanged. False also for a block that is malformed.
bool leaves_table(std::string_view block);

class H2HeadCache {
 public:
  static constexpr size_t kMost = 4;         // heads
  static constexpr size_t kMostBlock = 512;  // bytes of a block that is kept
  static constexpr size_t kMostText = 2048;  // bytes of the head that it stands for

  struct BodyKind {
    bool grpc = false;   // the messages of a gRPC call
    bool coded = false;  // in a content coding
  };
  struct Head {
    std::string block;
    std::string method, authority, target;
    Fields fields;
    int64_t content_length = -1;
    BodyKind body;
    uint64_t bytes = 0;  // of the head, as a request is charged for it
    uint64_t id = 0;     // no other head that the connection ever kept has it
  };

  // `ids` is the last Head::id that the connection has given. It outlives this cache, so that an Exchange which still
  // has a head of a cache that was dropped is not taken for one with a newer head. Borrowed.
  explicit H2HeadCache(uint64_t& ids) : ids_(ids) {}

  // The head that `block` stands for. Null: it has to be decoded. Valid until learn() or forget().
  const Head* find(std::string_view block) const;
  // Call this for each block that came in one piece and that find() does not have. True when it is the same as the one
  // before: then learn() may be called for it.
  bool is_worth_learning(std::string_view block);
  // Keeps the decoded head of `block`. The request is complete and was not refused.
  void learn(std::string_view block, const Request& request, BodyKind body);
  // Empties the cache: a block has come that changes the table, or that did not come in one piece.
  void forget() { heads_.clear(), last_.clear(); }
  // Bytes that it holds.
  uint64_t bytes() const;

 private:
  std::vector<Head> heads_;
  std::string last_;  // the last block that was unknown
  uint64_t& ids_;
  size_t replace_ = 0;  // the head that the next one takes the place of
};

}  // namespace weir::wire
