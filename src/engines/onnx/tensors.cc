#include "engines/onnx/tensors.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/memory_ledger.h"
#include "base/overload.h"
#include "engines/onnx/error.h"

namespace weir::onnx {
namespace {

using base::Status;
using msg::DType;
using msg::Tensor;

struct Pair {
  DType dtype;
  int element;
};
constexpr Pair kTypes[] = {
    {DType::kFp32, 1},  {DType::kUint8, 2},   {DType::kInt8, 3},    {DType::kUint16, 4}, {DType::kInt16, 5},
    {DType::kInt32, 6}, {DType::kInt64, 7},   {DType::kBytes, 8},   {DType::kBool, 9},   {DType::kFp16, 10},
    {DType::kFp64, 11}, {DType::kUint32, 12}, {DType::kUint64, 13}, {DType::kBf16, 16},
};

// A slab that is memory of the library: freed by releasing its value.
struct ValueSlab : base::Slab {
  base::MemoryCharge charge;
  Owned<OrtValue> value;

  ValueSlab(std::byte* data, size_t size, Owned<OrtValue> v, base::MemoryCharge c)
      : Slab(data, size, [](Slab* slab) { delete static_cast<ValueSlab*>(slab); }),
        charge(std::move(c)),
        value(std::move(v)) {}
};

Status misfit(const Tensor& tensor, const std::string& what) {
  return base::invalid("input '" + tensor.name + "' " + what);
}

// C++ has no third bool: a kernel may do anything with a byte of 2.
bool all_bools(std::string_view data) {
  unsigned char seen = 0;
  for (char c : data) seen |= static_cast<unsigned char>(c);
  return seen <= 1;
}

base::Block room(base::SlabSource& slabs, size_t size) {
  base::Block block(base::take_now(slabs, size));
  block.resize(size);
  return block;
}

base::Result<Owned<OrtValue>> strings_to_ort(const Library& library, const Tensor& tensor, uint64_t elements) {
  // Counted before anything is allocated: the shape may promise more elements than there are bytes.
  uint64_t found = 0;
  bool whole = msg::for_each_string(tensor.data.view(), [&](std::string_view) { ++found; });
  if (!whole) return misfit(tensor, "is damaged: the lengths of its BYTES elements do not add up");
  if (found != elements)
    return misfit(tensor, "has " + std::to_string(found) + " BYTES elements; its shape " + tensor.shape.text() +
                              " is of " + std::to_string(elements));
  OrtValue* raw = nullptr;
  auto dims = tensor.shape.dims();
  const Api& api = library.api;
  Status status =
      to_status(api, api.create_tensor(library.allocator, dims.data(), dims.size(), element_of(DType::kBytes), &raw));
  if (!status.ok()) return status;
  Owned<OrtValue> value(raw, api.release_value);
  size_t i = 0;
  msg::for_each_string(tensor.data.view(), [&](std::string_view element) {
    char* out = nullptr;
    if (!status.ok()) return;
    status = to_status(api, api.string_buffer(raw, i++, element.size(), &out));
    if (status.ok() && !element.empty()) std::memcpy(out, element.data(), element.size());
  });
  if (!status.ok()) return status;
  return value;
}

base::Result<base::Bytes> strings_from_ort(const Library& library, const OrtValue* value, size_t elements,
                                           base::SlabSource& slabs) {
  const Api& api = library.api;
  size_t size = 0;
  if (auto s = to_status(api, api.strings_size(value, &size)); !s.ok()) return s;
  std::string text(size, '\0');
  std::vector<size_t> starts(elements + 1, size);
  if (elements > 0)
    if (auto s = to_status(api, api.strings(value, text.data(), size, starts.data(), elements)); !s.ok()) return s;
  starts[elements] = size;
  base::Block block = room(slabs, size + 4 * elements);
  std::byte* out = block.data();
  for (size_t i = 0; i < elements; ++i) {
    auto n = uint32_t(starts[i + 1] - starts[i]);
    std::memcpy(out, &n, 4);
    std::memcpy(out + 4, text.data() + starts[i], n);
    out += 4 + size_t(n);
  }
  return block.freeze();
}

Status read_shape(const Api& api, const OrtValue* value, Tensor& tensor) {
  OrtTensorInfo* raw = nullptr;
  if (auto s = to_status(api, api.tensor_info(value, &raw)); !s.ok()) return s;
  Owned<OrtTensorInfo> info(raw, api.release_tensor_info);
  int element = 0;
  size_t rank = 0;
  if (auto s = to_status(api, api.element_type(raw, &element)); !s.ok()) return s;
  if (auto s = to_status(api, api.rank(raw, &rank)); !s.ok()) return s;
  tensor.dtype = dtype_of(element);
  if (tensor.dtype == DType::kInvalid)
    return base::failure(base::Code::kInternal, "the model gave a tensor of a type that cannot be served");
  if (rank > msg::Shape::kMaxRank)
    return base::failure(base::Code::kInternal, "the model gave a tensor of rank " + std::to_string(rank));
  int64_t dims[msg::Shape::kMaxRank] = {};
  if (auto s = to_status(api, api.dims(raw, dims, rank)); !s.ok()) return s;
  for (size_t i = 0; i < rank; ++i) tensor.shape.push(dims[i]);
  return {};
}

}  // namespace

DType dtype_of(int element) {
  for (const Pair& p : kTypes)
    if (p.element == element) return p.dtype;
  return DType::kInvalid;
}

int element_of(DType dtype) {
  for (const Pair& p : kTypes)
    if (p.dtype == dtype) return p.element;
  return 0;
}

Status check_input(const Tensor& tensor) {
  auto elements = tensor.shape.elements();
  if (!elements) return misfit(tensor, "has an impossible shape " + tensor.shape.text());
  size_t each = size_of(tensor.dtype);
  if (each == 0) return misfit(tensor, "has no type");
  if (*elements > SIZE_MAX / each || tensor.data.size() != *elements * each)
    return misfit(tensor, "has " + std::to_string(tensor.data.size()) + " bytes; " + std::string(name(tensor.dtype)) +
                              tensor.shape.text() + " is of another size");
  if (tensor.dtype == DType::kBool && !all_bools(tensor.data.view()))
    return misfit(tensor, "is BOOL and has a byte that is neither 0 nor 1");
  return {};
}

base::Result<Owned<OrtValue>> to_ort(const Library& library, const Tensor& tensor, base::Bytes& copy) {
  if (tensor.dtype == DType::kBytes) {
    auto elements = tensor.shape.elements();
    if (!elements) return misfit(tensor, "has an impossible shape " + tensor.shape.text());
    return strings_to_ort(library, tensor, *elements);
  }
  if (auto status = check_input(tensor); !status.ok()) return status;
  const size_t each = size_of(tensor.dtype);
  const std::byte* data = tensor.data.data();
  if (reinterpret_cast<uintptr_t>(data) % each != 0) {
    base::Block block(base::heap_slab(tensor.data.size()));
    block.append(data, tensor.data.size());
    copy = block.freeze();
    data = copy.data();
  }
  return wrap(library, tensor.dtype, tensor.shape, const_cast<std::byte*>(data), tensor.data.size());
}

base::Result<Owned<OrtValue>> wrap(const Library& library, DType dtype, const msg::Shape& shape, std::byte* data,
                                   size_t size, const OrtMemoryInfo* memory) {
  alignas(64) static std::byte nothing[64];  // an empty tensor has to lie somewhere
  const Api& api = library.api;
  auto dims = shape.dims();
  OrtValue* raw = nullptr;
  if (auto s = to_status(api, api.wrap_tensor(memory ? memory : library.cpu.get(), size > 0 ? data : nothing, size,
                                              dims.data(), dims.size(), element_of(dtype), &raw));
      !s.ok())
    return s;
  return Owned<OrtValue>(raw, api.release_value);
}

base::Result<Tensor> from_ort(const Library& library, Owned<OrtValue> value, base::SlabSource& slabs) {
  const Api& api = library.api;
  Tensor tensor;
  int is_tensor = 0;
  if (auto s = to_status(api, api.is_tensor(value.get(), &is_tensor)); !s.ok()) return s;
  if (!is_tensor) return base::failure(base::Code::kInternal, "the model gave something that is no tensor");
  if (auto s = read_shape(api, value.get(), tensor); !s.ok()) return s;
  auto elements = tensor.shape.elements();
  if (!elements) return base::failure(base::Code::kInternal, "the model gave an impossible shape");
  if (tensor.dtype == DType::kBytes) {
    auto data = strings_from_ort(library, value.get(), *elements, slabs);
    if (!data) return data.error();
    tensor.data = std::move(*data);
    return tensor;
  }
  size_t size = *elements * size_of(tensor.dtype);
  if (size == 0) return tensor;
  void* data = nullptr;
  if (auto s = to_status(api, api.tensor_data(value.get(), &data)); !s.ok()) return s;
  base::MemoryCharge charge;
  if (auto* ledger = size >= base::kLeastCharged ? slabs.ledger() : nullptr)
    charge = {*ledger, base::MemoryKind::kAnswers};
  if (!charge.grow(size)) return base::overloaded("there is no memory for what the model has made; try again later");
  auto* slab = new ValueSlab(static_cast<std::byte*>(data), size, std::move(value), std::move(charge));
  tensor.data = base::Bytes(slab, slab->data, size);
  return tensor;
}

}  // namespace weir::onnx
