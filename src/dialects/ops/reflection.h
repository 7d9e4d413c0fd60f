// grpc.reflection.v1 and v1alpha: describes the given services, and itself, from the descriptors that are linked into
// this program. For buf curl, grpcurl and the like. One per shard, or one for all: any thread may ask it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "wire/rpc.h"

namespace weir::ops {

class Reflection {
 public:
  // `services` are full names; the two reflection services are added. A name without a descriptor is listed all the
  // same.
  explicit Reflection(std::vector<std::string> services);
  ~Reflection();
  // This outlives every Exchange of `server`.
  void add_to(wire::RpcServer& server);
  // All of them, with reflection's own.
  const std::vector<std::string>& services() const { return services_; }

 private:
  class Method;
  std::vector<std::string> services_;
  std::unique_ptr<Method> method_;
};

}  // namespace weir::ops
