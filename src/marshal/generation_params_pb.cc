// The protobuf adapter of generation_params.h.
#include <algorithm>
#include <bit>

#include "marshal/generation_params.h"
#include "marshal/json_cursor.h"

namespace weir::marshal {
namespace {

using base::invalid;
using base::Status;

Status too_many(std::string_view name, size_t most) {
  return invalid(std::string(name) + " must have at most " + std::to_string(most) + " entries");
}

Status out_of_range(std::string_view name, std::string_view expected, const std::string& value) {
  return invalid(std::string(name) + " must be " + std::string(expected) + ", not " + value);
}

struct PbParam {
  const PbReader& reader;
  const ParamRow& row;
  std::string_view name;

  bool is(PbType type) const { return reader.type() == type; }
  Status read(std::optional<float>& out) const {
    if (!is(PbType::kFixed32)) return {};
    out = std::bit_cast<float>(uint32_t(reader.number()));
    if (*out >= row.least && *out <= row.most) return {};
    return out_of_range(name, range_text(row.least, row.most), number_text(*out));
  }
  // Unsigned fields alone: no protocol here has another.
  template <std::integral T>
  Status read(std::optional<T>& out) const {
    if (!is(PbType::kVarint)) return {};
    if (reader.number() > uint64_t(row.most))
      return out_of_range(name, "a whole number " + range_text(0, row.most), std::to_string(reader.number()));
    out = T(reader.number());
    return {};
  }
  Status read(std::optional<uint64_t>& out) const {
    if (is(PbType::kVarint)) out = reader.number();
    return {};
  }
  Status read(bool& out) const {
    if (is(PbType::kVarint)) out = reader.number() != 0;
    return {};
  }
  Status read(std::vector<uint32_t>& out) const { return read_ids(reader, name, size_t(row.most), out); }
  Status read(std::vector<std::string>& out) const;
  Status read(GenerationParams::Bias&) const { return {}; }
  Status read(std::optional<msg::StructuredOutput>&) const { return {}; }
};

Status PbParam::read(std::vector<std::string>& out) const {
  if (!is(PbType::kBytes)) return {};
  const std::string_view text = reader.bytes();
  if (Status bad = check_stop(out, name, text); !bad.ok()) return bad;
  if (!valid_utf8(text)) return invalid(std::string(name) + "[" + std::to_string(out.size()) + "] is not UTF-8");
  out.emplace_back(text);
  return {};
}

}  // namespace

Status read_param(const PbReader& reader, Protocol protocol, const ParamRow& row, GenerationParams& out) {
  const PbParam param{reader, row, row.field(protocol).name};
  return std::visit([&](auto member) { return param.read(out.*member); }, row.member);
}

Status read_ids(const PbReader& reader, std::string_view name, size_t most, std::vector<uint32_t>& out) {
  auto add = [&](uint64_t value) -> Status {
    if (out.size() == most) return too_many(name, most);
    if (value <= UINT32_MAX) return out.push_back(uint32_t(value)), Status{};
    return out_of_range(std::string(name) + "[" + std::to_string(out.size()) + "]", "<= 4294967295",
                        std::to_string(value));
  };
  if (reader.type() == PbType::kVarint) return add(reader.number());
  if (reader.type() != PbType::kBytes) return {};
  std::string_view packed = reader.bytes();
  constexpr size_t kLongestVarint = 10;
  if (packed.size() / kLongestVarint > most) return too_many(name, most);
  auto ends = [](char c) { return !(uint8_t(c) & 0x80); };
  size_t count = size_t(std::count_if(packed.begin(), packed.end(), ends));
  if (out.size() + count > most) return too_many(name, most);
  if (out.capacity() < out.size() + count) out.reserve(std::max(out.size() + count, 2 * out.capacity()));
  while (!packed.empty()) {
    uint64_t value;
    if (!take_varint(packed, value)) return invalid(std::string(name) + " is malformed");
    if (Status status = add(value); !status.ok()) return status;
  }
  return {};
}

}  // namespace weir::marshal
