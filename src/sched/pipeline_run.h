// PipelineRun: one Call on its way through a pipeline, with a Call of its own (a leg) for each node, and the tensors
// between them. The pipeline (sched/pipeline.cc) decides when which leg goes; this fills legs and keeps what they
// bring.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "sched/pipeline.h"

namespace weir::sched {

// Which nodes wait for which, and who reads what. Fixed for the life of a pipeline.
struct PipelineOrder {
  explicit PipelineOrder(const PipelinePlan& plan);

  std::vector<uint32_t> first;               // nodes that wait for nobody
  std::vector<uint32_t> waits;               // per node: how many nodes are over before it starts
  std::vector<std::vector<uint32_t>> feeds;  // per node: who waits for it
  std::vector<uint32_t> readers;             // per slot: inputs of nodes and outputs of the pipeline
  bool by_tensors = true;                    // of the whole plan: nodes wait for those alone that make their inputs
};

struct PipelineRun;

// The Call that one node is lent.
struct PipelineLeg : msg::Call {
  PipelineRun* run = nullptr;
  uint32_t node = 0;
  uint32_t waits = 0;    // nodes before it that are not over; under the run's mutex
  bool out = false;      // the node has it; under the run's mutex
  bool skipped = false;  // nobody needs the node's outputs
  bool pieces = false;   // the node has answered, and not for the last time
};

struct PipelineRun {
  explicit PipelineRun(size_t nodes) : legs(nodes) {}

  // For `call`, from the start; the calling thread counts in `out`.
  void begin(msg::Call& call, const PipelinePlan& plan, const PipelineOrder& order);
  // Fills a leg whose inputs are all there. Under mutex. INTERNAL: one is not. INVALID_ARGUMENT: one does not fit.
  base::Status lend(PipelineLeg& leg, const PipelineNode& node);
  // All of the Call but its model and its tensors. Takes no lock.
  void describe(PipelineLeg& leg) const;
  // Puts the outputs of a node into the slots. INTERNAL: an output is missing. Under mutex.
  base::Status keep(const PipelineNode& node, msg::Outputs& outputs);
  // A leg is back with its last event; what it made is in the slots, unless this fails. Takes the mutex.
  base::Status answered(PipelineLeg& leg, const PipelineNode& node, msg::Event&& event);
  // The outputs that the Call asked for, once all legs are over. INVALID_ARGUMENT: a batch where one row is to be.
  base::Result<msg::Outputs> results(const PipelinePlan& plan);
  // For the trace of a Call that has one: a leg's step is over. Under mutex.
  void note_step(PipelineLeg& leg, const PipelineNode& node, base::Code code);

  msg::Call* parent = nullptr;
  size_t index = 0;  // among the pipeline's runs; under the pipeline's mutex
  std::mutex mutex;
  std::deque<PipelineLeg> legs;  // per node; this and what follows: under mutex
  std::vector<msg::Tensor> slots;
  std::vector<uint32_t> readers;  // per slot, those that have not read it yet: the last one takes it
  std::vector<bool> needed;       // per slot; of a Call that names outputs
  uint32_t out = 0;               // legs that nodes have, and threads that are about to send some
  base::Status failed;            // the first failure
  msg::Timeline way;              // what the Call's own times will be

 private:
  void skip_unneeded(const PipelinePlan& plan);
  void note(const msg::Timeline& times);
};

}  // namespace weir::sched
