// ModelInfer and ModelStreamInfer.
//
// Unary: one Call, one answer in raw_output_contents. A decoupled model cannot be called so: UNIMPLEMENTED.
// Stream: answers of ordinary models come in the order of their requests; those of decoupled models as they are made.
// A request that fails is a message with error_message, and the stream goes on; with the request metadata
// `triton_grpc_error: true` the first failure ends the stream with its status instead. Every answer, and the error of a
// request that the model was given, carries the parameter triton_final_response; the end of a decoupled answer that has
// no tensors is told only to requests with triton_enable_empty_final_response. After the client's half-close the stream
// ends when all Calls have.
#pragma once

#include "dialects/oip/state.h"
#include "wire/rpc.h"

namespace weir::oip {

class ModelInfer final : public wire::RpcMethod {
 public:
  explicit ModelInfer(OipState& state) : state_(state) {}
  void call(wire::Rpc& rpc, base::Bytes message) override;

 private:
  OipState& state_;
};

class ModelStreamInfer final : public wire::RpcMethod {
 public:
  explicit ModelStreamInfer(OipState& state) : state_(state) {}
  void open(wire::Rpc& rpc) override;

 private:
  OipState& state_;
};

}  // namespace weir::oip
