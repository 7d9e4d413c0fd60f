// The last batches of a model as JSON, for the console's timeline. Pure.
//
//   {"now":64935822665,"places":["cpu"],"batches":[[n,instance,calls,rows,queued,median,last,started,gathered,arrived,
//   computed,landed,finished],…]}
//
// Times are microseconds of the server's steady clock, as bus::BatchRecord has them; `places` says where each instance
// runs. A model of tokens has a step in each place: `calls` are its sequences that decode, `rows` all its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "bus/catalog.h"

namespace weir::ops {

// Those with a number above `after`. Errors: those of Catalog::find().
base::Result<std::string> batch_list(const bus::Catalog& catalog, std::string_view model, std::string_view version,
                                     int64_t after, base::Time now);

}  // namespace weir::ops
