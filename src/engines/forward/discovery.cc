#include "engines/forward/discovery.h"

#include <utility>

namespace weir::forward {

using base::Code;
using base::Result;
using base::Status;

namespace {

constexpr auto kPatience = std::chrono::seconds(2);  // for an answer
constexpr size_t kMostReasons = 4;

}  // namespace

Discovery::Discovery(net::Shard& shard, std::shared_ptr<Target> target, msg::ModelSpec wanted, Then then)
    : shard_(shard), target_(std::move(target)), wanted_(std::move(wanted)), then_(std::move(then)) {}

void Discovery::ask_next() {
  while (next_ < target_->origins.size() && !target_->origins[next_].present) ++next_;
  if (next_ == target_->origins.size()) {
    if (failed_ > kMostReasons) reasons_ += "; and " + std::to_string(failed_ - kMostReasons) + " more";
    const bool nonsense = code_ == Code::kInternal;
    return then_(nonsense ? base::failure(code_, reasons_) : base::try_again(Code::kUnavailable, reasons_));
  }
  questions_.reset();
  conn_ = std::make_unique<OriginConn>(shard_, *target_, target_->origins[next_++]);
  questions_ = target_->kind->make_questions(shard_, *conn_, target_->options);
  questions_->ask_signature(wanted_, kPatience, [this](Result<msg::ModelSpec> spec) {
    if (!spec) return failed(spec.error());
    then_(std::move(spec));
  });
}

void Discovery::failed(const Status& why) {
  if (++failed_ <= kMostReasons) reasons_ += (reasons_.empty() ? "" : "; ") + why.text;
  if (why.code == Code::kInternal) code_ = Code::kInternal;
  conn_->origin().eject();
  // The question that says so is still on the stack.
  shard_.post([this] { ask_next(); });
}

}  // namespace weir::forward
