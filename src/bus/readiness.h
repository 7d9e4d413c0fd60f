// Decides from the models that are served whether the server is ready.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "bus/catalog.h"

namespace weir::bus {

enum class ReadinessRule : uint8_t {
  kStrict,   // every model that somebody asked for serves, in each of its versions, and says so where it is asked
  kAny,      // one model serves
  kProcess,  // the server takes requests, whatever its models do
};

// Models have said this of themselves, by name and version: why one is not ready; empty: it is.
using SaidReadiness = std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>>;

// Returns an empty text when the models of `catalog` are ready by `rule`. Otherwise it says, for a person, how many
// models are missing, and names the first ten, each with its reason, which is cut to 200 bytes. Models that nobody has
// asked for, and those that were unloaded on request, do not count.
// A model that is asked itself (bus/load_notes.h), and has said nothing in `said`, is not ready; without `said` what it
// says does not count.
std::string why_not_ready(const Catalog& catalog, ReadinessRule rule, const SaidReadiness* said = nullptr);
// The same of one model that is served, by its own name: why the version that a request without one gets is not ready,
// by what it says itself. Empty: it is ready.
std::string why_model_not_ready(const Catalog& catalog, std::string_view model, const SaidReadiness* said);

}  // namespace weir::bus
