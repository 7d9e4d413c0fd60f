#include "sched/decoupled_pipeline.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/take_out.h"
#include "bus/call_handle.h"
#include "msg/credit.h"
#include "sched/decoupled_counts.h"
#include "sched/decoupled_run.h"
#include "sched/pipeline_cut.h"
#include "sched/proxy_inbox.h"

namespace weir::sched {
namespace {

using base::Code;
using base::failure;
using base::Status;
using Leg = PipelineLeg;
using Run = DecoupledRun;

constexpr uint32_t kBefore = Run::kBefore, kNode = Run::kNode, kAfter = Run::kAfter;
constexpr uint32_t kAllReaders = UINT32_MAX;  // a slot's tensor is read again for each answer

class DecoupledPipeline final : public ProxyInbox, public bus::CountsResponses {
 public:
  DecoupledPipeline(CutPlan plan, bus::ModelStats& stats)
      : ProxyInbox(Receives::kDeferred),
        plan_(std::move(plan)),
        decoupled_behind_(decoupled_node(plan_.after).has_value()),
        stats_(stats),
        counts_(stats, responses_, first_),
        before_(make_pipeline(plan_.before, inner_stats_)),
        after_(make_pipeline(plan_.after, inner_stats_)) {}
  ~DecoupledPipeline() override { base::check(open_.empty(), "a pipeline outlives its Calls"); }

  void put(msg::Call* call) override;
  void poke() override;

 private:
  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override;
  void receive(msg::Mail&& mail, bus::MailBursts& out) override;
  void receive_end(Run& run, Leg& leg, msg::Event&& end);

  msg::Inbox& inbox(uint32_t leg) const {
    return leg == kBefore ? *before_ : leg == kNode ? *plan_.node.served->inbox : *after_;
  }
  Run& open(msg::Call* call);
  template <class Work>
  void go_on(Run& run, Work&& work);
  void lend(Run& run, Leg& leg);
  void begin(Run& run);
  void take(Run& run, Leg& leg, msg::Event&& event);
  void begin_node(Run& run, msg::Event&& event);
  void keep_answer(Run& run, msg::Event&& event);
  void pass_on(Run& run, msg::Event&& event);
  void pass_piece(Run& run, Leg& leg, msg::Event&& event);
  // Whether the nodes behind have come to the end of the answers that they make of one.
  bool is_end(const msg::Outputs& outputs) const { return decoupled_behind_ && outputs.tensors.empty(); }
  void advance(Run& run);
  Status begin_after(Run& run, msg::Outputs&& answer);
  void send_answer(Run& run, msg::Event&& event);
  void fail(Run& run, Status why);
  void release(Run& run);
  void note(Run& run, Leg& leg, const msg::Event& event);

  const CutPlan plan_;
  const bool decoupled_behind_;
  bus::ModelStats& stats_;
  DecoupledCounts counts_;
  bus::ModelStats inner_stats_;  // nobody reads them: the nodes count for themselves
  const std::unique_ptr<msg::Inbox> before_, after_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Run>> open_;  // under mutex_, which is taken before a run's
};

void DecoupledPipeline::put(msg::Call* call) {
  call->times.queued = base::steady_now();
  enter([&] {
    Run& run = open(call);  // what it throws is the caller's: the Call is not here then
    go_on(run, [&] { begin(run); });
    release(run);
  });
}

// An exception on the way fails the run.
template <class Work>
void DecoupledPipeline::go_on(Run& run, Work&& work) {
  if (Status status = base::attempt("a pipeline", work); !status.ok()) fail(run, std::move(status));
}

// A run in which the calling thread counts.
Run& DecoupledPipeline::open(msg::Call* call) {
  auto made = std::make_unique<Run>();
  Run& run = *made;
  run.parent = call;
  run.out = 1;
  run.answered_at = call->times.queued;
  run.slots.resize(plan_.after.slots);
  run.readers.assign(plan_.after.slots, kAllReaders);
  for (uint32_t n = 0; n < run.legs.size(); ++n) run.legs[n].run = &run, run.legs[n].node = n;
  std::lock_guard lock(mutex_);
  run.place = open_.size();
  open_.push_back(std::move(made));
  stats_.pending.store(int64_t(open_.size()), std::memory_order_relaxed);
  return run;
}

// The leg is out; its Inbox has it, or the run has failed.
void DecoupledPipeline::lend(Run& run, Leg& leg) {
  {
    std::lock_guard lock(run.mutex);
    leg.home = this;
    const bool left = run.parent->cancelled.load(std::memory_order_acquire);
    leg.cancelled.store(left || !run.failed.ok(), std::memory_order_release);
    leg.out = true, ++run.out;
  }
  Status status = base::attempt("a queue", [&] { inbox(leg.node).put(&leg); });
  if (status.ok()) return;
  {
    std::lock_guard lock(run.mutex);
    leg.out = false, --run.out;  // the calling thread still counts
    if (leg.node == kNode) run.node_over = true;
    if (leg.node == kAfter) run.after_out = false;
  }
  fail(run, std::move(status));
}

void DecoupledPipeline::begin(Run& run) {
  Leg& leg = run.legs[kBefore];
  if (!plan_.before.ordered && !run.parent->outputs.empty()) {
    leg.outputs = needed_before(plan_, run.parent->outputs);
    if (leg.outputs.empty()) return begin_node(run, {msg::Outputs()});
  }
  run.describe(leg);
  leg.model = run.parent->model, leg.inputs = run.parent->inputs, leg.rows = run.parent->rows;
  lend(run, leg);
}

void DecoupledPipeline::post(std::vector<msg::Mail>& burst) {
  for (const auto& mail : burst) Run::announce(mail);
  try {
    ProxyInbox::post(burst);  // the runs may be gone afterwards, and this
  } catch (...) {
    for (const auto& mail : burst) Run::withdraw(mail);
    throw;
  }
}

void DecoupledPipeline::post_here(msg::Mail&& mail) {
  Run::announce(mail);
  try {
    ProxyInbox::post_here(std::move(mail));
  } catch (...) {
    Run::withdraw(mail);
    throw;
  }
}

void DecoupledPipeline::receive(msg::Mail&& mail, bus::MailBursts&) {
  auto& leg = static_cast<Leg&>(*mail.call);
  Run& run = static_cast<Run&>(*leg.run);
  if (mail.event.last()) {
    if (run.ends(leg, mail.event)) receive_end(run, leg, std::move(mail.event));
    return;
  }
  go_on(run, [&] { take(run, leg, std::move(mail.event)); });
  if (auto end = run.received(leg)) receive_end(run, leg, std::move(*end));
  release(run);
}

void DecoupledPipeline::receive_end(Run& run, Leg& leg, msg::Event&& end) {
  go_on(run, [&] { take(run, leg, std::move(end)); });
  release(run);
}

void DecoupledPipeline::take(Run& run, Leg& leg, msg::Event&& event) {
  if (event.last()) note(run, leg, event);
  if (leg.node == kBefore) return begin_node(run, std::move(event));
  if (leg.node == kAfter && !event.last()) return pass_piece(run, leg, std::move(event));
  leg.node == kNode ? keep_answer(run, std::move(event)) : pass_on(run, std::move(event));
  advance(run);
}

// A leg is over.
void DecoupledPipeline::note(Run& run, Leg& leg, const msg::Event& event) {
  const auto* failed = std::get_if<msg::Failed>(&event.what);
  std::lock_guard lock(run.mutex);
  if (leg.node != kNode) return run.note_nodes(leg);
  run.note_step(leg, plan_.node, failed ? failed->status.code : Code::kOk);
}

void DecoupledPipeline::begin_node(Run& run, msg::Event&& event) {
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return fail(run, std::move(failed->status));
  Leg& leg = run.legs[kNode];
  {
    std::lock_guard lock(run.mutex);
    for (auto& tensor : std::get<msg::Outputs>(event.what).tensors) {
      const uint32_t slot = slot_of(tensor.name);
      run.slots[slot] = std::move(tensor);
    }
    if (Status status = run.lend(leg, plan_.node); !status.ok()) {
      run.node_over = true;
      run.failed = std::move(status);
      return;
    }
    leg.takes_errors = run.parent->takes_errors;
    run.begin_asking(kNode);
  }
  lend(run, leg);
}

// The end comes without an answer, or with the last one.
void DecoupledPipeline::keep_answer(Run& run, msg::Event&& event) {
  const bool last = event.last();
  Status status;
  {
    std::lock_guard lock(run.mutex);
    if (last) run.node_over = true;
    auto* failed = std::get_if<msg::Failed>(&event.what);
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    if (failed && last)
      status = std::move(failed->status);
    else if (!failed && !outputs)
      status = bus::no_answer();
    else if (failed || !outputs->tensors.empty())
      run.answers.push_back(std::move(event));
    if (!last) run.asked[kNode] = false;
  }
  if (status.ok()) return;
  status.text = "node '" + plan_.node.name + "': " + status.text;
  fail(run, std::move(status));
}

// One of several answers that the nodes behind make of one: another of them is decoupled.
void DecoupledPipeline::pass_piece(Run& run, Leg& leg, msg::Event&& event) {
  {
    std::lock_guard lock(run.mutex);
    if (!run.failed.ok()) return;
  }
  send_answer(run, std::move(event));
  {
    std::lock_guard lock(run.mutex);
    run.asked[leg.node] = false;
    if (!run.ask(leg.node)) return;
  }
  after_->poke();
}

// The nodes behind have made an answer. The next one begins when this has been posted.
void DecoupledPipeline::pass_on(Run& run, msg::Event&& event) {
  auto* outputs = std::get_if<msg::Outputs>(&event.what);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) fail(run, std::move(failed->status));
  {
    std::lock_guard lock(run.mutex);
    if (outputs && !is_end(*outputs) && run.node_over && run.answers.empty() && run.failed.ok())
      run.last = std::move(*outputs), outputs = nullptr;
    if (!run.failed.ok() || (outputs && is_end(*outputs))) outputs = nullptr;
  }
  if (outputs) send_answer(run, std::move(event));
  std::lock_guard lock(run.mutex);
  run.after_out = false;
}

// Does what can be done next: an answer goes on, or another one is asked for.
void DecoupledPipeline::advance(Run& run) {
  for (;;) {
    msg::Event next{msg::Failed{}};
    {
      std::lock_guard lock(run.mutex);
      if (!run.failed.ok()) run.answers.clear();
      if (run.after_out) return;
      if (run.answers.empty()) break;
      next = std::move(run.answers.front());
      run.answers.pop_front();
      run.after_out = true;
    }
    Status status;
    if (auto* outputs = std::get_if<msg::Outputs>(&next.what)) {
      status = begin_after(run, std::move(*outputs));
      if (status.ok()) return;
    } else {
      send_answer(run, std::move(next));
    }
    {
      std::lock_guard lock(run.mutex);
      run.after_out = false;
    }
    if (!status.ok()) return fail(run, std::move(status));
  }
  {
    std::lock_guard lock(run.mutex);
    if (!run.ask_node()) return;
  }
  inbox(kNode).poke();
}

Status DecoupledPipeline::begin_after(Run& run, msg::Outputs&& answer) {
  Leg& leg = run.legs[kAfter];
  {
    std::lock_guard lock(run.mutex);
    for (const auto& port : plan_.node.outputs) run.slots[port.slot] = {};
    if (Status status = run.keep(plan_.node, answer); !status.ok()) return status;
    leg.clear();
    run.describe(leg);
    leg.model = run.parent->model, leg.outputs = run.parent->outputs, leg.rows = run.parent->rows;
    leg.takes_errors = decoupled_behind_ && run.parent->takes_errors;
    if (decoupled_behind_) run.begin_asking(kAfter);
    for (const auto& port : plan_.after.inputs) {
      if (run.slots[port.slot].dtype == msg::DType::kInvalid) continue;
      leg.inputs.push_back(run.slots[port.slot]);
      leg.inputs.back().name = port.tensor;
    }
  }
  lend(run, leg);
  return {};
}

// An answer of the pipeline, or an error in its place, which is not the end.
void DecoupledPipeline::send_answer(Run& run, msg::Event&& event) {
  if (auto* outputs = std::get_if<msg::Outputs>(&event.what)) outputs->final = false;
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) failed->final = false;
  counts_.answer(run, event);
  run.parent->credit.fetch_sub(msg::credit_of(event), std::memory_order_acq_rel);
  bus::post_one(run.parent, std::move(event));
}

// Some Call has been cancelled, or has got credit.
void DecoupledPipeline::poke() {
  bool rouse[3] = {};
  {
    std::lock_guard lock(mutex_);
    for (const auto& run : open_) {
      std::lock_guard inner(run->mutex);
      const bool left = run->parent->cancelled.load(std::memory_order_acquire);
      for (Leg& leg : run->legs)
        if (left && leg.out && !leg.cancelled.exchange(true, std::memory_order_acq_rel)) rouse[leg.node] = true;
      if (left) continue;
      rouse[kNode] = run->ask_node() || rouse[kNode];
      rouse[kAfter] = (decoupled_behind_ && run->ask(kAfter)) || rouse[kAfter];
    }
  }
  for (uint32_t leg : {kBefore, kNode, kAfter})
    if (rouse[leg]) inbox(leg).poke();
}

// The legs under way are of no use any more, and are waited for.
void DecoupledPipeline::fail(Run& run, Status why) {
  bool rouse[3] = {};
  {
    std::lock_guard lock(run.mutex);
    if (!run.failed.ok()) return;
    run.failed = std::move(why);
    run.answers.clear();
    for (Leg& leg : run.legs)
      if (leg.out && !leg.cancelled.exchange(true, std::memory_order_acq_rel)) rouse[leg.node] = true;
  }
  for (uint32_t leg : {kBefore, kNode, kAfter})
    if (rouse[leg]) inbox(leg).poke();
}

// The calling thread counts in the run no longer. The last one ends the Call.
void DecoupledPipeline::release(Run& run) {
  {
    std::lock_guard lock(run.mutex);
    if (--run.out > 0) return;
  }
  msg::Call* parent = run.parent;
  msg::Event event{run.last ? std::move(*run.last) : msg::Outputs{}};
  if (!run.failed.ok()) event = {msg::Failed{std::move(run.failed)}};
  parent->times.started = parent->times.computing = std::min(run.legs[kNode].times.started, base::steady_now());
  parent->times.computed = parent->times.finished = base::steady_now();
  parent->times.batch_rows = 1;
  counts_.end(run, event);
  {
    std::lock_guard lock(mutex_);
    (void)base::take_out(open_, run, &Run::place);
    stats_.pending.store(int64_t(open_.size()), std::memory_order_relaxed);
  }
  bus::post_one(parent, std::move(event));  // the Call is its home's from here on, and this may be gone
}

}  // namespace

std::unique_ptr<msg::Inbox> make_decoupled_pipeline(const PipelinePlan& plan, bus::ModelStats& stats) {
  const auto at = decoupled_node(plan);
  base::check(at.has_value(), "a decoupled pipeline has a decoupled node");
  return std::make_unique<DecoupledPipeline>(cut(plan, *at), stats);
}

}  // namespace weir::sched
