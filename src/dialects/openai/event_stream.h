// EventStream: an answer as Server-Sent Events: its head before the first of them, a comment or an event where nothing
// else was sent for long. The shard's thread.
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
  using LifeSign = std::function<void(std::string& events)>;
  // `opening` is called once, before the head. `life_sign` writes what is sent in silence, if it writes something. All
  // are borrowed.
  EventStream(
      base::Env& env, wire::Exchange& exchange, std::function<void()> opening = {},
      LifeSign life_sign = [](std::string& events) { wire::append_sse_comment(events); })
      : exchange_(exchange),
        opening_(std::move(opening)),
        life_sign_(std::move(life_sign)),
        quiet_(env, exchange, [this] { ping(); }) {}

  // From here on signs of life are sent, until stop() or end().
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
  // A sign of life.
  void ping() {
    std::string events;
    life_sign_(events);
    if (!events.empty()) send(std::move(events));
  }

 private:
  wire::Exchange& exchange_;
  const std::function<void()> opening_;
  const LifeSign life_sign_;
  wire::QuietTimer quiet_;
};

}  // namespace weir::openai
