#include "models/separate_devices.h"

#include <algorithm>
#include <charconv>

namespace weir::models {
namespace {

// The devices of instances that have `size` each: the one that is named and those behind it.
std::vector<std::string> with_those_behind(const std::vector<std::string>& places, size_t size) {
  std::vector<std::string> all;
  for (const auto& place : places) {
    if (place.empty()) all.emplace_back();
    if (place.empty()) continue;
    const size_t colon = std::min(place.find(':'), place.size());
    size_t number = 0;
    std::from_chars(place.data() + std::min(colon + 1, place.size()), place.data() + place.size(), number);
    for (size_t i = 0; i < size; ++i) all.push_back(place.substr(0, colon) + ':' + std::to_string(number + i));
  }
  return all;
}

}  // namespace

base::Status one_on_each(std::vector<std::string> places, size_t size) {
  if (size > 1) places = with_those_behind(places, size);
  std::sort(places.begin(), places.end());
  auto twice = std::adjacent_find(places.begin(), places.end());
  if (twice == places.end()) return {};
  return base::invalid("two instances on " + (twice->empty() ? "one device" : "'" + *twice + "'") +
                       ": a model of tokens has one on each device, which batches, and shares its keys and values");
}

}  // namespace weir::models
