// grpc.health.v1.Health: Check, List and Watch. Names: "" (the whole server), each service's full name, "model:<name>".
//
// One per shard, on its thread. It keeps no states of its own: it asks the HealthSource, and pushes to watchers what
// differs from what they got last.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wire/rpc.h"

namespace weir::ops {

// The values of grpc.health.v1.HealthCheckResponse.ServingStatus.
enum class Serving : uint8_t { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

class HealthSource {
 public:
  // kServiceUnknown for a name that is not there.
  virtual Serving serving(std::string_view name) const = 0;
  // The own name of a model that is named by a further one ("model:<name>"); every other name is itself.
  virtual std::string own_name(std::string_view name) const { return std::string(name); }
  // All names that there are now, for List.
  virtual std::vector<std::string> names() const = 0;

 protected:
  ~HealthSource() = default;
};

class Health {
 public:
  static constexpr std::string_view kService = "grpc.health.v1.Health";
  static constexpr size_t kMaxListed = 1000;  // names in one answer to List; more are RESOURCE_EXHAUSTED

  // `source` outlives this; this outlives every Exchange of `server`.
  explicit Health(const HealthSource& source);
  ~Health();
  void add_to(wire::RpcServer& server);

  // Asks the source again, and sends each watcher its status if that has changed.
  void changed();
  // From now on every known name is NOT_SERVING, whatever the source says; watchers are told at once.
  void drain();

  size_t watchers() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::ops
