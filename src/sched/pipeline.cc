#include "sched/pipeline.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/take_out.h"
#include "sched/decoupled_pipeline.h"
#include "sched/pipeline_cut.h"
#include "sched/pipeline_run.h"
#include "sched/proxy_inbox.h"

namespace weir::sched {
namespace {

using base::Code;
using base::failure;
using base::Status;
using Leg = PipelineLeg;

// The nodes' Calls have the pipeline for their home. The run's mutex is taken inside the pipeline's, never the other
// way round. Whoever counts in PipelineRun::out keeps run and pipeline alive: once it is given up they may be gone.
class Pipeline final : public ProxyInbox {
 public:
  Pipeline(PipelinePlan plan, bus::ModelStats& stats)
      : ProxyInbox(Receives::kDeferred), plan_(std::move(plan)), stats_(stats), order_(plan_) {}
  ~Pipeline() override { base::check(open_.empty(), "a pipeline outlives its Calls"); }

  void put(msg::Call* call) override;
  void poke() override;

 private:
  void receive(msg::Mail&& mail, bus::MailBursts& out) override;

  PipelineRun& open(msg::Call* call);
  std::vector<Leg*> due(PipelineRun& run, const std::vector<uint32_t>& nodes);
  template <class Work>
  void go_on(PipelineRun& run, Work&& work);
  void send(const std::vector<Leg*>& legs);
  void follow(PipelineRun& run, Leg& leg, msg::Event&& event);
  void fail(PipelineRun& run, Status why);
  void release(PipelineRun& run);
  void finish(PipelineRun& run, msg::Event&& event);
  void count(const msg::Call& parent, const msg::Event& event);
  void close(PipelineRun& run);

  const PipelinePlan plan_;
  bus::ModelStats& stats_;
  const PipelineOrder order_;

  std::mutex mutex_;
  std::vector<PipelineRun*> open_;  // this and what follows: under mutex_
  std::vector<std::unique_ptr<PipelineRun>> all_;
  std::vector<PipelineRun*> spare_;
};

void Pipeline::put(msg::Call* call) {
  call->times.queued = base::steady_now();
  enter([&] {
    PipelineRun& run = open(call);  // what it throws is the caller's: the Call is not here then
    go_on(run, [&] { send(due(run, order_.first)); });
    release(run);
  });
}

// An exception on the way fails the run.
template <class Work>
void Pipeline::go_on(PipelineRun& run, Work&& work) {
  if (Status status = base::attempt("a pipeline", work); !status.ok()) fail(run, std::move(status));
}

// Some Call has been cancelled.
void Pipeline::poke() {
  std::vector<msg::Inbox*> inboxes;
  {
    std::lock_guard lock(mutex_);
    for (PipelineRun* run : open_) {
      if (!run->parent->cancelled.load(std::memory_order_acquire)) continue;
      std::lock_guard inner(run->mutex);
      for (Leg& leg : run->legs)
        if (leg.out && !leg.cancelled.exchange(true, std::memory_order_acq_rel))
          inboxes.push_back(plan_.nodes[leg.node].served->inbox.get());
    }
  }
  std::sort(inboxes.begin(), inboxes.end());
  inboxes.erase(std::unique(inboxes.begin(), inboxes.end()), inboxes.end());
  for (auto* inbox : inboxes) inbox->poke();
}

// A run in which the calling thread counts.
PipelineRun& Pipeline::open(msg::Call* call) {
  std::lock_guard lock(mutex_);
  if (spare_.empty()) {
    if (spare_.capacity() <= all_.size()) spare_.reserve(2 * all_.size() + 1);  // close() must not allocate
    spare_.push_back(all_.emplace_back(std::make_unique<PipelineRun>(plan_.nodes.size())).get());
  }
  PipelineRun* run = spare_.back();
  try {
    run->index = open_.size();
    run->begin(*call, plan_, order_);
    open_.push_back(run);
  } catch (...) {
    run->slots.clear();  // the Call's tensors are not kept here
    throw;
  }
  spare_.pop_back();
  stats_.pending.store(int64_t(open_.size()), std::memory_order_relaxed);
  return *run;
}

// The legs of these nodes, ready to be sent; none in a run that has failed.
std::vector<Leg*> Pipeline::due(PipelineRun& run, const std::vector<uint32_t>& nodes) {
  std::vector<Leg*> legs;
  legs.reserve(nodes.size());  // those that are counted are sent
  Status status;
  for (uint32_t n : nodes) {
    std::lock_guard lock(run.mutex);
    if (!run.failed.ok()) break;
    Leg& leg = run.legs[n];
    if (leg.skipped) continue;
    if (Status thrown = base::attempt("a pipeline", [&] { status = run.lend(leg, plan_.nodes[n]); }); !thrown.ok())
      status = std::move(thrown);
    leg.home = this;
    bool left = run.parent->cancelled.load(std::memory_order_acquire);
    leg.cancelled.store(left, std::memory_order_release);
    if (status.ok() && left) status = failure(Code::kCancelled, "the client has left");
    if (!status.ok()) break;
    leg.out = true;
    ++run.out;
    legs.push_back(&leg);
  }
  if (!status.ok()) fail(run, std::move(status));
  return legs;
}

// Puts each leg into the Inbox of its node; it may be anywhere afterwards.
void Pipeline::send(const std::vector<Leg*>& legs) {
  for (Leg* leg : legs) {
    PipelineRun& run = *leg->run;
    Status status = base::attempt("a queue", [&] { plan_.nodes[leg->node].served->inbox->put(leg); });
    if (status.ok()) continue;
    fail(run, std::move(status));
    std::lock_guard lock(run.mutex);  // it is not out; the calling thread still counts
    leg->out = false;
    --run.out;
  }
}

void Pipeline::receive(msg::Mail&& mail, bus::MailBursts&) {
  auto& leg = static_cast<Leg&>(*mail.call);
  if (!mail.event.last()) {
    leg.pieces = leg.pieces || std::holds_alternative<msg::Outputs>(mail.event.what);
    return;
  }
  PipelineRun& run = *leg.run;
  go_on(run, [&] { follow(run, leg, std::move(mail.event)); });
  release(run);
}

void Pipeline::follow(PipelineRun& run, Leg& leg, msg::Event&& event) {
  Status status = run.answered(leg, plan_.nodes[leg.node], std::move(event));
  if (!status.ok()) {
    status.text = "node '" + plan_.nodes[leg.node].name + "': " + status.text;
    return fail(run, std::move(status));
  }
  std::vector<uint32_t> next;
  {
    std::lock_guard lock(run.mutex);
    for (uint32_t n : order_.feeds[leg.node])
      if (--run.legs[n].waits == 0) next.push_back(n);
  }
  send(due(run, next));
}

// The other branches are of no use any more: what waits in a queue leaves it, what runs is waited for.
void Pipeline::fail(PipelineRun& run, Status why) {
  std::vector<msg::Inbox*> inboxes;
  {
    std::lock_guard lock(run.mutex);
    if (!run.failed.ok()) return;
    run.failed = std::move(why);
    (void)base::attempt("a pipeline", [&] {  // a node that is not poked runs to its end
      inboxes.reserve(run.legs.size());
      for (Leg& leg : run.legs)
        if (leg.out && !leg.cancelled.exchange(true, std::memory_order_acq_rel))
          inboxes.push_back(plan_.nodes[leg.node].served->inbox.get());
    });
  }
  for (auto* inbox : inboxes) inbox->poke();
}

// The calling thread counts in the run no longer. The last one answers the Call.
void Pipeline::release(PipelineRun& run) {
  {
    std::lock_guard lock(run.mutex);
    if (--run.out > 0) return;
  }
  if (!run.failed.ok()) return finish(run, {msg::Failed{std::move(run.failed)}});
  msg::Event event{msg::Failed{}};
  Status status = base::attempt("a pipeline", [&] {
    auto made = run.results(plan_);
    event = made ? msg::Event{std::move(*made)} : msg::Event{msg::Failed{made.error()}};
  });
  if (!status.ok()) event = {msg::Failed{std::move(status)}};
  finish(run, std::move(event));
}

void Pipeline::finish(PipelineRun& run, msg::Event&& event) {
  msg::Call* parent = run.parent;
  run.way.received = parent->times.received;
  run.way.queued = parent->times.queued;
  run.way.finished = base::steady_now();
  parent->times = std::exchange(run.way, {});
  count(*parent, event);
  close(run);
  bus::post_one(parent, std::move(event));  // the Call is its home's from here on, and this may be gone
}

void Pipeline::count(const msg::Call& parent, const msg::Event& event) {
  auto ns = [](auto from, auto to) {
    return from == base::kNever || to == base::kNever ? 0 : uint64_t(std::max<int64_t>((to - from).count(), 0));
  };
  const msg::Timeline& t = parent.times;
  uint64_t total = ns(t.queued, t.finished);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return stats_.add_failure(failed->status.code, total);
  stats_.success.add(total);
  stats_.queue.add(ns(t.queued, t.started));
  stats_.compute_infer.add(ns(t.started, t.finished));
  stats_.inference_count.add(parent.rows), stats_.execution_count.add();
  stats_.record_batch(parent.rows, 0, ns(t.started, t.finished), 0);
  const uint64_t at_ms = base::unix_ms();
  stats_.set_last_inference(at_ms);
  if (stats_.durations) stats_.durations->add({total, ns(t.queued, t.started), 0, ns(t.started, t.finished), 0}, at_ms);
}

void Pipeline::close(PipelineRun& run) {
  run.slots.clear();
  for (Leg& leg : run.legs) leg.clear();
  std::lock_guard lock(mutex_);
  base::take_out(open_, run, &PipelineRun::index);
  spare_.push_back(&run);
  stats_.pending.store(int64_t(open_.size()), std::memory_order_relaxed);
}

}  // namespace

std::unique_ptr<msg::Inbox> make_pipeline(PipelinePlan plan, bus::ModelStats& stats) {
  if (decoupled_node(plan)) return make_decoupled_pipeline(plan, stats);
  return std::make_unique<Pipeline>(std::move(plan), stats);
}

}  // namespace weir::sched
