// ShardErrands: the bus's workers for what has no model: wire::Errands of one shard.
#pragma once

#include "bus/bus.h"
#include "wire/errands.h"

namespace weir::app {

class ShardErrands final : public wire::Errands {
 public:
  explicit ShardErrands(bus::Bus& bus) : bus_(bus) {}  // outlives this; its Calls have come back when this goes

  base::Result<std::unique_ptr<wire::SentErrand>> send(std::unique_ptr<base::Errand> errand, size_t bytes, Part part,
                                                       wire::Exchange& exchange, Done done) override;

 private:
  bus::Bus& bus_;
  bus::Served no_model_;  // whose the errands are
};

}  // namespace weir::app
