#include "base/status.h"

#include <array>
#include <stdexcept>

#include "base/encoding.h"

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

namespace {

// Protobuf by hand: base has no generated code.
void put_length(std::string& out, size_t n) {
  for (; n >= 0x80; n >>= 7) out += char(uint8_t(n) | 0x80);
  out += char(n);
}
std::string field(int number, std::string_view value) {
  std::string out(1, char(number << 3 | 2));
  put_length(out, value.size());
  return out.append(value);
}

// google.rpc.Status{code=1, message=2, details=3: Any{type_url=1, value=2}}
Status detailed(Code code, std::string text, std::string_view type, std::string_view value) {
  constexpr size_t kLongest = 1024;  // the whole text goes out beside the details, which must stay small
  Status status{code, {}, std::string{char(1 << 3), char(code)}};
  if (!text.empty() && text.size() <= kLongest) status.details += field(2, text);
  std::string url = "type.googleapis.com/google.rpc." + std::string(type);
  status.details += field(3, field(1, url) + field(2, value));
  status.text = std::move(text);
  return status;
}

}  // namespace

constexpr std::string_view kRetryInfo = "google.rpc.RetryInfo";

// RetryInfo{retry_delay=1: Duration{seconds=1}}
Status try_again(Code code, std::string text, std::chrono::seconds after) {
  std::string delay(1, char(1 << 3));
  put_length(delay, size_t(after.count()));
  return detailed(code, std::move(text), "RetryInfo", field(1, delay));
}

bool worth_trying_again(const Status& status) {
  return !status.details.empty() && status.details.find(kRetryInfo) != std::string::npos;
}

// Behind the type's name come the value's tag and length, then the delay's, then the tag of its seconds.
std::chrono::seconds retry_after(const Status& status) {
  constexpr size_t kTagsAndLengths = 5;
  size_t at = status.details.find(kRetryInfo);
  if (at == status.details.npos) return std::chrono::seconds(1);
  int64_t seconds = 0;
  int shift = 0;
  for (at += kRetryInfo.size() + kTagsAndLengths; at < status.details.size() && shift < 35; ++at, shift += 7) {
    seconds |= int64_t(status.details[at] & 0x7f) << shift;
    if ((status.details[at] & 0x80) == 0) break;
  }
  return std::chrono::seconds(seconds > 0 ? seconds : 1);
}

// BadRequest{field_violations=1: FieldViolation{field=1, description=2}}
Status invalid_field(std::string_view path, std::string text) {
  constexpr size_t kLongest = 512;  // names of tensors may be long, and details must stay small
  std::string violation = field(1, cut_text(path, kLongest));
  if (text.size() <= kLongest) violation += field(2, text);
  std::string value = field(1, violation);
  return detailed(Code::kInvalidArgument, std::move(text), "BadRequest", value);
}

// ErrorInfo{reason=1, domain=2, metadata=3: map of {key=1, value=2}}
Status explained(Code code, std::string text, std::string_view reason, const Explanation& metadata) {
  std::string info = field(1, reason) + field(2, "weir");
  for (const auto& [key, value] : metadata) info += field(3, field(1, key) + field(2, value));
  return detailed(code, std::move(text), "ErrorInfo", info);
}

void throw_exception_from_error(const Status& status, const boost::source_location&) {
  throw std::runtime_error(std::string(name(status.code)) + ": " + status.text);
}

}  // namespace weir::base
