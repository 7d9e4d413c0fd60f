#include "engines/process/decoupled_call.h"

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
  if (calls_->open.remove(call_->number) && calls_->host)
    (void)calls_->host->child().send({.type = Type::kCancel, .number = call_->number});
}

base::Result<msg::Event> Series::next() {
  std::lock_guard lock(calls_->mutex);
  if (call_->answers.empty()) return call_->error;
  auto answer = std::move(call_->answers.front());
  call_->answers.pop_front();
  call_->with_the_peer = std::move(answer.charge);
  ++call_->taken, call_->owed += answer.cost;
  if (call_->owed >= kCreditStep && !call_->ended && calls_->host) {
    (void)calls_->host->child().send({.type = Type::kCredit, .number = call_->number, .size = call_->owed});
    call_->taken = call_->owed = 0;
  }
  return std::move(answer.event);
}

}  // namespace

std::unique_ptr<sched::AnswerSeries> make_series(std::shared_ptr<DecoupledCalls> calls,
                                                 std::shared_ptr<DecoupledCall> call) {
  return std::make_unique<Series>(std::move(calls), std::move(call));
}

}  // namespace weir::process
