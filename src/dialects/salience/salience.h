// Salience: salience.v1.Salience over gRPC, gRPC-Web and JSON: sessions of tokens, and generation in them. The contract
// is proto/salience.proto. One per shard, on its thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "session/sessions.h"
#include "wire/rpc.h"

namespace weir::dialects {
class Dialect;
}

namespace weir::salience {

struct Options {
  // Secrets of which a client must show one as `authorization: Bearer …`; each is a tenant of its own. None: everybody
  // may come, as one tenant, whose sessions `anonymous` divides.
  std::vector<std::string> bearer_tokens;
  msg::Anonymous anonymous = msg::Anonymous::kPerAddress;

  size_t tenants() const { return bearer_tokens.empty() ? 1 : bearer_tokens.size(); }
};

class Salience {
 public:
  static constexpr std::string_view kService = "salience.v1.Salience";

  // All borrowed; they outlive every Exchange. The Quota behind `sessions` knows options.tenants().
  Salience(bus::Bus& bus, wire::RpcServer& rpcs, session::Sessions& sessions, Options options);
  ~Salience();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::salience
