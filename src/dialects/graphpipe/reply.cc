#include "dialects/graphpipe/reply.h"

#include "base/encoding.h"
#include "dialects/graphpipe/types.h"
#include "marshal/json_tensor.h"

namespace weir::graphpipe {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using Tensors = flatbuffers::Vector<Offset<fb::IOMetadata>>;

base::Bytes finished(FlatBufferBuilder& builder) {
  return base::Bytes::copy_of({reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()});
}

Offset<Tensors> list(FlatBufferBuilder& b, const msg::ModelSpec& spec, const std::vector<msg::TensorSpec>& tensors) {
  std::vector<Offset<fb::IOMetadata>> rows;
  for (const auto& t : tensors) {
    msg::Shape shape = spec.public_shape(t);
    auto name = b.CreateString(t.name);
    auto description = b.CreateString("");
    auto dims = b.CreateVector(shape.dims().data(), shape.rank());
    rows.push_back(fb::CreateIOMetadata(b, name, description, dims, type_of(t.dtype)));
  }
  return b.CreateVector(rows);
}

void list_json(std::string& out, const msg::ModelSpec& spec, const std::vector<msg::TensorSpec>& tensors) {
  out += '[';
  for (const auto& t : tensors) {
    out += &t == &tensors.front() ? "\n    {\"name\": " : ",\n    {\"name\": ";
    marshal::write_string(out, t.name);
    out += ", \"description\": \"\", \"shape\": " + spec.public_shape(t).text() + ", \"type\": \"";
    out += name(type_of(t.dtype));
    out += "\"}";
  }
  out += tensors.empty() ? "]" : "\n  ]";
}

}  // namespace

base::Bytes write_error(const base::Status& status) {
  FlatBufferBuilder b;
  // Strings of a flatbuffer are UTF-8; texts of engines and names from clients may not be.
  bool utf8 = marshal::valid_utf8(status.text);
  auto message = b.CreateString(utf8 ? status.text : base::presentable(status.text, status.text.size()));
  auto error = fb::CreateError(b, int64_t(status.code), message);
  b.Finish(fb::CreateInferResponse(b, 0, b.CreateVector(&error, 1)));
  return finished(b);
}

std::string describe(const msg::ModelSpec& spec) {
  std::string out = spec.platform.empty() ? spec.engine : spec.platform;
  out += " model, version " + spec.version;
  if (spec.max_batch > 0) out += ", at most " + std::to_string(spec.max_batch) + " rows";
  if (spec.any_tensors) out += ", takes any tensors";
  return out;
}

base::Bytes write_metadata(const msg::ModelSpec& spec, const ServerName& server) {
  FlatBufferBuilder b;
  auto name = b.CreateString(spec.name);
  auto version = b.CreateString(server.version.data(), server.version.size());
  auto server_name = b.CreateString(server.name.data(), server.name.size());
  auto description = b.CreateString(describe(spec));
  auto inputs = list(b, spec, spec.inputs);
  auto outputs = list(b, spec, spec.outputs);
  b.Finish(fb::CreateMetadataResponse(b, name, version, server_name, description, inputs, outputs));
  return finished(b);
}

std::string metadata_json(const msg::ModelSpec& spec, const ServerName& server) {
  std::string out = "{\n  \"name\": ";
  marshal::write_string(out, spec.name);
  out += ",\n  \"version\": ";
  marshal::write_string(out, server.version);
  out += ",\n  \"server\": ";
  marshal::write_string(out, server.name);
  out += ",\n  \"description\": ";
  marshal::write_string(out, describe(spec));
  out += ",\n  \"inputs\": ";
  list_json(out, spec, spec.inputs);
  out += ",\n  \"outputs\": ";
  list_json(out, spec, spec.outputs);
  return out + "\n}\n";
}

}  // namespace weir::graphpipe
