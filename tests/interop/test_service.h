// TestService: grpc.testing.TestService, the service that gRPC's interoperability clients call (grpc's
// doc/interop-test-descriptions.md says what they expect), on weir's own gRPC layer. One per shard, on its thread.
//
// It is written as a dialect is: what it adds to weir is this folder and one line where it is made.
#pragma once

#include <memory>
#include <string_view>

#include "base/env.h"
#include "wire/rpc.h"

namespace weir::interop {

class TestService {
 public:
  static constexpr std::string_view kService = "grpc.testing.TestService";

  // Borrowed; both outlive every Exchange. `rpcs` has RpcOptions of options().
  TestService(wire::RpcServer& rpcs, base::Env& env);
  ~TestService();

  // Answers may be compressed as soon as the client accepts it; they are where it asks for it.
  static wire::RpcOptions options();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::interop
