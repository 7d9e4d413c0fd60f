// Streamed HTTP answers: when there is one, and how its parts follow each other.
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "dialects/grps/state.h"
#include "wire/exchange.h"
#include "wire/long_answer.h"
#include "wire/offload.h"

namespace weir::grps {

// Whether a request wants one answer or a stream of them.
enum class Delivery : uint8_t { kOne, kStream };
// Reads that where `control` says (Options::streaming). A body that is no JSON, by its Content-Type,
// asks for no stream. Any thread. Errors: INVALID_ARGUMENT for JSON that cannot be read.
base::Result<Delivery> read_delivery(std::string_view control, const wire::Request& request, std::string_view body);
// Whether a value of the query, of a header or of JSON says yes.
bool is_true(std::string_view value);
// The body's form, by its Content-Type.
enum class BodyForm : uint8_t { kJson, kOctets, kOther };
BodyForm body_form(const wire::Request& request);

// How the parts of a streamed HTTP answer follow each other: one after the other as the reference server writes them,
// one per line, or as Server-Sent Events.
enum class StreamFormat : uint8_t { kGrps, kNdjson, kSse };
// The one that the request accepts by its name, text/event-stream or application/x-ndjson; kGrps where it names
// neither.
StreamFormat stream_format(const wire::Request& request);

// The parts of a streamed HTTP answer, in their order; the head goes out with the first. A part that is long is written
// by a worker, and the next ones wait for it.
class PartWriter {
 public:
  class Listener {
   public:
    // The parts that waited for a worker have gone out.
    virtual void on_parts_written() = 0;
    // A part cannot be written, and the later ones are dropped. Not called from add().
    virtual void on_part_failed(base::Status status) = 0;

   protected:
    ~Listener() = default;
  };

  // `content_type`: of the head, where the configuration of a route has its own; "" = the format's. All borrowed.
  PartWriter(const GrpsState& state, wire::Exchange& exchange, Listener& listener, std::string_view content_type = {})
      : state_(state),
        exchange_(exchange),
        listener_(listener),
        content_type_(content_type),
        format_(stream_format(exchange.request())) {}

  StreamFormat format() const { return format_; }
  // A part that `make` writes, of `most` bytes at most. Errors: what `make` says, and where there is no room for it.
  template <class Make>
  base::Status add(uint64_t most, Make&& make) {
    if (busy() || wire::is_long(state_.options.offload, most)) return enqueue(most, std::forward<Make>(make));
    auto part = wire::write_body(exchange_, most, make);
    return part ? send(*std::move(part)) : part.error();
  }
  // An answer. A bin_data part goes out as it is where parts are concatenated, else in JSON.
  base::Status add(Message message);
  bool busy() const { return !waiting_.empty(); }
  // Ends the answer, once all parts have been added; not while busy(). A failure is written as the last part.
  void end(const base::Status& status);
  // The same for a failure that has its form already.
  void end(const base::Status& status, base::Bytes failure);
  // The client has gone.
  void stop();

 private:
  struct Part {
    uint64_t most;
    wire::MakeBody make;
  };
  void open();
  base::Status enqueue(uint64_t most, wire::MakeBody make);
  base::Status send(base::Bytes part);
  base::Status write_first();
  void on_task(const base::Status& status, base::OffloadTask* task);

  const GrpsState& state_;
  wire::Exchange& exchange_;
  Listener& listener_;
  const std::string_view content_type_;
  const StreamFormat format_;
  std::deque<Part> waiting_;  // a worker has the first
  std::unique_ptr<wire::SentTask> sent_;
};

}  // namespace weir::grps
