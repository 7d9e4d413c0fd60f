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

void throw_exception_from_error(const Status& status, const boost::source_location&) {
  throw std::runtime_error(std::string(name(status.code)) + ": " + status.text);
}

}  // namespace weir::base
