// An engine whose loads, and whose ends, a test holds.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "any_repo.h"

namespace weir::models {

class HeldLoads {
 public:
  // The model's next loads do not end before release().
  void hold(const std::string& model) {
    std::lock_guard lock(mutex_);
    held_.insert(model);
  }
  void release(const std::string& model) {
    std::lock_guard lock(mutex_);
    held_.erase(model);
    changed_.notify_all();
  }
  // Engines of the model do not end before release_ends().
  void hold_ends(const std::string& model) { hold(model + " ends"); }
  void release_ends(const std::string& model) { release(model + " ends"); }
  // Its Calls do not end before release_runs().
  void hold_runs(const std::string& model) { hold(model + " runs"); }
  void release_runs(const std::string& model) { release(model + " runs"); }
  // The same of the place of a load that waits for nothing else: while it is being made.
  bool is_inside(const std::string& model) {
    std::lock_guard lock(mutex_);
    return inside_.contains(model);
  }
  // Until a load of it has begun.
  bool begins(const std::string& model) {
    return becomes([&] { return inside_.contains(model); });
  }
  bool runs(const std::string& model) { return begins(model + " runs"); }
  bool ends(const std::string& model) {
    return becomes([&] { return inside_.contains(model + " ends"); });
  }
  int made(const std::string& model) {
    std::lock_guard lock(mutex_);
    return made_[model];
  }
  size_t most_at_once() {
    std::lock_guard lock(mutex_);
    return most_;
  }
  bool overlapped() {
    std::lock_guard lock(mutex_);
    return overlapped_;
  }

  // The text of the model's file is its platform; "broken" does not load, "scarce" only where no other one is alive.
  base::Result<Instance> make(const LoadArgs& args) {
    std::string text;
    std::ifstream(args.file) >> text;
    const std::string name = args.wanted.name;
    if (!stay(name, args.loading)) return base::failure(base::Code::kUnavailable, "nobody wants it");
    if (text == "broken") return base::invalid("cannot parse " + args.file);
    std::lock_guard lock(mutex_);
    if (text == "scarce" && alive_[name] > 0) return base::try_again(base::Code::kResourceExhausted, "no memory");
    ++made_[name], ++alive_[name];
    return Instance(std::unique_ptr<sched::Engine>(std::make_unique<Engine>(*this, name, std::move(text))));
  }
  EngineMaker maker() {
    return [this](const LoadArgs& args) { return make(args); };
  }

 private:
  struct Engine final : sched::Engine {
    Engine(HeldLoads& its_home, std::string its_name, std::string text) : home(its_home), name(std::move(its_name)) {
      it.platform = std::move(text);
      it.max_batch = 64;
      it.inputs = {{"x", msg::DType::kUint8, {1}, false, {}}};
      it.outputs = {{"y", msg::DType::kUint8, {1}, false, {}}};
    }
    ~Engine() override {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      home.stay(name + " ends", [&] { return std::chrono::steady_clock::now() < until; });
      std::lock_guard lock(home.mutex_);
      --home.alive_[name];
    }
    const msg::ModelSpec& spec() const override { return it; }
    base::Status step(sched::Batch& batch) override {
      if (home.holds(name + " runs")) home.stay(name + " runs", [] { return true; });
      batch.outputs.push_back({"y",
                               msg::DType::kUint8,
                               {int64_t(batch.rows), 1},
                               base::Bytes::copy_of(std::string(batch.rows, it.platform[0]))});
      return {};
    }
    HeldLoads& home;
    const std::string name;
    msg::ModelSpec it;
  };

  bool holds(const std::string& what) {
    std::lock_guard lock(mutex_);
    return held_.contains(what);
  }
  // False: `wanted` has said so.
  bool stay(const std::string& what, const std::function<bool()>& wanted) {
    std::unique_lock lock(mutex_);
    overlapped_ = !inside_.insert(what).second || overlapped_;
    most_ = std::max(most_, inside_.size());
    changed_.notify_all();
    bool still = true;
    while (held_.contains(what) && still) {
      changed_.wait_for(lock, std::chrono::milliseconds(5));
      still = wanted();
    }
    inside_.erase(what);
    changed_.notify_all();
    return still;
  }
  template <class Is>
  bool becomes(Is is) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), is);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> held_, inside_;
  std::map<std::string, int> made_, alive_;
  size_t most_ = 0;
  bool overlapped_ = false;
};

// A repository of such models; `loads` outlives it.
class HeldRepo : public AnyRepo {
 public:
  HeldRepo(test::Disk& disk, HeldLoads& loads, RepositoryOptions options)
      : AnyRepo(disk, {{"onnx", loads.maker()}}, std::move(options)) {}
  std::future<base::Status> begin_start() {
    return std::async(std::launch::async, [this] { return repository->start(); });
  }
  std::future<base::Status> begin_load(const std::string& name, const Asking& asking = {}) {
    auto done = std::make_shared<std::promise<base::Status>>();
    repository->load(
        name, {}, [done](base::Status status) { done->set_value(std::move(status)); }, asking);
    return done->get_future();
  }
  std::future<base::Status> begin_unload(const std::string& name) {
    auto done = std::make_shared<std::promise<base::Status>>();
    repository->unload(name, Repository::Dependents::kKeep,
                       [done](base::Status status) { done->set_value(std::move(status)); });
    return done->get_future();
  }
  std::future<void> begin_rescan() {
    auto done = std::make_shared<std::promise<void>>();
    repository->rescan([done] { done->set_value(); });
    return done->get_future();
  }
  bool becomes(const std::string& rows) {
    for (int i = 0; i < 4000 && (!now() || this->rows() != rows); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return this->rows() == rows;
  }
};

inline RepositoryOptions with_threads(uint32_t load_threads, Control control = Control::kExplicit) {
  RepositoryOptions options;
  options.load_threads = load_threads, options.control = control;
  return options;
}

}  // namespace weir::models
