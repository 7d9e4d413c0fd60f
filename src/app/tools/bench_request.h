// The requests of `weir bench`: the same tensors or the same prompt in each of the protocols. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "msg/tensor.h"
#include "wire/client_codec.h"

namespace weir::app {

enum class BenchProtocol : uint8_t {
  kOipRest,
  kOipGrpc,
  kOipStream,
  kOpenAi,
  kGrps,
  kGraphPipe,
  kSalience,
  kEvergreen
};

// Whether it goes over HTTP/2.
constexpr bool over_http2(BenchProtocol protocol) {
  return protocol != BenchProtocol::kOipRest && protocol != BenchProtocol::kOpenAi &&
         protocol != BenchProtocol::kGraphPipe;
}

// One request of the load: the calls that it takes, one after the other. Where there are several, the first one opens a
// session and the last one closes it (bench_session.h).
struct BenchRequest {
  std::vector<wire::ClientRequest> calls;
};

// A message of gRPC behind its length.
wire::ClientRequest grpc_request(std::string path, const std::string& message);

// A request but for its scheme, its authority and its key.
enum class TensorForm : uint8_t { kBinary, kJson };  // of kOipRest
// For kOipRest, kOipGrpc, kOipStream (ModelStreamInfer with one request), kGrps, kGraphPipe.
base::Result<wire::ClientRequest> tensor_request(BenchProtocol protocol, const std::string& model,
                                                 std::span<const msg::Tensor> tensors, TensorForm form);

// OpenAI's chat/completions, streamed; `max_tokens` are asked for and, where the server knows `ignore_eos`, made.
wire::ClientRequest chat_request(const std::string& model, const std::string& prompt, uint32_t max_tokens);

}  // namespace weir::app
