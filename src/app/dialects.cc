// The protocols of weir: each is a folder below dialects/ and one line here. It is compiled into the program, not into
// the library of this room, so that a program of the tests can bring another list (tests/interop).
#include "app/config.h"
#include "dialects/evergreen/evergreen.h"
#include "dialects/graphpipe/graphpipe.h"
#include "dialects/grps/grps.h"
#include "dialects/native/native.h"
#include "dialects/oip/oip.h"
#include "dialects/openai/openai.h"
#include "dialects/predict/predict.h"
#include "dialects/salience/salience.h"

namespace weir::app {

std::vector<ServedDialect> all_dialects() {
  std::vector<ServedDialect> all;
  // GRPS is the last: routes of the user's own must not take the place of others.
  for (auto make : {oip::make_dialect, graphpipe::make_dialect, predict::make_dialect, openai::make_dialect,
                    salience::make_dialect, evergreen::make_dialect, native::make_dialect, grps::make_dialect})
    all.push_back({make()});
  return all;
}

}  // namespace weir::app
