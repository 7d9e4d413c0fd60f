#include "dialects/grps/json_pointer.h"

#include "marshal/json_nested.h"
#include "wire/text.h"

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

// Whether a number may be written like this within a string.
bool is_number(std::string_view text) {
  JsonCursor json(text);
  marshal::JsonNumber number;
  return json.number(number) && json.finish();
}

// Appends the next value to `out`; strings that are numbers, or truth values for a BOOL, without their quotes.
bool unquote(JsonCursor& json, msg::DType dtype, std::string& out) {
  if (json.peek() == JsonCursor::Kind::kArray) {
    out += '[';
    bool ok = json.array([&] {
      if (out.back() != '[') out += ',';
      return unquote(json, dtype, out);
    });
    out += ']';
    return ok;
  }
  size_t from = json.at();
  if (json.peek() != JsonCursor::Kind::kString) {
    if (!json.skip()) return false;
    out += json.since(from);
    return true;
  }
  std::string_view text;
  if (!json.string(text)) return false;
  text = wire::trim(text);
  bool truth = dtype == msg::DType::kBool && (text == "true" || text == "false");
  out += truth || is_number(text) ? text : json.since(from);
  return true;
}

}  // namespace

base::Result<std::string_view> find_value(std::string_view text, std::string_view pointer) {
  JsonCursor json(text);
  std::string_view found;
  if (!walk(json, pointer, found) || !json.finish()) return json.error();
  return found;
}

base::Status read_value(std::string_view text, base::SlabSource& slabs, msg::Tensor& tensor) {
  std::string unquoted;
  if (tensor.dtype != msg::DType::kBytes && text.find('"') != text.npos) {
    JsonCursor json(text);
    if (!unquote(json, tensor.dtype, unquoted) || !json.finish()) return json.error();
    text = unquoted;
  }
  JsonCursor json(text);
  bool array = json.peek() == JsonCursor::Kind::kArray;
  std::string one;
  if (array) {
    tensor.shape = {};
    if (!marshal::measure_nested(json, tensor.shape)) {
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
