#include "sched/pipeline_cut.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace weir::sched {
namespace {

// Per node, whether it is `at` or waits for it.
std::vector<bool> waiting_for(const PipelinePlan& plan, uint32_t at) {
  std::vector<bool> waits(plan.nodes.size(), false);
  std::set<uint32_t> made;  // slots of those that wait
  for (uint32_t n = at; n < plan.nodes.size(); ++n) {
    const auto& node = plan.nodes[n];
    waits[n] = n == at ||
               std::any_of(node.after.begin(), node.after.end(), [&](uint32_t before) { return waits[before]; }) ||
               std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& p) { return made.count(p.slot); });
    if (!waits[n]) continue;
    for (const auto& port : node.outputs) made.insert(port.slot);
  }
  return waits;
}

}  // namespace

std::string slot_name(uint32_t slot) { return '#' + std::to_string(slot); }

uint32_t slot_of(std::string_view name) {
  uint32_t slot = 0;
  std::from_chars(name.data() + 1, name.data() + name.size(), slot);
  return slot;
}

std::optional<uint32_t> decoupled_node(const PipelinePlan& plan) {
  for (uint32_t n = 0; n < plan.nodes.size(); ++n)
    if (plan.nodes[n].served->spec.decoupled) return n;
  return std::nullopt;
}

bool chained(const PipelinePlan& plan) {
  const auto at = decoupled_node(plan);
  if (!at) return true;
  const CutPlan parts = cut(plan, *at);
  return !decoupled_node(parts.before) && chained(parts.after);
}

CutPlan cut(const PipelinePlan& plan, uint32_t at) {
  const auto waits = waiting_for(plan, at);
  CutPlan out;
  const bool ordered =
      plan.ordered || std::any_of(plan.nodes.begin(), plan.nodes.end(), [](const auto& n) { return !n.after.empty(); });
  out.before.ordered = out.after.ordered = ordered;
  out.before.slots = out.after.slots = plan.slots;
  out.before.inputs = plan.inputs;
  out.after.outputs = plan.outputs;
  out.node = plan.nodes[at];
  std::set<uint32_t> read, made;  // slots that are read behind the cut, and those that are made there
  auto carry = [](uint32_t slot, std::vector<PipelinePort>& ports) { ports.push_back({slot_name(slot), slot, true}); };
  std::vector<uint32_t> place(plan.nodes.size(), 0);
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const PipelineNode& node = plan.nodes[n];
    if (n == at) continue;
    if (waits[n]) {
      for (const auto& port : node.inputs) read.insert(port.slot);
      for (const auto& port : node.outputs) made.insert(port.slot);
    }
    auto& part = (waits[n] ? out.after : out.before).nodes;
    place[n] = uint32_t(part.size());
    auto& moved = part.emplace_back(node);
    moved.after.clear();
    for (uint32_t before : node.after)
      if (before != at && waits[before] == waits[n]) moved.after.push_back(place[before]);
  }
  for (const auto& port : plan.outputs) read.insert(port.slot);
  std::erase_if(read, [&](uint32_t slot) { return made.count(slot) > 0; });
  for (uint32_t slot : read) carry(slot, out.after.inputs);
  for (const auto& port : out.node.inputs) read.insert(port.slot);
  for (const auto& port : out.node.outputs) read.erase(port.slot);
  for (uint32_t slot : read) carry(slot, out.before.outputs);
  return out;
}

// As PipelineRun skips nodes behind the cut: a node stands behind those that make its inputs.
std::vector<std::string> needed_before(const CutPlan& plan, const std::vector<std::string>& outputs) {
  std::vector<bool> needed(plan.after.slots, false);
  for (const auto& port : plan.after.outputs)
    if (std::find(outputs.begin(), outputs.end(), port.tensor) != outputs.end()) needed[port.slot] = true;
  const auto& nodes = plan.after.nodes;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const bool runs = node->served->spec.decoupled || std::any_of(node->outputs.begin(), node->outputs.end(),
                                                                  [&](const auto& port) { return needed[port.slot]; });
    if (!runs) continue;
    for (const auto& port : node->inputs) needed[port.slot] = true;
  }
  for (const auto& port : plan.node.inputs) needed[port.slot] = true;
  std::vector<std::string> out;
  for (const auto& port : plan.before.outputs)
    if (needed[port.slot]) out.push_back(port.tensor);
  return out;
}

}  // namespace weir::sched
