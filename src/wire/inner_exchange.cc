#include "wire/inner_exchange.h"

#include <utility>

#include "wire/limits.h"
#include "wire/service_guard.h"

namespace weir::wire {

InnerExchange::~InnerExchange() { env_.cancel(timer_); }

void InnerExchange::start() {
  begun_ = true;
  (void)base::charge(memory_, base::MemoryKind::kInput, content_);
  const Plan plan = intake_.begin(*this);
  if (headed_ || ended_ || plan.body == BodyPlan::kIgnore) return;
  if (plan.body == BodyPlan::kStream) return reset(Reset::kInternal);  // no service of that kind is asked so
  if (content_.size() <= plan.limit) return intake_.whole(*this);
  record_.reject = reason::kBodyBytes;
  intake_.refuse(*this, 413, plan.too_large());
}

void InnerExchange::head(Response response) {
  if (headed_ || ended_ || closed_) return;
  headed_ = true;
  record_.status = response.status;
  take_head(response);
}

void InnerExchange::body(base::Bytes piece) {
  if (open() && !piece.empty()) take_body(std::move(piece));
}

void InnerExchange::end(Fields) {
  if (open()) cut_short();
}

void InnerExchange::reset(Reset) {
  if (ended_ || closed_) return;
  broken_ = true;
  cut_short();
}

void InnerExchange::cut_short() {
  ended_ = true;
  turn_later();
}

void InnerExchange::turn_later() {
  if (timer_ != base::TimerId::kNone || closed_) return;
  timer_ = env_.at(env_.now(), [this] { turn(); });
}

void InnerExchange::turn() {
  timer_ = base::TimerId::kNone;
  if (!ended_) return on_turn();
  close();
  answer_over(broken_ ? Answered::kBroken : Answered::kWhole);  // may destroy this
}

void InnerExchange::close() {
  if (std::exchange(closed_, true)) return;
  env_.cancel(std::exchange(timer_, base::TimerId::kNone));
  auto listener = std::move(listener_);
  notify_close(*this, listener.get(), ended_ && !broken_);
  if (!begun_) return;
  charge_usage();
  intake_.closed(*this);
}

}  // namespace weir::wire
