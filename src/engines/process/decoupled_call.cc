#include "engines/process/decoupled_call.h"

#include <algorithm>
#include <utility>

namespace weir::process {
namespace {

constexpr uint32_t kCreditStep = kWindow / 2;

class Series final : public sched::AnswerSeries {
 public:
  Series(std::shared_ptr<DecoupledCalls> calls, std::shared_ptr<DecoupledCall> call)
      : calls_(std::move(calls)), call_(std::move(call)) {}
  ~Series() override;

  std::optional<base::Duration> next_in() const override {
    std::lock_guard lock(calls_->mutex);
    if (!call_->answers.empty() || !call_->error.ok()) return base::Duration(0);
    if (call_->ended) return std::nullopt;
    return kNotYet;
  }
  base::Result<msg::Event> next() override;
  void note_room() override {
    std::lock_guard lock(calls_->mutex);
    call_->with_the_peer = nullptr;
  }
  bool begun() const override {
    std::lock_guard lock(calls_->mutex);
    return call_->begun || call_->ended;
  }

 private:
  const std::shared_ptr<DecoupledCalls> calls_;
  const std::shared_ptr<DecoupledCall> call_;
};

Series::~Series() {
  std::lock_guard lock(calls_->mutex);
  call_->abandoned = true;
  call_->with_the_peer = nullptr;
  call_->answers.clear();
  std::erase(calls_->waiting, call_);  // its tensors go with it
  const auto& child = call_->child;
  if (child && child->open.remove(call_->number) && child->host)
    (void)child->host->child().send({.type = Type::kCancel, .number = call_->number});
}

base::Result<msg::Event> Series::next() {
  std::lock_guard lock(calls_->mutex);
  if (call_->answers.empty()) return call_->error;
  auto answer = std::move(call_->answers.front());
  call_->answers.pop_front();
  call_->with_the_peer = std::move(answer.charge);
  ++call_->taken, call_->owed += answer.cost;
  if (call_->owed >= kCreditStep && !call_->ended && call_->child && call_->child->host) {
    (void)call_->child->host->child().send({.type = Type::kCredit, .number = call_->number, .size = call_->owed});
    call_->taken = call_->owed = 0;
  }
  return std::move(answer.event);
}

}  // namespace

void DecoupledCalls::add(const std::shared_ptr<DecoupledCall>& call) {
  call->number = next_number++;
  const auto behind =
      std::find_if(waiting.rbegin(), waiting.rend(), [&](const auto& other) { return other->level <= call->level; });
  waiting.insert(behind.base(), call);
}

DecoupledCalls::Batch DecoupledCalls::take(const std::shared_ptr<ChildCalls>& child, uint64_t most_rows) {
  Batch batch;
  uint64_t rows = 0;
  for (auto at = waiting.begin(); at != waiting.end();) {
    const auto& next = *at;
    if (next->child && next->child != child) {
      ++at;
      continue;
    }
    rows += next->call.rows;
    if (!batch.empty() && (rows > most_rows || next->level != batch.front()->level)) break;
    batch.push_back(next);
    child->open.add(next);
    next->child = child, next->begun = true;
    at = waiting.erase(at);
  }
  child->called = !batch.empty();
  return batch;
}

std::shared_ptr<ChildCalls> DecoupledCalls::call_idle() {
  std::shared_ptr<ChildCalls> idlest;
  const auto is_bound = [](const auto& call) { return call->child != nullptr; };
  if (children.size() == 1 || std::all_of(waiting.begin(), waiting.end(), is_bound)) return idlest;
  for (const auto& child : children)
    if (child->serves() && !child->called && (!idlest || child->open.size() < idlest->open.size())) idlest = child;
  if (idlest) idlest->called = true;
  return idlest;
}

void DecoupledCalls::end(ChildCalls& child, const base::Status& why) {
  child.over = why;
  child.open.each([&](DecoupledCall& call) { call.error = why, call.ended = true; });
  const bool others = std::any_of(children.begin(), children.end(), [](const auto& other) { return other->serves(); });
  std::erase_if(waiting, [&](const auto& call) {
    const bool ends = call->child ? call->child.get() == &child : !others;
    if (ends) call->error = why, call->ended = true;
    return ends;
  });
  child.open.clear();
}

std::unique_ptr<sched::AnswerSeries> make_series(std::shared_ptr<DecoupledCalls> calls,
                                                 std::shared_ptr<DecoupledCall> call) {
  return std::make_unique<Series>(std::move(calls), std::move(call));
}

}  // namespace weir::process
