// TestService: grpc.testing.TestService, the service that gRPC's interoperability clients call (grpc's
// doc/interop-test-descriptions.md says what they expect), on weir's own gRPC layer. One per shard, on its thread.
#pragma once

#include <memory>
#include <string_view>

#include "base/env.h"
#include "wire/rpc.h"

namespace weir::interop {

class TestService {
 public:
  static constexpr std::string_view kService = "grpc.testing.TestService";

  // Borrowed; both outlive every Exchange.
  TestService(wire::RpcServer& rpcs, base::Env& env);
  ~TestService();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::interop
