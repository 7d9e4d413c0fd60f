#include "dialects/grps/mapping.h"

#include <algorithm>

#include "dialects/grps/types.h"
#include "marshal/cast.h"
#include "marshal/check.h"
#include "marshal/json_tensor.h"
#include "marshal/raw_input.h"

namespace weir::grps {
namespace {

using base::invalid;
using base::Status;
using msg::DType;
using msg::Tensor;

constexpr size_t kMaxModel = 256;  // bytes of a model's name with its version

bool takes_anything(const msg::ModelSpec& spec) { return spec.any_tensors && spec.inputs.empty(); }

bool listed(const bus::Catalog& catalog, std::string_view model) {
  return catalog.knows(model) || std::any_of(catalog.index.begin(), catalog.index.end(),
                                             [&](const bus::IndexRow& row) { return row.name == model; });
}

std::string list_inputs(const msg::ModelSpec& spec) {
  std::string out = "; model '" + spec.name + "' has ";
  for (const auto& in : spec.inputs)
    out += (out.ends_with("has ") ? "" : ", ") + in.name + " " + std::string(msg::name(in.dtype)) + " " +
           spec.public_shape(in).text() + (in.optional ? " (optional)" : "");
  return spec.inputs.empty() ? out + "no inputs" : out;
}

Tensor one_string(std::string name, std::string_view bytes, base::SlabSource& slabs) {
  return {std::move(name), DType::kBytes, {1}, marshal::one_element(bytes, slabs)};
}

Status place_text(const Message& message, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call) {
  if (takes_anything(spec)) return call.inputs.push_back(one_string("str_data", message.data.view(), slabs)), Status{};
  const msg::TensorSpec* lone = marshal::lone_input(spec);
  if (!lone || lone->dtype != DType::kBytes)
    return invalid("str_data needs a model with one BYTES input" + list_inputs(spec));
  return marshal::set_raw_input(message.data, spec, slabs, call);
}

Status place_bytes(const Message& message, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call) {
  if (takes_anything(spec)) return call.inputs.push_back(one_string("bin_data", message.data.view(), slabs)), Status{};
  if (!marshal::lone_input(spec)) return invalid("bin_data needs a model with one input" + list_inputs(spec));
  return marshal::set_raw_input(message.data, spec, slabs, call);
}

// A lone tensor for a model with one input needs no name and no batch dimension. Beside optional inputs a name that is
// none of theirs was meant for one of them.
void adopt_lone(Tensor& tensor, const msg::ModelSpec& spec) {
  const msg::TensorSpec& declared = *marshal::lone_input(spec);
  if (tensor.name.empty() || (spec.inputs.size() == 1 && !spec.input(tensor.name))) tensor.name = declared.name;
  if (tensor.name != declared.name) return;
  size_t rank = spec.public_shape(declared).rank();
  if (spec.max_batch == 0 || tensor.shape.rank() + 1 != rank) return;
  msg::Shape one_row{1};
  for (int64_t dim : tensor.shape.dims()) one_row.push(dim);
  tensor.shape = one_row;
}

// The input that place_tensors() will make of it, if that is known before.
const msg::TensorSpec* meant(const Tensor& tensor, const Message& message, const msg::ModelSpec& spec) {
  if (const msg::TensorSpec* named = spec.input(tensor.name)) return named;
  return message.tensors.size() == 1 ? marshal::lone_input(spec) : nullptr;
}

// The bytes must be as many as type and shape say before a cast walks over them.
bool whole(const Tensor& tensor) {
  auto elements = tensor.shape.elements();
  return elements && *elements <= tensor.data.size() && *elements * msg::size_of(tensor.dtype) == tensor.data.size();
}

// Tensors without a name are, in their order, the model's inputs that no other tensor names.
Status name_by_order(std::vector<Tensor>& tensors, const msg::ModelSpec& spec) {
  auto named = [&](std::string_view name) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  };
  size_t next = 0, unnamed = 0;
  for (Tensor& tensor : tensors) {
    if (!tensor.name.empty()) continue;
    ++unnamed;
    if (takes_anything(spec)) {
      tensor.name = "INPUT" + std::to_string(&tensor - tensors.data());
      continue;
    }
    while (next < spec.inputs.size() && named(spec.inputs[next].name)) ++next;
    if (next == spec.inputs.size())
      return invalid("there is no input for unnamed tensor number " + std::to_string(unnamed) + list_inputs(spec));
    tensor.name = spec.inputs[next++].name;
  }
  return {};
}

Status place_tensors(Message& message, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call) {
  bool lone = message.tensors.size() == 1 && marshal::lone_input(spec);
  if (message.tensors.size() > 1)
    if (Status status = name_by_order(message.tensors, spec); !status.ok()) return status;
  for (Tensor& tensor : message.tensors) {
    if (lone) adopt_lone(tensor, spec);
    const msg::TensorSpec* declared = spec.input(tensor.name);
    bool carried = declared && declared->dtype != tensor.dtype && carrier(declared->dtype) == tensor.dtype;
    if (carried && whole(tensor))
      if (Status status = marshal::cast(tensor, declared->dtype, slabs); !status.ok()) return status;
    call.inputs.push_back(std::move(tensor));
  }
  return {};
}

Status place_array(Tensor& tensor, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call) {
  if (takes_anything(spec)) {
    tensor.name = "ndarray";
  } else {
    const msg::TensorSpec* lone = marshal::lone_input(spec);
    if (!lone) return invalid("ndarray needs a model with one input" + list_inputs(spec));
    tensor.name = lone->name;
    adopt_lone(tensor, spec);
    if (Status status = marshal::cast(tensor, lone->dtype, slabs); !status.ok()) return status;
  }
  call.inputs.push_back(std::move(tensor));
  return {};
}

bool utf8(const Tensor& tensor) { return marshal::bytes_text(tensor) == marshal::BytesText::kUtf8; }
bool one_element(const Tensor& tensor) { return tensor.shape.elements() == 1u; }
// The one element of a BYTES tensor.
base::Bytes content(const Tensor& tensor) { return tensor.data.slice(4, tensor.data.size() - 4); }

// Casts what goes out; a value that the protocol cannot say is nobody's fault.
Status express(Tensor& tensor, DType as, base::SlabSource& slabs) {
  Status status = marshal::cast(tensor, as, slabs);
  if (status.ok()) return {};
  return base::failure(
      base::Code::kOutOfRange,
      "output '" + tensor.name + "' (" + std::string(msg::name(tensor.dtype)) + ") has values that GRPS cannot carry");
}

base::Result<Message> as_array(Message message) {
  bool fits = message.tensors.size() == 1 && msg::size_of(message.tensors[0].dtype) > 0;
  if (!fits) return invalid("return-ndarray needs a model with one numeric output");
  if (Status status = marshal::check_nesting(message.tensors[0], "output"); !status.ok()) return status;
  message.kind = Kind::kArray;
  return message;
}

base::Result<Message> as_tensors(Message message, base::SlabSource& slabs) {
  message.kind = Kind::kTensors;
  for (Tensor& tensor : message.tensors) {
    if (tensor.dtype == DType::kBytes && !utf8(tensor))
      return base::failure(base::Code::kOutOfRange, "output '" + tensor.name +
                                                        "' is not text: DT_STRING cannot carry it; ask with bin_data "
                                                        "or gmap");
    if (Status status = express(tensor, carrier(tensor.dtype), slabs); !status.ok()) return status;
  }
  return message;
}

}  // namespace

base::Result<bus::Served*> find_model(const bus::Catalog& catalog, std::string_view name) {
  if (name.size() > kMaxModel)
    return invalid("a model is named by at most " + std::to_string(kMaxModel) + " bytes, not " +
                   std::to_string(name.size()));
  size_t dash = name.rfind('-');
  if (dash == name.npos || catalog.knows(name)) return catalog.resolve(name, "");
  std::string_view base = name.substr(0, dash), version = name.substr(dash + 1), least = version;
  while (least.ends_with(".0")) least.remove_suffix(2);
  if (auto model = catalog.models.find(catalog.own_name(base)); model != catalog.models.end())
    for (std::string_view v : {version, least})
      if (auto found = model->second.versions.find(v); found != model->second.versions.end())
        return found->second.get();
  return !listed(catalog, name) && listed(catalog, base) ? catalog.find(base, version) : catalog.find(name, "");
}

size_t conversion_work(const Message& message, const msg::ModelSpec& spec) {
  const msg::TensorSpec* lone = marshal::lone_input(spec);
  if (message.kind == Kind::kStr || message.kind == Kind::kBin)
    return takes_anything(spec) || (lone && lone->dtype == DType::kBytes) ? message.data.size() : 0;
  size_t bytes = marshal::string_bytes(message.tensors);
  if (takes_anything(spec)) return bytes;
  for (const Tensor& tensor : message.tensors) {
    const msg::TensorSpec* input = meant(tensor, message, spec);
    const bool stays = tensor.dtype == DType::kBytes || (input && input->dtype == tensor.dtype);
    if (!stays) bytes += tensor.data.size();
  }
  return bytes;
}

Status payload_to_inputs(Message&& message, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call,
                         RequestForm& asked) {
  asked.kind = message.kind;
  switch (message.kind) {
    case Kind::kNone: return invalid("the request has no data: str_data, bin_data, gtensors, ndarray or gmap");
    case Kind::kStr: return place_text(message, spec, slabs, call);
    case Kind::kBin: return place_bytes(message, spec, slabs, call);
    case Kind::kTensors: return place_tensors(message, spec, slabs, call);
    case Kind::kArray: return place_array(message.tensors.front(), spec, slabs, call);
    case Kind::kMap:
      asked.maps = name_inputs(message, spec);
      for (Tensor& value : message.tensors)
        if (Status status = set_scalar_input(std::move(value), spec, slabs, call); !status.ok()) return status;
      return {};
  }
  return {};
}

Status set_scalar_input(Tensor value, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call) {
  value.shape = {1};
  if (const msg::TensorSpec* declared = spec.input(value.name)) {
    value.shape = spec.public_shape(*declared);
    for (size_t i = 0; i < value.shape.rank(); ++i)
      if (value.shape[i] == -1) value.shape[i] = 1;
    if (!one_element(value))
      return invalid("input '" + value.name + "' has shape " + spec.public_shape(*declared).text() +
                     ": one value does not fill it");
    if (Status status = marshal::cast(value, declared->dtype, slabs); !status.ok()) return status;
  }
  call.inputs.push_back(std::move(value));
  return {};
}

base::Result<Message> outputs_to_payload(const AnswerForm& form, std::vector<Tensor> outputs, base::SlabSource& slabs) {
  Message message;
  message.model = form.model;
  message.tensors = std::move(outputs);
  auto& tensors = message.tensors;
  const RequestForm& asked = form.request;
  if (asked.kind == Kind::kNone) return message;
  if (form.array == ArrayForm::kReturn) return as_array(std::move(message));
  bool one_string = tensors.size() == 1 && tensors[0].dtype == DType::kBytes && one_element(tensors[0]);
  if (asked.kind == Kind::kStr && one_string) {
    message.kind = utf8(tensors[0]) ? Kind::kStr : Kind::kBin;
    message.data = content(tensors[0]);
    tensors.clear();
    return message;
  }
  if (asked.kind == Kind::kBin && tensors.size() == 1 && (one_string || tensors[0].dtype != DType::kBytes)) {
    message.kind = Kind::kBin;
    message.data = one_string ? content(tensors[0]) : tensors[0].data;
    tensors.clear();
    return message;
  }
  bool scalars = asked.kind == Kind::kMap;
  for (const Tensor& tensor : tensors) scalars = scalars && one_element(tensor);
  if (!scalars) return as_tensors(std::move(message), slabs);
  message.kind = Kind::kMap;
  if (Status status = sort_into_maps(asked.maps, slabs, message); !status.ok()) return status;
  return message;
}

}  // namespace weir::grps
