// A server with one method of each kind, and gRPC calls to it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/rpc_methods.h"
#include "support/rpc_wire.h"

namespace weir::wire {

using support::RpcBench;
using Log = std::vector<std::string>;

class Grpc : public testing::Test {
 protected:
  Grpc() { options_.max_message = 1 << 20; }
  support::TestService& service() {
    if (!service_) service_ = std::make_unique<support::TestService>(bench().server());
    return *service_;
  }
  RpcBench& bench() {
    if (!bench_) bench_ = std::make_unique<RpcBench>(nullptr, options_);
    return *bench_;
  }
  RpcBench::Opened run(std::string method, std::string_view body, const RpcBench::Headers& headers = {}) {
    service();
    return bench().run("/test.Service/" + method, body, "application/grpc", headers);
  }
  RpcBench::Opened open(std::string method, const RpcBench::Headers& headers = {}) {
    service();
    return bench().open("/test.Service/" + method, "application/grpc", headers);
  }

  RpcOptions options_;

 private:
  std::unique_ptr<RpcBench> bench_;
  std::unique_ptr<support::TestService> service_;
};

}  // namespace weir::wire
