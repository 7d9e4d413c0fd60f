#include "engines/forward/oip/rest_message.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "engines/forward/oip/message.h"
#include "engines/forward/refusal.h"
#include "marshal/field_reader.h"
#include "marshal/json_pieces.h"
#include "marshal/json_tensor.h"

namespace weir::forward {
namespace {

using base::Bytes;
using base::Code;
using base::failure;
using base::Status;
using marshal::FieldReader;
using marshal::JsonCursor;
using JsonKind = JsonCursor::Kind;

constexpr size_t kLongestWord = 1024;

void write_value(std::string& out, const msg::ParamValue& value) {
  if (auto* text = std::get_if<std::string>(&value)) return marshal::write_string(out, *text);
  if (auto* whole = std::get_if<int64_t>(&value)) return marshal::write_number(out, *whole);
  if (auto* whole = std::get_if<uint64_t>(&value)) return marshal::write_number(out, *whole);
  if (auto* real = std::get_if<double>(&value)) return marshal::write_number(out, *real);
  out += std::get<bool>(value) ? "true" : "false";
}

// Without its end: {"name":…,"datatype":…,"shape":[…]}
void write_tensor_head(std::string& out, const msg::Tensor& tensor) {
  out += "{\"name\":";
  marshal::write_string(out, tensor.name);
  (out += ",\"datatype\":\"") += msg::name(tensor.dtype);
  (out += "\",\"shape\":") += tensor.shape.text();
}

// The fields of a tensor in an answer or of a signature.
struct TensorFields {
  std::string name, datatype;
  msg::Shape shape;
  bool optional = false;
  std::optional<uint64_t> binary_size;
  std::string content_type;  // "base64": elements of BYTES are
  std::string_view data;     // its JSON, or nothing
};

class TensorReader {
 public:
  TensorReader(JsonCursor& json, FieldReader& fields) : json_(json), fields_(fields) {}

  bool read(TensorFields& out) {
    return json_.object([&](std::string_view key) {
      if (key == "name") return fields_.text("name", kLongestWord, out.name);
      if (key == "datatype") return fields_.text("datatype", 64, out.datatype);
      if (key == "shape") return shape(out.shape);
      if (key == "optional") return fields_.flag("optional", out.optional);
      if (key == "parameters") return fields_.none() || parameters(out);
      if (key != "data") return json_.skip();
      const size_t from = json_.at();
      if (!json_.skip()) return false;
      out.data = json_.since(from);
      return true;
    });
  }

 private:
  bool shape(msg::Shape& out) {
    if (fields_.none()) return true;
    return json_.array([&] {
      int64_t dim = 0;
      if (!fields_.whole("shape", -1, INT64_MAX, dim)) return false;
      return out.push(dim) || fields_.refuse("shape", "more than 16 dimensions");
    });
  }
  bool parameters(TensorFields& out) {
    return json_.object([&](std::string_view key) {
      if (key == "binary_data_size") return fields_.whole("binary_data_size", 0, INT64_MAX, out.binary_size);
      if (key == "content_type" && json_.peek() == JsonKind::kString)
        return fields_.text("content_type", kLongestWord, out.content_type);
      return json_.skip();
    });
  }

  JsonCursor& json_;
  FieldReader& fields_;
};

class RestAnswer {
 public:
  RestAnswer(const Bytes& body, size_t header, base::SlabSource& slabs)
      : body_(body), json_(body.view().substr(0, header)), fields_(json_), slabs_(slabs), at_(header) {}

  base::Result<msg::Outputs> read() {
    const bool ok = json_.object([&](std::string_view key) {
      if (key == "parameters") return fields_.none() || parameters();
      return key == "outputs" ? fields_.none() || outputs() : json_.skip();
    }) && json_.finish();
    if (!status_.ok()) return status_;
    if (!ok) return broken_rule("its answer: " + fields_.error().text);
    if (at_ != body_.size()) return broken_rule("its answer has bytes behind those of its outputs");
    return std::move(out_);
  }

 private:
  bool outputs() {
    return json_.array([&] {
      if (out_.tensors.size() == kMostTensors) return fields_.refuse("outputs", "more than 256");
      TensorFields fields;
      if (!TensorReader(json_, fields_).read(fields)) return false;
      status_ = place(fields);
      return status_.ok();
    });
  }

  Status place(const TensorFields& fields) {
    msg::Tensor& tensor = out_.tensors.emplace_back();
    tensor.name = base::presentable(fields.name, kLongestWord);
    tensor.dtype = msg::dtype_from_name(fields.datatype);
    tensor.shape = fields.shape;
    const std::string where = "output '" + base::presentable(fields.name, 64) + "'";
    if (tensor.dtype == msg::DType::kInvalid)
      return broken_rule(where + " has unknown datatype '" + base::presentable(fields.datatype, 64) + "'");
    if (!fields.binary_size) {
      if (fields.data.empty()) return broken_rule(where + " has no data");
      JsonCursor json(fields.data);
      const auto text = fields.content_type == "base64" ? marshal::BytesText::kBase64 : marshal::BytesText::kUtf8;
      Status status = marshal::read_data(json, tensor, slabs_, text);
      return status.ok() ? status : broken_output(status.text);
    }
    if (!fields.data.empty()) return broken_rule(where + " has data and binary_data_size");
    if (*fields.binary_size > body_.size() - at_) return broken_rule(where + " has more bytes than the answer");
    tensor.data = body_.slice(at_, size_t(*fields.binary_size));
    at_ += size_t(*fields.binary_size);
    return {};
  }

  bool parameters() {
    return json_.object([&](std::string_view key) {
      if (out_.parameters.size() == kMostParameters) return fields_.refuse("parameters", "more than 256");
      const std::string name = base::presentable(key, kLongestWord);
      auto add = [&](msg::ParamValue value) { return out_.parameters.emplace_back(name, std::move(value)), true; };
      if (json_.peek() == JsonKind::kString) {
        std::string text;
        return json_.string(text) && add(base::presentable(text, kLongestWord));
      }
      if (json_.peek() == JsonKind::kBool) {
        bool flag = false;
        return json_.boolean(flag) && add(flag);
      }
      if (!json_.at_number()) return json_.skip();
      marshal::JsonNumber number;
      int64_t whole = 0;
      double real = 0;
      if (!json_.number(number)) return false;
      if (number.integral && number.to(whole)) return add(whole);
      return number.to(real) ? add(real) : fields_.refuse("parameters", "a number out of range");
    });
  }

  const Bytes& body_;
  JsonCursor json_;
  FieldReader fields_;
  base::SlabSource& slabs_;
  size_t at_;  // of the next output's bytes
  msg::Outputs out_;
  Status status_;
};

bool read_tensors(JsonCursor& json, FieldReader& fields, std::vector<msg::TensorSpec>& out, Status& status) {
  return fields.none() || json.array([&] {
    if (out.size() == kMostTensors) return fields.refuse("tensors", "more than 256 inputs or outputs");
    TensorFields read;
    if (!TensorReader(json, fields).read(read)) return false;
    auto& tensor = out.emplace_back();
    tensor.name = base::presentable(read.name, kLongestWord);
    tensor.dtype = msg::dtype_from_name(read.datatype);
    tensor.shape = read.shape;
    if (tensor.name.empty() || tensor.dtype == msg::DType::kInvalid)
      status = broken_rule("tensor '" + tensor.name + "' has datatype '" + base::presentable(read.datatype, 64) + "'");
    return status.ok();
  });
}

// Up to the inputs. `first`: a parameter of the request, behind a comma, or nothing; the call's own binary_data_output
// is no matter of the origin's.
std::string begin_request(const msg::Call& call, std::string_view first) {
  std::string out = "{", parameters(first);
  if (!call.id.empty()) marshal::write_string(out += "\"id\":", call.id), out += ',';
  for (const auto& [name, value] : call.parameters) {
    if (name == "binary_data_output") continue;
    marshal::write_string(parameters += ',', name);
    write_value(parameters += ':', value);
  }
  if (!parameters.empty()) (out += "\"parameters\":{").append(parameters, 1) += "},";
  return out += "\"inputs\":[";
}

void end_request(std::string& out, const msg::Call& call) {
  out += ']';
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    out += i == 0 ? ",\"outputs\":[{\"name\":" : ",{\"name\":";
    marshal::write_string(out, call.outputs[i]);
    out += '}';
  }
  if (!call.outputs.empty()) out += ']';
  out += '}';
}

}  // namespace

RestRequest write_rest_request(const msg::Call& call) {
  std::string out = begin_request(call, ",\"binary_data_output\":true");
  for (const auto& tensor : call.inputs) {
    if (out.back() != '[') out += ',';
    write_tensor_head(out, tensor);
    out += ",\"parameters\":{\"binary_data_size\":" + std::to_string(tensor.data.size()) + "}}";
  }
  end_request(out, call);
  RestRequest request;
  request.header = out.size();
  request.body.push_back(Bytes::adopt(std::move(out)));
  for (const auto& tensor : call.inputs)
    if (tensor.data.size() > 0) request.body.push_back(tensor.data);
  return request;
}

base::Result<Bytes> write_rest_json(const msg::Call& call, base::MemoryLedger* ledger) {
  uint64_t most = 0;
  for (const auto& tensor : call.inputs) most += marshal::most_text(tensor);
  if (most > kMostJsonOut)
    return base::invalid(
        "the tensors may have " + std::to_string(most) +
        " bytes as JSON, which is what it takes: parameter binary_tensors, or kind oip-grpc, is for more than " +
        std::to_string(kMostJsonOut));
  std::string out = begin_request(call, {});
  for (const auto& tensor : call.inputs) {
    if (out.back() != '[') out += ',';
    write_tensor_head(out, tensor);
    const marshal::BytesText text = marshal::bytes_text(tensor);
    if (text == marshal::BytesText::kBase64) out += ",\"parameters\":{\"content_type\":\"base64\"}";
    marshal::write_data(out += ",\"data\":", tensor, text);
    out += '}';
  }
  end_request(out, call);
  auto bytes = base::adopt(ledger, base::MemoryKind::kInput, std::move(out));
  if (!bytes) return base::try_again(Code::kResourceExhausted, "there is no memory for the request; try again later");
  return std::move(*bytes);
}

base::Result<msg::Outputs> read_rest_answer(const Bytes& body, std::string_view header, base::SlabSource& slabs) {
  size_t length = body.size();
  if (!header.empty()) {
    auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), length);
    if (error != std::errc() || end != header.data() + header.size() || length > body.size())
      return broken_rule("its Inference-Header-Content-Length is '" + base::presentable(header, 32) + "'");
  }
  if (length > kMostJson)
    return broken_rule("its answer has " + std::to_string(length) +
                       " bytes of JSON: tensors of that size need the binary tensor data extension, or kind oip-grpc");
  return RestAnswer(body, length, slabs).read();
}

Status read_rest_metadata(std::string_view text, msg::ModelSpec& spec) {
  spec.inputs.clear(), spec.outputs.clear();
  JsonCursor json(text);
  FieldReader fields(json);
  Status status;
  const bool ok = json.object([&](std::string_view key) {
    if (key == "platform") return fields.text("platform", kLongestWord, spec.platform);
    if (key == "inputs") return read_tensors(json, fields, spec.inputs, status);
    return key == "outputs" ? read_tensors(json, fields, spec.outputs, status) : json.skip();
  }) && json.finish();
  if (!status.ok()) return status;
  if (!ok) return broken_rule("its metadata: " + fields.error().text);
  spec.platform = base::presentable(spec.platform, kLongestWord);
  spec.any_tensors = spec.inputs.empty() && spec.outputs.empty();
  return {};
}

Status read_rest_config(std::string_view text, msg::ModelSpec& spec) {
  JsonCursor json(text);
  FieldReader fields(json);
  uint32_t max_batch = 0;
  auto input = [&] {
    TensorFields read;
    if (!TensorReader(json, fields).read(read)) return false;
    for (auto& declared : spec.inputs)
      if (declared.name == read.name) declared.optional = read.optional;
    return true;
  };
  const bool ok = json.object([&](std::string_view key) {
    if (key == "max_batch_size") return fields.whole("max_batch_size", 0, 65536, max_batch);
    if (key == "input") return fields.none() || json.array(input);
    if (key != "model_transaction_policy") return json.skip();
    return fields.none() || json.object([&](std::string_view member) {
      return member == "decoupled" ? fields.flag("decoupled", spec.decoupled) : json.skip();
    });
  }) && json.finish();
  if (!ok) return broken_rule("its configuration: " + fields.error().text);
  spec.max_batch = max_batch;
  return take_batch(spec);
}

bool lists_binary_tensors(std::string_view text) {
  JsonCursor json(text);
  bool found = false;
  const bool ok = json.object([&](std::string_view key) {
    if (key != "extensions" || json.peek() != JsonKind::kArray) return json.skip();
    return json.array([&] {
      std::string name;
      if (json.peek() != JsonKind::kString) return json.skip();
      if (!json.string(name)) return false;
      found |= name == "binary_tensor_data";
      return true;
    });
  });
  return ok && found;
}

}  // namespace weir::forward
