// In which order models are loaded: each pipeline behind its nodes. Pure.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace weir::models {

// `wanted` and what their pipelines are made of; `nodes` names the models that a pipeline needs and that are there.
std::vector<std::string> nodes_first(const std::set<std::string>& wanted,
                                     const std::function<std::vector<std::string>(const std::string&)>& nodes);

}  // namespace weir::models
