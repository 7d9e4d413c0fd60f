// A Repository over a folder of the test's, and what it has published last: the test stands for all shards.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "disk.h"
#include "models/repository.h"

namespace weir::models {

class AnyRepo {
 public:
  AnyRepo(test::Disk& disk, std::map<std::string, EngineMaker> engines, RepositoryOptions options) {
    options.roots.insert(options.roots.begin(), disk.root());
    repository =
        std::make_unique<Repository>(std::move(options), std::move(engines), base::heap(),
                                     [this](std::shared_ptr<const bus::Catalog> next, std::function<void()> settled) {
                                       {
                                         std::lock_guard lock(mutex);
                                         catalog = std::move(next);
                                       }
                                       settled();
                                     });
  }
  // The index, a line each: "m/1 READY", "m/2 UNAVAILABLE (why)".
  std::string rows() {
    std::string out;
    const auto held = now();  // the Repository's thread may publish another one meanwhile
    for (const auto& row : held->index) {
      out += row.name + '/' + row.version + ' ' + std::string(bus::name(row.state));
      out += row.reason.empty() ? "\n" : " (" + row.reason + ")\n";
    }
    return out;
  }
  std::shared_ptr<const bus::Catalog> now() {
    std::lock_guard lock(mutex);
    return catalog;
  }
  base::Status load(std::string name, LoadParameters parameters = {}, Asking asking = {}) {
    std::promise<base::Status> done;
    repository->load(
        std::move(name), std::move(parameters), [&](base::Status s) { done.set_value(std::move(s)); },
        std::move(asking));
    return done.get_future().get();
  }
  base::Status unload(std::string name, Repository::Dependents dependents = Repository::Dependents::kKeep) {
    std::promise<base::Status> done;
    repository->unload(std::move(name), dependents, [&](base::Status s) { done.set_value(std::move(s)); });
    return done.get_future().get();
  }
  void rescan() {
    std::promise<void> done;
    repository->rescan([&] { done.set_value(); });
    done.get_future().get();
  }

  std::mutex mutex;
  std::shared_ptr<const bus::Catalog> catalog;
  std::unique_ptr<Repository> repository;
};

}  // namespace weir::models
