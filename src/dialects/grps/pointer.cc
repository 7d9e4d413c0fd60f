#include "dialects/grps/pointer.h"

#include "marshal/json_tensor.h"

namespace weir::grps {
namespace {

using marshal::JsonCursor;

// "~1" is '/', "~0" is '~'.
std::string unescape(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    bool escape = token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    out += escape ? (token[++i] == '1' ? '/' : '~') : token[i];
  }
  return out;
}

// Consumes the next value; `found` becomes the text at the pointer within it.
bool walk(JsonCursor& json, std::string_view pointer, std::string_view& found) {
  if (pointer.empty()) {
    size_t from = json.at();
    if (!json.skip()) return false;
    found = json.since(from);
    return true;
  }
  pointer.remove_prefix(1);
  size_t slash = pointer.find('/');
  std::string token = unescape(pointer.substr(0, slash));
  std::string_view rest = slash == pointer.npos ? std::string_view() : pointer.substr(slash);
  switch (json.peek()) {
    case JsonCursor::Kind::kObject:
      return json.object([&](std::string_view key) { return key == token ? walk(json, rest, found) : json.skip(); });
    case JsonCursor::Kind::kArray: {
      size_t i = 0;
      return json.array([&] { return std::to_string(i++) == token ? walk(json, rest, found) : json.skip(); });
    }
    default: return json.skip();
  }
}

// The shape of nested arrays by their first elements; read_data() checks the rest against it.
bool measure(JsonCursor& json, msg::Shape& shape) {
  bool first = true, fits = true;
  size_t at = shape.rank();
  if (!shape.push(0)) return false;
  int64_t n = 0;
  bool ok = json.array([&] {
    ++n;
    if (std::exchange(first, false) && json.peek() == JsonCursor::Kind::kArray) return fits = measure(json, shape);
    return json.skip();
  });
  shape[at] = n;
  return ok && fits;
}

}  // namespace

base::Result<std::string_view> find_value(std::string_view text, std::string_view pointer) {
  JsonCursor json(text);
  std::string_view found;
  if (!walk(json, pointer, found) || !json.finish()) return json.error();
  return found;
}

base::Status read_value(std::string_view text, base::SlabSource& slabs, msg::Tensor& tensor) {
  JsonCursor json(text);
  bool array = json.peek() == JsonCursor::Kind::kArray;
  std::string one;
  if (array) {
    tensor.shape = {};
    if (!measure(json, tensor.shape)) {
      if (!json.ok()) return json.error();
      return base::invalid("input '" + tensor.name + "': the arrays nest too deep");
    }
    json.rewind(0);
    return marshal::read_data(json, tensor, slabs, marshal::BytesText::kUtf8, marshal::WideText::kString);
  }
  one = "[" + std::string(text) + "]";
  JsonCursor lone(one);
  tensor.shape = {1};
  auto status = marshal::read_data(lone, tensor, slabs, marshal::BytesText::kUtf8, marshal::WideText::kString);
  tensor.shape = {};
  return status;
}

}  // namespace weir::grps
