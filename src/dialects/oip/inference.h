// Inference: one Call on behalf of one client's request, in any of its forms.
//
// Long requests are read, and long answers written, by the bus's workers (long_work.h). Answers keep their order, and
// the end of the request comes behind them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bus/call_handle.h"
#include "bus/offload_handle.h"
#include "dialects/oip/call_trace.h"
#include "dialects/oip/infer_options.h"
#include "dialects/oip/long_work.h"
#include "dialects/oip/reply.h"
#include "dialects/oip/state.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::oip {

// The owner fills call() and options, then start()s it once. answered() is called any number of times and then ended()
// exactly once, unless it leaves first. Destroying a started Inference leaves.
class Inference : public msg::Sink, bus::OffloadListener {
 public:
  // `streamed_by`: the request takes one answer; where the model makes more, the error says that they take this call
  // ("infer_stream"). Empty: the request takes any number of answers.
  Inference(OipState& state, wire::Exchange& exchange, std::string_view protocol, std::string_view streamed_by)
      : state_(state),
        exchange_(exchange),
        protocol_(protocol),
        streamed_by_(streamed_by),
        call_(state.bus),
        work_(state.bus, *this) {}
  virtual ~Inference() = default;

  InferOptions options;

  // The Call to fill, from the first call on until start().
  msg::Call& call() { return call_.fill(); }
  // Looks the model up for call().model and version. Errors: NOT_FOUND, UNAVAILABLE.
  base::Status find();
  const msg::ModelSpec& spec() const { return served_->spec; }
  // Finds the inputs that are in shared memory, checks tensors and shapes against the model (found already, or found
  // here) and submits; at once, or when a worker has copied those inputs or checked long BYTES. On failure the Call is
  // gone; answered() and ended() are not called.
  base::Status start();
  // The client has gone: no virtual function is called any more. `code`: the request's end in its trace.
  void leave(base::Code code = base::Code::kCancelled);
  // The client has read what was waiting for it.
  void drained() { call_.repay(); }

 protected:
  enum class More : uint8_t { kYes, kNo };
  bool streams() const { return streamed_by_.empty(); }
  // Before start(): answers wait for a slow reader at the engine (CallHandle::grant).
  void limit_answers() { call_.grant(bus::kAnswerWindow); }
  virtual bool has_room() { return exchange_.has_room(); }

  // One Outputs, cut down to what was asked for, or an error in its place where the Call takes_errors. kNo: ended()
  // follows at once.
  virtual void answered(const InferReply& reply, const OutputForms& forms, More more) = 0;
  // The last word: OK, or why there is no (further) answer; `status` is none of the Inference's, which may be destroyed
  // from here on.
  virtual void ended(const base::Status& status) = 0;

  // Has a worker read the request for the model that was found. Then request_read() is called, unless leave() was
  // called before. call() keeps its model, version and deadline. Errors: those of Bus::send().
  base::Status read_on_worker(size_t bytes, ReadRequest::Read read);
  // The same for a ModelInferRequest that takes long; finds the model.
  base::Status read_on_worker(const base::Bytes& message);
  // A worker has read the request into call() and options, or the Status says why it could not.
  virtual void request_read(base::Status) {}

  // Which outputs the form writes as text, and what writes a long answer, on a worker: then written() is called instead
  // of answered(). Null: answered() is called once a worker has classified the answer.
  virtual Writes writes() const { return Writes::kNoJson; }
  virtual WriteAnswer::Write writer() const { return nullptr; }
  virtual void written(WriteAnswer&, More) {}

  OipState& state_;
  wire::Exchange& exchange_;
  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by a Call in flight
  bool submitted_ = false;         // the model has been given the Call; start() may be through before that

 private:
  void on(msg::Call& call, msg::Event&& event) final;
  void on_task(base::Status status, std::unique_ptr<bus::OffloadTask> task) final;
  base::Status answer(msg::Call& call, msg::Outputs& outputs, More more);
  base::Status write_on();
  bool takes(const std::vector<msg::Tensor>& tensors);
  void deliver(const InferReply& reply, const OutputForms& forms, More more);
  void deliver(WriteAnswer& answer);
  void sent();
  void close(const msg::Call& call, const base::Status& status);
  void end(const base::Status& status);
  void wrote(base::Status status, std::unique_ptr<bus::OffloadTask> task);
  enum class Strings : uint8_t { kUnchecked, kChecked };  // inside BYTES
  base::Status submit(Strings strings = Strings::kUnchecked);

  const std::string_view protocol_, streamed_by_;
  bus::CallHandle call_;
  OutputForms forms_;
  bus::OffloadHandle work_;
  enum class Work : uint8_t { kWriting, kReading, kCopying, kChecking };
  Work doing_ = Work::kWriting;                     // what work_ does, if it does anything
  bool answered_ = false, answered_again_ = false;  // where one answer is taken
  CallTrace trace_;
  std::vector<std::unique_ptr<WriteAnswer>> waiting_;  // answers behind a long one
  std::optional<base::Status> last_;                   // the outcome, behind those
};

}  // namespace weir::oip
