// The protocol's log settings over base/log.h, and reading of settings and parameters from REST bodies.
//
//   log_info, log_warning, log_error   bool: the level is written
//   log_verbose_level                  0, 1, …
//   log_format                         default, ISO8601 (both are the text form; the word is read back), JSON
//   log_file                           shown as ""; setting it is UNIMPLEMENTED
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "dialects/oip/trace.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::oip {

msg::Parameters log_settings();
// All or nothing. Errors: INVALID_ARGUMENT naming the setting, UNIMPLEMENTED.
base::Status change_log(const msg::Parameters& wanted);

// A body that is one flat JSON object of plain values; empty is {}. null members are left out.
base::Result<msg::Parameters> read_flat(std::string_view body);
// The same inside a member `parameters` of the body; other members are passed over.
base::Result<msg::Parameters> read_parameters(std::string_view body);
// {"trace_level":["OFF"],"trace_rate":"1"}: a value, a list of them, or null for an empty list.
base::Result<Traces::Settings> read_trace(std::string_view body);
void write_flat(std::string& out, const msg::Parameters& values);
// Settings with their new values for the audit log: "log_info=true log_verbose_level=1", kMostChange bytes at most.
inline constexpr size_t kMostChange = 256;
std::string change_text(const msg::Parameters& values);
std::string change_text(const Traces::Settings& values);

// A model that a client asks to load or unload: letters, digits, '_', '.', '-', at most 128, not starting with a dot.
base::Status check_model_name(std::string_view name);
// Whether the caller may load and unload it. Errors: PERMISSION_DENIED.
base::Status check_scope(const wire::Request& request, std::string_view model);
// Whether the caller may bring a configuration of its own: as steps of an ensemble that may name any model, which would
// run for callers that may not use it. Errors: PERMISSION_DENIED.
base::Status check_may_configure(const wire::Request& request);

}  // namespace weir::oip
