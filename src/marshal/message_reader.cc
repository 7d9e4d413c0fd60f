#include "marshal/message_reader.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <set>

#include "base/encoding.h"
#include "marshal/json_cursor.h"
#include "marshal/message_output.h"
#include "marshal/number_run.h"
#include "marshal/pb_wire.h"

namespace weir::marshal {
namespace {

namespace pb = google::protobuf;
using pb::FieldDescriptor;
using Kind = JsonCursor::Kind;

constexpr size_t kQuoted = 64;        // bytes of a peer's text that an error repeats
constexpr size_t kMaxKeys = 1 << 16;  // of a map: each is remembered, and takes several times its text

bool has_own_form(const pb::Descriptor& type) { return type.file()->package() == "google.protobuf"; }

// Null is a value of its own.
bool has_null(const FieldDescriptor& field) {
  if (field.message_type()) return field.message_type()->full_name() == "google.protobuf.Value";
  return field.enum_type() && field.enum_type()->full_name() == "google.protobuf.NullValue";
}

bool packs(FieldDescriptor::Type type) { return wire_type(type) != PbType::kBytes; }

// A number in a string: as written, without white space around it.
template <class T>
bool whole_text(std::string_view text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// A group of base64 that is cut short leaves no bits over.
bool ends_clean(std::string_view text, std::string_view decoded) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  return base::base64_encode(decoded.substr(decoded.size() / 3 * 3), base::Padding::kNone) ==
         text.substr(text.size() / 4 * 4);
}

// Appends numbers that come next, as many as read_numbers() takes and `most` bytes of `out` have room for.
template <class T>
size_t append_run(JsonCursor& json, std::string& out, size_t most) {
  std::array<T, 64> values;
  const size_t room = (most - std::min(most, out.size())) / sizeof(T), at = json.at();
  size_t used = 0;
  const std::string_view text{json.since(at).data(), json.left()};
  const size_t n = read_numbers(text, values.data(), std::min(room, values.size()), &used);
  json.rewind(at + used);
  out.append(reinterpret_cast<const char*>(values.data()), n * sizeof(T));
  return n;
}

size_t reals(FieldDescriptor::Type type, JsonCursor& json, std::string& out, size_t most) {
  if (type == FieldDescriptor::TYPE_FLOAT) return append_run<float>(json, out, most);
  if (type == FieldDescriptor::TYPE_DOUBLE) return append_run<double>(json, out, most);
  return 0;
}

// The functions of this class that return bool return false on an error: then the cursor has the reason, or too_long_
// is set.
class MessageReader {
 public:
  MessageReader(std::string_view json, size_t max_bytes) : json_(json), max_(max_bytes) {}

  std::optional<base::Result<std::string>> read(const pb::Descriptor& type) {
    pool_ = type.file()->pool();
    bool ok = message(type) && json_.finish();
    if (foreign_ && !null_element_) return std::nullopt;
    if (too_long_) return base::failure(base::Code::kResourceExhausted, "the message is too long");
    if (!ok) return placed(json_.error());
    return std::move(out_.text);
  }

 private:
  bool message(const pb::Descriptor& type) {
    if (has_own_form(type)) return foreign();
    if (depth_ == kMaxMessageDepth) return too_deep();
    ++depth_;
    uint64_t chosen = 0;  // oneofs that are set
    bool ok = json_.object([&](std::string_view key) {
      const FieldDescriptor* field = named(type, key);
      if (!field) return foreign_ ? json_.skip() : unknown(type, key);
      return member(*field, chosen) || failed_in(field->name());
    });
    --depth_;
    return ok;
  }

  // The path of the value that was refused is put together from its end while the calls return. Always false.
  [[gnu::cold]] bool failed_in(std::string_view step) {
    if (!path_.empty() && path_[0] != '[') path_.insert(0, 1, '.');
    path_.insert(0, step);
    return false;
  }
  [[gnu::cold]] bool failed_at(size_t index) { return failed_in('[' + std::to_string(index) + ']'); }

  // Adds where in the message the value is; errors of the outermost level name their field already.
  base::Status placed(base::Status error) const {
    if (path_.find_first_of(".[") != path_.npos) error.text += ", in " + path_;
    return error;
  }

  static const FieldDescriptor* named(const pb::Descriptor& type, std::string_view key) {
    for (int i = 0; i < type.field_count(); ++i)
      if (const auto* f = type.field(i); f->name() == key || f->json_name() == key) return f;
    return nullptr;
  }

  bool unknown(const pb::Descriptor& type, std::string_view key) {
    return json_.fail(type.full_name() + " has no field '" + base::presentable(key, kQuoted) + "'");
  }
  bool too_deep() { return json_.fail("nested deeper than " + std::to_string(kMaxMessageDepth) + " levels"); }
  // For a value that only protobuf's library can read, so that it has to read the whole text. The rest is read here
  // only to find a null among elements (null_element_).
  bool foreign() {
    foreign_ = true;
    return json_.skip();
  }
  // A google.protobuf.Any is left to the library, too. Its content is checked as a message of the type that it names.
  bool any() {
    const size_t at = json_.at();
    std::string url;
    if (json_.peek() != Kind::kObject) return foreign();
    foreign_ = true;
    if (!json_.object([&](std::string_view key) { return key == "@type" ? json_.string(url) : json_.skip(); }))
      return false;
    const pb::Descriptor* type = pool_->FindMessageTypeByName(url.substr(url.rfind('/') + 1));
    if (!type || has_own_form(*type)) return true;
    json_.rewind(at);
    return message(*type);
  }
  bool fits() {
    if (out_.text.size() <= max_) return true;
    too_long_ = true;
    return json_.refuse();
  }
  bool misfit(const FieldDescriptor& field) {
    return json_.fail("expected a value of " + std::string(field.type_name()) + " for '" + field.name() + "'");
  }

  bool member(const FieldDescriptor& field, uint64_t& chosen) {
    if (field.type() == FieldDescriptor::TYPE_GROUP) return foreign();
    if (json_.peek() == Kind::kNull) return null(field);
    if (field.is_map()) return map(field);
    if (field.is_repeated()) return repeated(field);
    if (const auto* of = field.real_containing_oneof()) {
      if (of->index() >= 64) return foreign();
      const uint64_t bit = uint64_t(1) << of->index();
      if (chosen & bit) return json_.fail("a second value for the oneof '" + of->name() + "'");
      chosen |= bit;
    }
    return one(field);
  }

  // Null leaves a field unset, except for google.protobuf.Value and NullValue, for which it is a value.
  bool null(const FieldDescriptor& field) {
    if (field.message_type() && !field.is_map() && has_own_form(*field.message_type())) return foreign();
    if (field.enum_type() && field.enum_type()->file()->package() == "google.protobuf") return foreign();
    return json_.null();
  }

  bool repeated(const FieldDescriptor& field) {
    if (json_.peek() != Kind::kArray) return one(field);  // as the library
    if (depth_ == kMaxMessageDepth) return too_deep();
    ++depth_;
    bool ok;
    size_t index = 0;
    if (packs(field.type())) {
      const size_t at = out_.open(field.number());
      ok = json_.array([&] {
        if (const size_t n = reals(field.type(), json_, out_.text, max_)) return index += n, true;
        bool good = json_.at_number() ? number(field) : element(&MessageReader::number, field);
        return good ? (++index, true) : failed_at(index);
      });
      out_.close(at);
    } else {
      ok = json_.array([&] { return element(&MessageReader::one, field) ? (++index, true) : failed_at(index); });
    }
    --depth_;
    return ok && fits();
  }

  // A null among elements is refused: the library would leave it out, and later elements would move up.
  bool element(bool (MessageReader::*read)(const FieldDescriptor&), const FieldDescriptor& field) {
    if (json_.peek() != Kind::kNull) return (this->*read)(field);
    if (has_null(field)) return foreign();
    null_element_ = true;
    return json_.fail("null is no element of '" + field.name() + "'");
  }

  bool map(const FieldDescriptor& field) {
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    const FieldDescriptor& value_field = *field.message_type()->map_value();
    if (depth_ == kMaxMessageDepth) return too_deep();
    ++depth_;
    std::set<std::string, std::less<>> keys;
    bool ok = json_.object([&](std::string_view key) {
      if (keys.size() == kMaxKeys) return json_.fail("more than " + std::to_string(kMaxKeys) + " keys in a map");
      if (!keys.emplace(key).second) return json_.fail("a second value for the key of a map");
      const size_t at = out_.open(field.number());
      bool good = map_key(key_field, key) && (json_.peek() == Kind::kNull ? null(value_field) : one(value_field));
      out_.close(at);
      if (!good) return failed_in("['" + base::presentable(key, kQuoted) + "']");
      return fits();
    });
    --depth_;
    return ok;
  }

  bool map_key(const FieldDescriptor& field, std::string_view key) {
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      put_bytes(out_.text, 1, key);
      return true;
    }
    put_tag(out_.text, 1, wire_type(field.type()));
    if (field.type() != FieldDescriptor::TYPE_BOOL) return digits(field, key);
    if (key != "true" && key != "false") return misfit(field);
    put_varint(out_.text, key == "true");
    return true;
  }

  // One value with its tag.
  bool one(const FieldDescriptor& field) {
    const auto number_of = uint32_t(field.number());
    switch (field.type()) {
      case FieldDescriptor::TYPE_MESSAGE: {
        if (field.message_type()->full_name() == "google.protobuf.Any") return any();
        if (has_own_form(*field.message_type())) return foreign();
        if (json_.peek() != Kind::kObject) return misfit(field);
        const size_t at = out_.open(field.number());
        bool ok = message(*field.message_type());
        out_.close(at);
        return ok && fits();
      }
      case FieldDescriptor::TYPE_STRING: {
        std::string_view text;
        if (json_.peek() != Kind::kString) return misfit(field);
        if (!json_.string(text)) return false;
        put_bytes(out_.text, number_of, text);
        return fits();
      }
      case FieldDescriptor::TYPE_BYTES: return bytes(field);
      default: put_tag(out_.text, number_of, wire_type(field.type())); return number(field);
    }
  }

  bool bytes(const FieldDescriptor& field) {
    std::string_view text;
    if (json_.peek() != Kind::kString) return misfit(field);
    if (!json_.string(text)) return false;
    std::string other;
    if (text.find_first_of("-_") != text.npos) {
      other = text;
      std::replace(other.begin(), other.end(), '-', '+');
      std::replace(other.begin(), other.end(), '_', '/');
      text = other;
    }
    auto decoded = base::base64_decode(text);
    if (!decoded || !ends_clean(text, *decoded)) return json_.fail("'" + field.name() + "' is not base64");
    put_bytes(out_.text, uint32_t(field.number()), *decoded);
    return fits();
  }

  // A number, a boolean or an enumerator, without its tag.
  bool number(const FieldDescriptor& field) {
    switch (field.type()) {
      case FieldDescriptor::TYPE_FLOAT: return real<float>(field);
      case FieldDescriptor::TYPE_DOUBLE: return real<double>(field);
      case FieldDescriptor::TYPE_BOOL: return boolean(field);
      case FieldDescriptor::TYPE_ENUM: return enumerator(field);
      default: return integer(field);
    }
  }

  bool boolean(const FieldDescriptor& field) {
    bool flag;
    std::string_view text;
    if (json_.peek() == Kind::kString) {
      if (!json_.string(text)) return false;
      if (text != "true" && text != "false") return misfit(field);
      flag = text == "true";
    } else if (json_.peek() != Kind::kBool) {
      return misfit(field);
    } else if (!json_.boolean(flag)) {
      return false;
    }
    out_.text += char(flag);
    return fits();
  }

  template <class T>
  bool real(const FieldDescriptor& field) {
    T value;
    if (!json_.plain(value) && !any_real(field, value)) return false;
    out_.text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return fits();
  }

  template <class T>
  bool any_real(const FieldDescriptor& field, T& value) {
    JsonNumber number;
    std::string_view text;
    if (json_.at_number()) return json_.number(number) && (number.to(value) || misfit(field));
    if (json_.peek() != Kind::kString) return misfit(field);
    if (!json_.string(text)) return false;
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    if (text == "NaN")
      value = std::numeric_limits<T>::quiet_NaN();
    else if (text == "Infinity" || text == "-Infinity")
      value = text[0] == '-' ? -kInfinity : kInfinity;
    else if (!number_text(text, value))
      return misfit(field);
    return true;
  }

  // A number of JSON as the text of a string.
  template <class T>
  static bool number_text(std::string_view text, T& value) {
    JsonNumber number;
    if (text.empty() || (text[0] != '-' && unsigned(text[0] - '0') > 9)) return false;
    JsonCursor inner(text);
    return inner.number(number) && inner.at() == text.size() && number.text.size() == text.size() && number.to(value);
  }

  bool integer(const FieldDescriptor& field) {
    if (json_.at_number()) {
      JsonNumber number;
      int64_t i = 0;
      uint64_t u = 0;
      if (!json_.number(number)) return false;
      const bool is_signed = number.to(i), is_unsigned = number.to(u);
      return out_.put_integer(field.type(), is_signed ? &i : nullptr, is_unsigned ? &u : nullptr) ? fits()
                                                                                                  : misfit(field);
    }
    std::string_view text;
    if (json_.peek() != Kind::kString) return misfit(field);
    return json_.string(text) && digits(field, text);
  }

  bool digits(const FieldDescriptor& field, std::string_view text) {
    int64_t i = 0;
    uint64_t u = 0;
    const bool is_signed = whole_text(text, i), is_unsigned = whole_text(text, u);
    return out_.put_integer(field.type(), is_signed ? &i : nullptr, is_unsigned ? &u : nullptr) ? fits()
                                                                                                : misfit(field);
  }

  bool enumerator(const FieldDescriptor& field) {
    if (field.enum_type()->file()->package() == "google.protobuf") return foreign();
    int64_t value = 0;
    if (json_.at_number()) {
      JsonNumber number;
      if (!json_.number(number)) return false;
      if (!number.to(value) || value < std::numeric_limits<int32_t>::min() ||
          value > std::numeric_limits<int32_t>::max())
        return misfit(field);
      put_varint(out_.text, uint64_t(value));
      return fits();
    }
    std::string_view text;
    if (json_.peek() != Kind::kString) return misfit(field);
    if (!json_.string(text)) return false;
    const auto* named = field.enum_type()->FindValueByName(std::string(text));
    if (!named) return json_.fail("'" + base::presentable(text, kQuoted) + "' is no " + field.enum_type()->full_name());
    put_varint(out_.text, uint64_t(int64_t(named->number())));
    return fits();
  }

  JsonCursor json_;
  const size_t max_;
  MessageOutput out_;
  std::string path_;  // of the value that was refused
  int depth_ = 0;
  const pb::DescriptorPool* pool_ = nullptr;
  bool foreign_ = false, too_long_ = false, null_element_ = false;
};

}  // namespace

std::optional<base::Result<std::string>> read_message(const pb::Descriptor& type, std::string_view json,
                                                      size_t max_bytes) {
  return MessageReader(json, max_bytes).read(type);
}

}  // namespace weir::marshal
