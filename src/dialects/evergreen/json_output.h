// JsonOutput: fragments as the text of JSON messages, in their order. A long fragment is written piece by piece, as the
// client takes the text and the shard has time for it (TurnBudget): it holds up nobody, and its text is never there
// whole.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "dialects/evergreen/message.h"
#include "dialects/evergreen/state.h"

namespace weir::evergreen {

class JsonOutput final : TurnBudget::Waiter {
 public:
  class Listener {
   public:
    // A message, or with kYes a part of one that is not the last.
    virtual void on_text(std::string text, More more) = 0;
    // All that had to wait for a later turn has been written. Not called from send() or write_on().
    virtual void on_written() = 0;

   protected:
    ~Listener() = default;
  };

  // All borrowed.
  JsonOutput(EvergreenState& state, wire::Exchange& exchange, Listener& listener)
      : state_(state), exchange_(exchange), listener_(listener) {}
  ~JsonOutput() { stop(); }
  JsonOutput(const JsonOutput&) = delete;

  void send(const OutFragment& fragment);
  // The client has taken some of what was waiting for it.
  void write_on();
  // Some of what has been sent is not written yet.
  bool busy() const { return !unwritten_.empty(); }
  uint64_t held() const;  // bytes of fragments that are not written yet
  // The carrier has gone: nothing is written any more.
  void stop();

 private:
  struct LongMessage {
    std::string head;  // of the text; empty once it has been written
    base::Bytes data;  // its middle, in base64
    std::string_view tail;
    size_t at = 0;  // in data
  };
  void on_turn() override;
  void write_piece();

  EvergreenState& state_;
  wire::Exchange& exchange_;
  Listener& listener_;
  std::deque<LongMessage> unwritten_;
};

}  // namespace weir::evergreen
