// Inference: one Call on behalf of one client's request, whichever its form.
#pragma once

#include "bus/call_handle.h"
#include "dialects/grps/mapping.h"
#include "dialects/grps/state.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::grps {

// The owner calls find(), fills call(), and calls start() once. Then answered() is called any number of times and
// ended() exactly once, unless the owner calls leave() first. The destructor of a started Inference calls leave().
class Inference : public msg::Sink {
 public:
  Inference(GrpsState& state, wire::Exchange& exchange) : state_(state), exchange_(exchange), call_(state.bus) {}
  virtual ~Inference() = default;

  // How often the model may answer this request. Models that may answer any number of times want kMany; of those that
  // do so only when they are told (text with `stream`), a first answer that is not the last one ends it, UNIMPLEMENTED.
  enum class Answers : uint8_t { kOne, kMany };
  // Errors: those of find_model(), UNIMPLEMENTED for a model that wants kMany.
  base::Status find(std::string_view model, Answers answers);
  const msg::ModelSpec& spec() const { return served_->spec; }
  msg::Call& call() { return call_.fill(); }
  // Checks the inputs against the model and submits; of kMany a model of text is asked for its pieces as they are made,
  // unless the request has its own `stream`. On failure the Call is gone, and nothing more is called.
  base::Status start();
  // The client has gone: neither answered() nor ended() is called any more.
  void leave() { call_.abandon(); }
  // The client has read what was waiting for it.
  void drained() { call_.repay(); }

 protected:
  enum class More : uint8_t { kYes, kNo };
  // One answer of the model, its tensors checked; of kOne it is the only one. A Status that is not OK ends it.
  virtual base::Status answered(std::vector<msg::Tensor> outputs, More more) = 0;
  // OK, of kOne after the answer; or why there is no (further) answer. The Inference may be destroyed from here on.
  virtual void ended(base::Status status) = 0;
  virtual bool has_room() { return exchange_.has_room(); }

  GrpsState& state_;
  wire::Exchange& exchange_;

 private:
  void on(msg::Call& call, msg::Event&& event) final;
  void ask_for_pieces();
  base::Status take(msg::Outputs& outputs);
  void close(const msg::Call& call, base::Status status);

  bus::CallHandle call_;
  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by the Call in flight
  Answers answers_ = Answers::kOne;
  bool answered_ = false;
};

// An Inference whose question and answers are GrpsMessages.
class Prediction : public Inference {
 public:
  using Inference::Inference;
  ArrayForm array = ArrayForm::kNo;

  // The message as the question; `model` where the message names none.
  base::Status ask(Message&& message, std::string_view model, Answers answers);

 protected:
  // A Status that is not OK ends it.
  virtual base::Status replied(Message&& reply, More more) = 0;

 private:
  base::Status answered(std::vector<msg::Tensor> outputs, More more) final;
  Asked asked_;
  bool named_ = false;  // the message has named the model, so its answer says which one and which version it was
};

}  // namespace weir::grps
