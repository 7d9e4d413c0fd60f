#include "support/generation_cases.h"

#include <bit>
#include <cmath>
#include <limits>

#include "marshal/json_tensor.h"

namespace weir::support {
namespace {

using marshal::ParamRow;
using marshal::PbType;
using marshal::Protocol;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string repeated(const std::string& one, size_t n, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += (i > 0 ? std::string(between) : "") + one;
  return out;
}

struct Values {
  std::vector<std::string> good, bad;
};

template <class Number>
Values whole(Number least, Number most, const std::string& below, const std::string& above) {
  return {{std::to_string(least), std::to_string(most)}, {below, above, "0.5", "1e300", "true", "\"x\"", "[1]", "{}"}};
}

Values form_values(std::string_view name) {
  if (name == "response_format")
    return {{R"({"type":"text"})", R"({"type":"json_object"})",
             R"({"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"integer"}}})"},
            {"1", "[1]", "\"text\"", R"({"type":"xml"})", R"({"type":"json_schema"})", R"({"type":"text","x":1})"}};
  if (name == "structured_outputs")
    return {{R"({"regex":"a"})", R"({"choice":["a","b"]})", R"({"json_object":true})", R"({"json":{},"regex":null})"},
            {"1", "[1]", R"({"xml":1})", R"({"regex":"a","choice":["b"]})", R"({"choice":"a"})"}};
  if (name.ends_with("regex") || name.ends_with("grammar")) return {{"\"a\"", "\"\""}, {"1", "[1]", "{}"}};
  if (name.ends_with("choice")) return {{R"(["a"])", "[]"}, {"1", "[1]", "{}"}};
  return {{"{}", "true", R"("{}")"}, {"1", "[1]"}};
}

Values json_values(const ParamRow& row, Protocol protocol) {
  const double most = row.most_of(protocol);
  auto number = [](double value) {
    std::string out;
    marshal::write_number(out, value);
    return out;
  };
  auto integer = [&](auto) {
    return whole(int64_t(row.least), int64_t(most), std::to_string(int64_t(row.least) - 1),
                 std::to_string(int64_t(most) + 1));
  };
  return std::visit(
      Overloaded{
          integer,
          [](ParamRow::Of<std::optional<uint64_t>>) {
            Values values = whole(INT64_MIN, INT64_MIN, "-9223372036854775809", "18446744073709551616");
            values.good.push_back("18446744073709551615");
            return values;
          },
          [&](ParamRow::Of<std::optional<float>>) {
            return Values{{number(row.least), number(most)},
                          {number(row.least - 1e-6), number(most + 1e-6), "1e300", "true", "\"x\"", "[1]", "{}"}};
          },
          [](ParamRow::Of<bool>) {
            return Values{{"true", "false"}, {"2", "-1", "0.5", "\"x\"", "[true]", "{}"}};
          },
          [&](ParamRow::Of<std::vector<std::string>>) {
            const std::string one = "\"" + std::string(marshal::kMaxStopBytes, 'x') + "\"";
            const std::string longer = "\"" + std::string(marshal::kMaxStopBytes + 1, 'x') + "\"";
            const auto most_stops = size_t(row.most);
            return Values{{"[]", one, "[" + repeated("\"x\"", most_stops, ",") + "]"},
                          {longer, "[" + one + ",\"x\"]", "[" + repeated("\"x\"", most_stops + 1, ",") + "]", "1",
                           "true", "[1]", "{}"}};
          },
          [&](ParamRow::Of<std::vector<uint32_t>>) {
            const auto most_ids = size_t(row.most);
            return Values{{"[]", "[" + repeated("7", most_ids, ",") + "]", "[0,4294967294]"},
                          {"[" + repeated("7", most_ids + 1, ",") + "]", "[-1]", "[4294967296]", "1", "[0.5]", "{}"}};
          },
          [&](ParamRow::Of<marshal::GenerationParams::Bias>) {
            return Values{{"{}", "{\"0\":" + number(row.least) + ",\"4294967294\":" + number(row.most) + "}"},
                          {"{\"0\":" + number(row.least - 1e-3) + "}", "{\"0\":" + number(row.most + 1e-3) + "}",
                           "{\"-1\":1}", "{\"4294967296\":1}", "{\"0\":\"x\"}", "[1]", "1"}};
          },
          [&](ParamRow::Of<std::optional<msg::StructuredOutput>>) { return form_values(row.name); },
      },
      row.member);
}

std::string field(uint32_t number, PbType type, uint64_t value) {
  std::string out;
  marshal::put_tag(out, number, type);
  if (type == PbType::kVarint) {
    marshal::put_varint(out, value);
  } else {
    auto bits = uint32_t(value);
    out.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
  return out;
}

std::string text_field(uint32_t number, const std::string& value) {
  std::string out;
  marshal::put_bytes(out, number, value);
  return out;
}

Values pb_values(const ParamRow& row, uint32_t at) {
  auto varint = [at](uint64_t value) { return field(at, PbType::kVarint, value); };
  auto real = [at](float value) { return field(at, PbType::kFixed32, std::bit_cast<uint32_t>(value)); };
  const std::string other = field(at, PbType::kFixed32, 1), text = text_field(at, "x");
  auto integer = [&](auto) {
    return Values{{varint(0), varint(uint64_t(row.most)), other}, {varint(uint64_t(row.most) + 1)}};
  };
  return std::visit(
      Overloaded{
          integer,
          [&](ParamRow::Of<std::optional<uint64_t>>) {
            return Values{{varint(0), varint(UINT64_MAX), other}, {}};
          },
          [&](ParamRow::Of<std::optional<float>>) {
            const auto least = float(row.least), most = float(row.most),
                       infinity = std::numeric_limits<float>::infinity();
            return Values{{real(least), real(most), varint(7), text},
                          {real(std::nextafter(least, -infinity)), real(std::nextafter(most, infinity)), real(infinity),
                           real(-infinity), real(std::nanf(""))}};
          },
          [&](ParamRow::Of<bool>) {
            return Values{{varint(0), varint(1), other}, {}};
          },
          [&](ParamRow::Of<std::vector<std::string>>) {
            const auto most = size_t(row.most);
            const std::string longest = text_field(at, std::string(marshal::kMaxStopBytes, 'x'));
            return Values{{repeated(text, most, ""), longest, varint(7)},
                          {repeated(text, most + 1, ""), longest + text, text_field(at, ""),
                           text_field(at, std::string(marshal::kMaxStopBytes + 1, 'x'))}};
          },
          [&](ParamRow::Of<std::vector<uint32_t>>) {
            const auto most = size_t(row.most);
            return Values{
                {repeated(varint(7), most, ""), text_field(at, std::string(most, '\x07')), varint(UINT32_MAX), other},
                {repeated(varint(7), most + 1, ""), text_field(at, std::string(most + 1, '\x07')),
                 varint(uint64_t(UINT32_MAX) + 1)}};
          },
          [](ParamRow::Of<marshal::GenerationParams::Bias>) { return Values{}; },
          [](ParamRow::Of<std::optional<msg::StructuredOutput>>) { return Values{}; },
      },
      row.member);
}

void add(std::vector<GenerationCase>& cases, std::string_view name, const Values& values) {
  for (const auto& value : values.good) cases.push_back({std::string(name), value, true});
  for (const auto& value : values.bad) cases.push_back({std::string(name), value, false});
}

}  // namespace

std::vector<GenerationCase> json_cases(Protocol protocol) {
  std::vector<GenerationCase> cases;
  for (const ParamRow& row : marshal::kGenerationParams) {
    if (!row.named || (protocol == Protocol::kModelFile && !row.model_file)) continue;
    add(cases, row.name, json_values(row, protocol));
    if (protocol == Protocol::kTriton && !row.triton.empty()) add(cases, row.triton, json_values(row, protocol));
  }
  return cases;
}

std::vector<GenerationCase> pb_cases(Protocol protocol) {
  std::vector<GenerationCase> cases;
  for (const ParamRow& row : marshal::kGenerationParams)
    if (auto at = row.field(protocol); at.number != 0) add(cases, at.name, pb_values(row, at.number));
  return cases;
}

}  // namespace weir::support
