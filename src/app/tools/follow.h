// `weir tail`: the access log of a running server, live; `weir trace`: where a request spent its time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "app/remote.h"

namespace weir::app {

// The parameters of dialects/ops/request_filter.h; empty ones are left out.
struct RequestFilterOptions {
  std::string protocol, model, status, slow;

  std::string query() const;  // "protocol=oip-rest&slow=1s"
};

struct TailOptions {
  RequestFilterOptions filter;
  uint64_t count = 0;  // lines, then it ends; 0: until it is interrupted
};
// A line per request, as it ends; with Output::kJson the log's own. Exits with 1 where the server cannot be followed,
// or ends the stream.
Exit tail(const Remote& remote, const TailOptions& options);

struct TraceOptions {
  std::string id;       // of a request, or of its trace
  bool slow = false;    // the slowest that are kept
  uint32_t count = 10;  // requests in the list of `slow`, or of the last ones
  RequestFilterOptions filter;
};
// With an id, or where only one request is asked for, its waterfall; else a list of requests and, of the slowest, the
// waterfall of the first.
Exit trace(const Remote& remote, const TraceOptions& options);

// One line of the access log for a person. Pure.
std::string tail_line(const nlohmann::json& request);
// A request of /console/v1/timelines with a bar for each part. Pure.
std::string waterfall(const nlohmann::json& request);

}  // namespace weir::app
