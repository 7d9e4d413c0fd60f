// Environment variables that look like those of settings, and are none: a server that passed them over would run with
// the defaults, for WEIR_AUTH_KEYFILE without keys.
#pragma once

#include <string>
#include <vector>

namespace weir::app {

// A line for each of `environment` ("NAME=value", as environ(7)) that begins with WEIR_ and that nothing reads; values
// are not told. Those are left out that Kubernetes makes of a Service whose name begins with "weir": WEIR_SERVICE_HOST,
// WEIR_PORT_….
std::vector<std::string> unknown_variables(const char* const* environment);

}  // namespace weir::app
