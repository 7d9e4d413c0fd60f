// DecoupledRun: one Call on its way through a pipeline with a decoupled node (sched/decoupled_pipeline.cc), and the
// order of the Events of its legs.
//
// A leg's Events are posted one after the other, but by several threads, and a thread that is inside of a proxy
// receives what it posts later (sched/proxy_inbox.h). So one thread may receive the end of a leg while an answer that
// was posted before still waits for another. Such an answer counts in the run from its posting on, and the end waits
// for it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "sched/pipeline_run.h"

namespace weir::sched {

// It is kept while `out` counts legs, threads or answers, as it is in Pipeline.
struct DecoupledRun : PipelineRun {
  static constexpr uint32_t kBefore = 0, kNode = 1, kAfter = 2;  // the legs, by PipelineLeg::node

  DecoupledRun() : PipelineRun(3) {}

  // An answer of a leg is about to be posted; nothing for an end.
  static void announce(const msg::Mail& mail);
  // It could not be posted. The end of its leg has not been posted either, so the run is still there.
  static void withdraw(const msg::Mail& mail);
  // The end of a leg has come. True: the leg is over, and the calling thread goes on with its end. False: it has been
  // kept, and the leg is out, until received() gives it back.
  bool ends(PipelineLeg& leg, msg::Event& end);
  // The calling thread has done what an answer of the leg leads to, and counts for it. The end of the leg, if that
  // has come and this was the last answer: the leg is over then, and the thread counts for it, too.
  std::optional<msg::Event> received(PipelineLeg& leg);

  // Both under mutex. Credit for the first answer of a leg that is about to be out, if the Call has some; and for the
  // next one of a leg that is: whether it has got it.
  void begin_asking(uint32_t leg);
  bool ask(uint32_t leg);
  // For the trace, as note_step(): the nodes of a leg have run, once more where they are behind the node. Under mutex.
  void note_nodes(PipelineLeg& leg);
  bool ask_node() { return !node_over && !after_out && answers.empty() && ask(kNode); }

  size_t place = 0;                  // under the pipeline's mutex; what follows: under the run's
  std::deque<msg::Event> answers{};  // of the node, that have not gone on: one, and its end
  bool asked[3] = {};                // legs that have credit for their next answer
  bool after_out = false;            // an answer is behind the node, or on its way to the Call
  bool node_over = false;
  std::optional<msg::Outputs> last{};  // the answer with which the Call ends
  base::Time answered_at{};            // the last answer, or the beginning
  uint32_t answered = 0;               // answers that the Call has got

 private:
  uint32_t coming_[3] = {};  // answers of legs that have been announced and not received
  std::optional<msg::Event> ends_[3]{};
};

}  // namespace weir::sched
