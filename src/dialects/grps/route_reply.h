// Writes a route's answer: outputs at their places in a JSON document, or one output's own bytes; and errors in the
// configuration's own words.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/grps/state.h"
#include "msg/tensor.h"
#include "wire/exchange.h"

namespace weir::grps {

// The body of an answer. Errors: INTERNAL for an output that is not there, INVALID_ARGUMENT for one that nests too
// deep.
base::Result<base::Bytes> render(const RouteSpec& route, const std::vector<msg::Tensor>& outputs);
// At most what render() makes outside of slabs, in bytes.
uint64_t most_rendered(const RouteSpec& route, const std::vector<msg::Tensor>& outputs);
std::string_view content_type(const RouteSpec& route);

// The body of an error where the route has its own (RouteSpec::error_body).
std::string render_error(const RouteSpec& route, const base::Status& status);
// The whole answer to a request that has failed. Fills the request's record.
void respond_error(wire::Exchange& exchange, const RouteSpec& route, const base::Status& status);

}  // namespace weir::grps
