#include "engines/llm/load/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "marshal/json_cursor.h"

namespace weir::llm {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxRank = 8;

struct TensorEntry {
  std::string name;
  Array array;
  std::string dtype;
  uint64_t begin = 0, end = 0;
};

// Bits, since some types are smaller than a byte. 0 = not a type of the format.
uint32_t bits_of(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint32_t> kBits[] = {
      {"F32", 32}, {"F16", 16}, {"BF16", 16},   {"F64", 64},    {"I64", 64},   {"I32", 32},
      {"I16", 16}, {"I8", 8},   {"U8", 8},      {"BOOL", 8},    {"U16", 16},   {"U32", 32},
      {"U64", 64}, {"C64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}};
  for (const auto& [name, bits] : kBits)
    if (name == dtype) return bits;
  return 0;
}

Stored stored_as(std::string_view dtype) {
  static constexpr std::pair<std::string_view, Stored> kKnown[] = {
      {"F32", Stored::kF32}, {"F16", Stored::kF16},   {"BF16", Stored::kBf16}, {"F8_E4M3", Stored::kFp8},
      {"I8", Stored::kInt8}, {"I32", Stored::kInt32}, {"U8", Stored::kUint8}};
  for (const auto& [name, stored] : kKnown)
    if (name == dtype) return stored;
  return Stored::kOther;
}

std::optional<uint64_t> product(const std::vector<uint64_t>& shape) {
  uint64_t n = 1;
  for (uint64_t d : shape)
    if (__builtin_mul_overflow(n, d, &n)) return {};
  return n;
}

// Digits alone: no sign, fraction or exponent.
bool read_whole(marshal::JsonCursor& json, uint64_t& out) {
  marshal::JsonNumber number;
  return json.number(number) && number.integral && !number.negative && number.to(out);
}

bool read_entry(marshal::JsonCursor& json, TensorEntry& entry) {
  bool dtype = false, shape = false, offsets = false;
  return json.object([&](std::string_view key) {
    auto number = [&](uint64_t& to) { return read_whole(json, to); };
    if (key == "dtype" && !dtype) return dtype = true, json.string(entry.dtype);
    if (key == "shape" && !shape) {
      shape = true;
      return json.array(
          [&] { return entry.array.shape.size() < kMaxRank && number(entry.array.shape.emplace_back()); });
    }
    if (key == "data_offsets" && !offsets) {
      offsets = true;
      size_t n = 0;
      return json.array([&] { return n < 2 && number(n++ == 0 ? entry.begin : entry.end); }) && n == 2;
    }
    return false;
  }) && dtype &&
         shape && offsets;
}

bool read_header(std::string_view text, std::vector<TensorEntry>& entries) {
  marshal::JsonCursor json(text);
  return json.object([&](std::string_view name) {
    if (name == "__metadata__") {
      std::string_view value;
      return json.object([&](std::string_view) { return json.string(value); });
    }
    entries.emplace_back().name = name;
    return read_entry(json, entries.back());
  }) && json.finish();
}

base::Status check(TensorEntry& entry, std::span<const std::byte> data) {
  auto wrong = [&](std::string_view what) {
    return base::invalid("safetensors: '" + entry.name.substr(0, 80) + "': " + std::string(what));
  };
  uint32_t bits = bits_of(entry.dtype);
  if (bits == 0) return wrong("unknown dtype");
  auto n = product(entry.array.shape);
  uint64_t size;
  if (!n || __builtin_mul_overflow(*n, uint64_t(bits / 8), &size)) return wrong("the shape is too large");
  if (entry.begin > entry.end || entry.end > data.size()) return wrong("the offsets lie outside of the file");
  if (entry.end - entry.begin != size) return wrong("dtype and shape do not fit the offsets");
  entry.array.data = data.subspan(entry.begin, size);
  entry.array.dtype = stored_as(entry.dtype);
  return {};
}

}  // namespace

base::Status parse_safetensors(std::span<const std::byte> file, Arrays& arrays) {
  uint64_t length = 0;
  if (file.size() < 8) return base::invalid("safetensors: the file is too short");
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxHeader || length > file.size() - 8)
    return base::invalid("safetensors: the header's length is wrong");
  std::string_view header(reinterpret_cast<const char*>(file.data()) + 8, length);
  std::vector<TensorEntry> entries;
  if (header.empty() || header.front() != '{' || !read_header(header, entries))
    return base::invalid("safetensors: the header is not what the format says");

  auto data = file.subspan(8 + length);
  for (auto& entry : entries)
    if (auto s = check(entry, data); !s.ok()) return s;
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const auto& entry : entries) {
    if (entry.begin != at) return base::invalid("safetensors: the arrays overlap, or leave holes");
    at = entry.end;
  }
  if (at != data.size()) return base::invalid("safetensors: the file is longer than its arrays");
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  for (size_t i = 0; i < entries.size(); ++i)
    if (arrays.contains(entries[i].name) || (i > 0 && entries[i].name == entries[i - 1].name))
      return base::invalid("safetensors: '" + entries[i].name.substr(0, 80) + "' is there twice");
  for (auto& entry : entries) arrays.emplace(std::move(entry.name), std::move(entry.array));
  return {};
}

}  // namespace weir::llm
