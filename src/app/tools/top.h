// `weir top`: what a server does, from two looks at its /metrics.
#pragma once

#include <string>

#include "app/remote.h"
#include "app/tools/metrics_page.h"

namespace weir::app {

struct TopOptions {
  base::Duration interval = std::chrono::seconds(1);
  uint64_t frames = 0;  // tables to print; 0: on a terminal until a key ends it, elsewhere one
};

// On a terminal redraws a table per interval until q is pressed; elsewhere, or where a number of frames is asked for,
// prints them one below the other as plain text. Exits with 1 when the server cannot be asked: at the begin, and
// without a screen also later; a screen says so and goes on asking.
Exit top(const Remote& remote, const TopOptions& options);

// One table as plain text: the server, errors by their code, protocols, models, GPUs; busiest first. `seconds` lie
// between the two pages.
std::string top_frame(const MetricsPage& before, const MetricsPage& now, double seconds);

}  // namespace weir::app
