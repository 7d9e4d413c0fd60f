// Errands that are done when a test says so.
#pragma once

#include <list>
#include <memory>
#include <utility>

#include "wire/errands.h"

namespace weir::support {

class FakeErrands final : public wire::Errands {
 public:
  size_t sent = 0;       // that were ever sent
  size_t cancelled = 0;  // by those who had sent them
  base::Status refusal;  // what send() says, unless it is OK

  base::Result<std::unique_ptr<wire::SentErrand>> send(std::unique_ptr<base::Errand> errand, size_t, Part part,
                                                       wire::Exchange&, Done done) override {
    if (!refusal.ok() && part == Part::kRequest) return refusal;
    ++sent;
    auto at = waiting_.insert(waiting_.end(), Waiting{std::move(errand), std::move(done)});
    return std::unique_ptr<wire::SentErrand>(std::make_unique<Sent>(*this, at));
  }
  size_t waiting() const { return waiting_.size(); }
  // The first of them. Those who are told may send more.
  void work_one() {
    Waiting one = std::move(waiting_.front());
    one.handle->done = true;
    waiting_.pop_front();
    one.errand->run();
    one.told({}, std::move(one.errand));
  }
  void work() {
    while (!waiting_.empty()) work_one();
  }
  void fail(const base::Status& status) {
    Waiting one = std::move(waiting_.front());
    one.handle->done = true;
    waiting_.pop_front();
    one.told(status, nullptr);
  }

 private:
  struct Sent;
  struct Waiting {
    std::unique_ptr<base::Errand> errand;
    Done told;
    Sent* handle = nullptr;
  };
  struct Sent final : wire::SentErrand {
    Sent(FakeErrands& all, std::list<Waiting>::iterator at) : errands(all), place(at) { at->handle = this; }
    ~Sent() override {
      if (done) return;
      ++errands.cancelled;
      errands.waiting_.erase(place);
    }
    FakeErrands& errands;
    std::list<Waiting>::iterator place;
    bool done = false;
  };

  std::list<Waiting> waiting_;
};

}  // namespace weir::support
