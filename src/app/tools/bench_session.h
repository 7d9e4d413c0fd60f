// The requests of `weir bench` that are sessions: Salience's and Evergreen's. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/tools/bench_request.h"
#include "msg/tensor.h"

namespace weir::app {

// A session of Salience: OpenSession, one Generate, CloseSession. The last two carry an id of zeros.
BenchRequest salience_session(const std::string& model, std::span<const uint32_t> tokens, uint32_t max_tokens);
// Such a call with the id that the server has given to its session.
wire::ClientRequest in_session(const wire::ClientRequest& call, std::string_view id);

// A session of Evergreen over gRPC, all of it in one message: a node with the prompt and GENERATE, or a node for each
// tensor and INFER. The answer's node is kEvergreenAnswer.
inline constexpr std::string_view kEvergreenAnswer = "answer";
BenchRequest evergreen_generate(const std::string& model, const std::string& prompt, uint32_t max_tokens);
BenchRequest evergreen_infer(const std::string& model, std::span<const msg::Tensor> tensors);

}  // namespace weir::app
