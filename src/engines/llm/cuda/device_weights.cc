#include "engines/llm/cuda/device_weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/coded_rows.h"
#include "engines/llm/cuda/device_upload.h"
#include "engines/llm/load/expert_names.h"
#include "engines/llm/load/weight.h"

namespace weir::llm::cuda {
namespace {

// The arrays of a Store, as the device wants them.
class WeightReader {
 public:
  WeightReader(const Store& store, const Quantization& how, const WeightOptions& options, DeviceUpload& upload)
      : store_(store), how_(how), options_(options), upload_(upload) {}

  const Bf16* vector(const std::string& name, uint32_t size) {
    auto* array = find(name, {size});
    if (!array) return nullptr;
    return upload_.send<Bf16>(size, [&](size_t from, size_t n, Bf16* to) { narrow(*array, from, n, to); });
  }
  // A rank's part of `all` outputs or inputs.
  struct Cut {
    Cut(uint32_t whole) : all(whole), count(whole) {}  // NOLINT: a number is all of so many
    Cut(uint32_t of, uint32_t from, uint32_t n) : all(of), first(from), count(n) {}
    uint32_t all, first = 0, count;
  };
  enum class Rows : uint8_t { kInOrder, kInTurn };  // in turn: a gate and its `up`, which become two halves
  struct Part {
    std::string name;  // an array's
    Cut outputs;
    Rows rows = Rows::kInOrder;
  };
  // One below the other, and zeros up to `least` outputs.
  const Bf16* matrix(const std::vector<Part>& parts, Cut inputs, size_t least = 0) {
    return whole(slices_of(parts, inputs), inputs.count, least);
  }
  // One of a layer, as the options want it to be kept.
  DeviceMatrix coded(const std::vector<Part>& parts, Cut inputs) {
    const std::vector<Slice> slices = slices_of(parts, inputs);
    if (slices.empty()) return {};
    std::vector<const Weight*> weights;
    for (const auto& slice : slices) weights.push_back(&slice.weight);
    CodePlan plan = plan_codes(weights, options_.keep, inputs.first, inputs.count);
    if (plan.how.format == Format::kBf16) {
      widened_ += is_to_be_coded(weights) ? 1 : 0;
      return whole(slices, inputs.count, 0);
    }
    size_t rows = 0;
    for (const auto& slice : slices) rows += slice.outputs.count;
    plan.how.data = upload_.send<std::byte>(rows * plan.how.pitch, [&](size_t from, size_t n, std::byte* to) {
      write_rows(plan.how.pitch, from, {to, n}, options_.threads, [&] { return coder_of(slices, plan); });
    });
    return plan.how;
  }
  // The biases of these parts' matrix; zeros up to `least`.
  const float* bias(const std::vector<Part>& parts, float scale = 1, size_t least = 0) {
    std::vector<float> all;
    for (const auto& part : parts) {
      if (!upload_.status.ok()) return nullptr;
      auto whole = store_.floats(part.name + ".bias", {part.outputs.all});
      if (!whole) return upload_.check(whole.error()), nullptr;
      for (uint32_t i = 0; i < part.outputs.count; ++i)
        all.push_back((*whole)[row_of(part.rows, part.outputs.first + i, part.outputs.all)] * scale);
    }
    all.resize(std::max(all.size(), least));
    return floats(all);
  }
  const float* floats(const std::string& name, uint32_t size) {
    auto found = store_.floats(name, {size});
    return found ? floats(*found) : (upload_.check(found.error()), nullptr);
  }
  const float* floats(const std::vector<float>& all) {
    return upload_.send<float>(all.size(), [&](size_t from, size_t n, float* to) { std::copy_n(&all[from], n, to); });
  }

  bool has(const std::string& name) const { return store_.has(name); }
  // Matrices that are bfloat16 although the checkpoint or the options have them in codes.
  uint32_t widened() const { return widened_; }

 private:
  struct Slice {
    Weight weight;
    Cut outputs, inputs;
    Rows rows;
    size_t size() const { return size_t(outputs.count) * inputs.count; }
  };
  bool is_to_be_coded(const std::vector<const Weight*>& weights) const {
    if (options_.keep != Keep::kAsStored) return options_.keep != Keep::kWhole;
    return std::any_of(weights.begin(), weights.end(), [](const Weight* w) { return w->is_quantized(); });
  }
  // Empty after an error.
  std::vector<Slice> slices_of(const std::vector<Part>& parts, Cut inputs) {
    std::vector<Slice> slices;
    for (const auto& part : parts) {
      if (!upload_.status.ok()) return {};
      auto weight = Weight::find(store_, how_, part.name, part.outputs.all, inputs.all);
      if (!weight) return upload_.check(weight.error()), std::vector<Slice>();
      slices.push_back({std::move(*weight), part.outputs, inputs, part.rows});
    }
    return slices;
  }
  const Bf16* whole(const std::vector<Slice>& slices, size_t inputs, size_t least) {
    if (slices.empty()) return nullptr;
    size_t rows = 0;
    for (const auto& slice : slices) rows += slice.outputs.count;
    return upload_.send<Bf16>(std::max(rows, least) * inputs, [&](size_t from, size_t n, Bf16* to) {
      if (rows < least) std::fill_n(to, n, Bf16(0));
      each(slices, from, n, [&](const Slice& slice, size_t first, size_t count) {
        narrow(slice, first, count, to);
        to += count;
      });
    });
  }
  // Makes rows of these, one below the other, which it is asked for in their order.
  static WriteRow coder_of(const std::vector<Slice>& slices, const CodePlan& plan) {
    return [slice = slices.data(), before = size_t(0), coder = RowCoder(plan)](size_t row, std::byte* to) mutable {
      for (; row - before >= slice->outputs.count; ++slice) before += slice->outputs.count;
      const uint32_t output = slice->outputs.first + uint32_t(row - before);
      coder.write(slice->weight, row_of(slice->rows, output, slice->outputs.all), to);
    };
  }
  // The row of an array that becomes row `to` of a matrix.
  static uint32_t row_of(Rows rows, uint32_t to, uint32_t all) {
    return rows == Rows::kInOrder ? to : to < all / 2 ? 2 * to : 2 * (to - all / 2) + 1;
  }
  const Array* find(const std::string& name, std::initializer_list<uint64_t> shape) {
    if (!upload_.status.ok()) return nullptr;
    auto array = store_.find(name, shape);
    if (!array) return upload_.check(array.error()), nullptr;
    return *array;
  }
  // Elements [from, from + n) of the matrices one after the other, piece by piece.
  template <class Each>
  static void each(const std::vector<Slice>& slices, size_t from, size_t n, Each&& piece) {
    for (const auto& slice : slices) {
      const size_t size = slice.size();
      if (from < size && n > 0) {
        size_t count = std::min(n, size - from);
        piece(slice, from, count);
        n -= count, from = 0;
      } else {
        from -= std::min(from, size);
      }
    }
  }
  // One that is quantized, that has only a part of each row, or whose rows are in another order, goes row by row.
  static void narrow(const Slice& slice, size_t from, size_t n, Bf16* to) {
    const size_t width = slice.inputs.count, whole = slice.inputs.all;
    size_t row = slice.outputs.first + from / width, skip = from % width;
    const Array* array = slice.rows == Rows::kInOrder ? slice.weight.whole() : nullptr;
    if (array && width == whole) return narrow(*array, row * whole + skip, n, to);
    std::vector<float> values(array ? 0 : whole);
    for (; n > 0; ++row, skip = 0) {
      const size_t count = std::min(n, width - skip), first = slice.inputs.first + skip;
      if (array) {
        narrow(*array, row * whole + first, count, to);
      } else {
        slice.weight.floats(row_of(slice.rows, uint32_t(row), slice.outputs.all), values.data());
        std::transform(values.begin() + first, values.begin() + first + count, to, narrow_bf16);
      }
      n -= count, to += count;
    }
  }
  static void narrow(const Array& array, size_t from, size_t n, Bf16* to) {
    if (array.dtype == Stored::kBf16 && array.head_rows == 0) {
      std::memcpy(to, array.data.data() + from * sizeof(Bf16), n * sizeof(Bf16));
      return;
    }
    float piece[1024];
    for (size_t done = 0; done < n; done += std::size(piece)) {
      size_t count = std::min(std::size(piece), n - done);
      read_floats(array, from + done, count, piece);
      std::transform(piece, piece + count, to + done, narrow_bf16);
    }
  }

  const Store& store_;
  const Quantization& how_;
  const WeightOptions options_;
  DeviceUpload& upload_;
  uint32_t widened_ = 0;
};

using Part = WeightReader::Part;
using Cut = WeightReader::Cut;

// Gates and ups of an expert lie in two arrays, or row by row in one.
void add_gate_up(const ExpertNames& names, const std::string& expert, uint32_t width, const WeightReader& read,
                 std::vector<Part>& parts) {
  const std::string both = expert + "gate_up_proj";
  if (read.has(both + ".weight") || read.has(both + ".blocks"))
    return parts.push_back({both, 2 * width, WeightReader::Rows::kInTurn});
  parts.push_back({expert + names.gate, width}), parts.push_back({expert + names.up, width});
}

DeviceExperts read_experts(const Shape& s, const std::string& prefix, WeightReader& read) {
  const ExpertShape& e = *s.experts;
  const ExpertNames names = expert_names(s);
  const std::string mixture = prefix + names.mixture, shared = mixture + "shared_expert.";
  std::vector<Part> router{{mixture + "gate", e.count}}, gate_up, down;
  if (e.shared_width > 0) router.push_back({mixture + "shared_expert_gate", 1});
  for (uint32_t i = 0; i < e.count; ++i) {
    const std::string expert = mixture + "experts." + std::to_string(i) + ".";
    add_gate_up(names, expert, e.width, read, gate_up);
    down.push_back({expert + names.down, s.hidden});
  }
  DeviceExperts to;
  to.router = read.matrix(router, s.hidden, scores_of(e));
  to.gate_up = read.coded(gate_up, s.hidden);
  to.down = read.coded(down, e.width);
  if (e.biased) {
    to.router_bias = read.bias(router, 1, scores_of(e));
    to.gate_up_bias = read.bias(gate_up), to.down_bias = read.bias(down);
  }
  if (e.shared_width == 0) return to;
  to.shared_gate_up =
      read.coded({{shared + names.gate, e.shared_width}, {shared + names.up, e.shared_width}}, s.hidden);
  to.shared_down = read.coded({{shared + names.down, s.hidden}}, e.shared_width);
  return to;
}

// A rank's share of each of some arrays; `name` is that of the one array that they are where they are fused.
std::vector<Part> split_parts(std::vector<Part> parts, const std::string& name, bool fused, const TensorSplit& split) {
  uint32_t all = 0, before = 0;
  for (const auto& part : parts) all += part.outputs.all;
  for (auto& part : parts) {
    const uint32_t own = part.outputs.all, begin = split.begin(own), share = split.share(own);
    part.outputs = Cut(own, begin, share);
    if (fused) part = {name, Cut(all, before + begin, share)};
    before += own;
  }
  return parts;
}

Cut split_inputs(uint32_t all, const TensorSplit& split) { return {all, split.begin(all), split.share(all)}; }

void read_attention(const Shape& s, const std::string& attention, const TensorSplit& split, WeightReader& read,
                    DeviceLayer& l) {
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  const auto qkv = split_parts({{attention + "q_proj", q}, {attention + "k_proj", kv}, {attention + "v_proj", kv}},
                               attention + "qkv_proj", s.fused, split);
  if (s.qk_norm) {
    l.q_norm = read.vector(attention + "q_norm.weight", s.qk_norm_whole ? q : s.head_dim);
    l.k_norm = read.vector(attention + "k_norm.weight", s.qk_norm_whole ? kv : s.head_dim);
  }
  l.qkv = read.coded(qkv, s.hidden);
  if (s.qkv_bias) l.qkv_bias = read.bias(qkv);
  l.out = read.coded({{attention + "o_proj", s.hidden}}, split_inputs(q, split));
  if (s.out_bias && split.first()) l.out_bias = read.bias({{attention + "o_proj", s.hidden}}, s.residual_scale);
}

void read_mlp(const Shape& s, const std::string& mlp, const TensorSplit& split, WeightReader& read, DeviceLayer& l) {
  const auto gate_up = split_parts({{mlp + "gate_proj", s.intermediate}, {mlp + "up_proj", s.intermediate}},
                                   mlp + "gate_up_proj", s.fused, split);
  l.gate_up = read.coded(gate_up, s.hidden);
  l.down = read.coded({{mlp + "down_proj", s.hidden}}, split_inputs(s.intermediate, split));
  if (!s.mlp_bias) return;
  l.gate_up_bias = read.bias(gate_up);
  if (split.first()) l.down_bias = read.bias({{mlp + "down_proj", s.hidden}}, s.residual_scale);
}

void read_norms(const Shape& s, const std::string& prefix, WeightReader& read, DeviceLayer& l) {
  auto norm = [&](const char* name) { return read.vector(prefix + name + ".weight", s.hidden); };
  if (s.norms != Norms::kOutputs) l.input_norm = norm("input_layernorm");
  (s.norms == Norms::kInputs ? l.post_norm : l.attention_norm) = norm("post_attention_layernorm");
  if (s.norms == Norms::kBoth) l.post_norm = norm("pre_feedforward_layernorm");
  if (s.norms != Norms::kInputs) l.mlp_norm = norm("post_feedforward_layernorm");
}

DeviceLayer read_layer(const Shape& s, uint32_t index, const std::string& prefix, const TensorSplit& split,
                       WeightReader& read) {
  DeviceLayer l;
  read_norms(s, prefix, read, l);
  if (const std::string sinks = prefix + "self_attn.sinks"; s.sinks)  // which a folder calls without ".weight"
    l.sinks = read.floats(read.has(sinks) ? sinks : sinks + ".weight", s.heads);
  read_attention(s, prefix + "self_attn.", split, read, l);
  if (s.is_mixture(index))
    l.experts = read_experts(s, prefix, read);
  else
    read_mlp(s, prefix + "mlp.", split, read, l);
  return l;
}

// All that is in front of the layers and behind them.
void read_ends(const Shape& shape, const Readouts& readouts, const Store& store, WeightReader& read, DeviceWeights& w) {
  const std::string root = root_of(store);
  w.embedding = read.matrix({{root + "embed_tokens", shape.vocabulary}}, shape.hidden);
  if (!shape.encoder)
    w.head = shape.tied ? w.embedding : read.matrix({{head_of(store), shape.vocabulary}}, shape.hidden);
  w.norm = read.vector(root + "norm.weight", shape.hidden);
  if (!readouts.vectors.empty()) w.readouts = read.floats(readouts.vectors);
}

DeviceWeights read_model(const Shape& shape, const Readouts& readouts, const Store& store, const TensorSplit& split,
                         const WeightOptions& options, DeviceUpload& upload) {
  WeightReader read(store, shape.quantization, options, upload);
  DeviceWeights w;
  const std::string root = root_of(store);
  if (split.first()) read_ends(shape, readouts, store, read, w);
  w.frequencies = read.floats(shape.rope.frequencies);
  if (shape.local_rope) w.local_frequencies = read.floats(shape.local_rope->frequencies);
  if (has_unturned(shape)) w.no_frequencies = read.floats(std::vector<float>(shape.head_dim / 2));
  for (uint32_t i = 0; i < shape.layers && upload.status.ok(); ++i)
    w.layers.push_back(read_layer(shape, i, root + "layers." + std::to_string(i) + ".", split, read));
  w.widened = read.widened();
  return w;
}

// All arrays are there, and there is room for them: before the first of them is brought.
base::Status check_room(const Shape& shape, const Readouts& readouts, const Store& store, device::Device& device,
                        const TensorSplit& split, const WeightOptions& options) {
  DeviceUpload count(device, DeviceUpload::Does::kCounts);
  read_model(shape, readouts, store, split, options, count);
  if (!count.status.ok()) return count.status;
  auto memory = device.memory();
  if (!memory) return memory.error();
  if (count.bytes <= memory->free) return {};
  return base::failure(base::Code::kResourceExhausted, "the weights take " + base::show_size(count.bytes));
}

}  // namespace

base::Result<DeviceWeights> load_device_weights(const Shape& shape, const Readouts& readouts, const Store& store,
                                                device::Device& device, const TensorSplit& split,
                                                const WeightOptions& options) {
  if (auto s = check_room(shape, readouts, store, device, split, options); !s.ok()) return s;
  DeviceUpload upload(device);
  DeviceWeights w = read_model(shape, readouts, store, split, options, upload);
  if (auto s = store.intact(); !s.ok()) return s;
  upload.wait();
  if (!upload.status.ok()) return upload.status;
  w.memory = std::move(upload.memory), w.bytes = upload.bytes;
  if (w.widened > 0 && split.first())
    base::log::warning("matrices of a quantized model are kept in bfloat16",
                       {{"device", device.info().id},
                        {"matrices", std::to_string(w.widened)},
                        {"memory", base::show_size(w.bytes)},
                        {"reason", "a device reads codes in steps of 32 inputs, whole groups and signed 8 bits"}});
  return w;
}

}  // namespace weir::llm::cuda
