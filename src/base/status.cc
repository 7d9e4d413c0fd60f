#include "base/status.h"

#include <array>
#include <stdexcept>

namespace weir::base {
namespace {

struct Row {
  std::string_view name;
  int http;
};

constexpr std::array<Row, 17> kCodes{{
    {"OK", 200},
    {"CANCELLED", 499},
    {"UNKNOWN", 500},
    {"INVALID_ARGUMENT", 400},
    {"DEADLINE_EXCEEDED", 504},
    {"NOT_FOUND", 404},
    {"ALREADY_EXISTS", 409},
    {"PERMISSION_DENIED", 403},
    {"RESOURCE_EXHAUSTED", 429},
    {"FAILED_PRECONDITION", 400},
    {"ABORTED", 409},
    {"OUT_OF_RANGE", 400},
    {"UNIMPLEMENTED", 501},
    {"INTERNAL", 500},
    {"UNAVAILABLE", 503},
    {"DATA_LOSS", 500},
    {"UNAUTHENTICATED", 401},
}};

}  // namespace

std::string_view name(Code code) { return kCodes.at(size_t(code)).name; }
int http_status(Code code) { return kCodes.at(size_t(code)).http; }

Code code_from_http(int status) {
  switch (status) {
    case 400:
    case 405:
    case 411:
    case 415:
    case 417:
    case 422: return Code::kInvalidArgument;
    case 401: return Code::kUnauthenticated;
    case 403: return Code::kPermissionDenied;
    case 404: return Code::kNotFound;
    case 408:
    case 504: return Code::kDeadlineExceeded;
    case 409: return Code::kAborted;
    case 413:
    case 429:
    case 431: return Code::kResourceExhausted;
    case 499: return Code::kCancelled;
    case 501: return Code::kUnimplemented;
    case 503: return Code::kUnavailable;
    default: return status < 400 ? Code::kOk : Code::kInternal;
  }
}

// google.rpc.Status{code=1, message=2, details=3: Any{type_url=1, value=2: RetryInfo{retry_delay=1:
// Duration{seconds=1}}}}
Status try_again(Code code, std::string text) {
  constexpr std::string_view kType = "type.googleapis.com/google.rpc.RetryInfo";
  constexpr std::string_view kOneSecond("\x0a\x02\x08\x01", 4);
  constexpr size_t kLongest = 127;  // so that every length is one byte; grpc-message has the whole text
  auto field = [](int number, std::string_view value) {
    return std::string{char(number << 3 | 2), char(value.size())} + std::string(value);
  };
  std::string_view message = std::string_view(text).substr(0, text.size() <= kLongest ? text.size() : 0);
  Status status{code, {}, std::string{char(1 << 3), char(code)}};
  if (!message.empty()) status.details += field(2, message);
  status.details += field(3, field(1, kType) + field(2, kOneSecond));
  status.text = std::move(text);
  return status;
}

void throw_exception_from_error(const Status& status, const boost::source_location&) {
  throw std::runtime_error(std::string(name(status.code)) + ": " + status.text);
}

}  // namespace weir::base
