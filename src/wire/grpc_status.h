// How a Status travels in gRPC's trailers: `grpc-status`, `grpc-message` (percent-encoded), `grpc-status-details-bin`
// (unpadded base64 of a google.rpc.Status), grpc/doc/PROTOCOL-HTTP2.md, "Responses"; and `grpc-retry-pushback-ms` of
// what is worth trying again (gRPC proposal A6, "Server Pushback").
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/exchange.h"

namespace weir::wire {

// Whether a content-type is gRPC's: "application/grpc" in any case, with a message format ("+proto") or parameters
// ("; charset=utf-8") or without. gRPC-Web ("application/grpc-web") is another protocol.
bool is_grpc(std::string_view content_type);
// Whether it is gRPC's or gRPC-Web's: its clients read a status from `grpc-status`.
bool is_grpc_or_web(std::string_view content_type);

// Escapes '%' and all that is not printable ASCII. At most kMaxGrpcMessage bytes; what is longer is cut between
// escapes.
inline constexpr size_t kMaxGrpcMessage = 4096;
std::string encode_grpc_message(std::string_view text);

// Details that would not fit a client's header limit (8 KiB by default) are left out.
inline constexpr size_t kMaxGrpcDetails = 4096;
void add_grpc_status(Fields& fields, const base::Status& status);

// Adds a metadata field: the value of a "-bin" name becomes unpadded base64; fields that hold what HTTP forbids
// (control bytes, an empty name) are dropped.
void add_metadata(Fields& fields, std::string_view name, std::string_view value);

}  // namespace weir::wire
