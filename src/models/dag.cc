#include "models/dag.h"

#include <algorithm>
#include <set>

#include "base/encoding.h"
#include "sched/pipeline_cut.h"

namespace weir::models {
namespace {

using base::invalid;
using base::Status;
using msg::DType;

std::string in_quotes(std::string_view word) { return "'" + std::string(word) + "'"; }

// A tensor on its way through: whole shape, batch dimension included.
struct PipelineTensor {
  uint32_t slot = 0;
  msg::TensorSpec spec;
  std::string maker;     // for complaints
  bool batched = false;  // its first dimension is that of a batch
};

using Leading = sched::PipelinePort::Leading;

// Whether a tensor of one shape may turn out to be one of the other; nothing is known of rank 0 without a type.
bool may_be(const msg::Shape& a, const msg::Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.rank(); ++i)
    if (a[i] != -1 && b[i] != -1 && a[i] != b[i]) return false;
  return true;
}

msg::Shape without_first(const msg::Shape& shape) {
  msg::Shape out;
  for (size_t i = 1; i < shape.rank(); ++i) out.push(shape[i]);
  return out;
}

std::string text_of(const msg::TensorSpec& t) { return std::string(msg::name(t.dtype)) + " " + t.shape.text(); }

bool takes_batches(const msg::ModelSpec& spec) { return spec.max_batch > 0; }
bool any_optional(const std::vector<msg::TensorSpec>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.optional; });
}

// Says nothing of batches either way.
bool indifferent(const msg::ModelSpec& spec) { return spec.any_tensors && spec.max_batch == 0; }

class PipelineLinker {
 public:
  PipelineLinker(const ModelConfig& config, const FindServed& find) : config_(config), find_(find) {}

  base::Result<Linked> link() {
    for (auto step : {&PipelineLinker::find_nodes, &PipelineLinker::batch, &PipelineLinker::declared_inputs,
                      &PipelineLinker::order, &PipelineLinker::nodes, &PipelineLinker::outputs})
      if (auto s = (this->*step)(); !s.ok()) return s;
    prune();
    if (!sched::chained(out_.plan))
      return base::failure(base::Code::kUnimplemented,
                           "two of its models may answer any number of times, and neither waits for the other");
    out_.plan.slots = slots_;
    out_.spec.platform = "ensemble";  // as Triton calls it
    return std::move(out_);
  }

 private:
  Status find_nodes() {
    for (const auto& node : config_.dag.nodes) {
      auto served = find_(node.model, node.version);
      if (!served)
        return base::failure(served.error().code, "node " + in_quotes(node.name) + ": " + served.error().text);
      out_.spec.decoupled = out_.spec.decoupled || (*served)->spec.decoupled;
      served_.push_back(std::move(*served));
      left_.push_back(left_.size());
    }
    return {};
  }

  Status batch() {
    bool all = true;
    uint32_t least = 0;
    for (const auto& served : served_) {
      if (indifferent(served->spec)) continue;
      all = all && takes_batches(served->spec);
      if (takes_batches(served->spec)) least = least ? std::min(least, served->spec.max_batch) : served->spec.max_batch;
    }
    out_.spec.max_batch = config_.max_batch.value_or(all ? least : 0);
    if (out_.spec.max_batch > (all ? least : 0))
      return invalid("max_batch is " + std::to_string(out_.spec.max_batch) + ", but the nodes together take at most " +
                     std::to_string(all ? least : 0));
    return {};
  }

  // As clients see it, from as the configuration has it; and back.
  msg::TensorSpec whole(msg::TensorSpec t) const {
    t.shape = out_.spec.public_shape(t);
    return t;
  }
  msg::TensorSpec rows(msg::TensorSpec t) const {
    if (out_.spec.max_batch == 0 || t.shape.rank() == 0) return t;
    t.shape = without_first(t.shape);
    return t;
  }

  uint32_t add_tensor(const std::string& name, PipelineTensor made) {
    made.slot = slots_;
    made.spec.name = name;
    tensors_.insert_or_assign(name, std::move(made));
    return slots_++;
  }

  void pipeline_input(const msg::TensorSpec& whole) {
    uint32_t slot = add_tensor(whole.name, {0, whole, "the pipeline's inputs", out_.spec.max_batch > 0});
    out_.plan.inputs.push_back({whole.name, slot, whole.optional});
    out_.spec.inputs.push_back(rows(whole));
  }

  // Their types and shapes may be left to the nodes: match() fills them in.
  Status declared_inputs() {
    for (const auto& t : config_.inputs) {
      msg::TensorSpec spec = t.spec;
      pipeline_input(t.shape_given ? whole(spec) : spec);
      if (!t.shape_given) open_.insert(spec.name);
    }
    return {};
  }

  // The nodes of an ensemble stand in any order.
  Status order() {
    if (config_.dag.order == DagConfig::Order::kAsWritten) return {};
    std::set<std::string> there;
    for (const auto& t : config_.inputs) there.insert(t.spec.name);
    std::vector<size_t> sorted;
    while (!left_.empty()) {
      auto at = std::find_if(left_.begin(), left_.end(), [&](size_t n) {
        const auto& inputs = config_.dag.nodes[n].inputs;
        return std::all_of(inputs.begin(), inputs.end(), [&](const auto& i) { return there.count(i.second) > 0; });
      });
      if (at == left_.end()) {
        const auto& node = config_.dag.nodes[left_.front()];
        for (const auto& [model, tensor] : node.inputs)
          if (!there.count(tensor)) return nothing_makes(node, tensor);
      }
      for (const auto& [model, tensor] : config_.dag.nodes[*at].outputs) there.insert(tensor);
      sorted.push_back(*at);
      left_.erase(at);
    }
    left_ = std::move(sorted);
    return {};
  }

  Status nothing_makes(const DagNode& node, const std::string& tensor) const {
    std::vector<std::string_view> names;
    for (const auto& [name, made] : tensors_) names.push_back(name);
    auto near = base::near_miss(tensor, names);
    return invalid("node " + in_quotes(node.name) + " takes " + in_quotes(tensor) +
                   ", which is no input of the pipeline and which no node before it makes" +
                   (near.empty() ? "" : "; did you mean " + in_quotes(near) + "?"));
  }

  Status nodes() {
    for (size_t n : left_) {
      const DagNode& node = config_.dag.nodes[n];
      auto& planned = out_.plan.nodes.emplace_back();
      planned.name = node.name;
      planned.served = served_[n];
      size_t before = out_.plan.nodes.size() - 1;
      if (config_.dag.order == DagConfig::Order::kAsWritten && before > 0) planned.after = {uint32_t(before - 1)};
      const msg::ModelSpec& spec = served_[n]->spec;
      if (auto s = node_inputs(node, spec, planned); !s.ok()) return s;
      if (auto s = node_outputs(node, spec, planned); !s.ok()) return s;
    }
    return {};
  }

  // The model's tensors, as it declares them or, where it takes any, as they are mapped.
  static base::Result<std::vector<msg::TensorSpec>> model_tensors(const DagNode& node, const msg::ModelSpec& spec,
                                                                  const std::vector<msg::TensorSpec>& declared,
                                                                  const std::map<std::string, std::string>& mapped,
                                                                  std::string_view what) {
    std::vector<msg::TensorSpec> out;
    for (auto t : declared) {
      t.shape = spec.public_shape(t);
      out.push_back(std::move(t));
    }
    for (const auto& entry : mapped) {
      const std::string& model = entry.first;  // clang 14 captures no structured binding
      if (std::any_of(declared.begin(), declared.end(), [&](const auto& t) { return t.name == model; })) continue;
      if (!spec.any_tensors)
        return invalid("node " + in_quotes(node.name) + ": model " + in_quotes(spec.name) + " has no " +
                       std::string(what) + " " + in_quotes(model));
      out.push_back({model, DType::kInvalid, {}, false, {}});
    }
    return out;
  }

  bool ensemble() const { return config_.dag.order == DagConfig::Order::kByTensors; }

  // The pipeline's tensor that a model's is. An ensemble's step has only what it maps: null for all else.
  const std::string* mapped(const std::map<std::string, std::string>& map, const std::string& name) const {
    auto at = map.find(name);
    if (at != map.end()) return &at->second;
    return ensemble() ? nullptr : &name;
  }

  Status node_inputs(const DagNode& node, const msg::ModelSpec& spec, sched::PipelineNode& planned) {
    auto all = model_tensors(node, spec, spec.inputs, node.inputs, "input");
    if (!all) return all.error();
    bool first = out_.plan.nodes.size() == 1 && config_.inputs.empty();
    for (auto& input : *all) {
      const std::string* mapped_to = mapped(node.inputs, input.name);
      if (!mapped_to && input.optional) continue;
      if (!mapped_to)
        return invalid("node " + in_quotes(node.name) + ": input " + in_quotes(input.name) +
                       " is not in its input_map");
      const std::string& tensor = *mapped_to;
      if (first && !tensors_.count(tensor)) {
        msg::TensorSpec own = input;
        own.name = tensor;
        pipeline_input(own);
      }
      auto at = tensors_.find(tensor);
      if (at == tensors_.end() && input.optional && !node.inputs.count(input.name)) continue;
      if (at == tensors_.end()) return nothing_makes(node, tensor);
      sched::PipelinePort port{input.name, at->second.slot, input.optional};
      port.leading = leading_of(at->second, input, spec);
      if (port.leading == Leading::kAsItIs)
        if (auto s = match(node, input, at->second); !s.ok()) return s;
      planned.inputs.push_back(std::move(port));
    }
    return {};
  }

  // As in Triton, what differs by the dimension of the batch alone fits in an ensemble: between a pipeline or model
  // without batches and a model with them a tensor is a batch of one row.
  Leading leading_of(const PipelineTensor& tensor, const msg::TensorSpec& input, const msg::ModelSpec& spec) const {
    bool known = ensemble() && tensor.spec.dtype == input.dtype && !open_.count(tensor.spec.name);
    if (!known || tensor.batched == takes_batches(spec) || may_be(tensor.spec.shape, input.shape))
      return Leading::kAsItIs;
    if (tensor.batched)
      return may_be(without_first(tensor.spec.shape), input.shape) ? Leading::kDropped : Leading::kAsItIs;
    return may_be(tensor.spec.shape, without_first(input.shape)) ? Leading::kAdded : Leading::kAsItIs;
  }

  // A tensor and the input that it feeds; what one of them leaves open the other says.
  Status match(const DagNode& node, const msg::TensorSpec& input, PipelineTensor& tensor) {
    if (input.dtype == DType::kInvalid) return {};
    bool typed = tensor.spec.dtype != DType::kInvalid;
    bool shaped = typed && !open_.count(tensor.spec.name);
    if ((typed && tensor.spec.dtype != input.dtype) || (shaped && !may_be(tensor.spec.shape, input.shape)))
      return invalid("node " + in_quotes(node.name) + ": input " + in_quotes(input.name) + " is " + text_of(input) +
                     ", but " + in_quotes(tensor.spec.name) + " from " + tensor.maker + " is " + text_of(tensor.spec));
    if (shaped) return {};
    open_.erase(tensor.spec.name);
    tensor.spec.dtype = input.dtype;
    tensor.spec.shape = input.shape;
    for (auto& own : out_.spec.inputs)
      if (own.name == tensor.spec.name) own = rows(tensor.spec);
    return {};
  }

  Status node_outputs(const DagNode& node, const msg::ModelSpec& spec, sched::PipelineNode& planned) {
    auto all = model_tensors(node, spec, spec.outputs, node.outputs, "output");
    if (!all) return all.error();
    last_.clear();
    const bool may_leave_out = ensemble() && (any_optional(spec.inputs) || may_omit(spec, node, *all));
    for (auto& output : *all) {
      const std::string* tensor = mapped(node.outputs, output.name);
      if (!tensor) continue;
      auto before = tensors_.find(*tensor);
      if (ensemble() && before != tensors_.end())
        return invalid("node " + in_quotes(node.name) + " makes " + in_quotes(*tensor) + ", which comes from " +
                       before->second.maker + " already");
      PipelineTensor made{0, output, "node " + in_quotes(node.name), takes_batches(spec)};
      echo(node, spec, made);
      planned.outputs.push_back({output.name, add_tensor(*tensor, std::move(made)), may_leave_out});
      last_.push_back(*tensor);
    }
    return {};
  }

  // Code of a model's own may make some of its outputs only; it is asked for none by name, as all of them are mapped.
  bool may_omit(const msg::ModelSpec& spec, const DagNode& node, const std::vector<msg::TensorSpec>& all) const {
    if (spec.engine != "python" && spec.engine != "process") return false;
    return std::all_of(all.begin(), all.end(), [&](const auto& output) { return mapped(node.outputs, output.name); });
  }

  // Among models that take any tensors only identity is known: it returns under a name what it was given.
  void echo(const DagNode& node, const msg::ModelSpec& spec, PipelineTensor& made) const {
    if (made.spec.dtype != DType::kInvalid || spec.engine != "identity") return;
    const std::string* given = mapped(node.inputs, made.spec.name);
    auto at = given ? tensors_.find(*given) : tensors_.end();
    if (at == tensors_.end()) return;
    made.spec.dtype = at->second.spec.dtype;
    made.spec.shape = at->second.spec.shape;
    made.batched = at->second.batched;
  }

  Status outputs() {
    std::vector<std::string> names = last_;
    if (!config_.outputs.empty()) names.clear();
    for (const auto& t : config_.outputs) names.push_back(t.spec.name);
    for (const auto& name : names) {
      auto at = tensors_.find(name);
      if (at == tensors_.end()) return invalid("no node makes the pipeline's output " + in_quotes(name));
      auto& port = out_.plan.outputs.emplace_back(sched::PipelinePort{name, at->second.slot, false});
      msg::TensorSpec spec = at->second.spec;
      for (const auto& t : config_.outputs) {
        if (t.spec.name != name) continue;
        if (spec.dtype == DType::kInvalid) spec = whole(t.spec);
        if (is_one_row(at->second, t)) port.leading = Leading::kDropped, spec.shape = without_first(spec.shape);
      }
      spec.optional = false;
      out_.spec.outputs.push_back(rows(spec));
    }
    for (auto* side : {&out_.spec.inputs, &out_.spec.outputs})
      for (const auto& t : *side)
        if (t.dtype == DType::kInvalid)
          return invalid("no node says of what type " + in_quotes(t.name) +
                         " is: declare type and shape in the pipeline's " +
                         (side == &out_.spec.inputs ? "inputs" : "outputs"));
    if (out_.plan.outputs.empty()) return invalid("the pipeline has no outputs: map them in its last node");
    return {};
  }

  bool is_one_row(const PipelineTensor& tensor, const TensorConfig& declared) const {
    return ensemble() && tensor.batched && out_.spec.max_batch == 0 && declared.shape_given &&
           !may_be(tensor.spec.shape, declared.spec.shape) &&
           may_be(without_first(tensor.spec.shape), declared.spec.shape);
  }

  // Nodes make only what somebody reads.
  void prune() {
    std::set<uint32_t> read;
    for (const auto& port : out_.plan.outputs) read.insert(port.slot);
    for (const auto& node : out_.plan.nodes)
      for (const auto& port : node.inputs) read.insert(port.slot);
    for (auto& node : out_.plan.nodes)
      std::erase_if(node.outputs, [&](const auto& port) { return !read.count(port.slot); });
  }

  const ModelConfig& config_;
  const FindServed& find_;
  std::vector<std::shared_ptr<bus::Served>> served_;            // by node, as written
  std::vector<size_t> left_;                                    // nodes in the order in which they run
  std::map<std::string, PipelineTensor, std::less<>> tensors_;  // by the name that a tensor has now
  std::set<std::string> open_;                                  // pipeline inputs whose shape is for the nodes to say
  std::vector<std::string> last_;                               // what the last node made
  uint32_t slots_ = 0;
  Linked out_;
};

}  // namespace

base::Result<Linked> link(const ModelConfig& config, const FindServed& find) {
  return PipelineLinker(config, find).link();
}

}  // namespace weir::models
