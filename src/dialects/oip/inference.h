// Inference: one Call on behalf of one client's request, whichever its form.
#pragma once

#include <string_view>
#include <vector>

#include "bus/owned_call.h"
#include "dialects/oip/house.h"
#include "dialects/oip/reply.h"
#include "dialects/oip/wishes.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::oip {

// The owner fills call() and wishes, then start()s it once. It hears answered() any number of times and then exactly
// one ended(), unless it leaves first. Destroying a started Inference leaves.
class Inference : public msg::Sink {
 public:
  Inference(House& house, wire::Exchange& exchange, std::string_view protocol)
      : house_(house), exchange_(exchange), protocol_(protocol), call_(house.bus) {}
  virtual ~Inference() = default;

  Wishes wishes;

  // The Call to fill, from the first call on until start().
  msg::Call& call() { return call_.fill(); }
  // Looks the model up for call().model and version. Errors: NOT_FOUND, UNAVAILABLE.
  base::Status find();
  const msg::ModelSpec& spec() const { return served_->spec; }
  // Checks tensors and shapes against the model (found already, or found here) and submits. On failure the Call is
  // gone; answered() and ended() are not called.
  base::Status start();
  // The client has gone: nothing more is heard.
  void leave() { call_.leave(); }
  bool running() const { return call_.running(); }

 protected:
  enum class More : uint8_t { kYes, kNo };
  // One Outputs, cut down to what was asked for. kNo: ended() follows at once.
  virtual void answered(const InferReply& reply, const std::vector<Form>& forms, More more) = 0;
  // The last word: OK, or why there is no (further) answer. The Inference may be destroyed from here on.
  virtual void ended(const msg::Call& call, base::Status status) = 0;

  House& house_;
  wire::Exchange& exchange_;

 private:
  void on(msg::Call& call, msg::Event&& event) final;
  base::Status answer(msg::Call& call, msg::Outputs& outputs, More more);
  void close(const msg::Call& call, base::Status status);

  std::string_view protocol_;
  bus::OwnedCall call_;
  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by the Call in flight
  std::vector<Form> forms_;
};

}  // namespace weir::oip
