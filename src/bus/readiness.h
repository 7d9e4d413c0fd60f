// Whether a server is ready, by the models that it serves.
#pragma once

#include <cstdint>
#include <string>

#include "bus/catalog.h"

namespace weir::bus {

enum class ReadinessRule : uint8_t {
  kStrict,   // every model that somebody asked for serves, in each of its versions
  kAny,      // one model serves
  kProcess,  // the server takes requests, whatever its models do
};

// Empty when the models of `catalog` are ready by `rule`; else what is missing, in words for a person: how many models,
// the first ten by name, each with its reason, cut to 200 bytes. Models that nobody has asked for, and those that were
// unloaded on request, count for nothing.
std::string why_not_ready(const Catalog& catalog, ReadinessRule rule);

}  // namespace weir::bus
