// Streamed answers: their head, and Server-Sent Events, the writing side (WHATWG HTML, section 9.2): one event is a few
// "field: value" lines and a blank line.
#pragma once

#include <string>
#include <string_view>

#include "wire/exchange.h"

namespace weir::wire {

inline constexpr std::string_view kSseName = "text/event-stream";  // in Accept
inline constexpr std::string_view kSseType = "text/event-stream; charset=utf-8";

// The head of an answer whose parts are sent as they come: no cache keeps it, and no proxy holds it back (nginx reads
// X-Accel-Buffering).
Response stream_head(std::string_view content_type = kSseType);

// Appends one event. `data` may hold line breaks (CR, LF, CRLF): each line becomes a `data:` line of its own, so that
// no text can forge an event. `event` and `id` are left out when empty; they must not come from a client.
void append_sse(std::string& out, std::string_view data, std::string_view event = {}, std::string_view id = {});

// A comment: clients ignore it, proxies see life. Line breaks in `text` become spaces.
void append_sse_comment(std::string& out, std::string_view text = "ping");

}  // namespace weir::wire
