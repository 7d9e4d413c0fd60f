// weir's own protocol, by which one weir runs models of tokens for another (engines/forward, kind: weir):
// proto/forward.proto. One per shard, used on its thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "bus/bus.h"
#include "wire/rpc.h"

namespace weir::dialects {
class Dialect;
}

namespace weir::native {

class Native {
 public:
  static constexpr std::string_view kService = "weir.forward.v1.Forward";

  // Adds the methods. All borrowed; they and this outlive every call. `accepting`: the server takes requests.
  Native(bus::Bus& bus, wire::RpcServer& rpcs, std::function<bool()> accepting);
  ~Native();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::native
