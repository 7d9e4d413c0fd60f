#include "engines/forward/runtime.h"

#include <future>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "engines/forward/discovery.h"
#include "engines/forward/name_watch.h"
#include "engines/forward/shard_model.h"
#include "engines/forward/watch.h"

namespace weir::forward {

using base::Code;
using base::failure;

// The members are used on the shard's thread, or when it has ended.
struct Runtime::OnShard {
  OnShard(net::Shard& its_shard, const Shards& its_home) : shard(its_shard), home(its_home) {}

  net::Shard& shard;
  const Shards& home;
  std::unordered_map<uint64_t, std::unique_ptr<ShardModel>> models;  // by the number of their Inbox
  std::unordered_map<uint64_t, std::unique_ptr<Watch>> watches;
  std::unordered_map<uint64_t, std::unique_ptr<NameWatch>> name_watches;
  std::unordered_map<uint64_t, std::unique_ptr<Discovery>> discoveries;
};

struct Runtime::Shards {
  std::mutex mutex;
  bool open = true;                           // under mutex
  std::vector<std::unique_ptr<OnShard>> all;  // grows before the first load() only
  std::atomic<uint64_t> last{0};              // number of an Inbox or a Discovery
  static thread_local OnShard* here;          // of the shard whose thread this is

  OnShard* current() const { return here && &here->home == this ? here : nullptr; }
};

thread_local Runtime::OnShard* Runtime::Shards::here = nullptr;

class Runtime::Inbox final : public msg::Inbox {
 public:
  Inbox(std::shared_ptr<Shards> shards, std::shared_ptr<Target> target, const msg::ModelSpec& spec,
        bus::ModelStats& stats, base::SlabSource& slabs, std::function<void(base::Status)> broken,
        std::shared_ptr<const msg::ModelSpec> local);
  ~Inbox() override;

  void put(msg::Call* call) override;
  void poke() override;

 private:
  ShardModel& model_on(OnShard& on);

  const std::shared_ptr<Shards> shards_;
  const std::shared_ptr<Target> target_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  base::SlabSource& slabs_;
  const uint64_t number_;
  std::atomic<uint64_t> from_elsewhere_{0};  // Calls that other threads have put
};

Runtime::Inbox::Inbox(std::shared_ptr<Shards> shards, std::shared_ptr<Target> target, const msg::ModelSpec& spec,
                      bus::ModelStats& stats, base::SlabSource& slabs, std::function<void(base::Status)> broken,
                      std::shared_ptr<const msg::ModelSpec> local)
    : shards_(std::move(shards)),
      target_(std::move(target)),
      spec_(spec),
      stats_(stats),
      slabs_(slabs),
      number_(++shards_->last) {
  if (spec_.text && !stats_.tokens) stats_.tokens = std::make_unique<bus::TokenStats>();
  OnShard* on = shards_->all[number_ % shards_->all.size()].get();
  on->shard.post([on, number = number_, its_target = target_, report = std::move(broken),
                  its_local = std::move(local)] {
    on->watches.emplace(number, std::make_unique<Watch>(on->shard, its_target, report, its_local));
    on->name_watches.emplace(
        number, std::make_unique<NameWatch>(on->shard, its_target, std::make_unique<net::SystemResolver>(on->shard)));
  });
}

// No Call is inside; what the shards have of it goes on their threads.
Runtime::Inbox::~Inbox() {
  std::lock_guard lock(shards_->mutex);
  if (!shards_->open) return;
  for (auto& on : shards_->all)
    on->shard.post([at = on.get(), number = number_] {
      at->name_watches.erase(number), at->watches.erase(number);
      at->models.erase(number);
    });
}

ShardModel& Runtime::Inbox::model_on(OnShard& on) {
  auto& model = on.models[number_];
  if (!model) model = std::make_unique<ShardModel>(on.shard, target_, spec_, stats_, slabs_);
  return *model;
}

void Runtime::Inbox::put(msg::Call* call) {
  if (OnShard* on = shards_->current()) return model_on(*on).put(call, ShardModel::Came::kHere);
  OnShard& on = *shards_->all[from_elsewhere_.fetch_add(1, std::memory_order_relaxed) % shards_->all.size()];
  on.shard.post([this, call, at = &on] { model_on(*at).put(call, ShardModel::Came::kFromElsewhere); });
}

// A Call inside keeps this alive until a shard has looked; where there is none, the shard finds no model.
void Runtime::Inbox::poke() {
  OnShard* const on = shards_->current();
  if (on) {
    if (auto found = on->models.find(number_); found != on->models.end()) found->second->look();
    if (from_elsewhere_.load(std::memory_order_relaxed) == 0) return;
  }
  std::lock_guard lock(shards_->mutex);
  if (!shards_->open) return;
  for (auto& other : shards_->all)
    if (other.get() != on)
      other->shard.post([at = other.get(), number = number_] {
        if (auto found = at->models.find(number); found != at->models.end()) found->second->look();
      });
}

Runtime::Runtime() : shards_(std::make_shared<Shards>()) {}

Runtime::~Runtime() { close(); }

void Runtime::attach(net::Shard& shard) {
  auto* on = shards_->all.emplace_back(std::make_unique<OnShard>(shard, *shards_)).get();
  shard.post([on] { Shards::here = on; });
}

void Runtime::close() {
  std::lock_guard lock(shards_->mutex);
  shards_->open = false;
  for (auto& on : shards_->all)
    on->discoveries.clear(), on->name_watches.clear(), on->watches.clear(), on->models.clear();
}

// The signature that the first origin gives which has the model ready; blocks.
base::Result<msg::ModelSpec> Runtime::discover(std::shared_ptr<Target> target, msg::ModelSpec wanted) {
  auto heard = std::make_shared<std::promise<base::Result<msg::ModelSpec>>>();
  auto answer = heard->get_future();
  const uint64_t number = ++shards_->last;
  OnShard* on = shards_->all[number % shards_->all.size()].get();
  on->shard.post([on, number, heard, its_target = std::move(target), its_spec = std::move(wanted)] {
    auto then = [on, number, heard](base::Result<msg::ModelSpec> spec) {
      heard->set_value(std::move(spec));
      on->shard.post([on, number] { on->discoveries.erase(number); });
    };
    auto& discovery = on->discoveries[number];
    discovery = std::make_unique<Discovery>(on->shard, its_target, its_spec, then);
    discovery->start();
  });
  return answer.get();
}

base::Result<sched::RemoteModel> Runtime::load(const msg::ModelSpec& wanted, const std::string& folder,
                                               base::SlabSource& slabs, std::function<void(base::Status)> broken,
                                               const msg::ModelSpec* local) {
  auto options = read_options(wanted);
  if (!options) return std::move(options).error();
  options->beside_local = local != nullptr;
  if (options->local_first && !local) return base::invalid("parameter 'local_first' is for models that run here, too");
  if (shards_->all.empty()) return failure(Code::kFailedPrecondition, "nothing can be forwarded here");
  if (options->members) options->origins = directory_->urls(options->model);
  auto target = Target::make(std::move(*options), folder);
  if (!target) return std::move(target).error();
  if ((*target)->options.members)
    if (auto s = directory_->add(*target); !s.ok() && !local) return s;

  sched::RemoteModel model;
  if (local) {
    model.spec = *local;
    model.local_first = (*target)->options.local_first;
    model.load = [its_target = *target](uint64_t random) -> std::optional<double> {
      const base::Time now = base::steady_now();
      const Origin* origin = its_target->choose(now, random, 0, nullptr);
      return origin ? std::optional(origin->load(now)) : std::nullopt;
    };
    broken = [](const base::Status&) {};
  } else {
    msg::ModelSpec asked = wanted;
    asked.engine = "forward";
    asked.parameters = {{"kind", wanted.parameters.at("kind")}};
    auto spec = discover(*target, std::move(asked));
    if (!spec) return std::move(spec).error();
    model.spec = std::move(*spec);
  }
  model.make_inbox = [shards = shards_, its_target = *target, &slabs, report = std::move(broken),
                      here = local ? std::make_shared<const msg::ModelSpec>(*local) : nullptr](
                         const msg::ModelSpec& published, bus::ModelStats& stats) -> std::unique_ptr<msg::Inbox> {
    return std::make_unique<Inbox>(shards, its_target, published, stats, slabs, report, here);
  };
  return model;
}

}  // namespace weir::forward
