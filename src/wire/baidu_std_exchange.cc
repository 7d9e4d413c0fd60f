#include "wire/baidu_std_exchange.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/attempt.h"
#include "base/encoding.h"
#include "wire/body_starts.h"
#include "wire/coding.h"
#include "wire/grpc_frames.h"
#include "wire/grpc_status.h"
#include "wire/limits.h"
#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr std::string_view kStatus = "grpc-status", kMessage = "grpc-message", kEncoding = "grpc-encoding";
constexpr size_t kMostErrorText = 4096;

// The status of gRPC that the fields say; nothing: they say none.
std::optional<base::Code> status_in(const Fields& fields) {
  const std::string_view text = fields.find(kStatus);
  unsigned code = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return code <= unsigned(base::Code::kUnauthenticated) ? base::Code(code) : base::Code::kUnknown;
}

// Those that the packet says in other ways.
bool is_told(std::string_view name) {
  return name == kStatus || name == kMessage || name == kEncoding || name == "content-type" || name == "date" ||
         name == "grpc-status-details-bin" || name == "grpc-accept-encoding" || is_about_connection(name);
}

// The name of a request's field that a client may choose: not what this codec says itself.
bool is_free(std::string_view name) {
  return !is_about_connection(name) && name != "content-type" && name != "content-length" && name != "host" &&
         name != "expect" && name != "content-encoding" && !name.starts_with("grpc-");
}

std::string_view coding_name(int32_t coding) {
  if (coding == int32_t(BaiduCoding::kSnappy)) return name(Coding::kSnappy);
  if (coding == int32_t(BaiduCoding::kGzip)) return name(Coding::kGzip);
  if (coding == int32_t(BaiduCoding::kZlib)) return name(Coding::kDeflate);
  return {};
}

BaiduCoding coding_in(const Fields& fields) {
  const std::string_view coding = fields.find(kEncoding);
  if (coding == name(Coding::kGzip)) return BaiduCoding::kGzip;
  return coding == name(Coding::kDeflate) ? BaiduCoding::kZlib : BaiduCoding::kNone;
}

}  // namespace

BaiduExchange::BaiduExchange(Owner& owner, const BaiduRequest& request, const PeerInfo& peer,
                             std::string_view credential)
    : owner_(owner), correlation_id_(request.correlation_id) {
  request_.version = Version::kHttp2;
  request_.method = "POST";
  request_.target.append("/").append(request.service).append("/").append(request.method);
  request_.peer = &peer;
  record_.began = owner.now();
  request_.fields.add("content-type", "application/grpc");
  if (const std::string_view coding = coding_name(request.coding); !coding.empty()) {
    request_.fields.add(kEncoding, coding);
    request_.fields.add("grpc-accept-encoding", coding);  // its client reads what it can write
  }
  constexpr int32_t kMostMs = 99'999'999;  // grpc-timeout has eight digits: a day is as good as no limit
  if (request.timeout_ms > 0)
    request_.fields.add("grpc-timeout", std::to_string(std::min(request.timeout_ms, kMostMs)) + "m");
  if (!request.request_id.empty()) add_field("x-request-id", request.request_id);
  for (const auto& [name, value] : request.fields) add_field(lowered(name), value);
  const bool keyed =
      request_.fields.has("authorization") || request_.fields.has("x-api-key") || request_.fields.has("api-key");
  if (!credential.empty() && !keyed) request_.fields.add("authorization", credential);
}

// Left out: names and values that HTTP does not have.
void BaiduExchange::add_field(std::string_view name, std::string_view value) {
  const auto octets = [](std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); };
  const bool valid = nghttp2_check_header_name(octets(name), name.size()) != 0 &&
                     nghttp2_check_header_value_rfc9113(octets(value), value.size()) != 0;
  if (valid && name.front() != ':' && is_free(name)) request_.fields.add(name, value);
}

void BaiduExchange::head(Response response) {
  if (ended_ || headed_) return;
  headed_ = true;
  record_.status = response.status;
  response_ = std::move(response);
}

void BaiduExchange::body(base::Bytes piece) {
  if (ended_ || !headed_ || several_ || piece.empty()) return;
  if (!charge_piece(memory(), piece, small_)) {
    record_.reject = reason::kOverload;
    return reset(Reset::kInternal);
  }
  record_.bytes_out += piece.size();
  usage_.note(*this);
  if (auto* starts = owner_.starts(); starts && begun_) starts->sent(*this, piece);
  if (is_grpc(response_.fields.find("content-type"))) collect(std::move(piece));
}

void BaiduExchange::collect(base::Bytes piece) {
  const size_t lacks = kGrpcPrefix - prefix_.size(), n = std::min(lacks, piece.size());
  if (n > 0) {
    prefix_.append(piece.view().substr(0, n));
    if (prefix_.size() < kGrpcPrefix) return;
    piece = piece.slice(n, piece.size() - n);
    for (char c : std::string_view(prefix_).substr(1)) left_ = left_ << 8 | uint8_t(c);
  }
  several_ = piece.size() > left_;
  if (several_) return owner_.abandon_soon();
  left_ -= piece.size();
  if (!piece.empty()) message_.push_back(std::move(piece));
}

void BaiduExchange::end(Fields trailers) {
  if (ended_ || !headed_ || several_) return;
  auto code = status_in(trailers);
  const Fields& said = code ? trailers : response_.fields;
  if (!code) code = status_in(said);
  if (!code) return fail(base::code_from_http(response_.status), "the path is not a method's");
  const bool whole = prefix_.size() == kGrpcPrefix && left_ == 0;
  if (*code == base::Code::kOk && !whole) return fail(base::Code::kInternal, "the method has sent no message");
  BaiduAnswer answer(correlation_id_);
  add_fields(answer, response_.fields);
  add_fields(answer, extra_fields_);
  add_fields(answer, trailers);
  if (*code != base::Code::kOk) {
    const auto text = base::percent_decode(said.find(kMessage));
    // Its clients send again what is over a limit (ELIMIT); a message that is too long stays so.
    const bool too_long = *code == base::Code::kResourceExhausted &&
                          (record_.reject == reason::kGrpcLen || record_.reject == reason::kInflateBytes);
    answer.fail(too_long ? BrpcError::kRequest : brpc_error(*code),
                text ? std::string_view(*text).substr(0, kMostErrorText) : std::string_view());
    return finish(answer, {});
  }
  if (prefix_[0] != 0) answer.coded(coding_in(response_.fields));
  finish(answer, std::move(message_));
}

void BaiduExchange::add_fields(BaiduAnswer& to, const Fields& fields) const {
  for (size_t i = 0; i < fields.size(); ++i)
    if (auto [name, value] = fields[i]; !is_told(name)) to.field(name, value);
}

void BaiduExchange::fail(base::Code code, std::string_view text) {
  if (ended_) return;
  record_.code = code;
  BaiduAnswer answer(correlation_id_);
  add_fields(answer, extra_fields_);
  answer.fail(brpc_error(code), text);
  finish(answer, {});
}

// Nothing of the answer has gone out yet, so that there is still something to say.
void BaiduExchange::reset(Reset) {
  if (record_.reject == reason::kOverload)
    fail(base::Code::kResourceExhausted, "there is no memory for the answer; try again later");
  else
    fail(base::Code::kInternal, "the call was broken off");
}

void BaiduExchange::finish(const BaiduAnswer& answer, std::vector<base::Bytes> message) {
  ended_ = true;
  size_t size = 0;
  for (const auto& piece : message) size += piece.size();
  message_.clear();
  small_.fit(0);
  owner_.answer(*this, answer.write(size), std::move(message));
}

void BaiduExchange::abandon() {
  fail(base::Code::kUnimplemented,
       "the method answers with a stream of messages, and baidu_std carries one: call it by gRPC");
  notify_close(*this, listener_.get(), false);
  listener_.reset();
}

bool BaiduExchange::begin(Intake& intake) {
  begun_ = true;
  const Plan plan = intake.begin(*this);
  if (plan.body != BodyPlan::kStream) fail(base::Code::kUnimplemented, "the path is not a method's");
  return !ended_;
}

void BaiduExchange::received(std::span<const std::byte> piece) {
  record_.bytes_in += piece.size();
  usage_.note(*this);
  unconsumed += piece.size();
  if (auto* starts = owner_.starts()) starts->received(*this, piece);
  notify_data(*this, piece);
}

void BaiduExchange::close(Intake& intake, bool complete) {
  if (!begun_) return;
  if (!complete && record_.code == base::Code::kOk) record_.code = base::Code::kCancelled;
  ended_ = true;
  notify_close(*this, listener_.get(), complete);
  (void)base::attempt("a request's end", [&] {
    usage_.settle(*this);
    intake.closed(*this);
  });
}

}  // namespace weir::wire
