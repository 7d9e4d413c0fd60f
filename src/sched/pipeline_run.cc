#include "sched/pipeline_run.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "base/clock.h"
#include "bus/call_handle.h"
#include "msg/sequence.h"
#include "sched/fit.h"

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

Status change_shape(msg::Tensor& tensor, PipelinePort::Leading leading) {
  if (leading == PipelinePort::Leading::kAsItIs) return {};
  bool adds = leading == PipelinePort::Leading::kAdded;
  const msg::Shape before = tensor.shape;
  if (!adds && (before.rank() == 0 || before[0] != 1))
    return base::invalid("'" + tensor.name + "' is " + before.text() + ", where one row is taken");
  tensor.shape = {};
  if (adds) tensor.shape.push(1);
  for (size_t i = adds ? 0 : 1; i < before.rank(); ++i)
    if (!tensor.shape.push(before[i]))
      return base::invalid("'" + tensor.name + "' has too many dimensions for a batch");
  return {};
}

// An answer of an ensemble says which request of which sequence it is of, as Triton has it.
void tell_sequence(const msg::Call& request, msg::Parameters& answer) {
  const auto* id = msg::find(request.parameters, "sequence_id");
  if (!id || !request.session) return;
  answer.emplace_back("sequence_id", *id);
  for (const char* flag : {"sequence_start", "sequence_end"})
    answer.emplace_back(flag, msg::is_set(request.parameters, flag));
}

}  // namespace

PipelineOrder::PipelineOrder(const PipelinePlan& plan)
    : waits(plan.nodes.size(), 0), feeds(plan.nodes.size()), readers(plan.slots, 0), by_tensors(!plan.ordered) {
  constexpr uint32_t kNobody = UINT32_MAX;
  std::vector<uint32_t> maker(plan.slots, kNobody);
  for (const auto& port : plan.outputs) ++readers[port.slot];
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const auto& node = plan.nodes[n];
    by_tensors = by_tensors && node.after.empty();
    std::vector<uint32_t> before = node.after;
    for (const auto& port : node.inputs) {
      ++readers[port.slot];
      if (maker[port.slot] != kNobody) before.push_back(maker[port.slot]);
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    base::check(before.empty() || before.back() < n, "a node stands behind those that it waits for");
    for (uint32_t b : before) feeds[b].push_back(n);
    waits[n] = uint32_t(before.size());
    if (before.empty()) first.push_back(n);
    for (const auto& port : node.outputs) maker[port.slot] = n;
  }
}

void PipelineRun::begin(msg::Call& call, const PipelinePlan& plan, const PipelineOrder& order) {
  parent = &call;
  readers = order.readers;
  out = 1;
  failed = {};
  for (uint32_t n = 0; n < legs.size(); ++n) {
    PipelineLeg& leg = legs[n];
    leg.run = this, leg.node = n, leg.waits = order.waits[n], leg.out = false;
    leg.skipped = false;
  }
  if (order.by_tensors && !call.outputs.empty()) skip_unneeded(plan);
  slots.resize(plan.slots);
  for (const auto& port : plan.inputs)
    if (auto* tensor = named(call.inputs, port.tensor)) slots[port.slot] = *tensor;
}

// A node stands behind those that make its inputs.
void PipelineRun::skip_unneeded(const PipelinePlan& plan) {
  needed.assign(plan.slots, false);
  for (const auto& port : plan.outputs)
    if (std::find(parent->outputs.begin(), parent->outputs.end(), port.tensor) != parent->outputs.end())
      needed[port.slot] = true;
  for (size_t n = plan.nodes.size(); n-- > 0;) {
    const auto& node = plan.nodes[n];
    legs[n].skipped =
        std::none_of(node.outputs.begin(), node.outputs.end(), [&](const auto& port) { return needed[port.slot]; });
    if (legs[n].skipped) continue;
    for (const auto& port : node.inputs) needed[port.slot] = true;
  }
}

Status PipelineRun::lend(PipelineLeg& leg, const PipelineNode& node) {
  const msg::ModelSpec& spec = node.served->spec;
  leg.clear();
  leg.pieces = false;
  describe(leg);
  leg.model = spec.name, leg.version = spec.version;
  if (spec.text) std::erase_if(leg.parameters, [](const auto& p) { return p.first == kStream; });
  for (const auto& port : node.inputs) {
    msg::Tensor& slot = slots[port.slot];
    bool last = --readers[port.slot] == 0;
    if (spec.text && port.tensor == kStream) continue;
    if (slot.dtype == DType::kInvalid) {
      if (port.optional) continue;
      return failure(Code::kInternal, "node '" + node.name + "': its input '" + port.tensor + "' is missing");
    }
    leg.inputs.push_back(last ? std::exchange(slot, {}) : slot);
    leg.inputs.back().name = port.tensor;
    if (Status s = change_shape(leg.inputs.back(), port.leading); !s.ok())
      return failure(s.code, "node '" + node.name + "': " + s.text);
  }
  if (!spec.any_tensors)
    for (const auto& port : node.outputs)
      if (!port.optional) leg.outputs.push_back(port.tensor);
  if (spec.max_batch > 0 && !leg.inputs.empty() && leg.inputs.front().shape.rank() > 0)
    leg.rows = uint32_t(std::clamp<int64_t>(leg.inputs.front().shape[0], 1, UINT32_MAX));
  if (spec.text) return {};  // it reads its inputs itself, whatever their shapes
  Status status = tensors_fit(leg, spec);
  if (!status.ok()) status.text = "node '" + node.name + "': " + status.text;
  return status;
}

void PipelineRun::describe(PipelineLeg& leg) const {
  leg.id = parent->id;
  leg.parameters = parent->parameters;
  leg.priority = parent->priority;
  leg.deadline = parent->deadline;
  leg.queue_timeout = parent->queue_timeout;
  leg.tenant = parent->tenant;
  leg.cache_scope = parent->cache_scope;
  leg.limiter = parent->limiter;
  leg.trace = parent->trace;
  leg.session = parent->session;
  leg.times.received = parent->times.received;
  leg.times.queued = base::steady_now();
  if (parent->steps) leg.steps = std::make_unique<msg::PipelineSteps>();
}

Status PipelineRun::answered(PipelineLeg& leg, const PipelineNode& node, msg::Event&& event) {
  std::lock_guard lock(mutex);
  leg.out = false;
  leg.inputs.clear();
  note(leg.times);
  Status status = bus::no_answer();
  if (auto* failure = std::get_if<msg::Failed>(&event.what)) status = std::move(failure->status);
  if (auto* outputs = std::get_if<msg::Outputs>(&event.what)) status = keep(node, *outputs);
  if (status.ok() && leg.pieces) status = failure(Code::kUnimplemented, "the model answered more than once");
  note_step(leg, node, status.code);
  return status;
}

Status PipelineRun::keep(const PipelineNode& node, msg::Outputs& outputs) {
  for (const auto& port : node.outputs) {
    auto* tensor = named(outputs.tensors, port.tensor);
    if (!tensor && port.optional) continue;
    if (!tensor) return failure(Code::kInternal, node.served->spec.no_output(port.tensor).text);
    slots[port.slot] = std::move(*tensor);
  }
  return {};
}

// The Call's own times: it has left the queue when the first node began, all that follows is computing.
void PipelineRun::note(const msg::Timeline& times) {
  way.started = std::min(way.started, times.started);
  way.computing = std::min(way.computing, times.computing);
  if (way.computed == base::kNever || (times.computed != base::kNever && times.computed > way.computed))
    way.computed = times.computed;
  way.batch_rows = times.batch_rows;
}

// The trace does without where there is no memory.
void PipelineRun::note_step(PipelineLeg& leg, const PipelineNode& node, base::Code code) {
  if (!parent->steps) return;
  (void)base::attempt("a span", [&] {
    msg::StepTimes step{
        .name = node.name, .model = leg.model, .version = leg.version, .times = leg.times, .code = code};
    if (step.times.finished == base::kNever) step.times.finished = base::steady_now();
    parent->steps->add(std::move(step), std::move(*leg.steps));
  });
}

base::Result<msg::Outputs> PipelineRun::results(const PipelinePlan& plan) {
  msg::Outputs made;
  tell_sequence(*parent, made.parameters);
  const auto& wanted = parent->outputs;
  for (const auto& port : plan.outputs) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), port.tensor) == wanted.end()) continue;
    bool made_it = slots[port.slot].dtype != DType::kInvalid;
    if (!made_it && (wanted.empty() || port.optional)) continue;
    if (!made_it) return failure(Code::kInternal, "no node made '" + port.tensor + "'");
    made.tensors.push_back(slots[port.slot]);  // two outputs may be one tensor
    made.tensors.back().name = port.tensor;
    if (Status s = change_shape(made.tensors.back(), port.leading); !s.ok()) return s;
  }
  return made;
}

}  // namespace weir::sched
