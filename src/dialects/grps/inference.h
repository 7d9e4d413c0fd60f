// Inference: one Call on behalf of one client's request, whichever its form. Long payloads are placed and checked, and
// long answers checked and converted, by the bus's workers (long_work.h); answers keep their order.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bus/call_handle.h"
#include "bus/offload_handle.h"
#include "dialects/grps/long_work.h"
#include "dialects/grps/mapping.h"
#include "dialects/grps/state.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::grps {

// The owner calls find(), fills call(), and calls start() once. Then answered() is called any number of times and
// ended() exactly once, unless the owner calls leave() first. The destructor of a started Inference calls leave().
class Inference : public msg::Sink, bus::OffloadListener {
 public:
  Inference(GrpsState& state, wire::Exchange& exchange)
      : state_(state), exchange_(exchange), call_(state.bus), work_(state.bus, *this) {}
  virtual ~Inference() = default;

  // How often the model may answer this request. Models that may answer any number of times want kMany; of those that
  // do so only when they are told (text with `stream`), a first answer that is not the last one ends it, UNIMPLEMENTED.
  enum class Answers : uint8_t { kOne, kMany };
  // Errors: those of find_model(), UNIMPLEMENTED for a model that wants kMany.
  base::Status find(std::string_view model, Answers answers);
  const msg::ModelSpec& spec() const { return served_->spec; }
  msg::Call& call() { return call_.fill(); }
  // Checks the inputs, those that are made of the message or those that the Call has, against the model and submits, at
  // once or when a worker has done so; of kMany a model of text is asked for its pieces as they are made, unless the
  // request has its own `stream`. On failure the Call is gone, and nothing more is called.
  base::Status start(std::optional<Message> message = {});
  // The client has gone: neither answered() nor ended() is called any more.
  void leave();
  // The client has read what was waiting for it.
  void drained() { call_.repay(); }

 protected:
  enum class More : uint8_t { kYes, kNo };
  // One answer of the model, its tensors checked and in the form of form_; of kOne it is the only one. A Status that is
  // not OK ends it.
  virtual base::Status answered(Message&& reply, More more) = 0;
  // OK, of kOne after the answer; or why there is none, or no further one. The Inference may be destroyed from here on.
  virtual void ended(base::Status status) = 0;
  virtual bool has_room() { return exchange_.has_room(); }

  GrpsState& state_;
  wire::Exchange& exchange_;
  AnswerForm form_;

 private:
  using Task = std::unique_ptr<base::OffloadTask>;
  void on(msg::Call& call, msg::Event&& event) final;
  void on_task(base::Status status, Task task) final;
  base::Status send(Task task, size_t bytes, bus::Admission admission);
  base::Status submit();
  void ask_for_pieces();
  base::Status take(msg::Outputs& outputs);
  base::Status convert_next();
  base::Status deliver(ConvertOutputs& converted);
  base::Status deliver(base::Result<Message> reply, More more);
  void close(const msg::Call& call, base::Status status);
  void end(base::Status status);

  bus::CallHandle call_;
  bus::OffloadHandle work_;
  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by the Call or task in flight
  Answers answers_ = Answers::kOne;
  bool answered_ = false, preparing_ = false;             // preparing_: what work_ does, if it does anything
  std::vector<std::unique_ptr<ConvertOutputs>> waiting_;  // answers behind a long one
  std::optional<base::Status> last_;                      // the outcome, behind those
};

// An Inference whose question and answers are GrpsMessages.
class Prediction : public Inference {
 public:
  using Inference::Inference;
  void want(ArrayForm array) { form_.array = array; }

  // The message as the question; `model` where the message names none.
  base::Status ask(Message&& message, std::string_view model, Answers answers);
};

}  // namespace weir::grps
