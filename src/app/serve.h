// serve(): the whole server, from a Config to the end of the process.
#pragma once

#include "app/config.h"

namespace weir::app {

// The exit code of the process.
enum class Exit : int { kOk = 0, kFailed = 1, kUsage = 2, kBind = 3, kModels = 4 };

// Serves until SIGTERM or SIGINT, then drains. Problems are told on standard error.
Exit serve(const Config& config);

// Loads the models of the configuration without serving them and prints what became of them: `weir check`.
Exit check_models(const Config& config);

// Prints the routes of the protocols that the configuration turns on, with what each asks of its caller (read, infer or
// admin: wire/access.h); serves nothing: `weir routes`.
enum class RouteList : uint8_t { kTable, kJson };
Exit list_routes(const Config& config, RouteList form);

}  // namespace weir::app
