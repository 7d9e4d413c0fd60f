// RequestFilter: which requests a follower wants to see. Pure.
//
//   protocol=oip-rest  model=digits  status=404, 4xx, NOT_FOUND, ok, failed  slow=250ms (they took as long, or longer)
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/model_scope.h"
#include "base/status.h"
#include "wire/exchange.h"

namespace weir::ops {

// Whether a request counts as status=failed.
bool is_failure(const wire::RequestRecord& record);

class RequestFilter {
 public:
  // From the query of a request for the console's API; other parameters are passed over. Errors: INVALID_ARGUMENT names
  // the parameter.
  static base::Result<RequestFilter> from_query(const wire::Request& request);
  // `took`: RequestRecord::took().
  bool matches(const wire::RequestRecord& record, base::Duration took) const;
  // The same, but for what the caller of from_query() chose: whether its key names the model, or names none.
  bool shows(const wire::RequestRecord& record) const { return !models_ || models_->allows(record.model); }
  bool operator==(const RequestFilter&) const = default;

 private:
  base::Status set_status(const std::string& text);

  std::shared_ptr<const base::ModelScope> models_;  // that the caller may see; null: all
  std::string protocol_, model_;
  enum class Outcome : uint8_t { kAny, kOk, kFailed, kStatus, kStatusClass, kCode } outcome_ = Outcome::kAny;
  int status_ = 0;  // or its first digit
  base::Code code_ = base::Code::kOk;
  base::Duration slow_{0};
};

}  // namespace weir::ops
