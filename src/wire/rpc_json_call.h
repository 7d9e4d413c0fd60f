// JsonCall: a remote call as plain JSON. Private to wire/rpc*.cc; Connect's unary calls (rpc_connect.cc) differ in how
// metadata and errors are written, and may carry protobuf.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/body.h"
#include "wire/coding.h"
#include "wire/rpc_call.h"
#include "wire/rpc_json_transcoder.h"

namespace weir::wire {

class JsonCall : public TranscodedCall<RpcCall> {
 public:
  using TranscodedCall::TranscodedCall;

  using Rpc::send;
  void send(std::vector<base::Bytes> pieces) override;
  void on_data(Exchange&, std::span<const std::byte> bytes) override;
  void on_end(Exchange&) override;

 protected:
  base::Status check_head() override;
  // A request message, or a line of them, as it came in: `place` is its memory.
  virtual void read_message(std::string_view text, base::Bytes place) { transcoder_.read(text, std::move(place)); }
  // The one answer of the method, whole; or how it ended without one.
  virtual void write_answer(base::Bytes answer);
  virtual void write_error(const base::Status& status);
  // Response metadata, and what all errors have: the status, and when to come again.
  void add_initial(Response& response) const;
  Response error_head(const base::Status& status) const;

 private:
  void resume() override;
  uint64_t reserved() const override { return collector_.reserved(); }
  void drop_request() override;

  // JsonTranscoder::Owner
  void message_refused(const base::Status& why, std::string_view reject, Size size) override;
  base::Status put_answer(std::string text) override;
  void put_status(const base::Status& status) override;

  void collected(BodyCollector::State state, size_t came_now);
  void give_back();
  void feed();
  std::string_view next_text();
  void too_large(std::string_view why, std::string_view text);
  void open_stream();
  Framing framing() const { return route_.one_response() ? Framing::kBare : sse_ ? Framing::kSse : Framing::kLine; }

  BodyCollector collector_;
  size_t owed_ = 0;     // request bytes not yet given back with consume()
  base::Bytes text_;    // the request, once it is whole
  size_t at_ = 0;       // where the next line begins
  bool whole_ = false;  // text_ is there, and something of it waits
  bool sse_ = false, large_ = false;
  Coding coding_ = Coding::kIdentity;
  base::Bytes answer_;  // of one-response methods
};

// google.rpc.Status in JSON: {"code":…,"message":"…","details":[…]}.
std::string status_json(JsonForm& json, const base::Status& status);

}  // namespace weir::wire
