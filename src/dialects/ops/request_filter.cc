#include "dialects/ops/request_filter.h"

#include <charconv>

#include "base/units.h"
#include "wire/identity.h"
#include "wire/text.h"

namespace weir::ops {
namespace {

using base::Code;

constexpr size_t kLongestName = 256;
constexpr int kGrpcCodes = 17;

}  // namespace

bool is_failure(const wire::RequestRecord& record) { return record.code != Code::kOk || record.status >= 400; }

// "404", "4xx", "NOT_FOUND", "ok", "failed".
base::Status RequestFilter::set_status(const std::string& text) {
  if (text.empty()) return {};
  if (text == "ok" || text == "failed") {
    outcome_ = text == "ok" ? Outcome::kOk : Outcome::kFailed;
    return {};
  }
  const bool digit = text[0] >= '1' && text[0] <= '5';
  if (digit && text.size() == 3 && wire::same_text(std::string_view(text).substr(1), "xx")) {
    outcome_ = Outcome::kStatusClass, status_ = text[0] - '0';
    return {};
  }
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), status_);
  if (error == std::errc() && end == text.data() + text.size() && status_ >= 100 && status_ <= 599) {
    outcome_ = Outcome::kStatus;
    return {};
  }
  for (int code = 0; code < kGrpcCodes; ++code) {
    if (!wire::same_text(base::name(Code(code)), text)) continue;
    outcome_ = Outcome::kCode, code_ = Code(code);
    return {};
  }
  return base::invalid("status: expected 404, 4xx, a gRPC code such as NOT_FOUND, ok or failed");
}

base::Result<RequestFilter> RequestFilter::from_query(const wire::Request& request) {
  RequestFilter out;
  if (request.identity) out.models_ = request.identity->models;
  out.protocol_ = request.query_value("protocol"), out.model_ = request.query_value("model");
  if (out.protocol_.size() > kLongestName || out.model_.size() > kLongestName)
    return base::invalid("protocol, model: a name of more than 256 bytes");
  if (auto s = out.set_status(request.query_value("status")); !s.ok()) return s;
  if (const std::string slow = request.query_value("slow"); !slow.empty()) {
    auto parsed = base::parse_duration(slow);
    if (!parsed) return base::invalid("slow: " + parsed.error().text);
    out.slow_ = *parsed;
  }
  return out;
}

bool RequestFilter::matches(const wire::RequestRecord& record, base::Duration took) const {
  if (!shows(record)) return false;
  if (!protocol_.empty() && protocol_ != record.protocol) return false;
  if (!model_.empty() && model_ != record.model) return false;
  if (took < slow_) return false;
  switch (outcome_) {
    case Outcome::kAny: return true;
    case Outcome::kOk: return !is_failure(record);
    case Outcome::kFailed: return is_failure(record);
    case Outcome::kStatus: return record.status == status_;
    case Outcome::kStatusClass: return record.status / 100 == status_;
    case Outcome::kCode: return record.code == code_;
  }
  return false;
}

}  // namespace weir::ops
