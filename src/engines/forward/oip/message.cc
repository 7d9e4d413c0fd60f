#include "engines/forward/oip/message.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "base/encoding.h"
#include "base/recycled.h"
#include "engines/forward/refusal.h"
#include "marshal/check.h"
#include "marshal/pb_tensor.h"
#include "marshal/pb_wire.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;
using marshal::PbCountedReader;
using marshal::PbFields;
using marshal::PbReader;
using marshal::PbType;
using msg::DType;

constexpr size_t kLongestName = 1024;
constexpr size_t kLongestText = 1000;  // of an origin's error that is shown

Status malformed(std::string_view what) { return broken_rule(std::string(what) + " is malformed protobuf"); }

std::string shown(std::string_view text) { return "'" + base::presentable(text, 64) + "'"; }

// --- answers ---------------------------------------------------------------------------------------------------------

std::optional<msg::ParamValue> read_choice(std::string_view bytes, PbFields& fields) {
  std::optional<msg::ParamValue> value;
  PbCountedReader r(bytes, fields);
  while (r.next()) {
    const bool varint = r.type() == PbType::kVarint;
    if (r.field() == 1 && varint) value = r.number() != 0;
    if (r.field() == 2 && varint) value = int64_t(r.number());
    if (r.field() == 5 && varint) value = r.number();
    if (r.is(3, PbType::kBytes)) value = base::presentable(r.bytes(), kLongestText);
    if (r.is(4, PbType::kFixed64)) value = std::bit_cast<double>(r.number());
  }
  return r.ok() ? value : std::nullopt;
}

// Null: it was read. Else how it is wrong, for a Status, which costs more than a shape.
using ShapeError = Status (*)();

ShapeError read_shape(const PbReader& r, msg::Shape& shape) {
  std::string_view packed = r.bytes();
  uint64_t dim = r.number();
  bool ok = true;
  if (r.type() == PbType::kVarint) ok = shape.push(int64_t(dim));
  while (ok && r.type() == PbType::kBytes && !packed.empty()) {
    if (!marshal::take_varint(packed, dim)) return [] { return malformed("a shape"); };
    ok = shape.push(int64_t(dim));
  }
  if (ok) return nullptr;
  return [] { return broken_rule("a shape has more than 16 dimensions"); };
}

bool is_shape(const PbReader& r) {
  return r.field() == 3 && (r.type() == PbType::kVarint || r.type() == PbType::kBytes);
}

// Name, type and shape of a tensor; `contents`: those of an answer's.
Status read_tensor(std::string_view bytes, PbFields& fields, std::string& name, DType& dtype, msg::Shape& shape,
                   std::string_view* contents) {
  std::string_view type;
  PbCountedReader r(bytes, fields);
  while (r.next()) {
    if (r.is(1, PbType::kBytes)) name = base::presentable(r.bytes(), kLongestName);
    if (r.is(2, PbType::kBytes)) type = r.bytes();
    if (contents && r.is(5, PbType::kBytes)) *contents = r.bytes();
    if (is_shape(r))
      if (const ShapeError error = read_shape(r, shape)) return error();
  }
  if (!r.ok()) return malformed("a tensor");
  dtype = msg::dtype_from_name(type.starts_with("TYPE_") ? type.substr(5) : type);
  if (dtype == DType::kInvalid) return broken_rule("tensor " + shown(name) + " has unknown datatype " + shown(type));
  return {};
}

class AnswerReader {
 public:
  AnswerReader(const base::Bytes& message, base::SlabSource& slabs) : message_(message), slabs_(slabs) {}

  base::Result<msg::Outputs> read(std::string_view answer) {
    PbCountedReader r(answer, fields_);
    while (r.next()) {
      if (r.field() < 4) continue;  // the names of the model and of the call
      if (Status s = field(r); !s.ok()) return s;
    }
    if (!r.ok()) return malformed("ModelInferResponse");
    if (Status s = place_raw(); !s.ok()) return s;
    return std::move(out_);
  }

 private:
  Status field(const PbReader& r) {
    if (r.is(4, PbType::kBytes)) return parameter(r.bytes());
    if (r.is(5, PbType::kBytes)) return output(r.bytes());
    if (!r.is(6, PbType::kBytes)) return {};
    if (raw_.size() == kMostTensors) return broken_rule("more than 256 raw_output_contents");
    raw_.push_back(r.bytes());
    return {};
  }

  Status parameter(std::string_view entry) {
    if (out_.parameters.size() == kMostParameters) return broken_rule("more than 256 parameters");
    std::string_view key;
    std::optional<msg::ParamValue> value;
    PbCountedReader r(entry, fields_);
    while (r.next()) {
      if (r.is(1, PbType::kBytes)) key = r.bytes();
      if (r.is(2, PbType::kBytes)) value = read_choice(r.bytes(), fields_);
    }
    if (!r.ok()) return malformed("a parameter");
    if (value && key != "triton_final_response")
      out_.parameters.emplace_back(base::presentable(key, kLongestName), *std::move(value));
    return {};
  }

  Status output(std::string_view bytes) {
    if (out_.tensors.size() == kMostTensors) return broken_rule("more than 256 outputs");
    msg::Tensor& tensor = out_.tensors.emplace_back();
    std::string_view contents;
    if (Status s = read_tensor(bytes, fields_, tensor.name, tensor.dtype, tensor.shape, &contents); !s.ok()) return s;
    if (contents.empty()) return {};
    typed_ = true;
    const uint32_t field = marshal::contents_field(tensor.dtype);
    if (!marshal::packed_alone(contents, field, tensor.dtype)) converted_ += contents.size();
    if (converted_ > kMostTyped)
      return broken_rule("it has more than " + std::to_string(kMostTyped >> 20) +
                         " MiB of typed contents: large tensors belong in raw_output_contents");
    Status s = marshal::read_cells(message_, contents, field, slabs_, tensor);
    return s.ok() ? s : broken_output(s.text);
  }

  Status place_raw() {
    if (raw_.empty()) return {};
    if (typed_) return broken_rule("it has typed contents and raw_output_contents");
    if (raw_.size() != out_.tensors.size())
      return broken_rule(std::to_string(raw_.size()) + " raw_output_contents for " +
                         std::to_string(out_.tensors.size()) + " outputs");
    for (size_t i = 0; i < raw_.size(); ++i) out_.tensors[i].data = message_.slice(raw_[i]);
    return {};
  }

  const base::Bytes& message_;
  base::SlabSource& slabs_;
  msg::Outputs out_{base::SpareVector<msg::Tensor>::take(), {}, true};
  boost::container::small_vector<std::string_view, 8> raw_;
  PbFields fields_;       // without the elements of typed contents
  size_t converted_ = 0;  // bytes of typed contents
  bool typed_ = false;
};

bool fits(const msg::Shape& shape, const msg::Shape& wanted) {
  if (shape.rank() != wanted.rank()) return false;
  for (size_t i = 0; i < shape.rank(); ++i)
    if (wanted[i] >= 0 && shape[i] != wanted[i]) return false;
  return true;
}

Status read_signature(std::string_view bytes, PbFields& fields, std::vector<msg::TensorSpec>& out) {
  if (out.size() == kMostTensors) return broken_rule("more than 256 inputs or outputs");
  auto& tensor = out.emplace_back();
  if (Status s = read_tensor(bytes, fields, tensor.name, tensor.dtype, tensor.shape, nullptr); !s.ok()) return s;
  if (tensor.name.empty()) return broken_rule("a tensor of the model has no name");
  for (int64_t d : tensor.shape.dims())
    if (d < -1) return broken_rule("tensor " + shown(tensor.name) + " has shape " + tensor.shape.text());
  return {};
}

// The configuration's batch dimension goes off the front of what the metadata says.
Status take_batch_off(std::vector<msg::TensorSpec>& tensors) {
  for (auto& tensor : tensors) {
    if (tensor.shape.rank() == 0) return broken_rule("tensor " + shown(tensor.name) + " has no batch dimension");
    msg::Shape shape;
    for (size_t i = 1; i < tensor.shape.rank(); ++i) shape.push(tensor.shape[i]);
    tensor.shape = shape;
  }
  return {};
}

}  // namespace

base::Result<msg::Outputs> read_answer(const base::Bytes& message, base::SlabSource& slabs) {
  return AnswerReader(message, slabs).read(message.view());
}

base::Result<msg::Outputs> read_streamed(const base::Bytes& message, base::SlabSource& slabs) {
  std::string_view answer;
  PbFields fields;
  PbCountedReader r(message.view(), fields);
  while (r.next()) {
    if (r.is(1, PbType::kBytes) && !r.bytes().empty())
      return failure(Code::kUnknown, base::presentable(r.bytes(), kLongestText));
    if (r.is(2, PbType::kBytes)) answer = r.bytes();
  }
  if (!r.ok()) return malformed("ModelStreamInferResponse");
  return AnswerReader(message, slabs).read(answer);
}

Status check_answer(const msg::ModelSpec& spec, const std::vector<msg::Tensor>& tensors, uint32_t rows) {
  for (const auto& tensor : tensors) {
    if (Status s = marshal::check_data(tensor, "output"); !s.ok()) return broken_rule(std::move(s.text));
    if (spec.any_tensors) continue;
    const msg::TensorSpec* declared = spec.output(tensor.name);
    if (!declared) return broken_rule("the model has no output " + shown(tensor.name));
    if (tensor.dtype != declared->dtype)
      return broken_rule("output " + shown(tensor.name) + " is " + std::string(msg::name(tensor.dtype)) +
                         ", expected " + std::string(msg::name(declared->dtype)));
    const msg::Shape wanted = spec.public_shape(*declared);
    if (!fits(tensor.shape, wanted))
      return broken_rule("output " + shown(tensor.name) + " has shape " + tensor.shape.text() + ", expected " +
                         wanted.text());
    if (spec.max_batch > 0 && rows > 0 && tensor.shape[0] != int64_t(rows))
      return broken_rule("output " + shown(tensor.name) + " has " + std::to_string(tensor.shape[0]) +
                         " rows, expected " + std::to_string(rows));
  }
  return {};
}

base::Result<bool> read_ready(std::string_view message) {
  bool ready = false;
  PbFields fields;
  PbCountedReader r(message, fields);
  while (r.next())
    if (r.is(1, PbType::kVarint)) ready = r.number() != 0;
  if (!r.ok()) return malformed("ModelReadyResponse");
  return ready;
}

Status read_metadata(std::string_view message, msg::ModelSpec& spec) {
  spec.inputs.clear(), spec.outputs.clear();
  PbFields fields;
  PbCountedReader r(message, fields);
  while (r.next()) {
    Status status;
    if (r.is(3, PbType::kBytes)) spec.platform = base::presentable(r.bytes(), kLongestName);
    if (r.is(4, PbType::kBytes)) status = read_signature(r.bytes(), fields, spec.inputs);
    if (r.is(5, PbType::kBytes)) status = read_signature(r.bytes(), fields, spec.outputs);
    if (!status.ok()) return status;
  }
  if (!r.ok()) return malformed("ModelMetadataResponse");
  spec.any_tensors = spec.inputs.empty() && spec.outputs.empty();
  return {};
}

Status read_config(std::string_view message, msg::ModelSpec& spec) {
  PbFields fields;
  PbCountedReader outer(message, fields);
  std::string_view config;
  while (outer.next())
    if (outer.is(1, PbType::kBytes)) config = outer.bytes();
  PbCountedReader r(config, fields);
  while (outer.ok() && r.next()) {
    if (r.is(4, PbType::kVarint)) spec.max_batch = uint32_t(std::clamp<int64_t>(int32_t(r.number()), 0, 65536));
    if (r.is(19, PbType::kBytes)) {
      PbCountedReader policy(r.bytes(), fields);
      while (policy.next())
        if (policy.is(1, PbType::kVarint)) spec.decoupled = policy.number() != 0;
    }
    if (!r.is(5, PbType::kBytes)) continue;
    std::string_view name;
    bool optional = false;
    PbCountedReader input(r.bytes(), fields);
    while (input.next()) {
      if (input.is(1, PbType::kBytes)) name = input.bytes();
      if (input.is(8, PbType::kVarint)) optional = input.number() != 0;
    }
    for (auto& declared : spec.inputs)
      if (declared.name == name) declared.optional = optional;
  }
  if (!outer.ok() || !r.ok()) return malformed("ModelConfigResponse");
  return take_batch(spec);
}

Status take_batch(msg::ModelSpec& spec) {
  if (spec.max_batch == 0) return {};
  Status status = take_batch_off(spec.inputs);
  return status.ok() ? take_batch_off(spec.outputs) : status;
}

}  // namespace weir::forward
