#include "engines/forward/oip/grpc_call.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/encoding.h"
#include "base/recycled.h"
#include "wire/grpc_status.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kLongestReason = 1000;
constexpr unsigned kCodes = 17;
constexpr int64_t kMostDigits = 100'000'000;  // of grpc-timeout

// grpc/doc/http-grpc-status-mapping.md: for whoever answers without a status of gRPC, as proxies do.
Code code_of_http(int status) {
  switch (status) {
    case 400: return Code::kInternal;
    case 401: return Code::kUnauthenticated;
    case 403: return Code::kPermissionDenied;
    case 404: return Code::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504: return Code::kUnavailable;
    default: return Code::kUnknown;
  }
}

std::string grpc_timeout(base::Duration left) {
  const int64_t micros = std::max<int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(left).count(), 1);
  if (micros < kMostDigits) return std::to_string(micros) + 'u';
  if (micros / 1000 < kMostDigits) return std::to_string(micros / 1000) + 'm';
  return std::to_string(std::min(micros / 1'000'000, kMostDigits - 1)) + 'S';
}

// One serves all calls of a thread: its texts are mostly those of the last one, which are compared then and not made
// anew (bench/README.md).
wire::ClientRequest& next_request() {
  thread_local wire::ClientRequest request;
  return request;
}

}  // namespace

void add_deadline(base::Time deadline, base::Time now, wire::Fields& fields) {
  if (deadline != base::kNever) fields.add("grpc-timeout", grpc_timeout(deadline - now));
}

Status status_of(const wire::Fields& trailers) {
  const std::string_view number = trailers.find("grpc-status");
  unsigned code = kCodes;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), code);
  if (number.empty() || error != std::errc() || end != number.data() + number.size())
    return failure(Code::kUnknown, "it ended the call without a status");
  if (code == 0) return {};
  Status status;
  status.code = code < kCodes ? Code(code) : Code::kUnknown;
  auto text = base::percent_decode(trailers.find("grpc-message"));
  status.text = base::presentable(text ? *text : trailers.find("grpc-message"), kLongestReason);
  if (status.text.empty()) status.text = base::name(status.code);
  if (auto details = trailers.find("grpc-status-details-bin"); details.size() <= wire::kMaxGrpcDetails * 2)
    if (auto decoded = base::base64_decode(details)) status.details = std::move(*decoded);
  return status;
}

wire::Fields& GrpcCall::fields() {
  auto& fields = next_request().fields;
  fields.clear();  // whoever was to start a call may have thrown
  return fields;
}

Status GrpcCall::start(OriginConn& conn, std::string_view path, std::vector<base::Bytes> body, wire::Fields fields) {
  next_request().fields = std::move(fields);
  return start(conn, path, std::move(body));
}

Status GrpcCall::start(OriginConn& conn, std::string_view path, std::vector<base::Bytes> body) {
  wire::ClientRequest& request = next_request();
  if (request.method != "POST") request.method = "POST";
  if (request.target != path) request.target = path;
  request.form = wire::ClientRequest::Form::kGrpc;
  request.body = std::move(body.front());
  request.more.assign(std::next(body.begin()), body.end());
  base::SpareVector<base::Bytes>::keep(std::move(body));
  deframer_.emplace(slabs_, max_message_);
  told_.reset();
  Status status = send(conn, std::move(request));
  request.fields.clear(), request.body = {}, request.more.clear();
  return status;
}

HttpCall::Next GrpcCall::on_answer(int status, const wire::Fields& fields) {
  std::string_view type, told;
  for (size_t i = fields.size(); i-- > 0;) {  // the first of a name counts
    const auto [name, value] = fields[i];
    if (name == "content-type") type = value;
    if (name == "grpc-status") told = value;
  }
  if (!told.empty()) told_ = status_of(fields);
  if (told_) return Next::kGoOn;
  if (status != 200)
    return give_up(failure(code_of_http(status), "it answered with HTTP status " + std::to_string(status)));
  if (wire::is_grpc(type)) return Next::kGoOn;
  return give_up(failure(Code::kInternal, "it answered with content type '" + base::presentable(type, 64) +
                                              "', expected application/grpc"));
}

HttpCall::Next GrpcCall::on_piece(std::span<const std::byte> piece) {
  for (;;) {
    switch (deframer_->next(piece)) {
      case wire::Deframer::Step::kMore: return Next::kGoOn;
      case wire::Deframer::Step::kMessage: {
        const bool coded = deframer_->compressed();
        base::Bytes message = deframer_->take();
        if (coded) return give_up(failure(Code::kInternal, "it compressed a message, which it was not asked for"));
        if (on_message(std::move(message)) == Next::kOver) return Next::kOver;
        break;
      }
      case wire::Deframer::Step::kStarved: return give_up(no_memory_for_answer(), From::kHere);
      case wire::Deframer::Step::kFailed:
        return give_up(failure(Code::kInternal, "its message: " + deframer_->error().text));
    }
  }
}

Status GrpcCall::on_whole(const wire::Fields& trailers) {
  const bool cut = !deframer_->at_boundary();
  Status status = told_ ? std::move(*told_) : status_of(trailers);
  if (status.ok() && cut) return failure(Code::kInternal, "it ended the call inside a message");
  return status;
}

}  // namespace weir::forward
