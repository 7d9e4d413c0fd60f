// INFER: tensors in, tensors out, by any model. An input's node has one leaf per tensor (tensor_chunk.h); a leaf
// without a name has the input's. An output of a tensor's name is that tensor as one leaf; the output "outputs" is a
// node with a leaf "<id>/<tensor>" for each tensor that the model gives.
#include <algorithm>
#include <utility>

#include "base/memory_ledger.h"
#include "dialects/evergreen/action.h"
#include "dialects/evergreen/schema.h"
#include "dialects/evergreen/tensor_chunk.h"
#include "marshal/check.h"

namespace weir::evergreen {
namespace {

using base::Status;
using Step = Cursor::Step;

constexpr std::string_view kAll = "outputs";
constexpr size_t kTensors = 256;
constexpr size_t kCopiedLikeText = 64;  // bytes that are copied in the time that one of text takes to become tokens

// The chunks of each tensor become one block of memory. One chunk stays where it is.
class Joining final : public bus::OffloadTask {
 public:
  void add(std::vector<base::Bytes>&& chunks, base::SlabSource& slabs) {
    Part& part = parts_.emplace_back();
    part.chunks = std::move(chunks);
    if (part.chunks.size() == 1) return;
    size_t size = 0;
    for (const auto& c : part.chunks) size += c.size();
    part.block = base::Block(base::take_now(slabs, std::max<size_t>(size, 1)));
    bytes_ += size;
  }
  size_t bytes() const { return bytes_; }  // to copy
  void run() override {
    for (Part& part : parts_)
      for (const auto& c : part.chunks) {
        if (!part.block || (cancelled() && cancelled()->load(std::memory_order_relaxed))) break;
        part.block.append(c.data(), c.size());
      }
  }
  // After run(): the tensors' data, in the order in which they were added.
  base::Bytes take(size_t i) {
    Part& part = parts_[i];
    return part.block ? part.block.freeze() : std::move(part.chunks[0]);
  }

 private:
  struct Part {
    std::vector<base::Bytes> chunks;
    base::Block block;
  };
  std::vector<Part> parts_;
  size_t bytes_ = 0;
};

class Infer final : public ModelAction {
 public:
  using ModelAction::ModelAction;

  bool waits(std::string& missing) const override {
    for (const auto& in : ins_)
      if (!in->ended) missing = in->cursor.missing();
    return !running();
  }

 private:
  struct In {
    In(NodeGraph& graph, Node& node, CursorListener& listener, std::string name)
        : name(std::move(name)), cursor(graph, node, listener) {}
    std::string name;
    Cursor cursor;
    std::vector<base::Bytes> chunks;  // of the leaf that is being read; in the node's memory
    const Node* leaf = nullptr;
    bool ended = false;
  };
  struct Leaf {
    msg::Tensor tensor;  // without its data
    std::vector<base::Bytes> chunks;
  };

  Status begin() override {
    if (Status s = find(bus::Needs::kAnything); !s.ok()) return s;
    if (spec().text) return base::invalid("model '" + spec().name + "' makes tokens: use GENERATE");
    for (const auto& o : outputs_) {
      bool known = o->name == kAll || o->name == kStatus || spec().any_tensors || spec().output(o->name);
      if (!known) return base::invalid("model '" + spec().name + "' has no output '" + o->name + "'");
    }
    for (const NamedNode& named : request_.inputs) {
      auto node = session_.graph().node(named.id);
      if (!node) return std::move(node).error();
      ins_.push_back(std::make_unique<In>(session_.graph(), **node, *this, named.name));
    }
    return {};
  }

  Status go_on() override {
    if (running()) return {};
    for (auto& in : ins_)
      if (Status s = read(*in); !s.ok() || !in->ended) return s;
    return may_begin() ? ask() : Status{};
  }

  uint64_t held() const override {
    uint64_t bytes = 0;
    for (const auto& in : ins_) bytes += sizeof(In) + in->cursor.size() + in->chunks.capacity() * sizeof(base::Bytes);
    for (const auto& leaf : leaves_) bytes += sizeof(Leaf) + leaf.chunks.capacity() * sizeof(base::Bytes);
    return bytes;
  }

  Status read(In& in) {
    while (!in.ended) {
      switch (in.cursor.next()) {
        case Step::kWait: return {};
        case Step::kFailed: return in.cursor.status();
        case Step::kEnd: in.ended = true; break;
        case Step::kChunk:
          in.leaf = &in.cursor.leaf();
          in.chunks.push_back(in.cursor.data());
          keep_charged(in.cursor.hold());
          break;
        case Step::kLeafEnd:
          if (Status s = take(in); !s.ok()) return s;
      }
    }
    return {};
  }

  // A leaf is complete. Its chunks stay where they are until the model may have them.
  Status take(In& in) {
    if (!in.leaf) return {};
    auto tensor = read_tensor_mimetype(in.leaf->metadata()->mimetype);
    if (!tensor) {
      Status s = std::move(tensor).error();
      s.text = "node '" + std::string(in.leaf->id()) + "': " + s.text;
      return s;
    }
    if (tensor->name.empty()) tensor->name = in.name;
    if (leaves_.size() >= kTensors) return base::invalid("takes at most " + std::to_string(kTensors) + " tensors");
    leaves_.push_back({std::move(*tensor), std::exchange(in.chunks, {})});
    in.leaf = nullptr;
    return {};
  }

  Status ask() {
    if (Status s = find(bus::Needs::kAnything); !s.ok()) return s;  // it may have been reloaded meanwhile
    if (spec().decoupled)
      return base::failure(base::Code::kUnimplemented, "model '" + spec().name + "' may answer any number of times");
    auto joining = std::make_unique<Joining>();
    for (Leaf& leaf : leaves_) joining->add(std::move(leaf.chunks), session_.state().slabs);
    const size_t work = joining->bytes() / kCopiedLikeText;
    return perform(std::move(joining), work);
  }

  Status performed(bus::OffloadTask& task) override {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      leaves_[i].tensor.data = static_cast<Joining&>(task).take(i);
      call().inputs.push_back(std::move(leaves_[i].tensor));
    }
    leaves_.clear();
    bool all = outputs_.empty();
    for (const auto& o : outputs_) all = all || o->name == kAll;
    for (const auto& o : outputs_)
      if (!all && o->name != kStatus) call().outputs.push_back(o->name);
    Status s = marshal::check_call(spec(), call());
    return s.ok() ? submit() : s;
  }

  Status outputs(msg::Outputs&& answer) override {
    if (Status s = marshal::check_outputs(answer.tensors); !s.ok()) return s;
    size_t named = outputs_.size();  // send() may add to them
    for (size_t i = 0; i < named; ++i) {
      Status s = send(*outputs_[i], answer.tensors);
      if (!s.ok()) return s;
    }
    done();
    return {};
  }

  Status send(Output& out, const std::vector<msg::Tensor>& tensors) {
    if (out.name == kStatus) return {};
    if (out.name == kAll) return send_all(out, tensors);
    auto at = marshal::find_output(spec(), tensors, out.name);
    return at ? write(out, tensors[*at]) : std::move(at).error();
  }

  Status send_all(Output& out, const std::vector<msg::Tensor>& tensors) {
    for (const auto& t : tensors) {
      std::string id = std::string(out.node().id()) + "/" + t.name;
      auto node = session_.graph().claim(id);
      if (!node) return std::move(node).error();
      Output leaf(session_, t.name, **node);
      Status s = out.child(id, Output::More::kYes);
      if (s.ok()) s = write(leaf, t);
      if (!s.ok()) return leaf.break_off(s), s;
    }
    return out.end();
  }

  static Status write(Output& out, const msg::Tensor& t) {
    out.begin(tensor_mimetype(t));
    return out.write(t.data, Output::More::kNo);
  }

  std::vector<std::unique_ptr<In>> ins_;
  std::vector<Leaf> leaves_;
};

}  // namespace

std::unique_ptr<Action> make_infer(Session& session, ActionRequest&& request) {
  return std::make_unique<Infer>(session, std::move(request));
}

}  // namespace weir::evergreen
