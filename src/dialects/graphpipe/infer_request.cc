#include "dialects/graphpipe/infer_request.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "marshal/json_cursor.h"
#include "wire/offload.h"

namespace weir::graphpipe {
namespace {

using base::invalid;
using base::Status;
using flatbuffers::uoffset_t;
using marshal::JsonCursor;
using msg::DType;
using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

std::string_view view(const flatbuffers::String* s) { return s ? std::string_view(s->c_str(), s->size()) : ""; }

bool whole(JsonCursor& json, std::string_view key, uint64_t most, uint64_t& out) {
  marshal::JsonNumber n;
  if (!json.number(n)) return false;
  if (n.to(out) && out <= most) return true;
  return json.fail("'" + std::string(key) + "' takes a whole number from 0 to " + std::to_string(most));
}

// A model or version: what the path has said stays.
bool choose(JsonCursor& json, std::string_view key, std::string& place) {
  std::string text;
  uint64_t number;
  if (json.peek() == JsonCursor::Kind::kNumber) {  // "version": 2
    if (!whole(json, key, std::numeric_limits<uint64_t>::max(), number)) return false;
    text = std::to_string(number);
  } else if (!json.string(text)) {
    return false;
  }
  if (!place.empty() && place != text)
    return json.fail("the path names " + std::string(key) + " '" + place + "', the config '" + text + "'");
  place = std::move(text);
  return true;
}

bool parameter(JsonCursor& json, std::string_view key, msg::Call& call) {
  if (call.parameters.size() == kMaxParameters) return json.fail("too many parameters");
  msg::ParamValue value;
  marshal::JsonNumber n;
  double real;
  int64_t integer;
  bool flag;
  std::string text;
  switch (json.peek()) {
    case JsonCursor::Kind::kNull: return json.null();
    case JsonCursor::Kind::kBool:
      if (!json.boolean(flag)) return false;
      value = flag;
      break;
    case JsonCursor::Kind::kNumber:
      if (!json.number(n)) return false;
      if (n.integral && n.to(integer))
        value = integer;
      else if (n.to(real))
        value = real;
      else
        return json.fail("'" + std::string(key) + "' is out of range");
      break;
    case JsonCursor::Kind::kString:
      if (!json.string(text)) return false;
      value = std::move(text);
      break;
    default: return json.fail("'" + std::string(key) + "' takes a string, a number, true or false");
  }
  call.parameters.emplace_back(key, std::move(value));
  return true;
}

bool member(JsonCursor& json, const std::string& key, msg::Call& call) {
  constexpr uint64_t kLongest = uint64_t(365) * 24 * 3600 * 1'000'000;
  uint64_t n;
  if (key == "model") return choose(json, key, call.model);
  if (key == "version") return choose(json, key, call.version);
  if (key == "id") return json.string(call.id);
  if (key == "priority") {
    if (!whole(json, key, std::numeric_limits<uint32_t>::max(), n)) return false;
    call.priority = uint32_t(n);
    return true;
  }
  if (key == "timeout") {
    if (!whole(json, key, std::numeric_limits<int64_t>::max(), n)) return false;
    call.queue_timeout = std::chrono::microseconds(std::min(n, kLongest));
    return true;
  }
  return parameter(json, key, call);
}

// The name at `i`, or the model's at that position.
Status name_at(const Strings* names, size_t i, const std::vector<msg::TensorSpec>& declared, const msg::ModelSpec& spec,
               std::string_view what, std::string& out) {
  constexpr size_t kMost = 1024;  // bytes: they are compared with each other, and many may share theirs
  if (names && i < names->size()) {
    const std::string_view name = view(names->Get(uoffset_t(i)));
    if (name.size() > kMost)
      return invalid("the name of " + std::string(what) + " number " + std::to_string(i + 1) + " has more than " +
                     std::to_string(kMost) + " bytes");
    out = name;
  }
  if (!out.empty()) return {};
  if (i < declared.size()) {
    out = declared[i].name;
  } else if (spec.any_tensors) {
    out = (what == "input" ? "INPUT" : "OUTPUT") + std::to_string(i);
  } else {
    return invalid(std::string(what) + " number " + std::to_string(i + 1) + " has no name, and model '" + spec.name +
                   "' has " + std::to_string(declared.size()) + " " + std::string(what) + "s");
  }
  return {};
}

// Every element once more behind its length; verify() has charged for them.
Status copy_strings(const Strings* all, base::SlabSource& slabs, base::Bytes& out) {
  if (!all || all->size() == 0) return {};
  uint64_t total = 0;
  for (uoffset_t i = 0; i < all->size(); ++i) total += 4 + all->Get(i)->size();
  base::Block block(slabs.take(total));
  if (!block)
    return base::failure(base::Code::kResourceExhausted, "no memory for the strings of an input now; try again");
  for (uoffset_t i = 0; i < all->size(); ++i) {
    std::string_view s = view(all->Get(i));
    auto n = uint32_t(s.size());
    block.append(&n, 4);
    block.append(s.data(), s.size());
  }
  out = block.freeze();
  return {};
}

// Uint8 where the model wants BOOL. Eight bytes a step: 64 MiB take the shard some 5 ms.
Status as_bool(msg::Tensor& tensor) {
  std::string_view bytes = tensor.data.view();
  uint64_t seen = 0, word;
  for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    seen |= word;
  }
  for (char c : bytes) seen |= uint8_t(c);
  if ((seen & ~uint64_t(0x0101010101010101)) != 0)
    return invalid("input '" + tensor.name + "' is BOOL: each of its bytes is 0 or 1");
  tensor.dtype = DType::kBool;
  return {};
}

Status read_tensor(const fb::Tensor& from, const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs,
                   const base::Bytes* strings, msg::Tensor& tensor) {
  std::string of = "input '" + tensor.name + "': ";
  tensor.dtype = dtype_of(from.type());
  if (tensor.dtype == DType::kInvalid)
    return invalid(of + "type " + std::to_string(int(from.type())) + " is none that holds data; 1 to 12 do");
  if (auto* shape = from.shape()) {
    if (shape->size() > msg::Shape::kMaxRank)
      return invalid(of + std::to_string(shape->size()) + " dimensions, at most " +
                     std::to_string(msg::Shape::kMaxRank) + " are taken");
    for (uoffset_t i = 0; i < shape->size(); ++i) {
      int64_t dim;  // at an address that nobody has aligned
      std::memcpy(&dim, shape->Data() + sizeof dim * i, sizeof dim);
      tensor.shape.push(dim);
    }
  }
  bool text = tensor.dtype == DType::kBytes;
  if (text ? from.data() && from.data()->size() > 0 : from.string_val() && from.string_val()->size() > 0)
    return invalid(of + (text ? "String has its elements in string_val, not in data"
                              : std::string(name(from.type())) + " has its elements in data, not in string_val"));
  if (text && strings) return tensor.data = *strings, Status();
  if (text) return copy_strings(from.string_val(), slabs, tensor.data);
  if (auto* data = from.data(); data && data->size() > 0)
    tensor.data = body.slice({reinterpret_cast<const char*>(data->data()), data->size()});
  const msg::TensorSpec* declared = spec.any_tensors ? nullptr : spec.input(tensor.name);
  if (declared && declared->dtype == DType::kBf16)
    return base::failure(base::Code::kUnimplemented, of + "the model takes BF16, for which GraphPipe has no type");
  if (declared && declared->dtype == DType::kBool && tensor.dtype == DType::kUint8) return as_bool(tensor);
  return {};
}

Status read_outputs(const Strings* names, const msg::ModelSpec& spec, msg::Call& call) {
  if (!names) return {};
  if (names->size() > kMaxOutputs) return invalid("more than " + std::to_string(kMaxOutputs) + " outputs");
  for (size_t i = 0; i < names->size(); ++i)
    if (auto s = name_at(names, i, spec.outputs, spec, "output", call.outputs.emplace_back()); !s.ok()) return s;
  return {};
}

}  // namespace

Status read_config(std::string_view config, msg::Call& call) {
  constexpr size_t kMost = wire::kLongBody;  // bytes: it is read where the body came in
  if (config.size() > kMost) return invalid("config has at most " + std::to_string(kMost) + " bytes");
  if (config.empty()) return {};
  if (config.front() != '{') {
    call.parameters.emplace_back("config", std::string(config));
    return {};
  }
  JsonCursor json(config);
  bool read = json.object([&](std::string_view key) { return member(json, std::string(key), call); });
  if (read && json.finish()) return {};
  Status status = json.error();
  status.text = "config: " + status.text;
  return status;
}

base::Result<std::vector<base::Bytes>> read_strings(const fb::InferRequest& request, base::SlabSource& slabs) {
  std::vector<base::Bytes> out(request.input_tensors() ? std::min<size_t>(request.input_tensors()->size(), kMaxInputs)
                                                       : 0);
  for (size_t i = 0; i < out.size(); ++i) {
    const fb::Tensor& from = *request.input_tensors()->Get(uoffset_t(i));
    if (dtype_of(from.type()) != DType::kBytes) continue;
    if (Status status = copy_strings(from.string_val(), slabs, out[i]); !status.ok()) return status;
  }
  return out;
}

Status read_tensors(const fb::InferRequest& request, const base::Bytes& body, const msg::ModelSpec& spec,
                    base::SlabSource& slabs, msg::Call& call, std::span<const base::Bytes> strings) {
  size_t count = request.input_tensors() ? request.input_tensors()->size() : 0;
  size_t names = request.input_names() ? request.input_names()->size() : 0;
  if (count > kMaxInputs) return invalid("more than " + std::to_string(kMaxInputs) + " inputs");
  if (names > 0 && names < count)  // graphpipe-batcher sends more of them than tensors: those name nothing
    return invalid(std::to_string(names) + " input names for " + std::to_string(count) + " tensors");
  call.inputs.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    msg::Tensor& tensor = call.inputs.emplace_back();
    Status status = name_at(request.input_names(), i, spec.inputs, spec, "input", tensor.name);
    const base::Bytes* read = i < strings.size() ? &strings[i] : nullptr;
    if (status.ok()) status = read_tensor(*request.input_tensors()->Get(uoffset_t(i)), body, spec, slabs, read, tensor);
    if (!status.ok()) return status;
  }
  return read_outputs(request.output_names(), spec, call);
}

}  // namespace weir::graphpipe
