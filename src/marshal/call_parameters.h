// Parameters of a request that are the Call's own, whoever sends it: a client of OIP, or a model that asks another one.
//   sequence_id (int64 or string), sequence_start, sequence_end   Call::session, and kept as parameters
//   priority, timeout (microseconds)                              Call::priority, Call::queue_timeout
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "msg/call.h"

namespace weir::marshal {

// A whole number that is not negative, of either type.
std::optional<uint64_t> whole_number(const msg::ParamValue& value);

// INVALID_ARGUMENT: "parameter 'timeout': expected …".
base::Status wrong_parameter(std::string_view name, std::string_view expected);
base::Status get_flag(std::string_view name, const msg::ParamValue& value, bool& out);

// Sets what the parameter says; nothing for a name that is not above. Errors: wrong_parameter().
base::Status apply_to_call(msg::Call& call, std::string_view name, const msg::ParamValue& value);

}  // namespace weir::marshal
