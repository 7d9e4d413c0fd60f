// Decides from the models that are served whether the server is ready.
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

// Returns an empty text when the models of `catalog` are ready by `rule`. Otherwise it says, for a person, how many
// models are missing, and names the first ten, each with its reason, which is cut to 200 bytes. Models that nobody has
// asked for, and those that were unloaded on request, do not count.
std::string why_not_ready(const Catalog& catalog, ReadinessRule rule);

}  // namespace weir::bus
