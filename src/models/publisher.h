// Publisher: Catalogs on their way to the shards, who waits for them to get there, and what they have replaced. Under
// the repository's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
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
  // `done` is to be called once every shard has the Catalog that was published last: take_settled() gives it then.
  void when_published(std::function<void()> done) { waiting_.push_back({published_, std::move(done)}); }
  // Those whose Catalog has got to every shard; and all, at the end. To be called without the lock.
  std::vector<std::function<void()>> take_settled();
  std::vector<std::function<void()>> take_all();
  // Versions that were replaced and can be destroyed: no Catalog names it any more and no Call is inside. The caller
  // destroys them without the lock, for that takes as long as the engine's threads take to end, and says destroyed() of
  // each.
  std::vector<Retired> take_unused();
  void destroyed(const Retired& what);
  // A version of the model is retired and not destroyed.
  bool has_retired(const std::string& model) const;

  // The Catalog that the first of those who wait waits for, as TaskQueue::settled counts them; UINT64_MAX = nobody
  // does.
  uint64_t awaited() const { return waiting_.empty() ? UINT64_MAX : waiting_.front().epoch; }
  // Something is retired and still in use, and nobody tells when its last Call has left it.
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
  bool has_retired_if(const std::function<bool(const std::string& model, uint64_t version)>& is) const;

  ModelTable& table_;
  const std::shared_ptr<TaskQueue> queue_;
  const std::string default_model_;
  const Repository::Publish publish_;
  uint64_t published_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<Leaving> leaving_;
  std::multiset<std::pair<std::string, uint64_t>> being_destroyed_;  // models and versions
};

}  // namespace weir::models
