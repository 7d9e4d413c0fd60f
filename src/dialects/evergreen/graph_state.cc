#include "dialects/evergreen/graph_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/encoding.h"
#include "marshal/pb_wire.h"
#include "session/handover.h"
#include "session/state_reader.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;
using base::Status;
using marshal::PbReader;
using marshal::PbType;
using session::Handover;
using session::put_state_line;
using session::StateReader;

constexpr std::string_view kNodesHead = "weir-nodes 1\n";
constexpr size_t kHeadRoom = 256;                                     // for the lines in front
constexpr int64_t kOldest = int64_t(10) * 366 * 24 * 3600;            // seconds
constexpr uint64_t kNodesPerStep = 4, kCopiedPerStep = 4096;          // as they are written
constexpr uint64_t kLongestTime = uint64_t(10) * 366 * 24 * 3600000;  // milliseconds

Status damaged(std::string_view part) {
  return failure(Code::kDataLoss, "what was kept of the session cannot be read: its " + std::string(part));
}

// Gathers the parts of a state; fit() is false once they are too many or too long.
struct StateParts {
  std::string sent, made, times, dropped;
  size_t time_count = 0, dropped_count = 0, parts = 0;

  size_t bytes() const { return sent.size() + made.size() + times.size() + dropped.size(); }
  bool fit() const { return bytes() + kHeadRoom <= Handover::kLargestState && parts <= kMostStateParts; }

  void put(const Node& node, size_t i) {
    const Node::PartView part = node.part(i);
    std::string& to = node.claimed() ? made : sent;
    parts += 1 + part.children;
    size_t size = to.size() + part.data.size();
    for (size_t n = 0; n < part.children && parts <= kMostStateParts; ++n) size += node.child(i, n).size();
    if (size > Handover::kLargestState || parts > kMostStateParts) return void(parts = kMostStateParts + 1);
    OutFragment f;
    f.node = node.id();
    f.seq = int64_t(i);
    f.continued = i + 1 < node.parts();
    for (size_t n = 0; n < part.children; ++n) f.children.emplace_back(node.child(i, n));
    f.has_chunk = part.chunk;
    f.has_metadata = part.described;
    if (part.described) f.metadata = *node.metadata();
    f.data = part.data;
    append_binary(to, f);
  }
  void put_dropped(const Node& node) {
    ++parts, ++dropped_count;
    dropped.append(base::percent_encode(node.id())).append("\n");
  }
  void put_time(const NodeTime& time) {
    using std::chrono::milliseconds;
    ++parts, ++time_count;
    const auto left = std::clamp<int64_t>(std::chrono::ceil<milliseconds>(time.left).count(), 0, kLongestTime);
    times.append(base::percent_encode(time.node)).append(" ").append(std::to_string(left)).append("\n");
  }
};

// The nodes to keep, children before parents: in this order reading them back costs the least (NodeHeights). Dropped
// nodes are added to `parts` at once.
std::vector<const Node*> upwards(const NodeGraph& graph, const LeftOut& left_out, StateParts& parts) {
  std::vector<const Node*> out;
  graph.each([&](const Node& node) {
    if (node.dropped())
      parts.put_dropped(node);
    else if (node.complete() && !left_out(node))
      out.push_back(&node);
    return parts.fit() && out.size() <= kMostStateParts;
  });
  if (out.size() > kMostStateParts) parts.parts = kMostStateParts + 1;
  std::sort(out.begin(), out.end(), [](const Node* a, const Node* b) { return a->height() < b->height(); });
  return out;
}

// Counts the parts and fields of a message, which is read in one turn. False: more of them than write_graph_state()
// writes.
bool few_parts(std::string_view message, size_t& parts, size_t& fields) {
  constexpr size_t kMostFields = 8 * kMostStateParts;
  auto few = [&] { return parts <= kMostStateParts && fields <= kMostFields; };
  for (PbReader r(message); r.next();) {
    ++parts, ++fields;
    if (!r.is(1, PbType::kBytes)) continue;
    for (PbReader fragment(r.bytes()); few() && fragment.next(); ++fields) {
      parts += fragment.is(4, PbType::kBytes);
      if (!fragment.is(5, PbType::kBytes)) continue;
      for (PbReader chunk(fragment.bytes()); few() && chunk.next();) ++fields;
    }
    if (!few()) return false;
  }
  return few();
}

}  // namespace

WrittenState write_graph_state(const NodeGraph& graph, base::Duration age, const std::vector<NodeTime>& times,
                               const LeftOut& left_out) {
  StateParts parts;
  for (const Node* node : upwards(graph, left_out, parts)) {
    if (!parts.fit()) break;
    for (size_t i = 0; i < node->parts() && parts.fit(); ++i) parts.put(*node, i);
  }
  for (const NodeTime& time : times) {
    if (!parts.fit()) break;
    parts.put_time(time);
  }
  WrittenState out;
  out.steps = 1 + (graph.nodes() + parts.parts) / kNodesPerStep + parts.bytes() / kCopiedPerStep;
  if (!parts.fit()) return out;
  out.text.reserve(parts.bytes() + kHeadRoom);
  out.text = kNodesHead;
  put_state_line(out.text, "age", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(age).count()));
  put_state_line(out.text, "sent", std::to_string(parts.sent.size()));
  put_state_line(out.text, "made", std::to_string(parts.made.size()));
  put_state_line(out.text, "times", std::to_string(parts.time_count));
  put_state_line(out.text, "dropped", std::to_string(parts.dropped_count));
  out.text.append("\n").append(parts.sent).append(parts.made).append(parts.times).append(parts.dropped);
  return out;
}

Status GraphStateReader::begin(std::string state) {
  if (state.size() > Handover::kLargestState) return damaged("length");
  const base::Bytes bytes = base::Bytes::adopt(std::move(state));
  StateReader in(bytes.view());
  in.skip(kNodesHead);
  in.skip("age ");
  age_ = std::chrono::seconds(int64_t(in.number("age", '\n', uint64_t(kOldest))));
  in.skip("sent ");
  const uint64_t sent = in.number("nodes", '\n', Handover::kLargestState);
  in.skip("made ");
  const uint64_t made = in.number("nodes", '\n', Handover::kLargestState);
  in.skip("times ");
  times_left_ = in.number("times to live", '\n', kMostStateParts);
  in.skip("dropped ");
  dropped_left_ = in.number("nodes", '\n', kMostStateParts);
  in.skip("\n");
  const std::string_view sent_view = in.bytes("nodes", sent), made_view = in.bytes("nodes", made);
  if (!in.good()) return in.error();
  size_t parts = 0, fields = 0;
  if (!few_parts(sent_view, parts, fields) || !few_parts(made_view, parts, fields)) return damaged("nodes");
  sent_ = bytes.slice(sent_view), made_ = bytes.slice(made_view), lines_ = bytes.slice(in.rest());
  at_ = Part::kMade;
  return {};
}

Status GraphStateReader::go_on() {
  held_ = false;
  Status s;
  if (at_ == Part::kMade) s = read_part(made_, Part::kSent);
  if (s.ok() && at_ == Part::kSent) s = read_part(sent_, Part::kTimes);
  if (s.ok() && at_ == Part::kTimes) s = read_lines(times_left_, Part::kDropped);
  if (s.ok() && at_ == Part::kDropped) s = read_lines(dropped_left_, Part::kDone);
  if (s.ok() && done() && offset_ != lines_.size()) s = damaged("length");
  if (s.code == Code::kInvalidArgument) s = damaged("nodes: " + s.text);
  return s;
}

Status GraphStateReader::read_part(const base::Bytes& part, Part next) {
  if (Status s = read_message(part, offset_, *this); !s.ok()) return s;
  if (held_) return {};
  if (open_) return damaged("nodes");
  at_ = next, offset_ = 0;
  return {};
}

// An output of an action that is under way: the one that resumes the session.
bool GraphStateReader::made_here(std::string_view id) const {
  const Node* node = graph_.find(id);
  return node && node->open() && node != open_;
}

Status GraphStateReader::on_fragment(Fragment& fragment, std::string_view) {
  if (turn_ && turn_->spent()) {
    held_ = true;
    return {};
  }
  if (turn_) turn_->spend(1 + fragment.children.size() + fragment.read_steps + fragment.data.size() / kCopiedPerStep);
  if (fragment.by_reference) return damaged("nodes");
  if (made_here(fragment.node))
    return failure(Code::kAlreadyExists, "the session has a " + describe_node(fragment.node) +
                                             " already: choose another name for the output");
  held_ = !make_children(graph_, fragment);
  if (held_) return {};
  if (at_ == Part::kMade) return made(fragment);
  auto fate = graph_.add(fragment);
  return fate ? Status() : fate.error();
}

Status GraphStateReader::made(Fragment& fragment) {
  if (!open_) {
    auto node = graph_.claim(fragment.node);
    if (!node) return node.error().code == Code::kAlreadyExists ? damaged("nodes") : node.error();
    open_ = *node;
  }
  if (open_->id() != fragment.node || fragment.seq != open_->next()) return damaged("nodes");
  Node& node = *open_;
  Status s = graph_.append(node, fragment);
  if (node.complete()) open_ = nullptr;
  return s;
}

Status GraphStateReader::on_action(ActionRequest&&) { return damaged("nodes"); }

Status GraphStateReader::read_lines(size_t& left, Part next) {
  StateReader in(lines_.view().substr(offset_));
  for (; left > 0; --left) {
    if (turn_ && turn_->spent()) return {};
    if (turn_) turn_->spend(1);
    if (Status s = at_ == Part::kTimes ? read_time(in) : read_drop(in); !s.ok()) return s;
    offset_ = lines_.size() - in.rest().size();
  }
  at_ = next;
  return {};
}

Status GraphStateReader::read_time(StateReader& in) {
  NodeTime time;
  time.node = in.word("times to live", ' ');
  time.left = std::chrono::milliseconds(int64_t(in.number("times to live", '\n', kLongestTime)));
  if (!in.good()) return in.error();
  const Node* node = graph_.find(time.node);
  if (!node || !node->complete()) return damaged("times to live");
  times_.push_back(std::move(time));
  return {};
}

Status GraphStateReader::read_drop(StateReader& in) {
  const std::string id = in.word("nodes", '\n');
  if (!in.good()) return in.error();
  auto node = graph_.node(id);
  if (!node) return node.error();
  if ((*node)->touched() || (*node)->claimed()) return damaged("nodes");
  return graph_.drop(**node, NodeGraph::DropScope::kNode);
}

}  // namespace weir::evergreen
