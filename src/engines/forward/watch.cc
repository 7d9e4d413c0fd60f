#include "engines/forward/watch.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "engines/forward/signature.h"

namespace weir::forward {

Watch::Watch(net::Shard& shard, std::shared_ptr<Target> target, std::function<void(base::Status)> broken,
             std::shared_ptr<const msg::ModelSpec> local)
    : shard_(shard), target_(std::move(target)), broken_(std::move(broken)), local_(std::move(local)) {
  for (auto& origin : target_->origins) {
    auto& one = checked_.emplace_back();
    one.conn = std::make_unique<OriginConn>(shard_, *target_, origin);
    one.questions = target_->kind->make_questions(shard_, *one.conn, target_->options);
    if (target_->options.load_reports == LoadReports::kMetrics)
      one.load = std::make_unique<LoadPoll>(shard_, *target_, origin);
  }
  arm();
  // The origins were not asked for their signature when the model was loaded.
  if (local_)
    for (auto& one : checked_)
      if (one.conn->origin().present) check(one);
}

Watch::~Watch() { shard_.env().cancel(timer_); }

void Watch::arm() {
  timer_ = shard_.env().at(shard_.env().now() + target_->options.check_interval, [this] {
    arm();
    absent_ = target_->present() > 0 ? 0 : absent_ + 1;
    if (absent_ >= kFailures) look_at_all();
    for (auto& one : checked_) {
      if (!one.conn->origin().present) {
        if (!one.asking) one.failures = 0;  // another server may have its place next
        continue;
      }
      if (!one.asking) check(one);
      if (one.load) one.load->ask();
    }
  });
}

// Another server may have the place since the last time: the failures of the one before are not its own.
void Watch::check(Checked& one) {
  const uint32_t generation = one.conn->origin().generation.load(std::memory_order_acquire);
  if (std::exchange(one.generation, generation) != generation) one.failures = 0;
  one.asking = true;
  one.questions->ask_ready(target_->options.connect_timeout,
                           [this, &one](base::Result<bool> ready) { heard(one, std::move(ready)); });
}

void Watch::heard(Checked& one, base::Result<bool> ready) {
  Origin& origin = one.conn->origin();
  one.asking = false;
  if (!origin.present || one.generation != origin.generation.load(std::memory_order_acquire)) {
    one.failures = 0;
    return;
  }
  if (!ready || !*ready)
    return failed(one, ready ? "origin " + origin.name() + ": the model is not ready there" : ready.error().text);
  if (local_ && one.same != origin.generation.load(std::memory_order_acquire)) return ask_signature(one);
  admit(one);
}

void Watch::ask_signature(Checked& one) {
  one.asking = true;
  msg::ModelSpec wanted;
  wanted.name = local_->name, wanted.version = local_->version, wanted.engine = "forward";
  const uint32_t generation = one.conn->origin().generation.load(std::memory_order_acquire);
  one.questions->ask_signature(wanted, target_->options.connect_timeout,
                               [this, &one, generation](base::Result<msg::ModelSpec> there) {
                                 heard_signature(one, generation, std::move(there));
                               });
}

void Watch::heard_signature(Checked& one, uint32_t generation, base::Result<msg::ModelSpec> there) {
  Origin& origin = one.conn->origin();
  one.asking = false;
  if (!origin.present || generation != origin.generation.load(std::memory_order_acquire)) return;
  const base::Status same = there ? same_signature(*local_, *there) : there.error();
  if (!same.ok()) return failed(one, there ? "origin " + origin.name() + ": " + same.text : same.text);
  one.same = generation;
  const bool fresh = one.failures == 0;
  admit(one);
  if (fresh) origin.returned.store(base::Time(), std::memory_order_relaxed);  // it has never been away
}

void Watch::admit(Checked& one) {
  if (one.failures >= kFailures) base::log::info("an origin is back", {{"origin", one.conn->origin().name()}});
  one.failures = 0;
  one.conn->origin().admit(shard_.env().now());
}

void Watch::failed(Checked& one, std::string reason) {
  Origin& origin = one.conn->origin();
  one.reason = std::move(reason);
  if (++one.failures < kFailures) return;
  origin.eject();
  if (one.failures == kFailures)
    base::log::warning("an origin gets no more calls", {{"origin", origin.name()}, {"reason", one.reason}});
  look_at_all();
}

void Watch::look_at_all() {
  std::string reasons;
  for (const auto& one : checked_) {
    if (!one.conn->origin().present) continue;
    if (one.failures < kFailures) return;
    reasons += (reasons.empty() ? "" : "; ") + one.reason;
  }
  if (reasons.empty()) reasons = "no server that has it is there";
  if (auto broken = std::exchange(broken_, nullptr)) broken(base::try_again(base::Code::kUnavailable, reasons));
}

}  // namespace weir::forward
