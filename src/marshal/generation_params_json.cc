// The JSON and ParamValue adapters of generation_params.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/encoding.h"
#include "marshal/generation_params.h"
#include "marshal/json_tensor.h"
#include "marshal/structured_params.h"

namespace weir::marshal {
namespace {

using base::Status;
using Kind = JsonCursor::Kind;

constexpr std::string_view kSeedType = "a whole number of 64 bits", kStopType = "a string or a list of strings";

// ---- JSON

struct JsonParam {
  FieldReader& reader;
  const ParamRow& row;
  std::string_view name;
  Protocol protocol;

  bool read(std::optional<float>& out) const { return reader.real(name, row.least, row.most_of(protocol), out); }
  template <std::integral T>
  bool read(std::optional<T>& out) const {
    return reader.whole(name, int64_t(row.least), int64_t(row.most_of(protocol)), out);
  }
  bool read(std::optional<uint64_t>& out) const;
  bool read(bool& out) const { return reader.flag(name, out); }
  bool read(std::vector<uint32_t>& out) const { return reader.ids(name, size_t(row.most), out); }
  bool read(std::vector<std::string>& out) const;
  bool read(GenerationParams::Bias& out) const;
  bool read(std::optional<msg::StructuredOutput>& out) const { return read_structured(reader, row, out); }
};

bool JsonParam::read(std::optional<uint64_t>& out) const {
  if (reader.none()) return true;
  JsonCursor& json = reader.json();
  size_t at = json.at();
  JsonNumber number;
  int64_t negative;
  uint64_t value;
  if (json.at_number() && json.number(number)) {
    if (number.to(value)) return out = value, true;
    if (number.to(negative)) return out = uint64_t(negative), true;
  }
  if (json.ok()) json.rewind(at);
  return reader.unexpected(name, kSeedType);
}

// Triton's clients send "" for none, and have two names for the list.
bool JsonParam::read(std::vector<std::string>& out) const {
  if (reader.none()) return true;
  JsonCursor& json = reader.json();
  const bool triton = protocol == Protocol::kTriton;
  if (!triton) out.clear();
  auto one = [&] {
    std::string text;
    if (json.peek() != Kind::kString) return reader.unexpected(name, kStopType);
    if (!reader.text(name, kMaxStopBytes, text)) return false;
    if (text.empty() && triton) return true;
    if (Status bad = check_stop(out, name, text); !bad.ok()) return reader.fail(name, std::move(bad.text));
    out.push_back(std::move(text));
    return true;
  };
  return json.peek() == Kind::kArray ? json.array(one) : one();
}

bool JsonParam::read(GenerationParams::Bias& out) const {
  if (reader.none()) return true;
  JsonCursor& json = reader.json();
  if (json.peek() != Kind::kObject) return reader.unexpected(name, "an object");
  out.clear();
  return json.object([&](std::string_view key) {
    if (out.size() == kMaxBiases) return reader.refuse(name, "at most " + std::to_string(kMaxBiases) + " tokens");
    uint32_t id = 0;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || key.empty())
      return reader.refuse(name, "the key '" + std::string(base::cut_text(key, 64)) + "' is no token id");
    std::optional<float> bias;
    if (!reader.real(name, row.least, row.most, bias)) return false;
    if (!bias) return true;
    auto same = std::find_if(out.begin(), out.end(), [&](const auto& entry) { return entry.first == id; });
    if (same != out.end()) return reader.refuse(name, "token " + std::to_string(id) + " twice");
    out.emplace_back(id, *bias);
    return true;
  });
}

// ---- ParamValue

std::string value_text(const msg::ParamValue& value) {
  if (auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (auto* u = std::get_if<uint64_t>(&value)) return std::to_string(*u);
  if (auto* d = std::get_if<double>(&value)) return number_text(*d);
  std::string out;
  write_string(out, std::get<std::string>(value));
  return out.size() <= kMaxQuoted ? out : "a string";
}

Status wrong_value(std::string_view name, std::string_view expected, const msg::ParamValue& value) {
  return base::invalid(std::string(name) + " must be " + std::string(expected) + ", not " + value_text(value));
}

std::optional<double> number_of(const msg::ParamValue& value) {
  if (auto* i = std::get_if<int64_t>(&value)) return double(*i);
  if (auto* u = std::get_if<uint64_t>(&value)) return double(*u);
  if (auto* d = std::get_if<double>(&value)) return *d;
  auto* s = std::get_if<std::string>(&value);
  double d = 0;
  if (!s) return {};
  auto [end, error] = std::from_chars(s->data(), s->data() + s->size(), d);
  return error == std::errc() && end == s->data() + s->size() ? std::optional(d) : std::nullopt;
}

struct ValueParam {
  const msg::ParamValue& value;
  const ParamRow& row;
  std::string_view name;

  Status refused(std::string_view expected) const { return wrong_value(name, expected, value); }
  bool in_range(const std::optional<double>& n) const { return n && *n >= row.least && *n <= row.most; }

  Status read(std::optional<float>& out) const {
    auto n = number_of(value);
    if (!in_range(n)) return refused(range_text(row.least, row.most));
    out = float(*n);
    return {};
  }
  template <std::integral T>
  Status read(std::optional<T>& out) const {
    auto n = number_of(value);
    if (!in_range(n) || std::floor(*n) != *n) return refused("a whole number " + range_text(row.least, row.most));
    out = T(*n);
    return {};
  }
  Status read(std::optional<uint64_t>& out) const;
  Status read(bool& out) const { return read_flag(value, name, out); }
  Status read(std::vector<std::string>& out) const;
  Status read(std::optional<msg::StructuredOutput>& out) const;
  // A list of ids, an object of biases: as JSON in a string.
  template <class List>
  Status read(List& out) const {
    auto* text = std::get_if<std::string>(&value);
    if (!text) return refused("JSON in a string");
    if (text->empty()) return {};
    JsonCursor json(*text);
    FieldReader reader(json);
    if (JsonParam{reader, row, name, Protocol::kTriton}.read(out) && json.finish()) return {};
    return reader.param().empty() ? refused("JSON in a string") : reader.error();
  }
};

Status ValueParam::read(std::optional<uint64_t>& out) const {
  constexpr double kExact = 0x1p53;
  if (auto* i = std::get_if<int64_t>(&value)) return out = uint64_t(*i), Status();
  if (auto* u = std::get_if<uint64_t>(&value)) return out = *u, Status();
  auto n = number_of(value);
  if (!n || std::floor(*n) != *n || std::abs(*n) > kExact) return refused(kSeedType);
  out = uint64_t(int64_t(*n));
  return {};
}

// One string; or the list of them in JSON, which a text that only begins like one is not.
Status ValueParam::read(std::vector<std::string>& out) const {
  auto* text = std::get_if<std::string>(&value);
  if (!text) return refused(kStopType);
  std::string json_text;
  if (JsonCursor list(*text); text->starts_with('[') && list.skip() && list.finish())
    json_text = *text;
  else
    write_string(json_text, *text);
  JsonCursor json(json_text);
  FieldReader reader(json);
  return JsonParam{reader, row, name, Protocol::kTriton}.read(out) ? Status() : reader.error();
}

// A text is the regular expression or the grammar itself, or the schema, list or object in JSON.
Status ValueParam::read(std::optional<msg::StructuredOutput>& out) const {
  auto* text = std::get_if<std::string>(&value);
  if (!text) return refused("a string");
  if (text->empty()) return {};
  const bool itself = row.name.ends_with("regex") || row.name.ends_with("grammar");
  std::string json_text;
  if (itself) write_string(json_text, *text);
  JsonCursor json(itself ? json_text : *text);
  FieldReader reader(json);
  if (read_structured(reader, row, out) && json.finish()) return {};
  return reader.param().empty() ? refused("JSON in a string") : reader.error();
}

template <class T>
inline constexpr bool kIsScalar = false;
template <class T>
inline constexpr bool kIsScalar<std::optional<T>> = true;
template <>
inline constexpr bool kIsScalar<std::optional<msg::StructuredOutput>> = false;
template <>
inline constexpr bool kIsScalar<bool> = true;

// Errors that come once the prompt's length is known name the limit as the client wrote it.
void note_name(const ParamRow& row, std::string_view name, GenerationParams& out) {
  if (row.name == "max_tokens") out.max_tokens_name = name == row.triton ? row.triton : row.name;
}

}  // namespace

bool read_param(FieldReader& reader, Protocol protocol, const ParamRow& row, std::string_view name,
                GenerationParams& out) {
  note_name(row, name, out);
  const JsonParam param{reader, row, name, protocol};
  return std::visit(
      [&](auto member) {
        auto& to = out.*member;
        const bool text = protocol == Protocol::kTriton && kIsScalar<std::remove_reference_t<decltype(to)>> &&
                          reader.json().peek() == Kind::kString;
        if (!text) return param.read(to);
        msg::ParamValue value;
        if (!reader.json().string(value.emplace<std::string>())) return false;
        Status status = ValueParam{value, row, name}.read(to);
        return status.ok() || reader.fail(name, std::move(status.text));
      },
      row.member);
}

Status read_flag(const msg::ParamValue& value, std::string_view name, bool& out) {
  if (auto* b = std::get_if<bool>(&value)) return out = *b, Status();
  if (auto* s = std::get_if<std::string>(&value); s && (*s == "true" || *s == "false"))
    return out = *s == "true", Status();
  if (auto n = number_of(value); n && (*n == 0 || *n == 1)) return out = *n == 1, Status();
  return wrong_value(name, "true or false", value);
}

Status read_param(const msg::ParamValue& value, const ParamRow& row, std::string_view name, GenerationParams& out) {
  note_name(row, name, out);
  return std::visit([&](auto member) { return ValueParam{value, row, name}.read(out.*member); }, row.member);
}

}  // namespace weir::marshal
