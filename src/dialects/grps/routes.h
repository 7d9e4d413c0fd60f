// The list `grps.routes` of the configuration file: HTTP routes of the user's own.
#pragma once

#include <string>
#include <vector>

#include "base/yaml.h"
#include "dialects/grps/options.h"

namespace weir::grps {

// Complains about each mistake at its place.
void read_routes(const base::Yaml& node, base::Complaints& complaints, std::vector<RouteSpec>& routes);
// The routes as lines of YAML inside the section `grps`; "" where there are none.
std::string show_routes(const std::vector<RouteSpec>& routes);

}  // namespace weir::grps
