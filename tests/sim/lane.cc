#include "lane.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "sched/fit.h"

namespace weir::sim {
namespace {

base::Time clock_time;
base::Time clock_now() { return clock_time; }

std::vector<float> floats(const msg::Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

void set_time(base::Time now) { clock_time = now; }

base::Status AddEngine::step(sched::Batch& batch) {
  auto values = floats(batch.inputs[0]);
  if (spec_.max_batch > 0)
    base::check(batch.inputs[0].shape[0] == int64_t(batch.rows), "I5: an engine sees the rows that it is told of");
  size_t width = values.size() / batch.rows, row = 0;
  bool cut = false;
  for (size_t i = 0; i < batch.calls.size(); row += batch.calls[i++]->rows) {
    float first = values[row * width];
    if (first == kPoison) return base::invalid("poison");
    if (first == kGreedy) throw std::bad_alloc();
    if (first == kAllergic) {
      batch.failures.resize(batch.calls.size());
      batch.failures[i] = base::invalid("allergic");
    }
    cut = cut || first == kShort;
  }
  for (auto& v : values) v += generation_;
  if (cut) values.resize(values.size() - width);
  size_t bytes = values.size() * sizeof(float);
  auto* slab = slabs_.take(bytes);
  base::Block block(slab ? slab : base::heap_slab(bytes));
  if (bytes > 0) block.append(values.data(), bytes);
  batch.outputs = {{"y", msg::DType::kFp32, batch.inputs[0].shape, block.freeze()}};
  return {};
}

Lane::Lane(base::FakeEnv& env, const msg::ModelSpec& spec, bus::ModelStats& stats, base::SlabSource& slabs,
           float generation)
    : env_(env),
      spec_(spec),
      engine_(generation, spec, slabs),
      batcher_(spec),
      room_{.now = clock_now},
      runner_(engine_, spec, stats, slabs, room_) {}

void Way::post(std::vector<msg::Mail>& burst) {
  if (!burst.empty()) bursts_.push_back(std::exchange(burst, {}));
}

bool Way::deliver() {
  if (bursts_.empty()) return false;
  home_.post(bursts_.front());
  bursts_.pop_front();
  return true;
}

Lane::~Lane() {
  bool delivered = std::all_of(ways_.begin(), ways_.end(), [](auto& way) { return way.empty(); });
  base::check(batcher_.empty() && running_.empty() && delivered, "I18: a model goes after its last Call");
}

void Lane::put(msg::Call* call) {
  auto [at, fresh] = way_of_.try_emplace(call->home, ways_.size());
  if (fresh) ways_.emplace_back(*call->home);
  call->home = &ways_[at->second];
  std::vector<sched::Dropped> dropped;
  auto status = sched::tensors_fit(*call, spec_);
  if (status.ok()) status = batcher_.add(call, env_.now(), dropped);
  if (!status.ok()) call->home->post_here({call, {msg::Failed{std::move(status)}}});
  refuse(dropped);
}

void Lane::refuse(std::vector<sched::Dropped>& dropped) {
  for (auto& [call, status] : dropped) runner_.refuse(call, std::move(status));
  post();
}

void Lane::post() {
  runner_.post();
  for (auto& way : ways_)
    while (!holds_mail_ && way.deliver()) continue;
}

bool Lane::deliver(size_t n) { return !ways_.empty() && ways_[n % ways_.size()].deliver(); }

bool Lane::take(base::Duration work) {
  if (running_.size() >= spec_.instances) return false;
  std::vector<sched::Dropped> dropped;
  Running next;
  batcher_.next(env_.now(), next.calls, dropped);
  bool some = !next.calls.empty() || !dropped.empty();
  refuse(dropped);
  if (next.calls.empty()) return some;
  uint32_t rows = 0;
  for (auto* call : next.calls) {
    base::check(!call->cancelled, "I9: a cancelled Call is not computed");
    base::check(call->sink != nullptr, "I9: a Call for which nobody waits is not computed");
    base::check(call->deadline > env_.now(), "I9: a Call past its deadline is not computed");
    for (auto& other : running_)
      base::check(std::find(other.calls.begin(), other.calls.end(), call) == other.calls.end(),
                  "I5: a Call is in one batch");
    rows += call->rows;
  }
  base::check(next.calls.size() == 1 || rows <= spec_.max_batch, "I5: a batch has no more rows than the model takes");
  next.done = env_.now() + work;
  running_.push_back(std::move(next));
  return true;
}

bool Lane::finish() {
  auto first = std::min_element(running_.begin(), running_.end(), [](auto& a, auto& b) { return a.done < b.done; });
  if (first == running_.end() || first->done > env_.now()) return false;
  auto calls = std::move(first->calls);
  running_.erase(first);
  runner_.run(calls);
  post();
  return true;
}

base::Time Lane::next() {
  base::Time at = base::kNever;
  for (const auto& r : running_) at = std::min(at, r.done);
  if (running_.size() < spec_.instances) at = std::min(at, batcher_.ready_at(env_.now()));
  return at;
}

}  // namespace weir::sim
