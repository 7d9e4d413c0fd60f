// `weir engine-child ENGINE MODEL`: the process of one model with `isolation: process`
// (engines/process/engine_child.h). It is not for people, and not in the help.
#pragma once

#include <string>
#include <vector>

#include "app/config.h"
#include "app/serve.h"

namespace weir::app {

inline constexpr const char* kEngineChild = "engine-child";

// This program as such a child, with the settings of `config` that its engines look at; the names of the engine and of
// the model, which is for whoever lists processes, are to follow.
std::vector<std::string> engine_command(const Config& config);

Exit run_engine_child(const Config& config, const std::string& engine);

}  // namespace weir::app
