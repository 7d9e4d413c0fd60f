// A SessionMessage as a client may send it, into the graph, fragment by fragment, with a reader on its first node: what
// the reader saw along the way is what a reader sees who comes last, and memory stays within the limits.
#include <cstdlib>
#include <string>

#include "dialects/evergreen/graph/cursor.h"
#include "dialects/evergreen/message.h"
#include "dialects/evergreen/tensor_chunk.h"

namespace {

namespace evergreen = weir::evergreen;
using evergreen::Cursor;
using evergreen::NodeGraph;
using weir::base::Status;
using Step = Cursor::Step;

struct CursorReader : evergreen::CursorListener {
  std::string seen;
  Step end = Step::kWait;
  void on_news(Cursor& c) override { read(c); }
  void read(Cursor& c) {
    for (;;) switch (end = c.next()) {
        case Step::kChunk: seen += c.data().view(); break;
        case Step::kLeafEnd: break;
        default: return;
      }
  }
};

struct Sink : evergreen::MessageSink {
  NodeGraph graph;
  CursorReader along;
  std::unique_ptr<Cursor> cursor;
  std::string first;
  bool dropped = false;  // then a name may have come twice

  explicit Sink(evergreen::GraphLimits limits) : graph(limits) {}
  ~Sink() { cursor.reset(); }

  Status on_fragment(evergreen::Fragment& f, std::string_view) override {
    auto fate = graph.add(f);
    if (!fate) return fate.error();
    if (f.by_reference && *fate == NodeGraph::Fate::kTaken)
      if (Status s = graph.loaded(*graph.find(f.node), f.seq, weir::base::Bytes::copy_of("ref")); !s.ok()) return s;
    if (f.metadata) (void)evergreen::read_tensor_mimetype(f.metadata->mimetype);
    if (!cursor) {
      first = f.node;
      cursor = std::make_unique<Cursor>(graph, **graph.node(first), along);
      along.read(*cursor);
    }
    if (Status s = graph.deliver(); !s.ok()) return s;
    if (graph.memory().used() > graph.memory().limit()) std::abort();
    return {};
  }
  Status on_action(evergreen::ActionRequest&& action) override {
    dropped = true;
    for (const auto& in : action.inputs)
      if (evergreen::Node* node = graph.find(in.id)) (void)graph.drop(*node, NodeGraph::DropScope::kWithChildren);
    return graph.deliver();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evergreen::GraphLimits limits;
  limits.nodes = 64;
  limits.depth = 8;
  limits.ahead = 8;
  limits.bytes = 1 << 18;
  limits.flattened = 4096;
  Sink sink(limits);
  auto message = weir::base::Bytes::copy_of({reinterpret_cast<const char*>(data), size});
  size_t at = 0;
  if (!evergreen::read_message(message, at, sink).ok() || !sink.cursor || sink.along.end == Step::kFailed ||
      sink.dropped)
    return 0;
  evergreen::Node* root = sink.graph.find(sink.first);
  if (!root) return 0;
  CursorReader late;
  Cursor cursor(sink.graph, *root, late);
  late.read(cursor);
  if (late.end != Step::kFailed && (late.seen != sink.along.seen || late.end != sink.along.end)) std::abort();
  return 0;
}
