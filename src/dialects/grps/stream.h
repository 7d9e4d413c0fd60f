// Streamed HTTP answers: when there is one, and how its parts follow each other.
#pragma once

#include "dialects/grps/state.h"
#include "wire/exchange.h"

namespace weir::grps {

// Whether the request asks for a stream in the way that `control` says (Options::streaming). A body that is no JSON, by
// its Content-Type, asks for none. Errors: INVALID_ARGUMENT for JSON that cannot be read.
base::Result<bool> wants_stream(std::string_view control, const wire::Exchange& exchange);
// Whether a value of the query, of a header or of JSON says yes.
bool says_true(std::string_view value);
// The body's form, by its Content-Type.
enum class BodyForm : uint8_t { kJson, kOctets, kOther };
BodyForm body_form(const wire::Request& request);

// How the parts of a streamed HTTP answer follow each other: one after the other as the reference server writes them,
// one per line, or as Server-Sent Events.
enum class StreamFormat : uint8_t { kGrps, kNdjson, kSse };
// The one that the request accepts by its name, text/event-stream or application/x-ndjson; kGrps where it names
// neither.
StreamFormat stream_format(const wire::Request& request);

// Sends the head when the first part comes; parts as the client accepts them. A bin_data part goes out as it is where
// parts are concatenated, else in JSON.
class PartWriter {
 public:
  explicit PartWriter(wire::Exchange& exchange) : exchange_(exchange), format_(stream_format(exchange.request())) {}

  // `content_type`: of the head, where the configuration of a route has its own; "" = the dialect's.
  void open(std::string_view content_type = {});
  StreamFormat format() const { return format_; }
  void part(const base::Status& status, const Message& message);
  // A part that has its form already.
  void raw(base::Bytes bytes) { exchange_.body(std::move(bytes)); }
  // The last part is the failure, if it is one.
  void end(const base::Status& status);

 private:
  wire::Exchange& exchange_;
  const StreamFormat format_;
};

}  // namespace weir::grps
