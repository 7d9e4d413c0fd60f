// Inference: one Call on behalf of one client's request, whichever its form.
//
// What is long about reading the request or writing an answer is done by the bus's workers (long_work.h); answers keep
// their order, and the last word comes behind them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bus/call_handle.h"
#include "dialects/oip/infer_options.h"
#include "dialects/oip/long_work.h"
#include "dialects/oip/reply.h"
#include "dialects/oip/state.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::oip {

// The owner fills call() and options, then start()s it once. It hears answered() any number of times and then exactly
// one ended(), unless it leaves first. Destroying a started Inference leaves.
class Inference : public msg::Sink {
 public:
  Inference(OipState& state, wire::Exchange& exchange, std::string_view protocol)
      : state_(state), exchange_(exchange), protocol_(protocol), call_(state.bus), work_(state.bus), worked_(*this) {}
  virtual ~Inference() = default;

  InferOptions options;

  // The Call to fill, from the first call on until start().
  msg::Call& call() { return call_.fill(); }
  // Looks the model up for call().model and version. Errors: NOT_FOUND, UNAVAILABLE.
  base::Status find();
  const msg::ModelSpec& spec() const { return served_->spec; }
  // Checks tensors and shapes against the model (found already, or found here) and submits. On failure the Call is
  // gone; answered() and ended() are not called.
  base::Status start();
  // The client has gone: nothing more is heard.
  void leave();
  bool running() const { return call_.running(); }

 protected:
  enum class More : uint8_t { kYes, kNo };
  // One Outputs, cut down to what was asked for. kNo: ended() follows at once.
  virtual void answered(const InferReply& reply, const std::vector<OutputForm>& forms, More more) = 0;
  // The last word: OK, or why there is no (further) answer. The Inference may be destroyed from here on.
  virtual void ended(base::Status status) = 0;

  // Has a worker read the request, for the model that was found; then request_read(), unless this leaves. call() has
  // its model, version and deadline then. Errors: those of Bus::send().
  base::Status read_aside(size_t bytes, ReadRequest::Read read);
  // The same for a ModelInferRequest that takes long; finds the model.
  base::Status read_aside(const base::Bytes& message);
  // call() and options are as `read` has left them; or why it has failed.
  virtual void request_read(base::Status) {}

  // Which outputs the form writes as text, and what writes a long answer, on a worker: then written() is called instead
  // of answered(). Null: answered() hears of the answer when a worker has classified it.
  virtual Writes writes() const { return Writes::kNoJson; }
  virtual WriteAnswer::Write writer() const { return nullptr; }
  virtual void written(WriteAnswer&, More) {}

  OipState& state_;
  wire::Exchange& exchange_;

 private:
  // Hears of offload tasks.
  struct Worked final : msg::Sink {
    explicit Worked(Inference& i) : inference(i) {}
    void on(msg::Call& call, msg::Event&& event) override { inference.worked(call, std::move(event)); }
    Inference& inference;
  };

  void on(msg::Call& call, msg::Event&& event) final;
  base::Status answer(msg::Call& call, msg::Outputs& outputs, More more);
  base::Status write_on();
  void deliver(WriteAnswer& answer);
  void close(const msg::Call& call, base::Status status);
  void worked(msg::Call& call, msg::Event&& event);
  void wrote(base::Status status, std::unique_ptr<bus::OffloadTask> task);
  void request_worked(base::Status status, std::unique_ptr<bus::OffloadTask> task);

  std::string_view protocol_;
  bus::CallHandle call_;
  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by a Call in flight
  std::vector<OutputForm> forms_;
  bus::CallHandle work_;  // a task
  Worked worked_;
  bool reading_ = false;                               // it reads the request
  std::vector<std::unique_ptr<WriteAnswer>> waiting_;  // answers behind a long one
  std::optional<base::Status> last_;                   // the last word, behind those
};

}  // namespace weir::oip
