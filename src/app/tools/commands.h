// The commands that watch a server or put its models to work: top, tail, trace, chat, bench.
#pragma once

#include <CLI/CLI.hpp>

#include "app/remote.h"
#include "app/serve.h"

namespace weir::app {

// Adds them to the command line. The one that is given sets `exit`, which outlives `app`.
void add_tools(CLI::App& app, Exit& exit);

// Adds the options that say which server, and who asks: url (also --url), --key, --ca, --timeout.
void add_remote_options(CLI::App& command, Remote& remote, std::string& timeout);

}  // namespace weir::app
