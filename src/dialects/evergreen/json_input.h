// JsonInput reads the SessionMessages that a client sends as JSON and hands them to the session, in their order. A long
// one becomes a protobuf message on a worker.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/offload_task.h"
#include "base/stepped_charge.h"
#include "dialects/evergreen/state.h"
#include "wire/offload.h"

namespace weir::evergreen {

class JsonInput {
 public:
  class Listener {
   public:
    // The message that was read last is not a SessionMessage. Returns how the error begins: "line 7: ".
    virtual std::string on_bad_message() = 0;
    // A long message has been read: the next one may come.
    virtual void on_read() = 0;

   protected:
    ~Listener() = default;
  };

  // All borrowed.
  JsonInput(EvergreenState& state, wire::Exchange& exchange, Session& session, Listener& listener);

  // One message. Not while busy().
  void read(std::string_view text);
  void read(base::Bytes text);                 // a long one is not copied
  void read(std::vector<std::string> pieces);  // of one text, which a worker joins
  bool busy() const { return sent_ != nullptr; }
  // The carrier has gone: neither the session nor the listener is called any more.
  void stop() {
    sent_ = nullptr;
    copied_.give(copied_.used());
  }

 private:
  // The library reads JSON at 5 to 20 MB/s.
  bool is_long(size_t bytes) const { return state_.options.offload && bytes > wire::kLongText; }
  void read_here(std::string_view text);
  void send(std::vector<base::Bytes> text);
  void on_task(const base::Status& status, base::OffloadTask* task);
  void refuse(const base::Status& status);
  void abort(base::Status status);

  EvergreenState& state_;
  wire::Exchange& exchange_;
  Session& session_;
  Listener& listener_;
  std::unique_ptr<wire::SentTask> sent_;
  base::SteppedCharge copied_;  // the client's, for the copy of a text that waits
};

}  // namespace weir::evergreen
