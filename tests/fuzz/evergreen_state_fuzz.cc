// A session's state as a node may find it in NATS, read into a graph: whatever it says, memory stays within the limits,
// and what is read is written and read again as the same.
#include <cstdlib>
#include <map>
#include <string>

#include "dialects/evergreen/graph_state.h"

namespace {

namespace evergreen = weir::evergreen;
using evergreen::GraphStateReader;
using evergreen::Node;
using evergreen::NodeGraph;

evergreen::GraphLimits limits() {
  evergreen::GraphLimits out;
  out.nodes = 64;
  out.depth = 8;
  out.ahead = 8;
  out.bytes = 1 << 18;
  return out;
}

std::map<std::string, std::string> shown(const NodeGraph& graph) {
  std::map<std::string, std::string> out;
  graph.each([&](const Node& node) {
    if (!node.complete() || node.dropped()) return true;
    std::string& text = out[std::string(node.id())] = node.claimed() ? "made" : "sent";
    if (node.metadata()) text += node.metadata()->mimetype + '\n' + node.metadata()->role + node.metadata()->other;
    for (size_t i = 0; i < node.parts(); ++i) {
      text.append("\n").append(node.part(i).data.view());
      for (size_t n = 0; n < node.part(i).children; ++n) text.append(" ").append(node.child(i, n));
    }
    return true;
  });
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  NodeGraph graph(limits());
  GraphStateReader reader(graph, nullptr);
  const bool good = reader.begin(std::string(reinterpret_cast<const char*>(data), size)).ok() && reader.go_on().ok();
  if (graph.memory().used() > graph.memory().limit()) std::abort();
  if (!good) return 0;
  if (!reader.done()) std::abort();
  const auto again =
      evergreen::write_graph_state(graph, reader.age(), reader.times(), [](const Node&) { return false; });
  if (again.text.empty()) std::abort();
  NodeGraph other(limits());
  GraphStateReader second(other, nullptr);
  if (!second.begin(again.text).ok() || !second.go_on().ok() || !second.done()) std::abort();
  if (shown(other) != shown(graph) || second.times().size() != reader.times().size()) std::abort();
  return 0;
}
