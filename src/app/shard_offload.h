// ShardOffload: the bus's workers for what has no model: wire::Offload of one shard.
#pragma once

#include "bus/bus.h"
#include "wire/offload.h"

namespace weir::app {

class ShardOffload final : public wire::Offload {
 public:
  explicit ShardOffload(bus::Bus& bus) : bus_(bus) {}  // outlives this; its Calls have come back when this goes

  base::Result<std::unique_ptr<wire::SentTask>> send(std::unique_ptr<base::OffloadTask> task, size_t bytes, Part part,
                                                     wire::Exchange& exchange, Done done) override;

 private:
  bus::Bus& bus_;
  bus::Served no_model_;  // whose the offload tasks are
};

}  // namespace weir::app
