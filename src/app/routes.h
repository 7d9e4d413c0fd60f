// The list `grps.routes` of the configuration file: HTTP routes of the user's own.
#pragma once

#include <vector>

#include "dialects/grps/options.h"
#include "models/yaml.h"

namespace weir::app {

// What is wrong goes into `complaints`, with its place.
void read_routes(const models::Yaml& node, models::Complaints& complaints, std::vector<grps::RouteSpec>& routes);

}  // namespace weir::app
