#include "engines/forward/watch.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace weir::forward {

Watch::Watch(net::Shard& shard, std::shared_ptr<Target> target, std::function<void(base::Status)> broken)
    : shard_(shard), target_(std::move(target)), broken_(std::move(broken)) {
  for (auto& origin : target_->origins) {
    auto& one = checked_.emplace_back();
    one.conn = std::make_unique<OriginConn>(shard_, *target_, origin);
    one.questions = target_->kind->make_questions(shard_, *one.conn, target_->options);
    if (target_->options.load_reports == LoadReports::kMetrics)
      one.load = std::make_unique<LoadPoll>(shard_, *target_, origin);
  }
  arm();
}

Watch::~Watch() { shard_.env().cancel(timer_); }

void Watch::arm() {
  timer_ = shard_.env().at(shard_.env().now() + target_->options.check_interval, [this] {
    arm();
    for (auto& one : checked_) {
      if (!one.conn->origin().present) continue;
      if (!one.asking) check(one);
      if (one.load) one.load->ask();
    }
  });
}

void Watch::check(Checked& one) {
  one.asking = true;
  one.questions->ask_ready(target_->options.connect_timeout,
                           [this, &one](base::Result<bool> ready) { heard(one, std::move(ready)); });
}

void Watch::heard(Checked& one, base::Result<bool> ready) {
  Origin& origin = one.conn->origin();
  one.asking = false;
  if (!origin.present) {
    one.failures = 0;
    return;
  }
  if (ready && *ready) {
    if (one.failures >= kFailures) base::log::info("an origin is back", {{"origin", origin.name}});
    one.failures = 0;
    return origin.admit(shard_.env().now());
  }
  one.reason = ready ? "origin " + origin.name + ": the model is not ready there" : ready.error().text;
  if (++one.failures < kFailures) return;
  origin.eject();
  if (one.failures == kFailures)
    base::log::warning("an origin gets no more calls", {{"origin", origin.name}, {"reason", one.reason}});
  look_at_all();
}

void Watch::look_at_all() {
  std::string reasons;
  for (const auto& one : checked_) {
    if (!one.conn->origin().present) continue;
    if (one.failures < kFailures) return;
    reasons += (reasons.empty() ? "" : "; ") + one.reason;
  }
  if (auto broken = std::exchange(broken_, nullptr)) broken(base::try_again(base::Code::kUnavailable, reasons));
}

}  // namespace weir::forward
