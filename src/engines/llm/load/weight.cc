#include "engines/llm/load/weight.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engines/llm/load/fp8.h"
#include "engines/llm/load/gguf_blocks.h"

namespace weir::llm {
namespace {

constexpr uint32_t kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of each output's code among the eight of a word

uint32_t word_of(const Array& array, uint64_t index) {
  uint32_t w;  // arrays need not be aligned
  std::memcpy(&w, array.data.data() + index * 4, 4);
  return w;
}

const std::array<float, 256> kFp8Values = [] {
  std::array<float, 256> values;
  for (uint32_t code = 0; code < values.size(); ++code) values[code] = fp8_value(code);
  return values;
}();

// Twice the number at that place.
int8_t e2m1(const Array& array, size_t at) {
  return kE2m1[std::to_integer<uint8_t>(array.data[at / 2]) >> 4 * (at % 2) & 15];
}

uint32_t divided(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

// One scale that is not finite makes every logit NaN, which says nothing of where it came from.
base::Result<std::vector<float>> read_scales(const Store& store, const std::string& name,
                                             std::initializer_list<uint64_t> shape) {
  auto scales = store.floats(name, shape);
  if (scales && !std::all_of(scales->begin(), scales->end(), [](float s) { return std::isfinite(s); }))
    return base::invalid("'" + name + "' has a scale that is not finite");
  return scales;
}

}  // namespace

base::Result<Weight> Weight::find(const Store& store, const Quantization& how, const std::string& name,
                                  uint32_t outputs, uint32_t inputs) {
  Weight w(outputs, inputs);
  if (auto s = w.find(store, how, name); !s.ok()) return s;
  w.coding_ = w.closest();
  return w;
}

uint64_t Weight::scale_memory(const Quantization& how, uint32_t outputs, uint32_t inputs) {
  if (how.method == QuantMethod::kNone || how.method == QuantMethod::kMxfp4) return 0;
  const uint32_t group = how.block_inputs > 0 ? how.block_inputs : how.group;
  const uint64_t scales = uint64_t(outputs) * (group > 0 ? divided(inputs, group) : 1);
  return scales * (sizeof(float) + 1) + uint64_t(inputs) * sizeof(uint32_t);
}

// A checkpoint leaves some matrices as they are.
base::Status Weight::find(const Store& store, const Quantization& how, const std::string& name) {
  const Array* plain = store.look_up(name + ".weight");
  if (plain && plain->dtype != Stored::kInt8 && plain->dtype != Stored::kFp8) return find_floats(store, name);
  switch (how.method) {
    case QuantMethod::kGptq:
    case QuantMethod::kAwq: return find_grouped(store, how, name);
    case QuantMethod::kFp8:
    case QuantMethod::kCompressed: return find_compressed(store, how, name);
    case QuantMethod::kMxfp4: return store.has(name + ".blocks") ? find_mxfp4(store, name) : find_floats(store, name);
    case QuantMethod::kNone: break;
  }
  return find_floats(store, name);
}

base::Status Weight::find_floats(const Store& store, const std::string& name) {
  auto array = store.find(name + ".weight", {outputs_, inputs_});
  if (!array) return array.error();
  values_ = *array;
  if (in_blocks(values_->dtype)) form_ = Form::kBlocks, set_group(block_format(values_->dtype).group);
  return {};
}

// The two forms lie the same way but for the values, and which place an output's zero point has in its word.
base::Status Weight::find_grouped(const Store& store, const Quantization& how, const std::string& name) {
  form_ = how.method == QuantMethod::kAwq ? Form::kAwq : Form::kGptq, bits_ = how.bits;
  set_group(how.group);
  const uint32_t words = divided(outputs_, per_word());
  auto values = form_ == Form::kAwq
                    ? store.find(name + ".qweight", {inputs_, words}, Stored::kInt32)
                    : store.find(name + ".qweight", {divided(inputs_, per_word()), outputs_}, Stored::kInt32);
  if (!values) return values.error();
  auto zeros = store.find(name + ".qzeros", {groups(), words}, Stored::kInt32);
  if (!zeros) return zeros.error();
  auto scales = read_scales(store, name + ".scales", {groups(), outputs_});
  if (!scales) return scales.error();
  values_ = *values, scales_ = std::move(*scales);
  output_stride_ = 1, group_stride_ = outputs_;
  zeros_.resize(scales_.size());
  for (uint32_t g = 0; g < groups(); ++g)
    for (uint32_t o = 0; o < outputs_; ++o) {
      const uint32_t place = form_ == Form::kAwq ? kAwqPlace[o % 8] : o % per_word();
      const uint32_t stored = word_of(**zeros, uint64_t(g) * words + o / per_word()) >> bits_ * place;
      zeros_[scale_at(o, g)] = uint8_t((stored + (how.zeros_less_one ? 1 : 0)) & ((1u << bits_) - 1));
    }
  const bool ordered = form_ == Form::kGptq && store.has(name + ".g_idx");
  return ordered ? find_order(store, name + ".g_idx") : base::Status();
}

base::Status Weight::find_compressed(const Store& store, const Quantization& how, const std::string& name) {
  base::Result<const Array*> values = nullptr;
  if (store.has(name + ".weight_packed")) {
    form_ = Form::kPacked, bits_ = how.bits;
    values = store.find(name + ".weight_packed", {outputs_, divided(inputs_, per_word())}, Stored::kInt32);
  } else {
    const Array* array = store.look_up(name + ".weight");
    form_ = array && array->dtype == Stored::kInt8 ? Form::kInt8 : Form::kFp8;
    values = store.find(name + ".weight", {outputs_, inputs_}, form_ == Form::kInt8 ? Stored::kInt8 : Stored::kFp8);
  }
  if (!values) return values.error();
  values_ = *values;
  if (auto s = find_scales(store, how, name); !s.ok()) return s;
  if ((how.zeros || store.has(name + ".weight_zero_point")) && form_ != Form::kFp8)
    if (auto s = find_zeros(store, name + ".weight_zero_point"); !s.ok()) return s;
  return store.has(name + ".weight_g_idx") ? find_order(store, name + ".weight_g_idx") : base::Status();
}

base::Status Weight::find_mxfp4(const Store& store, const std::string& name) {
  constexpr uint32_t kGroup = 32;
  if (inputs_ % kGroup != 0) return base::invalid("'" + name + ".blocks' has no whole blocks of 32 inputs");
  form_ = Form::kMxfp4, group_ = kGroup;
  auto values = store.find(name + ".blocks", {outputs_, groups(), kGroup / 2}, Stored::kUint8);
  if (!values) return values.error();
  auto exponents = store.find(name + ".scales", {outputs_, groups()}, Stored::kUint8);
  if (!exponents) return exponents.error();
  values_ = *values, exponents_ = *exponents;
  // https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf, "E8M0": 255 is NaN.
  const auto& bytes = exponents_->data;
  if (std::find(bytes.begin(), bytes.end(), std::byte(255)) != bytes.end())
    return base::invalid("'" + name + ".scales' has a scale that is not finite");
  return {};
}

// One for all, one for each output or its groups, or one for each block.
base::Status Weight::find_scales(const Store& store, const Quantization& how, const std::string& name) {
  const std::string scale = name + (store.has(name + ".weight_scale_inv") ? ".weight_scale_inv" : ".weight_scale");
  const Array* array = store.look_up(scale);
  base::Result<std::vector<float>> scales = std::vector<float>();
  if (array && array->shape.size() < 2 && array->elements() == 1) {
    scales = array->shape.empty() ? read_scales(store, scale, {}) : read_scales(store, scale, {1});
  } else if (how.block_inputs > 0) {
    set_group(how.block_inputs);
    block_outputs_ = how.block_outputs;
    output_stride_ = groups(), group_stride_ = 1;
    scales = read_scales(store, scale, {divided(outputs_, block_outputs_), groups()});
  } else {
    set_group(how.group);
    output_stride_ = groups(), group_stride_ = 1;
    scales = read_scales(store, scale, {outputs_, groups()});
  }
  if (!scales) return scales.error();
  scales_ = std::move(*scales);
  return {};
}

base::Status Weight::find_zeros(const Store& store, const std::string& name) {
  const bool packed = form_ == Form::kPacked;
  if (scales_.size() != size_t(outputs_) * groups())
    return base::failure(base::Code::kUnimplemented, "'" + name + "' is not supported for scales of blocks");
  auto zeros = packed ? store.find(name, {divided(outputs_, per_word()), groups()}, Stored::kInt32)
                      : store.find(name, {outputs_, groups()}, Stored::kInt8);
  if (!zeros) return zeros.error();
  zeros_.resize(scales_.size());
  for (uint32_t o = 0; o < outputs_; ++o)
    for (uint32_t g = 0; g < groups(); ++g) {
      const uint32_t stored =
          packed ? word_of(**zeros, uint64_t(o / per_word()) * groups() + g) >> bits_ * (o % per_word())
                 : uint32_t((*zeros)->data[size_t(o) * groups() + g]) + 128;
      zeros_[scale_at(o, g)] = uint8_t(stored & ((1u << bits_) - 1));
    }
  return {};
}

// Which scale an input has comes from a file: it is one that is there.
base::Status Weight::find_order(const Store& store, const std::string& name) {
  auto array = store.find(name, {inputs_}, Stored::kInt32);
  if (!array) return array.error();
  bool mixed = false;
  order_.resize(inputs_);
  for (uint32_t i = 0; i < inputs_; ++i) {
    order_[i] = word_of(**array, i);
    if (order_[i] >= groups()) return base::invalid("'" + name + "' names a group that is not there");
    mixed = mixed || order_[i] != i / group_;
  }
  if (!mixed) order_.clear();
  return {};
}

float Weight::exponent(uint32_t output, uint32_t group) const {
  return std::ldexp(1.0f, std::to_integer<int>(exponents_->data[size_t(output) * groups() + group]) - 128);
}

Coding Weight::closest() const {
  if (form_ == Form::kMxfp4) return Coding::kInt8;
  if (form_ == Form::kBlocks) return block_format(values_->dtype).coding;
  if (form_ == Form::kFloats || !order_.empty() || group_ % 2 != 0) return Coding::kWhole;
  if (form_ == Form::kFp8) return Coding::kFp8;
  if (bits_ == 4) return Coding::kInt4;
  return std::all_of(zeros_.begin(), zeros_.end(), [](uint8_t z) { return z == 128; }) ? Coding::kInt8 : Coding::kWhole;
}

uint32_t Weight::code(uint32_t output, uint32_t input) const {
  const uint32_t n = per_word();
  switch (form_) {
    case Form::kGptq: return word_of(*values_, uint64_t(input / n) * outputs_ + output) >> bits_ * (input % n);
    case Form::kAwq:
      return word_of(*values_, uint64_t(input) * divided(outputs_, 8) + output / 8) >> 4 * kAwqPlace[output % 8];
    case Form::kPacked:
      return word_of(*values_, uint64_t(output) * divided(inputs_, n) + input / n) >> bits_ * (input % n);
    case Form::kInt8: return uint32_t(values_->data[size_t(output) * inputs_ + input]) + 128;
    case Form::kFp8: return uint32_t(values_->data[size_t(output) * inputs_ + input]);
    case Form::kFloats:
    case Form::kMxfp4:
    case Form::kBlocks: break;
  }
  return 0;
}

void Weight::floats(uint32_t output, float* to) const {
  if (form_ == Form::kFloats || form_ == Form::kBlocks)
    return read_floats(*values_, uint64_t(output) * inputs_, inputs_, to);
  if (form_ == Form::kMxfp4) {
    const size_t first = size_t(output) * inputs_;
    for (uint32_t i = 0; i < inputs_; ++i) to[i] = float(e2m1(*values_, first + i)) * exponent(output, i / group_);
    return;
  }
  if (form_ == Form::kFp8) {
    const std::byte* codes = values_->data.data() + size_t(output) * inputs_;
    for (uint32_t i = 0; i < inputs_;) {
      const float scale = scales_[scale_at(output, i / group_)];
      for (const uint32_t end = std::min(inputs_, i + group_); i < end; ++i)
        to[i] = scale * kFp8Values[size_t(codes[i])];
    }
    return;
  }
  const uint32_t mask = (1u << bits_) - 1;
  for (uint32_t i = 0; i < inputs_; ++i) {
    const size_t at = scale_at(output, order_.empty() ? i / group_ : order_[i]);
    const uint32_t c = code(output, i) & mask, zero = zeros_.empty() ? 1u << (bits_ - 1) : zeros_[at];
    to[i] = scales_[at] * float(int(c) - int(zero));
  }
}

bool Weight::offsets() const { return form_ == Form::kBlocks && block_format(values_->dtype).offsets; }

bool Weight::middle_zeros() const {
  return !offsets() && std::all_of(zeros_.begin(), zeros_.end(), [](uint8_t z) { return z == 8; });
}

// Levels below 0 that have 4 bits are codes above a zero point of 8.
void Weight::codes_of_blocks(uint32_t output, Codes to) const {
  const BlockFormat format = block_format(values_->dtype);
  const uint32_t in_row = inputs_ / format.numbers, groups = format.numbers / format.group;
  const int8_t zero = coding_ == Coding::kInt4 && !format.offsets ? 8 : 0;
  const std::byte* bytes = values_->data.data() + values_->row_in_file(output) * in_row * format.bytes;
  Block block;
  for (uint32_t b = 0; b < in_row; ++b, bytes += format.bytes) {
    decode(values_->dtype, bytes, block);
    for (uint32_t i = 0; i < format.numbers; ++i) *to.codes++ = uint8_t(block.levels[i] + zero);
    for (uint32_t g = 0; g < groups; ++g)
      *to.scales++ = block.scales[g], *to.zeros++ = uint8_t(zero), *to.offsets++ = block.offsets[g];
  }
}

void Weight::codes(uint32_t output, Codes to) const {
  if (form_ == Form::kBlocks) return codes_of_blocks(output, to);
  if (form_ == Form::kMxfp4) {
    const size_t first = size_t(output) * inputs_;
    for (uint32_t i = 0; i < inputs_; ++i) to.codes[i] = uint8_t(e2m1(*values_, first + i));
    for (uint32_t g = 0; g < groups(); ++g) to.scales[g] = exponent(output, g), to.zeros[g] = 0, to.offsets[g] = 0;
    return;
  }
  const uint32_t mask = (1u << bits_) - 1, less = coding_ == Coding::kInt8 ? 128 : 0;
  for (uint32_t i = 0; i < inputs_; ++i) to.codes[i] = uint8_t((code(output, i) & mask) - less);
  for (uint32_t g = 0; g < groups(); ++g) {
    const size_t at = scale_at(output, g);
    to.scales[g] = scales_[at], to.offsets[g] = 0;
    to.zeros[g] = coding_ != Coding::kInt4 ? 0 : zeros_.empty() ? 8 : zeros_[at];
  }
}

}  // namespace weir::llm
