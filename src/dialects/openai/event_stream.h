// EventStream: an answer as Server-Sent Events: its head before the first of them, a comment where nothing else was
// sent for long. The shard's thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "dialects/openai/state.h"
#include "wire/answer_flow.h"
#include "wire/quiet_timer.h"
#include "wire/sse.h"

namespace weir::openai {

class EventStream {
 public:
  // `opening` is called once, before the head. All are borrowed.
  EventStream(base::Env& env, wire::Exchange& exchange, std::function<void()> opening = {})
      : exchange_(exchange), opening_(std::move(opening)), quiet_(env, exchange, [this] { ping(); }) {}

  // From here on comments are sent, until stop() or end().
  void start() { quiet_.start(); }
  void stop() { quiet_.stop(); }

  // The head, where it is not out yet.
  void open() {
    if (exchange_.responding()) return;
    if (opening_) opening_();
    wire::Response response = wire::stream_head();
    add_timing(exchange_, response.fields);
    exchange_.head(std::move(response));
  }
  // Whole events.
  void send(std::string events) {
    open();
    quiet_.sent();
    exchange_.body(base::Bytes::adopt(std::move(events)));
  }
  // The last ones.
  void end(std::string events) {
    stop();
    send(std::move(events));
    exchange_.end();
  }

 private:
  void ping() {
    std::string comment;
    wire::append_sse_comment(comment);
    send(std::move(comment));
  }

  wire::Exchange& exchange_;
  const std::function<void()> opening_;
  wire::QuietTimer quiet_;
};

}  // namespace weir::openai
