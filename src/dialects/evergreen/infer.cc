// INFER: tensors in, tensors out, by any model. An input's node has one leaf per tensor (tensor_chunk.h); a leaf
// without a name has the input's. An output of a tensor's name is that tensor as one leaf; the output "outputs" is a
// node with a leaf "<id>/<tensor>" for each tensor that the model gives.
#include <algorithm>
#include <utility>

#include "base/attempt.h"
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

struct Leaf {
  msg::Tensor tensor;  // without its data
  std::vector<base::Bytes> chunks;
};

// The leaves that were read as tensors: their chunks joined, and the strings inside BYTES checked.
class PrepareInputs final : public bus::OffloadTask {
 public:
  PrepareInputs(std::vector<Leaf>&& leaves, base::SlabSource& slabs) : leaves_(std::move(leaves)), slabs_(slabs) {}
  // Bytes that are joined or checked.
  size_t work() const {
    size_t bytes = 0;
    for (const Leaf& leaf : leaves_)
      if (leaf.chunks.size() > 1 || leaf.tensor.dtype == msg::DType::kBytes)
        for (const auto& chunk : leaf.chunks) bytes += chunk.size();
    return bytes;
  }
  void run() override {
    Status thrown = base::attempt("reading tensors", [this] { prepare(); });
    if (!thrown.ok()) status = std::move(thrown);
  }

  std::vector<msg::Tensor> tensors;  // after run()
  Status status;                     // the same; INVALID_ARGUMENT for strings that are wrong

 private:
  void prepare() {
    for (Leaf& leaf : leaves_) {
      leaf.tensor.data = joined(std::move(leaf.chunks));
      tensors.push_back(std::move(leaf.tensor));
      if (status.ok() && tensors.back().dtype == msg::DType::kBytes) status = marshal::check_data(tensors.back());
    }
  }
  // One chunk stays where it is; several are joined.
  base::Bytes joined(std::vector<base::Bytes>&& chunks) {
    if (chunks.size() == 1) return std::move(chunks[0]);
    size_t size = 0;
    for (const auto& c : chunks) size += c.size();
    base::Block block(base::take_now(slabs_, std::max<size_t>(size, 1)));
    for (const auto& c : chunks) {
      if (cancelled() && cancelled()->load(std::memory_order_relaxed)) break;
      block.append(c.data(), c.size());
    }
    return block.freeze();
  }

  std::vector<Leaf> leaves_;
  base::SlabSource& slabs_;
};

class CheckOutputs final : public bus::OffloadTask {
 public:
  explicit CheckOutputs(std::vector<msg::Tensor>&& outputs) : tensors(std::move(outputs)) {}
  void run() override { status = marshal::check_outputs(tensors); }

  std::vector<msg::Tensor> tensors;
  Status status;  // after run()
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
    auto prepare = std::make_unique<PrepareInputs>(std::exchange(leaves_, {}), session_.state().slabs);
    const size_t bytes = bus::weight_of_parsing(prepare->work());
    return perform(std::move(prepare), bytes);
  }

  Status performed(std::unique_ptr<bus::OffloadTask> task) override {
    if (!asked_) return submit(static_cast<PrepareInputs&>(*task));
    auto& checked = static_cast<CheckOutputs&>(*task);
    return checked.status.ok() ? send(checked.tensors) : std::move(checked.status);
  }

  Status submit(PrepareInputs& prepared) {
    if (prepared.status.code == base::Code::kResourceExhausted) return std::move(prepared.status);
    call().inputs = std::move(prepared.tensors);
    bool all = outputs_.empty();
    for (const auto& o : outputs_) all = all || o->name == kAll;
    for (const auto& o : outputs_)
      if (!all && o->name != kStatus) call().outputs.push_back(o->name);
    Status s = marshal::check_call(spec(), call(), marshal::StringLengths::kSkip);
    if (s.ok()) s = std::move(prepared.status);
    asked_ = true;
    return s.ok() ? ModelAction::submit() : s;
  }

  Status outputs(msg::Outputs&& answer) override {
    const size_t bytes = bus::weight_of_parsing(marshal::string_bytes(answer.tensors));
    return perform(std::make_unique<CheckOutputs>(std::move(answer.tensors)), bytes, bus::Admission::kGranted);
  }

  Status send(const std::vector<msg::Tensor>& tensors) {
    size_t named = outputs_.size();  // send() may add to them
    for (size_t i = 0; i < named; ++i) {
      Status s = send(*outputs_[i], tensors);
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
      auto node = claim_child(out, t.name);
      if (!node) return std::move(node).error();
      Output leaf(session_, t.name, **node);
      Status s = out.child(std::string((*node)->id()), Output::More::kYes);
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
  bool asked_ = false;  // the model; until then a task has the inputs
};

}  // namespace

std::unique_ptr<Action> make_infer(Session& session, ActionRequest&& request) {
  return std::make_unique<Infer>(session, std::move(request));
}

}  // namespace weir::evergreen
