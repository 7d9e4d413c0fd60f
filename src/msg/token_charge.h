// TokenCharge: charges the tokens of one Call, of a model that makes tokens or of an encoder, to its limiter. The
// prompt is charged when the Call is lent, the answer token by token, so that a client that leaves early pays for what
// was made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "base/env.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::msg {

class TokenCharge {
 public:
  // `call` has a Generation, or nothing is charged.
  static void prompt(const Call& call, base::Time now) {
    if (call.limiter && call.generation) call.limiter->charge_tokens(now, call.generation->append.size());
  }
  // The same; and for an encoder the ids of its first input, in whatever protocol they have come.
  static void prompt(const Call& call, const ModelSpec& spec, base::Time now) {
    prompt(call, now);
    if (!call.limiter || !spec.encoder || spec.inputs.empty()) return;
    for (const Tensor& tensor : call.inputs)
      if (tensor.name == spec.inputs.front().name)
        call.limiter->charge_tokens(now, tensor.shape.elements().value_or(0));
  }
  // For each Event of the Call, in their order.
  void answer(const Call& call, const Event& event, base::Time now) {
    if (!call.limiter) return;
    uint64_t more = 0;
    if (auto* token = std::get_if<Token>(&event.what))
      more = token->prefill ? 0 : 1;
    else if (auto* done = std::get_if<Done>(&event.what))
      more = done->completion_tokens - std::min<uint64_t>(charged_, done->completion_tokens);
    charged_ += more;
    call.limiter->charge_tokens(now, more);
  }

 private:
  uint64_t charged_ = 0;  // tokens of the answer
};

}  // namespace weir::msg
