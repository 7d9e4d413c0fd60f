// H2KnownHeads: heads of requests that one HTTP/2 connection has had before, by their header blocks. Most clients send
// the same head with every request; what it decodes to is then copied, or is there already.
//
// A block of HPACK (RFC 7541) means the same again as long as the dynamic table is the same. So a block is kept only if
// it leaves the table as it is: indexed fields, and literals that are not added (§6.1, §6.2.2, §6.2.3). Each block that
// changes the table, and each that is not seen as a whole, makes all of them forgotten. A known block is not
// looked at: what would be wrong with a head was looked for when it came first (h2_head_rules.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/exchange.h"

namespace weir::wire {

// Whether the dynamic table after the header block is what it was before. False also for a block that is malformed.
bool leaves_table(std::string_view block);

class H2KnownHeads {
 public:
  static constexpr size_t kMost = 4;         // heads
  static constexpr size_t kMostBlock = 512;  // bytes of a block that is kept
  static constexpr size_t kMostText = 2048;  // bytes of the head that it stands for

  struct Head {
    std::string block;
    std::string method, authority, target;
    Fields fields;
    int64_t content_length = -1;
    bool grpc = false, coded = false;
    uint64_t bytes = 0;  // of the head, as a request is charged for it
    uint64_t id = 0;     // of all heads that the connection ever knew, this one
  };

  // `ids` counts the heads that the connection ever knew, here and in what was dropped before: an Exchange that still
  // has an earlier one is not taken for one that has another. Borrowed.
  explicit H2KnownHeads(uint64_t& ids) : ids_(ids) {}

  // The head that `block` stands for. Null: it has to be decoded. Valid until learn() or forget().
  const Head* find(std::string_view block) const;
  // A block has come whole, and find() does not know it. True: it is worth learning, for it is the last one again.
  bool came(std::string_view block);
  // Keeps what `block` was decoded to, which came() has found worth it. The request is complete, and was not refused.
  void learn(std::string_view block, const Request& request, bool grpc, bool coded);
  // A block has come that changes the table, or was not seen as a whole.
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
