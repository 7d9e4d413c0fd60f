// The list `grps.routes` of the configuration file: HTTP routes of the user's own.
#pragma once

#include <string>
#include <vector>

#include "base/yaml.h"
#include "dialects/grps/options.h"
#include "wire/router.h"

namespace weir::grps {

// Complains about each mistake at its place.
void read_routes(const base::Yaml& node, base::Complaints& complaints, std::vector<RouteSpec>& routes);
// OK, or INVALID_ARGUMENT for the first that the router has a route for: one of the two would answer nothing.
base::Status check_free(const std::vector<RouteSpec>& routes, const wire::Router& router);
// The routes as lines of YAML inside the section `grps`; "" where there are none.
std::string show_routes(const std::vector<RouteSpec>& routes);

}  // namespace weir::grps
