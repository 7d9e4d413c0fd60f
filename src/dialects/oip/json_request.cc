// The reading half of json_infer.h.
#include <array>
#include <optional>
#include <span>

#include "dialects/oip/json_infer.h"
#include "marshal/call_parameters.h"
#include "marshal/json_tensor.h"
#include "marshal/raw_input.h"

namespace weir::oip {
namespace {

using base::invalid;
using base::Status;
using marshal::BytesText;
using marshal::JsonCursor;
using marshal::JsonNumber;

// One reading of one request. Functions answer false when something is wrong; status_ then says what, or the cursor.
class JsonRequestReader {
 public:
  JsonRequestReader(const base::Bytes& body, size_t json_size, base::SlabSource& slabs, msg::Call& call,
                    InferOptions& options)
      : body_(body),
        json_(body.view().substr(0, json_size)),
        tail_(body.view().substr(json_size)),
        slabs_(slabs),
        call_(call),
        options_(options) {}

  Status read() {
    bool has_inputs = false;
    bool ok = json_.object([&](std::string_view key) {
      if (key == "inputs") {
        if (std::exchange(has_inputs, true)) return refuse("'inputs' is given twice");
        return json_.array([&] { return input(); });
      }
      // Clients that fill in every member send null for what they do not mean.
      if (key != "inputs" && json_.peek() == JsonCursor::Kind::kNull) return json_.skip();
      if (key == "outputs") return json_.array([&] { return output(); });
      if (key == "id") return json_.string(call_.id);
      if (key == "parameters")
        return parameters([&](std::string_view name, msg::ParamValue value) {
          return apply(call_, options_, name, std::move(value));
        });
      return json_.skip();
    });
    if (!status_.ok()) return status_;
    if (!ok || !json_.finish()) return json_.placed_error();
    if (!has_inputs) return invalid("the request has no 'inputs'");
    if (!tail_.empty()) return invalid(std::to_string(tail_.size()) + " bytes follow the binary data of the inputs");
    return {};
  }
  // Where the data was read as it stood; nothing where that was more than a template takes.
  std::span<const DataSpan> data() const { return std::span(data_).first(spans_ <= data_.size() ? spans_ : 0); }

 private:
  struct Input {
    msg::Tensor* tensor;
    std::optional<size_t> data_at;        // where its data is in the JSON
    std::optional<uint64_t> binary_size;  // or how long it is behind it
    bool has_shape = false, has_datatype = false;
    BytesText text = BytesText::kUtf8, read_as = BytesText::kUtf8;
    bool read = false;
  };

  bool refuse(std::string text) { return refuse(invalid(std::move(text))); }
  bool refuse(Status status) {
    if (status_.ok()) status_ = std::move(status);
    return false;
  }

  bool named(std::string& name, std::string_view what) {
    if (!json_.string(name)) return false;
    Status status = check_name(name, what);
    return status.ok() || refuse(std::move(status));
  }

  // Calls apply_one(name, value) for every parameter.
  template <class Apply>
  bool parameters(Apply&& apply_one) {
    if (json_.peek() == JsonCursor::Kind::kNull) return json_.skip();
    return json_.object([&](std::string_view key) {
      std::string name(key);
      if (Status status = check_name(name, "a parameter's name"); !status.ok()) return refuse(std::move(status));
      msg::ParamValue value;
      switch (json_.peek()) {
        case JsonCursor::Kind::kBool: {
          bool flag;
          if (!json_.boolean(flag)) return false;
          value = flag;
          break;
        }
        case JsonCursor::Kind::kNumber: {
          JsonNumber number;
          if (!json_.number(number)) return false;
          if (!numeric(number, value)) return refuse("parameter '" + name + "' is out of range");
          break;
        }
        case JsonCursor::Kind::kString: {
          std::string text;
          if (!json_.string(text)) return false;
          value = std::move(text);
          break;
        }
        case JsonCursor::Kind::kArray:
        case JsonCursor::Kind::kObject:
          return refuse(marshal::wrong_parameter(name, "true, false, a number or a string"));
        default: return json_.skip();  // null is as if it were not there
      }
      Status status = apply_one(name, std::move(value));
      return status.ok() || refuse(std::move(status));
    });
  }

  static bool numeric(const JsonNumber& number, msg::ParamValue& value) {
    int64_t i;
    uint64_t u;
    double d;
    if (number.integral && number.to(i))
      value = i;
    else if (number.integral && number.to(u))
      value = u;
    else if (number.to(d))
      value = d;
    else
      return false;
    return true;
  }

  bool input() {
    if (call_.inputs.size() == kMaxInputs) return refuse("more than 256 inputs");
    Input in{&call_.inputs.emplace_back()};
    bool has_name = false;
    bool ok = json_.object([&](std::string_view key) {
      if (key == "name")
        return !std::exchange(has_name, true) ? named(in.tensor->name, "an input's name") : twice("name");
      if (key == "datatype") return datatype(in);
      if (key == "shape") return shape(in);
      if (key == "parameters") return input_parameters(in);
      if (key == "data") return data(in);
      return json_.skip();
    });
    if (!ok) return false;
    if (!has_name) return refuse("an input has no 'name'");
    if (!in.has_datatype) return refuse(where(in) + "no 'datatype'");
    if (!in.has_shape) return refuse(where(in) + "no 'shape'");
    return settle(in);
  }

  std::string where(const Input& in) const { return "input '" + in.tensor->name + "': "; }
  bool twice(std::string_view what) { return refuse("an input has '" + std::string(what) + "' twice"); }

  bool datatype(Input& in) {
    std::string_view text;
    if (std::exchange(in.has_datatype, true)) return twice("datatype");
    if (!json_.string(text)) return false;
    in.tensor->dtype = msg::dtype_from_name(text);
    if (in.tensor->dtype != msg::DType::kInvalid) return true;
    return refuse(where(in) + "" + unknown_datatype(text));
  }

  bool shape(Input& in) {
    if (std::exchange(in.has_shape, true)) return twice("shape");
    return json_.array([&] {
      JsonNumber number;
      int64_t dim;
      if (!json_.number(number)) return false;
      if (!number.to(dim) || dim < 0) return refuse(where(in) + "a dimension is a whole number, 0 or more");
      return in.tensor->shape.push(dim) || refuse(where(in) + "a shape has at most 16 dimensions");
    });
  }

  bool input_parameters(Input& in) {
    return parameters([&](std::string_view name, msg::ParamValue value) -> Status {
      if (name == "binary_data_size") {
        auto* size = std::get_if<int64_t>(&value);
        if (!size || *size < 0) return invalid(where(in) + "'binary_data_size' is a whole number, 0 or more");
        in.binary_size = uint64_t(*size);
      } else if (name == "content_type") {
        auto* type = std::get_if<std::string>(&value);
        in.text = type && *type == "base64" ? BytesText::kBase64 : BytesText::kUtf8;
      }
      return apply_input(call_, options_, name, std::move(value));
    });
  }

  // Read at once when everything about it is known, as clients write it; else passed over, and read by settle().
  bool data(Input& in) {
    if (json_.peek() == JsonCursor::Kind::kNull) return json_.skip();  // as if it were not there
    if (in.data_at) return twice("data");
    in.data_at = json_.at();
    if (!in.has_datatype || !in.has_shape) return json_.skip();
    if (!read(in)) return false;
    const size_t from = *in.data_at, size = json_.since(from).size();
    if (spans_ < data_.size()) data_[spans_] = {from + 1, from + size - 1};
    ++spans_;
    return true;
  }

  bool read(Input& in) {
    in.read = true;
    in.read_as = in.text;
    Status status = marshal::read_data(json_, *in.tensor, slabs_, in.text);
    return status.ok() || refuse(std::move(status));
  }

  bool settle(Input& in) {
    if (options_.is_shared(call_.inputs.size() - 1)) {
      if (!in.data_at && !in.binary_size) return true;
      return refuse(where(in) + "Input must set only one of the following fields: 'data', 'binary_data_size' in " +
                    "'parameters', 'shared_memory_region' in 'parameters'");
    }
    if (in.binary_size) {
      if (in.data_at) return refuse(where(in) + "both 'data' and 'binary_data_size'");
      return binary(in);
    }
    if (!in.data_at) return in.tensor->shape.elements() == 0u || refuse(where(in) + "no 'data'");
    if (in.read && (in.read_as == in.text || in.tensor->dtype != msg::DType::kBytes)) return true;
    size_t end = json_.at();
    json_.rewind(*in.data_at);
    if (!read(in)) return false;
    json_.rewind(end);
    return true;
  }

  bool binary(Input& in) {
    if (*in.binary_size > tail_.size())
      return refuse(where(in) + "'binary_data_size' is " + std::to_string(*in.binary_size) + ", but only " +
                    std::to_string(tail_.size()) + " bytes are left behind the JSON");
    in.tensor->data = body_.slice(tail_.substr(0, size_t(*in.binary_size)));
    tail_.remove_prefix(size_t(*in.binary_size));
    return true;
  }

  bool output() {
    if (call_.outputs.size() == kMaxOutputs) return refuse("more than 256 requested outputs");
    std::string& name = call_.outputs.emplace_back();
    OutputOptions& asked = options_.outputs.emplace_back();
    bool has_name = false;
    bool ok = json_.object([&](std::string_view key) {
      if (key == "name") return has_name = true, named(name, "an output's name");
      if (key == "parameters")
        return parameters([&](std::string_view parameter, const msg::ParamValue& value) {
          return apply(name, asked, parameter, value);
        });
      return json_.skip();
    });
    if (!ok) return false;
    if (!has_name) return refuse("a requested output has no 'name'");
    Status status = check_output(name, asked);
    return status.ok() || refuse(std::move(status));
  }

  const base::Bytes& body_;
  JsonCursor json_;
  std::string_view tail_;
  base::SlabSource& slabs_;
  msg::Call& call_;
  InferOptions& options_;
  Status status_;
  std::array<DataSpan, RequestTemplate::kMostInputs> data_;
  size_t spans_ = 0;
};

}  // namespace

Status read_infer(const base::Bytes& body, size_t json_size, base::SlabSource& slabs, msg::Call& call,
                  InferOptions& options, RequestTemplate* known) {
  if (json_size != body.size()) known = nullptr;
  if (known && known->read(body.view(), slabs, call, options)) return {};
  JsonRequestReader reader(body, json_size, slabs, call, options);
  Status status = reader.read();
  if (known && status.ok()) known->learn(body.view(), reader.data(), call, options);
  return status;
}

Status read_raw_infer(const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call,
                      InferOptions& options) {
  options.form = OutputForm::kBinary;
  return marshal::set_raw_input(body, spec, slabs, call);
}

bool is_picture(std::string_view body) {
  if (body.starts_with('{')) return false;
  return body.starts_with("\xff\xd8\xff") || body.starts_with("\x89PNG\r\n") ||
         (body.starts_with("RIFF") && body.size() >= 12 && body.substr(8, 4) == "WEBP");
}

Status read_picture_infer(const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call,
                          InferOptions& options) {
  if (spec.inputs.size() != 1 || spec.inputs[0].dtype != msg::DType::kBytes)
    return invalid("the body is a picture, and model '" + spec.name +
                   "' takes none: it needs one input of BYTES, as 'preprocess' in its model.yaml makes it");
  for (const auto& output : spec.outputs) {
    call.outputs.push_back(output.name);
    options.outputs.emplace_back().classes = uint32_t(std::min<size_t>(kPictureClasses, output.labels.size()));
  }
  return marshal::set_raw_input(body, spec, slabs, call);
}

}  // namespace weir::oip
