// The timeline of a model's last batches as JSON, for the monitor's page:
//   {"model":"digits","version":"1","now":81000000,"places":["cpu"],"batches":[
//     {"n":41,"instance":0,"calls":3,"rows":3,"start":80990000,
//      "wait":120,"gather":2,"up":0,"compute":310,"down":0,"answer":4}]}
// Times are microseconds of one clock, `wait` to `answer` how long each step took. The oldest batch comes first.
#pragma once

#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "bus/catalog.h"

namespace weir::grps {

// Errors: those of Catalog::find().
base::Result<std::string> batches_json(const bus::Catalog& catalog, std::string_view model, std::string_view version,
                                       base::Time now);

}  // namespace weir::grps
