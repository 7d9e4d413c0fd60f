// ECHO: each input comes back under the output of its name, or the one input under the one output, chunk by chunk as it
// arrives, with all that its metadata says. "status" is no output of an input of that name. A leaf comes back as a
// leaf; a node of several leaves as a node of leaves named "<output>/0", "<output>/1", ….
#include <algorithm>
#include <optional>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/schema.h"

namespace weir::evergreen {
namespace {

using base::Status;
using Step = Cursor::Step;

class Echo final : public Action {
 public:
  using Action::Action;

  bool waits(std::string& missing) const override {
    for (const auto& way : ways_) {
      if (way->ended) continue;
      if (!way->waits) return false;  // it has paused
      missing = way->cursor.missing();
    }
    return true;
  }

 private:
  struct Way {
    Way(NodeGraph& graph, Node& from, Output& to, CursorListener& listener)
        : root(from), out(to), cursor(graph, from, listener) {}
    Node& root;
    Output& out;
    Cursor cursor;
    enum class NodeKind : uint8_t { kUnknown, kLeaf, kBranch } form = NodeKind::kUnknown;
    Output* leaf = nullptr;  // that is being written
    size_t leaves = 0;
    bool ended = false;
    bool waits = false;  // for its input
  };

  Status begin() override {
    auto wanted = [](const auto& o) { return o->name != kStatus; };
    auto only = std::find_if(outputs_.begin(), outputs_.end(), wanted);
    bool single = request_.inputs.size() == 1 && std::count_if(outputs_.begin(), outputs_.end(), wanted) == 1;
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      const NamedNode& in = request_.inputs[i];
      if (named_before(i)) return base::invalid("input '" + in.name + "' is named twice");
      Output* out = single ? only->get() : in.name == kStatus ? nullptr : output({in.name});
      auto from = session_.graph().node(in.id);
      if (!from) return std::move(from).error();
      if (out) ways_.push_back(std::make_unique<Way>(session_.graph(), **from, *out, *this));
    }
    for (const auto& o : outputs_)
      if (o->name != kStatus && !single && !has_input(o->name))
        return base::invalid("output '" + o->name + "' has no input of that name");
    return {};
  }

  bool named_before(size_t input) const {
    for (size_t i = 0; i < input; ++i)
      if (request_.inputs[i].name == request_.inputs[input].name) return true;
    return false;
  }

  bool has_input(std::string_view name) const {
    for (const NamedNode& in : request_.inputs)
      if (in.name == name) return true;
    return false;
  }

  Status go_on() override {
    bool ended = true;
    for (auto& way : ways_) {
      Status s = copy(*way);
      if (!s.ok()) return s;
      ended = ended && way->ended;
    }
    if (ended && !over()) done();
    return {};
  }

  uint64_t held() const override {
    uint64_t bytes = 0;
    for (const auto& way : ways_) bytes += sizeof(Way) + way->cursor.size();
    return bytes;
  }

  Status copy(Way& way) {
    way.waits = false;
    while (!way.ended && !session_.pauses_output()) {
      Status s;
      switch (way.cursor.next()) {
        case Step::kWait: way.waits = true; return {};
        case Step::kFailed: return way.cursor.status();
        case Step::kChunk: s = chunk(way); break;
        case Step::kLeafEnd: s = leaf_end(way); break;
        case Step::kEnd:
          way.ended = true;
          if (way.out.open()) s = way.out.end();
          break;
      }
      if (!s.ok()) return s;
    }
    return {};
  }

  Status chunk(Way& way) {
    if (way.form == Way::NodeKind::kUnknown)
      way.form = &way.cursor.leaf() == &way.root ? Way::NodeKind::kLeaf : Way::NodeKind::kBranch;
    if (!way.leaf) {
      if (Status s = open_leaf(way); !s.ok()) return s;
    }
    return way.leaf->write(way.cursor.data(), Output::More::kYes);
  }

  Status open_leaf(Way& way) {
    if (way.form == Way::NodeKind::kLeaf) {
      way.leaf = &way.out;
    } else {
      auto node = claim_child(way.out, std::to_string(way.leaves++));
      if (!node) return std::move(node).error();
      if (Status s = way.out.child(std::string((*node)->id()), Output::More::kYes); !s.ok()) return s;
      outputs_.push_back(std::make_unique<Output>(session_, "", **node));
      way.leaf = outputs_.back().get();
    }
    way.leaf->begin(*way.cursor.leaf().metadata());
    return {};
  }

  Status leaf_end(Way& way) {
    if (!way.leaf) return {};  // an empty leaf has nothing to say
    return std::exchange(way.leaf, nullptr)->end();
  }

  std::vector<std::unique_ptr<Way>> ways_;
};

}  // namespace

std::unique_ptr<Action> make_echo(Session& session, ActionRequest&& request) {
  return std::make_unique<Echo>(session, std::move(request));
}

}  // namespace weir::evergreen
