// A pipeline's plan, cut at its decoupled node (sched/decoupled_pipeline.h). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sched/pipeline.h"

namespace weir::sched {

struct CutPlan {
  PipelinePlan before;  // makes the slots that the others read
  PipelineNode node;
  PipelinePlan after;  // makes the outputs of one answer of the node; it may have no nodes
};

// The first decoupled node; nothing where there is none.
std::optional<uint32_t> decoupled_node(const PipelinePlan& plan);
// Whether each of the decoupled nodes waits for the one before.
bool chained(const PipelinePlan& plan);
// Behind the cut are the nodes that wait for node `at`. Inputs and outputs that the parts have for each other are named
// by slot_name().
CutPlan cut(const PipelinePlan& plan, uint32_t at);
// The outputs of the part before that a Call needs which names `outputs`.
std::vector<std::string> needed_before(const CutPlan& plan, const std::vector<std::string>& outputs);

std::string slot_name(uint32_t slot);
uint32_t slot_of(std::string_view name);

}  // namespace weir::sched
