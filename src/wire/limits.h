// Limits of the wire, with their defaults, and the closed list of reasons for refusing something.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/env.h"

namespace weir::wire {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

struct Limits {
  // Request heads. Soft: the request is answered 431 and the connection lives (HTTP/2). Hard: the connection is closed.
  uint32_t header_bytes = 16 << 10, header_bytes_hard = 64 << 10;
  uint32_t header_fields = 100, header_fields_hard = 1000;
  uint64_t body = 64 << 20;      // one HTTP body, also after inflating
  uint64_t message = 64 << 20;   // one gRPC message, also after inflating
  uint32_t inflate_ratio = 100;  // inflated : coded, past the first 512 KiB

  uint32_t streams = 100;  // HTTP/2 streams open at once; calls at work, of streams that were reset, too: twice as many
  uint32_t pipelined = 16;  // HTTP/1 requests waiting on one connection
  uint32_t requests_per_read = 32;
  uint32_t stream_window = 1 << 20;  // HTTP/2 receive windows; a stream's grows while its body has its memory
  uint32_t conn_window = 16 << 20;
  uint32_t max_frame = 1 << 20;  // SETTINGS_MAX_FRAME_SIZE that we offer

  base::Duration sniff = 5s, head = 10s, settings_ack = 10s, idle = 75s, stream_idle = 300s;
  base::Duration grace = 10s;             // before the two rates below are enforced
  uint32_t min_body_rate = 1024;          // bytes/s of a request body
  uint32_t min_drain_rate = 1024;         // bytes/s that a peer takes while we have output
  base::Duration memory_wait = 1s;        // of a request for memory; then it is refused
  uint32_t client_share = 25;             // per cent of what is scarce that one client may hold; 100: all
  base::Duration min_ping_interval = 0s;  // gRPC's `too_many_pings` after 2 strikes; 0: only the bucket below counts

  // Token buckets, per connection: burst, then per second.
  struct Bucket {
    uint32_t burst, per_second;
  };
  // Requests that a client may reset before anything of their answer has come, and not at their deadline; per second,
  // kResetBurst times as many at once. Where a proxy is trusted to ask for many: kResetsOfProxy times as many.
  static constexpr uint32_t kResetBurst = 10, kResetsOfProxy = 10;
  uint32_t resets = 20;
  Bucket glitches{100, 10};  // resets and errors that the peer made us send; REFUSED_STREAM is none
  Bucket pings{100, 10};
  Bucket settings{10, 4};
  uint32_t max_outbound_control = 200;
};

// Reasons, as metrics and the access log name them.
namespace reason {
inline constexpr std::string_view kFramingTe = "framing_te", kFramingCl = "framing_cl", kFramingChunk = "framing_chunk",
                                  kHost = "host", kHeaderBytes = "header_bytes", kHeaderCount = "header_count",
                                  kBodyBytes = "body_bytes", kInflateBytes = "inflate_bytes",
                                  kSlowHeader = "slow_header", kSlowBody = "slow_body", kSlowRead = "slow_read",
                                  kIdle = "idle", kPreface = "preface", kAlpn = "alpn", kTls = "tls",
                                  kH2RstRx = "h2_rst_rx", kH2RstTx = "h2_rst_tx", kH2Ping = "h2_ping",
                                  kH2Settings = "h2_settings", kH2Empty = "h2_empty", kH2Prio = "h2_prio",
                                  kH2Window = "h2_window", kH2Continuation = "h2_continuation",
                                  kH2Outbound = "h2_outbound", kH2StreamId = "h2_stream_id", kGrpcLen = "grpc_len",
                                  kGrpcEncoding = "grpc_encoding", kGrpcTimeout = "grpc_timeout", kParse = "parse",
                                  kShape = "shape", kParam = "param", kModelName = "model_name", kAuth = "auth",
                                  kForeignPage = "foreign_page", kUntrustedHost = "untrusted_host",
                                  kAdminListener = "admin_listener", kOverload = "overload", kDrain = "drain",
                                  kEngine = "engine", kProxy = "proxy", kShare = "client_share", kUsage = "usage";
}  // namespace reason

}  // namespace weir::wire
