// Status and Result: how the data plane says that something went wrong.
//
// The codes are gRPC's 17; every protocol maps them to its own form, HTTP through http_status() below and nowhere else.
// A Status text is shown to clients: it names what was wrong and what was expected, never an address, a path of this
// machine or a secret.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::base {

enum class Code : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "INVALID_ARGUMENT", …; the spelling of google.rpc.Code.
std::string_view name(Code code);

// 400 for INVALID_ARGUMENT, 429 for RESOURCE_EXHAUSTED, …: the one mapping, for every JSON-speaking protocol.
int http_status(Code code);

// The closest code for an HTTP status; the inverse is not exact.
Code code_from_http(int status);

struct Status {
  Code code = Code::kOk;
  std::string text;
  // A serialized google.rpc.Status for `grpc-status-details-bin`, or empty.
  std::string details;

  bool ok() const { return code == Code::kOk; }
  friend bool operator==(const Status&, const Status&) = default;
};

inline Status failure(Code code, std::string text) { return Status{code, std::move(text), {}}; }
// "Not now, but soon": the details carry a google.rpc.RetryInfo, which gRPC clients with a retry policy and proxies
// look for; in HTTP the same is said by Retry-After. `code`: RESOURCE_EXHAUSTED or UNAVAILABLE. `after`: 1 s or more.
Status try_again(Code code, std::string text, std::chrono::seconds after = std::chrono::seconds(1));
// Made by try_again().
bool worth_trying_again(const Status& status);
// When to try again; 1 s for what try_again() has not made.
std::chrono::seconds retry_after(const Status& status);
// INVALID_ARGUMENT of one field of the request: the details carry a google.rpc.BadRequest that names it as a path
// ("inputs[1].shape") and says the same text.
Status invalid_field(std::string_view field, std::string text);
// A failure that programs can read, too: the details carry a google.rpc.ErrorInfo of domain "weir" with `reason`
// ("OFFSET_MISMATCH") and the pairs.
using Explanation = std::vector<std::pair<std::string_view, std::string>>;
Status explained(Code code, std::string text, std::string_view reason, const Explanation& metadata = {});
inline Status invalid(std::string text) { return failure(Code::kInvalidArgument, std::move(text)); }

// A T, or the Status that says why not. value() of a failed Result throws: only start-up code calls it unchecked.
template <class T>
using Result = boost::system::result<T, Status>;

[[noreturn]] void throw_exception_from_error(const Status& status, const boost::source_location& where);

}  // namespace weir::base
