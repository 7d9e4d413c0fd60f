#include "engines/llm/cuda/graph_set.h"

#include <utility>

#include "base/log.h"

namespace weir::llm::cuda {

using base::Status;

Status GraphSet::run(uint64_t key, const Queue& queue) {
  auto graph = graphs_.find(key);
  if (graph == graphs_.end()) {
    if (!wanted_again(key)) return queue();
    if (auto s = make(key, queue); !s.ok()) return s;
    graph = graphs_.find(key);
  }
  return graph != graphs_.end() ? device_.launch(stream_, graph->second) : queue();
}

Status GraphSet::make(uint64_t key, const Queue& queue) {
  seen_.insert(key);
  auto status = device_.capture(stream_);
  if (status.ok()) {
    status = queue();
    auto graph = device_.captured(stream_);  // also ends a capture in which something failed
    if (status.ok() && graph) {
      graphs_.insert_or_assign(key, std::move(*graph));
      return {};
    }
    if (status.ok()) status = graph.error();
  }
  if (auto fault = device_.fault(); !fault.ok()) return fault;
  wanted_ = false;
  base::log::warning("a model goes without graphs", {{"device", device_.info().id}, {"reason", status.text}});
  return {};
}

}  // namespace weir::llm::cuda
