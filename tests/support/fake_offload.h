// Offload that are done when a test says so.
#pragma once

#include <list>
#include <memory>
#include <utility>

#include "wire/offload.h"

namespace weir::support {

class FakeOffload final : public wire::Offload {
 public:
  size_t sent = 0;       // that were ever sent
  size_t bytes = 0;      // of the last of them
  size_t cancelled = 0;  // by those who had sent them
  base::Status refusal;  // what send() says, unless it is OK

  base::Result<std::unique_ptr<wire::SentTask>> send(std::unique_ptr<base::OffloadTask> task, size_t work, Part part,
                                                     wire::Exchange&, Done done) override {
    if (!refusal.ok() && part == Part::kRequest) return refusal;
    ++sent, bytes = work;
    auto at = waiting_.insert(waiting_.end(), Waiting{std::move(task), std::move(done)});
    return std::unique_ptr<wire::SentTask>(std::make_unique<Sent>(*this, at));
  }
  size_t waiting() const { return waiting_.size(); }
  // The first of them. Those who are told may send more.
  void work_one() {
    Waiting one = std::move(waiting_.front());
    one.handle->done = true;
    waiting_.pop_front();
    one.task->run();
    one.told({}, std::move(one.task));
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
    std::unique_ptr<base::OffloadTask> task;
    Done told;
    Sent* handle = nullptr;
  };
  struct Sent final : wire::SentTask {
    Sent(FakeOffload& all, std::list<Waiting>::iterator at) : offload(all), place(at) { at->handle = this; }
    ~Sent() override {
      if (done) return;
      ++offload.cancelled;
      offload.waiting_.erase(place);
    }
    FakeOffload& offload;
    std::list<Waiting>::iterator place;
    bool done = false;
  };

  std::list<Waiting> waiting_;
};

}  // namespace weir::support
