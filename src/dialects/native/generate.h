// Generate: a sequence for another weir, one Call for one rpc. On the shard's thread.
#pragma once

#include "bus/bus.h"
#include "wire/rpc.h"

namespace weir::native {

class Generate final : public wire::RpcMethod {
 public:
  explicit Generate(bus::Bus& bus) : bus_(bus) {}
  void call(wire::Rpc& rpc, base::Bytes message) override;

 private:
  bus::Bus& bus_;
};

}  // namespace weir::native
