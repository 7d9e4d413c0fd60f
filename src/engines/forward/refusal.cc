#include "engines/forward/refusal.h"

#include <string>
#include <utility>

#include "base/encoding.h"
#include "engines/forward/origin.h"
#include "marshal/field_reader.h"
#include "wire/hops.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;
using marshal::FieldReader;
using marshal::JsonCursor;

constexpr std::string_view kFailedAnswer = "ORIGIN_ANSWERED_WITH_ERROR";  // for programs, too
constexpr size_t kLongestRefusal = 1000;                                  // bytes of it that are shown

// The words of an error's body, or nothing.
std::string words_of(std::string_view body) {
  std::string text;
  JsonCursor json(body);
  FieldReader fields(json);
  // FastAPI says of each field that it refuses: [{"loc": […], "msg": "…", …}, …].
  auto detail = [&] {
    if (json.peek() != JsonCursor::Kind::kObject) return json.skip();
    return json.object([&](std::string_view name) {
      return name == "msg" && text.empty() ? fields.text(name, SIZE_MAX, text) : json.skip();
    });
  };
  auto words = [&](std::string_view name) {
    if (name == "detail" && json.peek() == JsonCursor::Kind::kArray) return json.array(detail);
    if ((name == "message" || name == "detail" || name == "error") && json.peek() == JsonCursor::Kind::kString)
      return fields.text(name, SIZE_MAX, text);
    return json.skip();
  };
  const bool ok = json.peek() == JsonCursor::Kind::kObject && json.object([&](std::string_view name) {
    return name == "error" && json.peek() == JsonCursor::Kind::kObject ? json.object(words) : words(name);
  });
  return base::presentable(ok ? std::string_view(text) : std::string_view(), kLongestRefusal);
}

}  // namespace

Status broken_rule(std::string text) { return failure(Code::kInternal, std::move(text)); }

Status broken_output(std::string_view text) {
  constexpr std::string_view kInput = "input ";
  if (!text.starts_with(kInput)) return broken_rule(std::string(text));
  return broken_rule("output " + std::string(text.substr(kInput.size())));
}

Code code_of_status(int status) {
  switch (status) {
    case 400:
    case 413:
    case 422: return Code::kInvalidArgument;
    case 401: return Code::kUnauthenticated;
    case 403: return Code::kPermissionDenied;
    case 404: return Code::kNotFound;
    case 408:
    case 504: return Code::kDeadlineExceeded;
    case 429: return Code::kResourceExhausted;
    case 501: return Code::kUnimplemented;
    case 502:
    case 503: return Code::kUnavailable;
    default: return Code::kInternal;
  }
}

Status error_of(int status, std::string_view body, std::string_view retry_after) {
  std::string text = "it answered with HTTP status " + std::to_string(status);
  if (const std::string words = words_of(body); !words.empty()) text += ": " + words;
  if (!retry_after.empty()) text += " (retry after " + base::presentable(retry_after, 32) + ")";
  const Code code = code_of_status(status);
  if (code == Code::kResourceExhausted || code == Code::kUnavailable) return base::try_again(code, std::move(text));
  return failure(code, std::move(text));
}

Status no_origin(const Target& target, const std::string& model) {
  if (target.present() == 0)
    return base::try_again(Code::kUnavailable,
                           "no server that has model '" + model + "' is there now; try again later");
  return base::try_again(Code::kResourceExhausted,
                         "every origin of model '" + model + "' has as many calls as it may (" +
                             std::to_string(target.options.max_outstanding) + "); try again later");
}

Status goes_in_circles(const std::string& model) {
  return failure(Code::kUnimplemented, "the request has been forwarded " + std::to_string(wire::kMostHops) +
                                           " times: the origins of model '" + model + "' lead back to it");
}

Status failed_answer(Status status) {
  if (status.code != Code::kInternal) return status;
  return base::explained(Code::kInternal, std::move(status.text), kFailedAnswer);
}

bool is_failed_answer(const Status& status) {
  return status.code == Code::kInternal && status.details.find(kFailedAnswer) != std::string::npos;
}

bool is_refusal(int status) { return status == 429 || (status >= 502 && status <= 504); }

}  // namespace weir::forward
