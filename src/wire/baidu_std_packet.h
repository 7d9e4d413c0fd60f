// A packet of baidu_std, brpc's own protocol, which GRPS' clients in C++ speak (Apache brpc: docs/cn/baidu_std.md,
// baidu_rpc_meta.proto). Pure functions on bytes.
//
//   packet = "PRPC" body meta-size meta message attachment   ; two sizes of 4 octets, big-endian
//   meta   = a protobuf message, RpcMeta
//
// `body` counts all behind the first 12 octets. Requests and answers of one connection are told apart by their
// correlation_id; answers come in any order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace weir::wire {

struct BaiduHeader {
  static constexpr std::string_view kMagic = "PRPC";
  static constexpr size_t kSize = 12;

  uint32_t body = 0, meta = 0;

  // Reads the first kSize bytes of `bytes`. Nothing: they do not begin a packet, or the meta is longer than the body.
  static std::optional<BaiduHeader> read(std::string_view bytes);
};

// How a message is coded: COMPRESS_TYPE_* of brpc's options.proto. weir does not offer LZ4 (4), which no client of brpc
// can write, and writes no Snappy.
enum class BaiduCoding : int32_t { kNone = 0, kSnappy = 1, kGzip = 2, kZlib = 3 };

// The meta of a request. The views are into the bytes that it was read from.
struct BaiduRequest {
  std::string_view service, method;  // "grps.protos.v1.GrpsBrpcService", "Predict"
  std::string_view request_id, credential;
  int64_t correlation_id = 0;
  int32_t timeout_ms = 0;                                             // 0: none was said
  int32_t coding = 0;                                                 // as it came
  int32_t content_type = 0;                                           // 0: protobuf
  int32_t attachment_size = 0;                                        // of the end of the body, behind the message
  std::vector<std::pair<std::string_view, std::string_view>> fields;  // user_fields

  // Nothing: malformed, not of a request, or with more than `most_fields` fields.
  static std::optional<BaiduRequest> read(std::string_view meta, size_t most_fields);
};

// brpc's error codes (errno.proto), and those of errno.h that it uses with them.
enum class BrpcError : int32_t {
  kNone = 0,
  kForbidden = 1,   // EPERM
  kExists = 17,     // EEXIST
  kInvalid = 22,    // EINVAL
  kCanceled = 125,  // ECANCELED
  kNoMethod = 1002,
  kRequest = 1003,
  kAuth = 1004,
  kTimedOut = 1008,
  kInternal = 2001,
  kLogOff = 2003,  // the server ends: clients ask another one, and not this one again
  kLimit = 2004,   // clients ask another one
};
// As brpc's GrpcStatusToErrorCode(); but UNAVAILABLE is kLimit, which its clients try again.
BrpcError brpc_error(base::Code code);

// Writes the meta of an answer, and the header before it.
class BaiduAnswer {
 public:
  explicit BaiduAnswer(int64_t correlation_id) : correlation_id_(correlation_id) {}
  void fail(BrpcError error, std::string_view text);
  void coded(BaiduCoding coding) { coding_ = coding; }
  void field(std::string_view name, std::string_view value);

  // The bytes before a message of `message` bytes.
  std::string write(size_t message) const;

 private:
  const int64_t correlation_id_;
  BaiduCoding coding_ = BaiduCoding::kNone;
  std::string response_;  // an RpcResponseMeta
  std::string fields_;    // user_fields, each with its tag
};

}  // namespace weir::wire
