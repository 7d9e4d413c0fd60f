// H2Heads: from the header blocks of one HTTP/2 connection to Exchanges: the heads of requests, and their trailers. A
// block that the connection has had before is not decoded again (h2_head_cache.h).
//
// Services may be called from here; what they answer is kept in their Exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "wire/h2_bodies.h"
#include "wire/h2_connection.h"
#include "wire/h2_frame_reader.h"
#include "wire/h2_head_cache.h"
#include "wire/h2_head_rules.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Heads {
 public:
  H2Heads(H2Connection& connection, H2StreamTable& streams, H2Bodies& bodies)
      : connection_(connection), streams_(streams), bodies_(bodies) {}

  // Call this with each piece of a HEADERS or CONTINUATION frame.
  void take(const H2FrameReader& from);
  // The stream of which the next frame must be a CONTINUATION; 0: none may come.
  int32_t awaited() const { return awaited_; }
  // Drops the cache. Call this when the connection has been without a request for a while.
  void drop();

 private:
  enum class Block : uint8_t { kRequest, kTrailers, kDropped };

  void take_block(const FrameHead& head, std::string_view block);
  void begin(const FrameHead& head, int32_t depends_on);
  void open(int32_t stream, int32_t depends_on);
  void open_head(int32_t stream);
  void decode(std::string_view piece, BlockRest rest);
  bool field(std::string_view name, std::string_view value);
  void pseudo_field(Request& request, std::string_view name, std::string_view value);
  void field(H2Exchange& x, std::string_view name, std::string_view value);
  void complete();
  bool well_formed(const H2Exchange& x) const;
  void begin_request(H2Exchange& x);
  bool check_head(H2Exchange& x);
  bool take_head(H2Exchange& x);
  bool take_authority(H2Exchange& x);
  void reject(H2Exchange& x, int status, std::string_view reason, std::string_view text);
  void forget();
  void charge();

  H2Connection& connection_;
  H2StreamTable& streams_;
  H2Bodies& bodies_;
  Block kind_ = Block::kDropped;  // of the block that is arriving
  bool ends_ = false;             // its stream ends with it
  int32_t stream_ = 0;
  int32_t awaited_ = 0;
  H2HeadRules rules_;                            // of its fields
  HeaderBudget dropped_fields_;                  // counts the fields of a block that is dropped
  const H2HeadCache::Head* repeated_ = nullptr;  // the block stands for it
  std::string_view learned_;                     // the block, where it is to be learned

  uint64_t ids_ = 0;                    // the last one that was given (H2HeadCache)
  std::unique_ptr<H2HeadCache> cache_;  // null until the second request: many connections have only one
  bool had_request_ = false;            // a request has come
  uint64_t charged_ = 0;                // bytes, to H2StreamTable::heads()
};

}  // namespace weir::wire
