// Publisher: Catalogs on their way to the shards, who waits for them to get there, and what they have replaced.
// Repository thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/model_table.h"
#include "models/repository.h"
#include "models/task_queue.h"

namespace weir::models {

class Publisher {
 public:
  Publisher(ModelTable& table, std::shared_ptr<TaskQueue> queue, std::string default_model, Repository::Publish publish)
      : table_(table),
        queue_(std::move(queue)),
        default_model_(std::move(default_model)),
        publish_(std::move(publish)) {}

  // Gives what the table has now to every shard.
  void publish();
  // `done` is called once every shard has the Catalog that was published last; by notify_settled(), or by end().
  void when_published(std::function<void()> done) { waiting_.push_back({published_, std::move(done)}); }
  // Tells those whose Catalog has got to every shard.
  void notify_settled();
  void end();
  // Destroys what was replaced, once no Catalog names it and no Call is inside. True when there was something: the
  // table has changed.
  bool destroy_retired();
  // Until that has destroyed everything, but no longer than `longest`; it looks after each `pause`.
  void wait_for_retired(std::chrono::nanoseconds longest, std::chrono::nanoseconds pause);

  // The Catalog that the first of those who wait waits for, as TaskQueue::settled counts them; UINT64_MAX = nobody
  // does.
  uint64_t awaited() const { return waiting_.empty() ? UINT64_MAX : waiting_.front().epoch; }
  // Something is retired, and nobody tells when its last Call has left it.
  bool has_retired() const { return !leaving_.empty(); }

 private:
  struct Waiting {
    uint64_t epoch;
    std::function<void()> done;
  };
  struct Leaving {
    uint64_t epoch;  // the first Catalog without it
    Retired what;
  };
  uint64_t settled() const;

  ModelTable& table_;
  const std::shared_ptr<TaskQueue> queue_;
  const std::string default_model_;
  const Repository::Publish publish_;
  uint64_t published_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<Leaving> leaving_;
};

}  // namespace weir::models
