// EventStream: the answer of …/generate_stream, as Server-Sent Events (WHATWG HTML, section 9.2). On the shard.
//
// A GET is for EventSource, which sends no body, and which comes back by itself whenever a stream ends, with the id of
// the last event in Last-Event-ID. So events have their number as id, the last one is `event: end` with the id "end",
// and whoever comes back with that is told 204, which ends it. With a number the answer is made again from the
// beginning and continues behind that event; an answer that would be another one the second time is not: 204, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/exchange.h"
#include "wire/quiet_timer.h"

namespace weir::oip {

class EventStream {
 public:
  EventStream(wire::Exchange& exchange, base::Env& env);

  // From now on a comment is sent where there is nothing else to send for a while; an error is an event then.
  void keep_alive() { quiet_.start(); }
  // `json` as one event; `text` is one event already.
  void send(std::string_view json);
  void send_text(std::string text);
  void end(wire::Fields trailers = {});
  // `{"error":"<text>"}` as the last event; before the first one with the error's status, as Triton tells it.
  void fail(const base::Status& status);

 private:
  void open();
  void ping();
  void put(std::string text);

  wire::Exchange& exchange_;
  wire::QuietTimer quiet_;
  bool numbered_ = false;            // a GET
  uint64_t sent_ = 0, skipped_ = 0;  // events; those up to the latter have been sent before
};

// The JSON of a request: its body; of a GET the value of the query's `request`.
base::Bytes request_of(const wire::Exchange& exchange);
// The client has had all of it, or what cannot be made again: it is told 204. `repeatable`: the same request has the
// same answer.
enum class Repeatable : bool { kNo, kYes };
bool is_over(wire::Exchange& exchange, Repeatable repeatable);

}  // namespace weir::oip
