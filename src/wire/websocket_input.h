// WebSocketInput: between an Exchange and its WebSocket: keeps the peer's bytes that the WebSocket does not take yet,
// lets the peer send as many as were taken, and waits with a message that needs memory (BodyMemory). On the shard.
#pragma once

#include <span>
#include <string>

#include "wire/body_memory.h"
#include "wire/call_turns.h"
#include "wire/exchange.h"
#include "wire/websocket.h"

namespace weir::wire {

class WebSocketInput final : BodyMemory::Body {
 public:
  // All borrowed. `bodies` null: messages wait for memory in no order. `turns` is resumed when there may be memory; its
  // owner calls read() then.
  WebSocketInput(Exchange& exchange, WebSocket& socket, BodyMemory* bodies, CallTurns& turns)
      : exchange_(exchange), socket_(socket), bodies_(bodies), turns_(turns) {}

  // Bytes of the peer; read() follows.
  void add(std::span<const std::byte> piece) {
    held_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  // Gives the WebSocket what it takes. kFull: the WebSocket's side takes no more for now, and its owner reads on later.
  enum class Left : uint8_t { kNothing, kWaitsForMemory, kFull };
  Left read();
  bool empty() const { return held_.empty(); }

 private:
  bool waits_for_memory();
  base::Client* client() const;
  // BodyMemory::Body
  void on_memory_free() override { turns_.resume_now(); }
  void on_memory_lost(BodyMemory::Loss why) override;
  uint64_t memory_held() const override { return socket_.reserved(); }

  Exchange& exchange_;
  WebSocket& socket_;
  BodyMemory* const bodies_;
  CallTurns& turns_;
  std::string held_;
  size_t taken_ = 0;  // bytes of held_; erased once they are more than half, so that a byte moves once on average
};

}  // namespace weir::wire
