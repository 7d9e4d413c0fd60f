#include "sched/pipeline.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "sched/runner.h"

namespace weir::sched {
namespace {

using base::Code;
using base::failure;
using base::Status;
using msg::DType;

constexpr std::string_view kStream = "stream";  // would have a model of text answer piece by piece

msg::Tensor* named(std::vector<msg::Tensor>& tensors, std::string_view name) {
  auto at = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  return at == tensors.end() ? nullptr : &*at;
}

// The nodes' Calls have the pipeline for their home.
class Pipeline final : public msg::Inbox, private msg::Home {
 public:
  Pipeline(PipelinePlan plan, bus::ModelStats& stats);
  ~Pipeline() override { base::check(open_.empty(), "a pipeline outlives its Calls"); }

  void put(msg::Call* call) override;
  void poke() override;

 private:
  // One Call on its way through; as a msg::Call it is what the node at `node` has.
  struct Flight : msg::Call {
    msg::Call* parent = nullptr;
    size_t node = 0;      // under mutex_
    size_t index = 0;     // in open_; under mutex_
    bool pieces = false;  // the node has answered, and not for the last time
    msg::Timeline way;    // what the Call's own times will be
    std::vector<msg::Tensor> slots;
  };
  // Mail that this thread has still to act upon. Nodes that answer at once would otherwise nest, node within node, and
  // step an inline engine while it is being stepped.
  struct Desk {
    bool busy = false;
    std::deque<std::pair<Pipeline*, msg::Mail>> mail;
  };
  static Desk& desk() {
    thread_local Desk desk;
    return desk;
  }
  template <class F>
  static void at_desk(F&& work);

  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override;

  Flight& open(msg::Call* call);
  void send(Flight& flight);
  Status fill(Flight& flight, const PipelineNode& node);
  void receive(msg::Mail&& mail);
  Status keep(Flight& flight, const PipelineNode& node, msg::Outputs& outputs);
  void next(Flight& flight);
  static void note(Flight& flight);
  void finish(Flight& flight, msg::Event&& event);
  msg::Outputs results(Flight& flight);

  const PipelinePlan plan_;
  bus::ModelStats& stats_;
  std::vector<std::vector<bool>> last_;  // per node and input: nobody reads that slot afterwards

  std::mutex mutex_;
  std::vector<Flight*> open_;  // this and what follows: under mutex_
  std::vector<std::unique_ptr<Flight>> all_;
  std::vector<Flight*> spare_;
};

Pipeline::Pipeline(PipelinePlan plan, bus::ModelStats& stats)
    : plan_(std::move(plan)), stats_(stats), last_(plan_.nodes.size()) {
  base::check(!plan_.nodes.empty(), "a pipeline has a node");
  std::vector<bool> read_later(plan_.slots, false);
  for (const auto& port : plan_.outputs) read_later[port.slot] = true;
  for (size_t n = plan_.nodes.size(); n-- > 0;) {
    const auto& inputs = plan_.nodes[n].inputs;
    last_[n].assign(inputs.size(), false);
    for (size_t i = inputs.size(); i-- > 0;) {  // of two inputs from one slot the later one takes it
      last_[n][i] = !read_later[inputs[i].slot];
      read_later[inputs[i].slot] = true;
    }
  }
}

// Does `work`, and then, unless a caller further up does so, everything that it has led to on this thread.
template <class F>
void Pipeline::at_desk(F&& work) {
  Desk& d = desk();
  bool outermost = !std::exchange(d.busy, true);
  work(d);
  if (!outermost) return;
  while (!d.mail.empty()) {
    auto [pipeline, mail] = std::move(d.mail.front());
    d.mail.pop_front();
    pipeline->receive(std::move(mail));
  }
  d.busy = false;
}

void Pipeline::put(msg::Call* call) {
  call->times.queued = lane_now();
  at_desk([&](Desk&) { send(open(call)); });
}

void Pipeline::post(std::vector<msg::Mail>& burst) {
  at_desk([&](Desk& d) {
    for (auto& mail : burst) d.mail.emplace_back(this, std::move(mail));
    burst.clear();
  });
}

void Pipeline::post_here(msg::Mail&& mail) {
  at_desk([&](Desk& d) { d.mail.emplace_back(this, std::move(mail)); });
}

// Some Call has been cancelled.
void Pipeline::poke() {
  std::vector<msg::Inbox*> told;
  {
    std::lock_guard lock(mutex_);
    for (Flight* flight : open_) {
      if (!flight->parent->cancelled.load(std::memory_order_acquire)) continue;
      if (flight->cancelled.exchange(true, std::memory_order_acq_rel)) continue;
      told.push_back(plan_.nodes[flight->node].served->inbox.get());
    }
  }
  for (auto* inbox : told) inbox->poke();
}

Pipeline::Flight& Pipeline::open(msg::Call* call) {
  Flight* flight;
  {
    std::lock_guard lock(mutex_);
    if (spare_.empty()) spare_.push_back(all_.emplace_back(std::make_unique<Flight>()).get());
    flight = spare_.back();
    spare_.pop_back();
    flight->parent = call;
    flight->node = 0;
    flight->index = open_.size();
    open_.push_back(flight);
    stats_.pending.store(int64_t(open_.size()), std::memory_order_relaxed);
  }
  flight->slots.resize(plan_.slots);
  for (const auto& port : plan_.inputs)
    if (auto* tensor = named(call->inputs, port.tensor)) flight->slots[port.slot] = *tensor;
  return *flight;
}

// Puts the flight's Call into the Inbox of its node; it may be anywhere afterwards.
void Pipeline::send(Flight& flight) {
  const PipelineNode& node = plan_.nodes[flight.node];
  Status status = fill(flight, node);
  if (status.ok()) {
    std::lock_guard lock(mutex_);
    bool left = flight.parent->cancelled.load(std::memory_order_acquire);
    flight.cancelled.store(left, std::memory_order_release);
    if (left) status = failure(Code::kCancelled, "the client has left");
  }
  if (!status.ok()) return finish(flight, {msg::Failed{std::move(status)}});
  node.served->inbox->put(&flight);
}

Status Pipeline::fill(Flight& flight, const PipelineNode& node) {
  const msg::ModelSpec& spec = node.served->spec;
  const msg::Call& parent = *flight.parent;
  flight.clear();
  flight.pieces = false;
  flight.model = spec.name;
  flight.version = spec.version;
  flight.id = parent.id;
  flight.parameters = parent.parameters;
  if (spec.text) std::erase_if(flight.parameters, [](const auto& p) { return p.first == kStream; });
  flight.priority = parent.priority;
  flight.deadline = parent.deadline;
  flight.queue_timeout = parent.queue_timeout;
  flight.tenant = parent.tenant;
  flight.session = parent.session;
  flight.home = this;
  flight.times.received = parent.times.received;
  flight.times.queued = lane_now();
  const auto& last = last_[flight.node];
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    msg::Tensor& slot = flight.slots[node.inputs[i].slot];
    if (spec.text && node.inputs[i].tensor == kStream) continue;
    if (slot.dtype == DType::kInvalid) {
      if (node.inputs[i].optional) continue;
      return failure(Code::kInternal, "node '" + node.name + "': its input '" + node.inputs[i].tensor + "' is missing");
    }
    flight.inputs.push_back(last[i] ? std::exchange(slot, {}) : slot);
    flight.inputs.back().name = node.inputs[i].tensor;
  }
  if (!spec.any_tensors)
    for (const auto& port : node.outputs) flight.outputs.push_back(port.tensor);
  if (spec.max_batch > 0 && !flight.inputs.empty() && flight.inputs.front().shape.rank() > 0)
    flight.rows = uint32_t(std::clamp<int64_t>(flight.inputs.front().shape[0], 1, UINT32_MAX));
  return {};
}

void Pipeline::receive(msg::Mail&& mail) {
  auto& flight = static_cast<Flight&>(*mail.call);
  if (!mail.event.last()) {
    flight.pieces = flight.pieces || std::holds_alternative<msg::Outputs>(mail.event.what);
    return;
  }
  const PipelineNode& node = plan_.nodes[flight.node];
  Status status = failure(Code::kInternal, "the model gave no answer");
  if (auto* failed = std::get_if<msg::Failed>(&mail.event.what)) status = std::move(failed->status);
  if (auto* outputs = std::get_if<msg::Outputs>(&mail.event.what)) status = keep(flight, node, *outputs);
  if (status.ok() && flight.pieces) status = failure(Code::kUnimplemented, "the model answered more than once");
  note(flight);
  if (status.ok()) return next(flight);
  status.text = "node '" + node.name + "': " + status.text;
  finish(flight, {msg::Failed{std::move(status)}});
}

Status Pipeline::keep(Flight& flight, const PipelineNode& node, msg::Outputs& outputs) {
  for (const auto& port : node.outputs) {
    auto* tensor = named(outputs.tensors, port.tensor);
    if (!tensor)
      return failure(Code::kInternal, "model '" + node.served->spec.name + "' made no output '" + port.tensor + "'");
    flight.slots[port.slot] = std::move(*tensor);
  }
  return {};
}

void Pipeline::next(Flight& flight) {
  if (flight.node + 1 == plan_.nodes.size()) return finish(flight, {results(flight)});
  {
    std::lock_guard lock(mutex_);
    ++flight.node;
  }
  send(flight);
}

// The Call's own times: the queue is the first node's, all that follows is computing.
void Pipeline::note(Flight& flight) {
  if (flight.node == 0) flight.way.started = flight.times.started, flight.way.computing = flight.times.computing;
  flight.way.computed = flight.times.computed;
  flight.way.batch_rows = flight.times.batch_rows;
}

msg::Outputs Pipeline::results(Flight& flight) {
  msg::Outputs out;
  const auto& wanted = flight.parent->outputs;
  for (const auto& port : plan_.outputs) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), port.tensor) == wanted.end()) continue;
    out.tensors.push_back(flight.slots[port.slot]);  // two outputs may be one tensor
    out.tensors.back().name = port.tensor;
  }
  return out;
}

void Pipeline::finish(Flight& flight, msg::Event&& event) {
  msg::Call* parent = flight.parent;
  flight.way.received = parent->times.received;
  flight.way.queued = parent->times.queued;
  flight.way.finished = lane_now();
  parent->times = std::exchange(flight.way, {});
  auto ns = [](auto from, auto to) {
    return from == base::kNever || to == base::kNever ? 0 : uint64_t(std::max<int64_t>((to - from).count(), 0));
  };
  const msg::Timeline& t = parent->times;
  uint64_t total = ns(t.queued, t.finished);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) {
    stats_.add_failure(failed->status.code, total);
  } else {
    auto wall = std::chrono::system_clock::now().time_since_epoch();
    stats_.success.add(total);
    stats_.queue.add(ns(t.queued, t.started));
    stats_.compute_infer.add(ns(t.started, t.finished));
    stats_.inference_count.fetch_add(parent->rows, std::memory_order_relaxed);
    stats_.execution_count.fetch_add(1, std::memory_order_relaxed);
    stats_.last_inference_ms.store(uint64_t(std::chrono::duration_cast<std::chrono::milliseconds>(wall).count()),
                                   std::memory_order_relaxed);
  }
  flight.slots.clear();
  flight.clear();
  {
    std::lock_guard lock(mutex_);
    open_.back()->index = flight.index;
    std::swap(open_[flight.index], open_.back());
    open_.pop_back();
    spare_.push_back(&flight);
    stats_.pending.store(int64_t(open_.size()), std::memory_order_relaxed);
  }
  std::vector<msg::Mail> one;
  one.push_back({parent, std::move(event)});
  parent->home->post(one);  // the Call is its home's from here on, and this may be gone
}

}  // namespace

std::unique_ptr<msg::Inbox> make_pipeline(PipelinePlan plan, bus::ModelStats& stats) {
  return std::make_unique<Pipeline>(std::move(plan), stats);
}

}  // namespace weir::sched
