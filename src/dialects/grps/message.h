// GrpsMessage in weir's terms: what every request and every answer of the protocol carries, as JSON or protobuf
// (proto/grps.proto). Read and written by hand: no message objects, large float tensors are not copied.
//
//   JSON   {"model":…, "str_data":… | "bin_data":base64 | "gtensors":{"tensors":[…]} | "ndarray":[[…]] | "gmap":{…}}
//          a tensor: {"name":…, "dtype":"DT_INT32" or 4, "shape":[…], "flat_int32":[…]}
//          Names as in the .proto file, or in lowerCamelCase; unknown ones are passed over. 64-bit integers may be
//          strings. `ndarray` is nested numbers, which make one FP32 tensor.
// A request is refused at the first excess: more than 256 tensors or map entries, rank above 16, more than 64 KiB of
// unknown protobuf fields, or 65,536 fields beside elements; so a small one never becomes large in memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/grps/types.h"
#include "msg/tensor.h"

namespace weir::grps {

inline constexpr size_t kMaxTensors = 256;

enum class Kind : uint8_t { kNone, kBin, kStr, kTensors, kArray, kMap };

struct Message {
  std::string model;  // "" = not said
  Kind kind = Kind::kNone;
  base::Bytes data;                  // kBin, kStr
  std::vector<msg::Tensor> tensors;  // kTensors; kArray: one, without a name; kMap: scalars (of shape []), by key
  std::vector<Map> maps;             // kMap: which map each of them is in
};

// Errors: INVALID_ARGUMENT.
base::Status read_json(std::string_view body, base::SlabSource& slabs, Message& message);
// Tensors and data alias `bytes` where they can.
base::Status read_pb(const base::Bytes& bytes, base::SlabSource& slabs, Message& message);
// Whether read_pb() has elements of tensors to convert that take longer than a shard has.
bool takes_long(std::string_view bytes);
// Bytes that write_pb() makes of elements that it has to convert, at most: numbers below zero have ten.
uint64_t most_converted(const Message& message);
inline constexpr uint64_t kLongReply = 2 << 20;  // 2 to 10 ms

// HTTP's number for an outcome: 200, 404, …
int code_of(const base::Status& status);

// The answer as JSON: stamped with {"code","msg","status"}, default values left out, one blank per level as the
// reference server indents (kPretty), or all on one line. Tensors have types that the protocol knows (express()).
enum class Layout : uint8_t { kPretty, kLine };
std::string write_json(const base::Status& status, const Message& message, Layout layout = Layout::kPretty);
// The same of a failure with a number of HTTP's that no Code has, like 405.
std::string write_failure(int http, std::string_view text);
// At most what write_json() makes of this message, in bytes.
uint64_t most_json(const Message& message);
// The answer as protobuf, in pieces: large float tensors are pieces of their own.
std::vector<base::Bytes> write_pb(const base::Status& status, const Message& message);

}  // namespace weir::grps
