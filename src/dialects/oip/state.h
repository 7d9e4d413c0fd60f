// The state that all parts of the dialect share on one shard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bus/load_notes.h"
#include "bus/model_readiness.h"
#include "dialects/dialect.h"
#include "dialects/oip/json_template.h"
#include "dialects/oip/oip.h"
#include "dialects/oip/shared_memory/shared_regions.h"
#include "dialects/oip/trace.h"

namespace weir::oip {

using dialects::ServerControl;

inline constexpr std::string_view kRest = "oip-rest", kGrpc = "oip-grpc";

struct OipState {
  bus::Bus& bus;
  base::SlabSource& slabs;
  ServerControl& control;
  Traces& traces;
  SharedRegions& regions;
  OipOptions options;

  // Connections that have open streams: how many, and the requests of them that have not been answered.
  struct Streams {
    uint32_t open = 0, pending = 0;
  };
  std::unordered_map<const wire::PeerInfo*, Streams> streams{};

  // Loads and unloads that are under way, by number: the client that waits for one may leave before it is done.
  std::unordered_map<uint64_t, ServerControl::Done> waiting;
  uint64_t last_wait = 0;
  JsonTemplates templates{};
  std::optional<bus::ModelReadiness> readiness{};

  // Null: the model is ready while it serves.
  std::shared_ptr<msg::ReadinessProbe> probe(const bus::Served& served) const {
    return readiness ? bus::readiness_probe(served) : nullptr;
  }
  uint64_t wait(ServerControl::Done done) {
    waiting.emplace(++last_wait, std::move(done));
    return last_wait;
  }
  // Returns the function that ServerControl calls to end a wait().
  ServerControl::Done finisher(uint64_t wait) {
    return [this, wait](base::Status status) {
      auto node = waiting.extract(wait);
      if (!node.empty()) node.mapped()(std::move(status));
    };
  }
};

// The extensions of the protocol that work here: what server metadata lists.
std::vector<std::string_view> extensions(const OipState& state);

}  // namespace weir::oip
