// The state that all parts of the dialect share on one shard.
#pragma once

#include "dialects/graphpipe/graphpipe.h"
#include "dialects/graphpipe/reply.h"

namespace weir::graphpipe {

inline constexpr std::string_view kProtocol = "graphpipe";
inline constexpr std::string_view kBinary = "application/octet-stream";

struct GraphPipeState {
  bus::Bus& bus;
  base::SlabSource& slabs;
  GraphPipeOptions options;

  ServerName server() const { return {options.server_name, options.server_version}; }
};

// 400 with an InferResponse; the Status also goes into the request's record.
void respond_failure(wire::Exchange& exchange, const base::Status& status);

// post.cc, pages.cc: what the routes are answered with.
void post(GraphPipeState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void model_page(GraphPipeState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void list_page(GraphPipeState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void is_ready(GraphPipeState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void is_alive(GraphPipeState& state, wire::Exchange& exchange, const wire::PathArgs& args);

}  // namespace weir::graphpipe
