// The unary calls: OpenSession, CloseSession, ForkSession, DumpSession, GetReadoutManifest.
#pragma once

#include <memory>
#include <vector>

#include "dialects/salience/state.h"

namespace weir::salience {

class Method : public wire::RpcMethod {
 public:
  virtual ~Method() = default;
};

// Registers them; `methods` keeps what was registered.
void add_lifecycle(SalienceState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<Method>>& methods);

}  // namespace weir::salience
