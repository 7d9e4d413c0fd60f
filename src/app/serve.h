// serve(): the whole server, from a Config to the end of the process.
#pragma once

#include "app/config.h"
#include "app/live_settings.h"

namespace weir::app {

// The exit code of the process.
enum class Exit : int { kOk = 0, kFailed = 1, kUsage = 2, kBind = 3, kModels = 4, kDevice = 5 };

// Serves until SIGTERM or SIGINT, or until a GPU is lost and device.on_fault says exit (kDevice), then drains. Problems
// are told on standard error. `live` is reloaded on SIGHUP, on a thread of the server.
Exit serve(const Config& config, LiveSettings& live);

// Reads certificates, then loads the models of the configuration without serving them and prints what became of them:
// `weir check`. kSettings looks at their folders and loads none: beside a server that has them in memory already.
enum class CheckDepth : uint8_t { kModels, kSettings };
Exit check(const Config& config, CheckDepth depth);

// Prints the routes of the protocols that the configuration turns on, with what each asks of its caller (read, infer or
// admin: wire/access.h); serves nothing: `weir routes`.
enum class RouteList : uint8_t { kTable, kJson };
Exit list_routes(const Config& config, RouteList form);

}  // namespace weir::app
