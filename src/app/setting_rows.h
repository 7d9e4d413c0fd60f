// Declarations that the files of the table of settings share. For them alone.
#pragma once

#include <vector>

#include "app/settings.h"

namespace weir::app {

using base::invalid;
using base::Setting;
using base::Status;
using Values = Setting::Values;
using namespace base::setting;  // the builders of rows

void add_server(std::vector<Setting>& rows, Config& c);      // listen, shards, tls, http
void add_auth(std::vector<Setting>& rows, Config& c);        // auth
void add_cluster(std::vector<Setting>& rows, Config& c);     // cluster
void add_models(std::vector<Setting>& rows, Config& c);      // models, engines, device
void add_limits(std::vector<Setting>& rows, Config& c);      // limits
void add_jobs(std::vector<Setting>& rows, Config& c);        // jobs
void add_overload(std::vector<Setting>& rows, Config& c);    // overload
void add_tracing(std::vector<Setting>& rows, Config& c);     // tracing
void add_operations(std::vector<Setting>& rows, Config& c);  // cors, metrics, log, access_log, shutdown

// 0 to 1. Errors: INVALID_ARGUMENT.
base::Result<double> parse_ratio(std::string_view text);

}  // namespace weir::app
