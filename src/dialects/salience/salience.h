// Salience: salience.v1.Salience over gRPC, gRPC-Web and JSON: sessions of tokens, and generation in them. The contract
// is proto/salience.proto. One per shard, on its thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bus/bus.h"
#include "session/sessions.h"
#include "wire/relay.h"
#include "wire/rpc.h"

namespace weir::dialects {
class Dialect;
}

namespace weir::salience {

struct Options {
  // Which clients without a key share their sessions.
  msg::Anonymous anonymous = msg::Anonymous::kPerAddress;
  session::Quota* quota = nullptr;  // the one behind `sessions`, borrowed: it numbers tenants with keys
  wire::Relay* relay = nullptr;     // to the other nodes of a cluster, borrowed; null: this one is alone
  size_t most_searches = 128;       // for sessions among those, of one tenant, on this shard
};

class Salience {
 public:
  static constexpr std::string_view kService = "salience.v1.Salience";

  // All borrowed; they outlive every Exchange.
  Salience(bus::Bus& bus, wire::RpcServer& rpcs, session::Sessions& sessions, Options options);
  ~Salience();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::salience
