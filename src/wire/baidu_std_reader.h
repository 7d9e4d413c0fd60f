// BaiduReader: from the bytes of one connection of baidu_std to calls.
//
// What its client shows as its credential (authentication_data) it shows once: it holds for all calls of the connection
// from then on. A packet that cannot be told from those behind it ends the connection, as it does in brpc; one that
// asks for what is not offered is answered.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "wire/baidu_std_calls.h"
#include "wire/kept_input.h"
#include "wire/limits.h"
#include "wire/rate_floor.h"

namespace weir::wire {

class BaiduReader {
 public:
  BaiduReader(BaiduConnection& connection, BaiduCalls& calls) : connection_(connection), calls_(calls) {}

  // Takes in all of `fresh`: what cannot be used yet is kept. After Limits::requests_per_read requests it pauses.
  void process(std::string_view fresh);
  // The connection's part of another turn of the loop.
  void new_turn() { served_ = 0; }
  // There is more to serve in the next turn.
  bool paused() const;
  // As Codec::receive_buffer().
  std::span<std::byte> receive_buffer();
  // Bytes that are kept.
  size_t waiting() const { return input_.waiting(); }
  void drop_input() { input_.drop(); }
  void release_input() { input_.release(); }

  // The socket may not be read now.
  bool held_back() const;
  bool between_packets() const { return waiting() == 0 && message_left_ == 0 && skip_left_ == 0; }
  // Time limits.
  void check(base::Time now);

 private:
  size_t step(std::string_view input);
  size_t step_packet(std::string_view input);
  size_t step_message(std::string_view input);
  void start(const BaiduRequest& request, size_t meta);
  bool refused(const BaiduRequest& request);
  void refuse(const BaiduRequest& request, BrpcError error, std::string_view text,
              std::string_view why = reason::kParse);
  bool authenticate(std::string_view shown);
  void begin(const BaiduRequest& request, size_t meta);
  void message_over();
  void end_connection(std::string_view why = {});

  BaiduConnection& connection_;
  BaiduCalls& calls_;
  KeptInput input_;
  uint64_t message_left_ = 0;        // bytes of the message that is being read
  uint64_t skip_left_ = 0;           // of the attachment behind it
  std::string credential_;           // an authorization field
  uint32_t served_ = 0;              // requests of this turn
  base::Time began_ = base::kNever;  // a packet's first bytes came, and its meta is not whole
  RateFloor skip_floor_;
};

}  // namespace weir::wire
