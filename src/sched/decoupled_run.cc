#include "sched/decoupled_run.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"

namespace weir::sched {

void DecoupledRun::announce(const msg::Mail& mail) {
  if (mail.event.last()) return;
  const auto& leg = static_cast<const PipelineLeg&>(*mail.call);
  auto& run = static_cast<DecoupledRun&>(*leg.run);
  std::lock_guard lock(run.mutex);
  ++run.out, ++run.coming_[leg.node];
}

void DecoupledRun::withdraw(const msg::Mail& mail) {
  if (mail.event.last()) return;
  const auto& leg = static_cast<const PipelineLeg&>(*mail.call);
  auto& run = static_cast<DecoupledRun&>(*leg.run);
  std::lock_guard lock(run.mutex);
  --run.out, --run.coming_[leg.node];
}

bool DecoupledRun::ends(PipelineLeg& leg, msg::Event& end) {
  std::lock_guard lock(mutex);
  if (coming_[leg.node] > 0) return ends_[leg.node] = std::move(end), false;
  leg.out = false;
  return true;
}

std::optional<msg::Event> DecoupledRun::received(PipelineLeg& leg) {
  std::lock_guard lock(mutex);
  if (--coming_[leg.node] > 0 || !ends_[leg.node]) return std::nullopt;
  leg.out = false;
  return std::exchange(ends_[leg.node], std::nullopt);
}

void DecoupledRun::begin_asking(uint32_t leg) {
  asked[leg] = parent->credit.load(std::memory_order_acquire) > 0;
  legs[leg].credit.store(asked[leg] ? 1 : 0, std::memory_order_release);
}

void DecoupledRun::note_nodes(PipelineLeg& leg) {
  if (!parent->steps || !leg.steps) return;
  auto& steps = *parent->steps;
  auto& more = leg.steps->all;
  const size_t at = steps.all.size();
  size_t room = std::min(more.size(), msg::PipelineSteps::kMost - at);
  if (!base::attempt("a span", [&] { steps.all.reserve(at + room); }).ok()) room = 0;
  steps.left_out += leg.steps->left_out + uint32_t(more.size() - room);
  for (size_t i = 0; i < room; ++i) {
    if (more[i].parent != msg::StepTimes::kNone) more[i].parent += uint32_t(at);
    steps.all.push_back(std::move(more[i]));
  }
}

bool DecoupledRun::ask(uint32_t leg) {
  if (!legs[leg].out || asked[leg] || !failed.ok() || parent->credit.load(std::memory_order_acquire) <= 0) return false;
  asked[leg] = true;
  legs[leg].credit.store(1, std::memory_order_release);
  return true;
}

}  // namespace weir::sched
