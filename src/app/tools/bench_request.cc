#include "app/tools/bench_request.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "marshal/pb_wire.h"
#include "msg/half.h"

namespace weir::app {
namespace {

using marshal::PbType;
using msg::DType;
using msg::Tensor;
using nlohmann::json;
using wire::ClientRequest;

std::string oip_path(const std::string& model) { return "/v2/models/" + base::percent_encode(model) + "/infer"; }

template <class T>
T element(const Tensor& tensor, size_t i) {
  T value;
  std::memcpy(&value, tensor.data.data() + i * sizeof value, sizeof value);
  return value;
}

// Calls `each` with the elements of a tensor of numbers, as doubles or whole numbers.
template <class Each>
void for_each_number(const Tensor& t, Each each) {
  const size_t n = msg::size_of(t.dtype) == 0 ? 0 : t.data.size() / msg::size_of(t.dtype);
  for (size_t i = 0; i < n; ++i) {
    switch (t.dtype) {
      case DType::kBool:
      case DType::kUint8: each(int64_t(element<uint8_t>(t, i))); break;
      case DType::kUint16: each(int64_t(element<uint16_t>(t, i))); break;
      case DType::kUint32: each(int64_t(element<uint32_t>(t, i))); break;
      case DType::kUint64: each(int64_t(element<uint64_t>(t, i))); break;
      case DType::kInt8: each(int64_t(element<int8_t>(t, i))); break;
      case DType::kInt16: each(int64_t(element<int16_t>(t, i))); break;
      case DType::kInt32: each(int64_t(element<int32_t>(t, i))); break;
      case DType::kInt64: each(element<int64_t>(t, i)); break;
      case DType::kFp16: each(double(msg::fp16_to_float(element<uint16_t>(t, i)))); break;
      case DType::kBf16: each(double(msg::bf16_to_float(element<uint16_t>(t, i)))); break;
      case DType::kFp32: each(double(element<float>(t, i))); break;
      case DType::kFp64: each(element<double>(t, i)); break;
      case DType::kBytes:
      case DType::kInvalid: break;
    }
  }
}

json json_data(const Tensor& t) {
  json data = json::array();
  if (t.dtype == DType::kBytes)
    msg::for_each_string(t.data.view(), [&](std::string_view text) {
      data.push_back(text);
      return true;
    });
  else if (t.dtype == DType::kBool)
    for_each_number(t, [&](auto value) { data.push_back(value != 0); });
  else
    for_each_number(t, [&](auto value) { data.push_back(value); });
  return data;
}

// --- Open Inference Protocol -----------------------------------------------------------------------------------------

ClientRequest oip_rest(const std::string& model, std::span<const Tensor> tensors, TensorForm form) {
  json head{{"inputs", json::array()}};
  std::string blobs;
  for (const auto& t : tensors) {
    json input{{"name", t.name}, {"datatype", msg::name(t.dtype)}, {"shape", t.shape.dims()}};
    if (form == TensorForm::kJson) {
      input["data"] = json_data(t);
    } else {
      input["parameters"] = {{"binary_data_size", t.data.size()}};
      blobs += t.data.view();
    }
    head["inputs"].push_back(std::move(input));
  }
  if (form == TensorForm::kBinary) head["parameters"] = {{"binary_data_output", true}};
  std::string body = head.dump(-1, ' ', false, json::error_handler_t::replace);
  ClientRequest request{"POST", "http", {}, oip_path(model), {}, {}};
  request.fields.add("content-type", form == TensorForm::kJson ? "application/json" : "application/octet-stream");
  if (form == TensorForm::kBinary) request.fields.add("inference-header-content-length", std::to_string(body.size()));
  request.body = base::Bytes::adopt(body + blobs);
  return request;
}

void put_dims(std::string& out, uint32_t field, const Tensor& t) {
  std::string dims;
  for (int64_t dim : t.shape.dims()) marshal::put_varint(dims, uint64_t(dim));
  marshal::put_bytes(out, field, dims);
}

// inference.ModelInferRequest (proto/inference.proto): tensors as raw_input_contents.
ClientRequest oip_grpc(const std::string& method, const std::string& model, std::span<const Tensor> tensors) {
  std::string message;
  marshal::put_text(message, 1, model);
  for (const auto& t : tensors) {
    std::string input;
    marshal::put_text(input, 1, t.name);
    marshal::put_text(input, 2, msg::name(t.dtype));
    put_dims(input, 3, t);
    marshal::put_bytes(message, 5, input);
  }
  for (const auto& t : tensors) marshal::put_bytes(message, 7, t.data.view());
  return grpc_request("/inference.GRPCInferenceService/" + method, message);
}

// --- GRPS ------------------------------------------------------------------------------------------------------------

// grps.protos.v1.DataType, and the field of GenericTensor that has the elements; 0: GRPS has no such type.
struct GrpsType {
  uint32_t number = 0, field = 0;
};
GrpsType grps_type(DType dtype) {
  switch (dtype) {
    case DType::kUint8: return {1, 4};
    case DType::kInt8: return {2, 5};
    case DType::kInt16: return {3, 6};
    case DType::kInt32: return {4, 7};
    case DType::kInt64: return {5, 8};
    case DType::kFp16: return {6, 9};
    case DType::kFp32: return {7, 10};
    case DType::kFp64: return {8, 11};
    case DType::kBytes: return {9, 12};
    default: return {};
  }
}

template <class T>
void put_packed(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string grps_elements(const Tensor& t) {
  std::string out;
  for_each_number(t, [&](auto value) {
    if (t.dtype == DType::kFp64)
      put_packed(out, double(value));
    else if (t.dtype == DType::kFp16 || t.dtype == DType::kFp32)
      put_packed(out, float(value));
    else
      marshal::put_varint(out, uint64_t(int64_t(value)));
  });
  return out;
}

base::Result<ClientRequest> grps(const std::string& model, std::span<const Tensor> tensors) {
  std::string data;
  for (const auto& t : tensors) {
    const GrpsType type = grps_type(t.dtype);
    const uint32_t number = type.number, field = type.field;
    if (number == 0)
      return base::invalid("GRPS has no " + std::string(msg::name(t.dtype)) + ": input '" + t.name + "'");
    std::string tensor;
    marshal::put_text(tensor, 1, t.name);
    marshal::put_tag(tensor, 2, PbType::kVarint);
    marshal::put_varint(tensor, number);
    put_dims(tensor, 3, t);
    if (t.dtype == DType::kBytes)
      msg::for_each_string(t.data.view(), [&](std::string_view text) {
        marshal::put_bytes(tensor, field, text);
        return true;
      });
    else
      marshal::put_bytes(tensor, field, grps_elements(t));
    marshal::put_bytes(data, 1, tensor);
  }
  std::string message;
  marshal::put_text(message, 2, model);
  marshal::put_bytes(message, 5, data);
  return grpc_request("/grps.protos.v1.GrpsService/Predict", message);
}

// --- GraphPipe -------------------------------------------------------------------------------------------------------

// A flatbuffer from its front to its back (flatbuffers' internals: tables are offsets to vtables, references are
// unsigned 32-bit distances from where they stand), for the few tables of proto/graphpipe.fbs. References are written
// as zeros and set when what they point at has its place.
class FlatWriter {
 public:
  std::string bytes = std::string(4, '\0');  // the root's reference

  void align(size_t to, size_t ahead = 0) {
    while ((bytes.size() + ahead) % to != 0) bytes += '\0';
  }
  // A table whose fields are all references; returns where the n-th of them stands. `slots`: one per field of the
  // schema, 0: absent, 1: a byte of value `byte`, 4: a reference.
  std::vector<size_t> table(std::span<const int> slots, size_t reference, uint8_t byte = 0) {
    align(4);
    const size_t vtable_size = 4 + 2 * slots.size();
    align(4, vtable_size);
    const size_t vtable = bytes.size(), table = vtable + vtable_size;
    std::vector<size_t> places;
    uint16_t used = 4;
    std::vector<uint16_t> offsets;
    for (int width : slots)  // references first, then bytes: all are aligned
      if (width == 4) used = uint16_t(used + 4);
    uint16_t at = 4, byte_at = used;
    for (int width : slots)
      offsets.push_back(width == 0 ? 0 : width == 4 ? std::exchange(at, uint16_t(at + 4)) : byte_at++);
    put<uint16_t>(uint16_t(vtable_size)), put<uint16_t>(byte_at);
    for (uint16_t offset : offsets) put<uint16_t>(offset);
    put<int32_t>(int32_t(vtable_size));
    bytes.resize(table + byte_at);
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == 4) places.push_back(table + offsets[i]);
      if (slots[i] == 1) bytes[table + offsets[i]] = char(byte);
    }
    refer(reference, table);
    return places;
  }
  // A vector of references; returns where each stands.
  std::vector<size_t> references(size_t n, size_t reference) {
    align(4);
    refer(reference, bytes.size());
    put<uint32_t>(uint32_t(n));
    std::vector<size_t> places;
    for (size_t i = 0; i < n; ++i) places.push_back(bytes.size()), put<uint32_t>(0);
    return places;
  }
  void text(std::string_view text, size_t reference) {
    align(4);
    refer(reference, bytes.size());
    put<uint32_t>(uint32_t(text.size()));
    (bytes += text) += '\0';
  }
  void dims(std::span<const int64_t> dims, size_t reference) {
    align(8, 4);
    refer(reference, bytes.size());
    put<uint32_t>(uint32_t(dims.size()));
    for (int64_t dim : dims) put<int64_t>(dim);
  }

 private:
  template <class T>
  void put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void refer(size_t from, size_t to) {
    const auto distance = uint32_t(to - from);
    std::memcpy(bytes.data() + from, &distance, sizeof distance);
  }
};

// graphpipe_fb.Type; 0: GraphPipe has no such type.
uint8_t graphpipe_type(DType dtype) {
  switch (dtype) {
    case DType::kUint8: return 1;
    case DType::kInt8: return 2;
    case DType::kUint16: return 3;
    case DType::kInt16: return 4;
    case DType::kUint32: return 5;
    case DType::kInt32: return 6;
    case DType::kUint64: return 7;
    case DType::kInt64: return 8;
    case DType::kFp16: return 9;
    case DType::kFp32: return 10;
    case DType::kFp64: return 11;
    case DType::kBytes: return 12;
    default: return 0;
  }
}

void put_graphpipe_tensor(FlatWriter& out, const Tensor& t, size_t reference) {
  constexpr int kNumbers[] = {1, 4, 4}, kTexts[] = {1, 4, 0, 4};  // type, shape, data, string_val
  const bool texts = t.dtype == DType::kBytes;
  const auto places = texts ? out.table(kTexts, reference, graphpipe_type(t.dtype))
                            : out.table(kNumbers, reference, graphpipe_type(t.dtype));
  out.dims(t.shape.dims(), places[0]);
  if (!texts) return out.text(t.data.view(), places[1]);  // a string is a vector of bytes and a zero
  std::vector<std::string_view> all;
  msg::for_each_string(t.data.view(), [&](std::string_view text) {
    all.push_back(text);
    return true;
  });
  const auto each = out.references(all.size(), places[1]);
  for (size_t i = 0; i < all.size(); ++i) out.text(all[i], each[i]);
}

base::Result<ClientRequest> graphpipe(const std::string& model, std::span<const Tensor> tensors) {
  FlatWriter out;
  constexpr int kRequest[] = {1, 4};      // req_type: InferRequest is 1; req
  constexpr int kInfer[] = {0, 4, 4, 0};  // config, input_names, input_tensors, output_names
  const auto root = out.table(kRequest, 0, 1);
  const auto infer = out.table(kInfer, root[0]);
  const auto names = out.references(tensors.size(), infer[0]);
  for (size_t i = 0; i < tensors.size(); ++i) out.text(tensors[i].name, names[i]);
  const auto values = out.references(tensors.size(), infer[1]);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (graphpipe_type(tensors[i].dtype) == 0)
      return base::invalid("GraphPipe has no " + std::string(msg::name(tensors[i].dtype)) + ": input '" +
                           tensors[i].name + "'");
    put_graphpipe_tensor(out, tensors[i], values[i]);
  }
  ClientRequest request{"POST", "http", {}, "/graphpipe/" + base::percent_encode(model), {}, {}};
  request.fields.add("content-type", "application/octet-stream");
  request.body = base::Bytes::adopt(std::move(out.bytes));
  return request;
}

}  // namespace

// grpc/doc/PROTOCOL-HTTP2.md: a flag, the length in four bytes, the message.
ClientRequest grpc_request(std::string path, const std::string& message) {
  std::string body(1, '\0');
  for (int shift : {24, 16, 8, 0}) body += char(uint32_t(message.size()) >> shift);
  ClientRequest request{"POST", "http", {}, std::move(path), {}, base::Bytes::adopt(body + message)};
  request.fields.add("content-type", "application/grpc");
  request.fields.add("te", "trailers");
  return request;
}

base::Result<ClientRequest> tensor_request(BenchProtocol protocol, const std::string& model,
                                           std::span<const Tensor> tensors, TensorForm form) {
  switch (protocol) {
    case BenchProtocol::kOipGrpc: return oip_grpc("ModelInfer", model, tensors);
    case BenchProtocol::kOipStream: return oip_grpc("ModelStreamInfer", model, tensors);
    case BenchProtocol::kGrps: return grps(model, tensors);
    case BenchProtocol::kGraphPipe: return graphpipe(model, tensors);
    case BenchProtocol::kOipRest:
    case BenchProtocol::kOpenAi:
    case BenchProtocol::kSalience:
    case BenchProtocol::kEvergreen: break;
  }
  return oip_rest(model, tensors, form);
}

ClientRequest chat_request(const std::string& model, const std::string& prompt, uint32_t max_tokens) {
  const json body{{"model", model},
                  {"stream", true},
                  {"max_tokens", max_tokens},
                  {"ignore_eos", true},
                  {"messages", json::array({{{"role", "user"}, {"content", prompt}}})}};
  ClientRequest request{"POST", "http", {}, "/v1/chat/completions", {}, {}};
  request.fields.add("content-type", "application/json");
  request.body = base::Bytes::adopt(body.dump(-1, ' ', false, json::error_handler_t::replace));
  return request;
}

}  // namespace weir::app
