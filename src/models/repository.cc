#include "models/repository.h"

#include <future>

#include "models/repository_disk.h"
#include "models/repository_requests.h"

namespace weir::models {

Repository::Repository(RepositoryOptions options, std::map<std::string, EngineMaker> engines, base::SlabSource& slabs,
                       Publish publish)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(engines), slabs, std::move(publish))) {}

Repository::~Repository() { stop(); }

base::Status Repository::start() {
  auto outcome = std::make_shared<std::promise<base::Status>>();
  auto status = outcome->get_future();
  {
    // stop() on another thread finds the thread that it has to join, or there is none to come.
    std::lock_guard held(parts_->queue->mutex);
    if (parts_->queue->stopping) return is_ending();
    // Every shard knows the models then: who has read that the server listens finds them wherever its connection lands.
    parts_->queue->tasks.emplace_back([this, outcome] {
      parts_->disk->load_all([this, outcome](const base::Status& loaded) {
        parts_->publisher.when_published([outcome, loaded] { outcome->set_value(loaded); });
      });
    });
    parts_->thread = std::thread([this] { parts_->run(); });
  }
  return status.get();
}

void Repository::load(std::string name, LoadParameters parameters, std::function<void(base::Status)> done,
                      Asking asking) {
  auto shared = std::make_shared<std::function<void(base::Status)>>(std::move(done));
  auto given = std::make_shared<const LoadParameters>(std::move(parameters));
  bool posted =
      parts_->queue->post([this, name = std::move(name), given = std::move(given), asking = std::move(asking), shared] {
        parts_->requests->load(name, given, asking, [this, name, given, shared](base::Status status) {
          // Clients of Triton look for these three words; those of vLLM want none of them.
          if (!status.ok() && !given->contains("lora_path")) status.text.insert(0, "failed to load '" + name + "': ");
          parts_->publisher.when_published([shared, status] { (*shared)(status); });
        });
      });
  if (!posted) (*shared)(is_ending());
}

void Repository::unload(std::string name, Dependents dependents, std::function<void(base::Status)> done,
                        std::string asking) {
  auto shared = std::make_shared<std::function<void(base::Status)>>(std::move(done));
  bool posted = parts_->queue->post([this, name = std::move(name), dependents, asking = std::move(asking), shared] {
    parts_->requests->unload(name, dependents, asking, [this, shared](const base::Status& status) {
      parts_->publisher.when_published([shared, status] { (*shared)(status); });
    });
  });
  if (!posted) (*shared)(is_ending());
}

void Repository::rescan(std::function<void()> done) {
  auto shared = std::make_shared<std::function<void()>>(std::move(done));
  bool posted = parts_->queue->post([this, shared] {
    auto told = [this, shared] { parts_->publisher.when_published([shared] { (*shared)(); }); };
    parts_->queue->ends() ? told() : parts_->disk->rescan(Watch::Settle::kNo, told);
  });
  if (!posted) (*shared)();
}

std::string Repository::trouble() const { return parts_->disk->trouble(); }

// Names that wait already wait once: folders may change faster than models are loaded.
void Repository::refresh(std::string root, std::vector<std::string> names) {
  TaskQueue& queue = *parts_->queue;
  {
    std::lock_guard held(queue.mutex);
    for (auto& name : names)
      if (auto [at, fresh] = queue.waiting.emplace(root, std::move(name)); fresh) queue.refreshed.push_back(*at);
  }
  queue.poke();
}

void Repository::stop() {
  parts_->queue->end();
  if (parts_->thread.joinable()) parts_->thread.join();
}

bool Repository::stop_within(base::Duration most) {
  parts_->queue->end();
  if (parts_->thread.joinable() && parts_->end.wait_for(most) != std::future_status::ready) return false;
  stop();
  return true;
}

}  // namespace weir::models
