// The command line. Exit codes: 0 ok, 1 a check or request failed, 2 usage or configuration, 3 cannot listen, 4 a model
// failed under --strict.
#pragma once

namespace weir::app {

int run(int argc, char** argv);

}  // namespace weir::app
