// interop: grpc.testing.TestService, the service that gRPC's interoperability clients call, as a protocol of the tests.
// grpc's doc/interop-test-descriptions.md says what the clients expect.
#pragma once

#include <memory>

#include "dialects/dialect.h"

namespace weir::interop {

std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::interop
