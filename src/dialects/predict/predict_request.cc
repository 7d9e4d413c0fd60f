#include "dialects/predict/predict_request.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/encoding.h"
#include "base/memory_ledger.h"
#include "marshal/json_nested.h"
#include "marshal/raw_input.h"
#include "marshal/string_block.h"

namespace weir::predict {
namespace {

using base::invalid;
using base::Status;
using marshal::JsonCursor;
using msg::DType;
using msg::Tensor;
using Kind = JsonCursor::Kind;

// An object with this one member is a value, not an instance with an input of that name.
constexpr std::string_view kBase64 = "b64";

// Consumes the object that comes next. True: it is {"b64": "…"}.
bool is_base64(JsonCursor& json) {
  bool only = false, first = true;
  const bool read = json.object([&](std::string_view key) {
    only = std::exchange(first, false) && key == kBase64 && json.peek() == Kind::kString;
    return json.skip();
  });
  return read && only;
}

// The elements of a BYTES input: strings and {"b64": "…"}, nested as the shape says.
class StringReader {
 public:
  StringReader(JsonCursor& json, const Tensor& tensor, base::SlabSource& slabs)
      : json_(json), shape_(tensor.shape), block_(slabs, json.left()) {}

  bool read() { return level(0); }
  base::Bytes freeze() { return block_.freeze(); }

 private:
  bool level(size_t depth) {
    if (depth == shape_.rank()) return element();
    int64_t n = 0;
    const bool ok = json_.array([&] { return ++n <= shape_[depth] ? level(depth + 1) : ragged(); });
    return ok && (n == shape_[depth] || ragged());
  }
  bool element() {
    std::string_view text;
    if (json_.peek() != Kind::kObject) return json_.string(text) && append(text);
    bool found = false;
    return json_.object([&](std::string_view key) {
      if (key != kBase64 || std::exchange(found, true)) return json_.fail("expected a string or {\"b64\": \"…\"}");
      if (!json_.string(text)) return false;
      auto bytes = base::base64_decode(text);
      return bytes ? append(*bytes) : json_.fail("expected base64");
    }) && (found || json_.fail("expected a string or {\"b64\": \"…\"}"));
  }
  bool append(std::string_view bytes) { return block_.append(bytes), true; }
  bool ragged() { return json_.fail("rows differ in length"); }

  JsonCursor& json_;
  const msg::Shape& shape_;
  marshal::StringBlock block_;
};

// The type of a value for a model that takes any, by its first element.
DType type_of(JsonCursor json) {
  while (json.peek() == Kind::kArray && json.peek_inside() == Kind::kArray) {
    size_t at = json.at();
    json.rewind(at + 1);
  }
  Kind kind = json.peek() == Kind::kArray ? json.peek_inside() : json.peek();
  if (kind == Kind::kBool) return DType::kBool;
  return kind == Kind::kString || kind == Kind::kObject ? DType::kBytes : DType::kFp32;
}

// Adds the dimensions of 1 at the end that the model has and the request has left out.
void complete(msg::Shape& shape, const msg::Shape& wanted) {
  const size_t have = shape.rank();
  for (size_t i = have; i < wanted.rank(); ++i)
    if (wanted[i] != 1 && wanted[i] != -1) return;
  for (size_t i = have; i < wanted.rank(); ++i) shape.push(1);
}

// The text of one input, with its rows: what is read into a tensor.
struct Column {
  std::string name;
  std::string text;  // of rows that are objects: gathered, "[row,row"
  size_t rows = 0;
};

class PredictReader {
 public:
  PredictReader(std::string_view body, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call)
      : body_(body), json_(body), spec_(spec), slabs_(slabs), call_(call) {}

  base::Result<PredictLayout> read() {
    std::string_view rows, columns;
    const bool whole = json_.object([&](std::string_view key) {
      if (key == "instances") return value(rows);
      if (key == "inputs") return value(columns);
      if (key == "signature_name") return signature();
      return json_.skip();
    });
    if (!whole || !json_.finish()) return json_.error();
    if ((rows.data() != nullptr) == (columns.data() != nullptr))
      return invalid("a predict request has either 'instances' (rows) or 'inputs' (columns)");
    Status status = rows.data() ? read_rows(rows) : read_columns(columns);
    if (!status.ok()) return status;
    return rows.data() ? PredictLayout::kRows : PredictLayout::kColumns;
  }

 private:
  bool value(std::string_view& text) {
    if (text.data()) return json_.fail("it is given twice");
    const size_t from = json_.at();
    if (!json_.skip()) return false;
    text = json_.since(from);
    return true;
  }
  bool signature() {
    std::string_view name;
    if (json_.peek() == Kind::kNull) return json_.null();
    if (!json_.string(name)) return false;
    return name.empty() || name == "serving_default" || json_.fail("the one signature is 'serving_default'");
  }

  // The input that a value without a name is for.
  base::Result<std::string> lone() const {
    if (spec_.any_tensors && spec_.inputs.empty()) return std::string("INPUT0");
    if (auto* input = marshal::lone_input(spec_)) return input->name;
    std::string names;
    for (const auto& input : spec_.inputs) names += (names.empty() ? "" : ", ") + input.name;
    return invalid("model '" + spec_.name + "' has several inputs: name them in objects: " + names);
  }

  Status read_rows(std::string_view text) {
    JsonCursor json(text);
    if (json.peek() != Kind::kArray) return invalid("'instances' takes an array of rows");
    if (json.peek_inside() == Kind::kNone) return invalid("'instances' is empty");
    bool objects = false;
    if (json.peek_inside() == Kind::kObject) {
      JsonCursor first(text);
      first.rewind(first.at() + 1);
      objects = !is_base64(first);
    }
    if (objects) return read_objects(json);
    auto name = lone();
    return name ? read_tensor(*std::move(name), text) : Status(name.error());
  }

  // Rows that are objects: the values of each input are put together, and read like a column. The strings grow by
  // doubling.
  Status read_objects(JsonCursor& json) {
    base::MemoryCharge room;
    if (slabs_.ledger()) room = base::MemoryCharge(*slabs_.ledger(), base::MemoryKind::kDecoding);
    if (body_.size() >= base::kLeastCharged && !room.grow(2 * body_.size()))
      return base::overloaded(slabs_.ledger()->shortage());
    std::vector<Column> columns;
    size_t rows = 0;
    const bool read = json.array([&] { return row(json, columns, rows++); });
    if (!read) return invalid("'instances': " + json.error().text);
    for (Column& column : columns) {
      column.text += ']';
      if (Status status = read_tensor(std::move(column.name), column.text); !status.ok()) return status;
      column.text = {};
    }
    return {};
  }
  bool row(JsonCursor& json, std::vector<Column>& columns, size_t number) {
    size_t values = 0;
    const bool read = json.object([&](std::string_view key) {
      Column* column = find(columns, key, number == 0);
      if (!column) return json.fail("this input is not in the first row, or there are too many");
      if (column->rows != number) return json.fail("an input is given twice");
      const size_t from = json.at();
      if (!json.skip()) return false;
      column->text += number == 0 ? '[' : ',';
      column->text += json.since(from);
      ++column->rows, ++values;
      return true;
    });
    return read && (values == columns.size() || json.fail("each row must name the inputs of the first"));
  }
  Column* find(std::vector<Column>& columns, std::string_view name, bool add) const {
    auto at = std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.name == name; });
    if (at != columns.end()) return &*at;
    if (!add || columns.size() == kMaxInputs) return nullptr;
    return &columns.emplace_back(Column{std::string(name), {}, 0});
  }

  Status read_columns(std::string_view text) {
    JsonCursor json(text);
    const bool object = json.peek() == Kind::kObject;
    if (JsonCursor value(text); !object || is_base64(value)) {
      auto name = lone();
      return name ? read_tensor(*std::move(name), text) : Status(name.error());
    }
    Status status;
    const bool read = json.object([&](std::string_view key) {
      if (call_.inputs.size() == kMaxInputs) return json.fail("there are more than 256 inputs");
      std::string name(key);
      const size_t from = json.at();
      if (!json.skip()) return false;
      status = read_tensor(std::move(name), json.since(from));
      return status.ok();
    });
    return read || !status.ok() ? status : invalid("'inputs': " + json.error().text);
  }

  Status read_tensor(std::string name, std::string_view text) {
    const msg::TensorSpec* declared = spec_.input(name);
    if (!declared && !spec_.any_tensors) return invalid("model '" + spec_.name + "' has no input '" + name + "'");
    JsonCursor json(text);
    Tensor tensor{std::move(name), declared ? declared->dtype : type_of(json), {}, {}};
    Status status;
    if (json.peek() == Kind::kArray) {
      status = read_array(json, tensor);
    } else {
      const std::string one = "[" + std::string(text) + "]";
      JsonCursor array(one);
      status = read_array(array, tensor);
      tensor.shape = {};
    }
    if (!status.ok()) return status;
    if (declared) complete(tensor.shape, spec_.public_shape(*declared));
    call_.inputs.push_back(std::move(tensor));
    return {};
  }
  Status read_array(JsonCursor& json, Tensor& tensor) {
    if (!marshal::measure_nested(json, tensor.shape))
      return json.ok() ? invalid("input '" + tensor.name + "': the arrays nest too deep") : json.error();
    json.rewind(0);
    return tensor.dtype == DType::kBytes ? read_strings(json, tensor) : marshal::read_data(json, tensor, slabs_);
  }
  Status read_strings(JsonCursor& json, Tensor& tensor) {
    StringReader strings(json, tensor, slabs_);
    if (!strings.read()) return invalid("input '" + tensor.name + "': " + json.error().text);
    tensor.data = strings.freeze();
    return {};
  }

  const std::string_view body_;
  JsonCursor json_;
  const msg::ModelSpec& spec_;
  base::SlabSource& slabs_;
  msg::Call& call_;
};

}  // namespace

base::Result<PredictLayout> read_predict(std::string_view body, const msg::ModelSpec& spec, base::SlabSource& slabs,
                                         msg::Call& call) {
  return PredictReader(body, spec, slabs, call).read();
}

}  // namespace weir::predict
