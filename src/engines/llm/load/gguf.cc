#include "engines/llm/load/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/encoding.h"
#include "engines/llm/load/gguf_blocks.h"

namespace weir::llm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in the file");

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxName = 65535, kMaxItems = 1 << 23, kMostSizes = 4, kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxFields = 1 << 16, kMaxTensors = 1 << 16, kMaxSize = uint64_t(1) << 40;
constexpr uint64_t kLeastField = 8 + 1 + 4 + 1, kLeastEntry = 8 + 1 + 4 + 8 + 4 + 8;  // bytes

enum class FieldType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
  kEnd
};

uint64_t size_of(FieldType type) {
  constexpr uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // of strings and arrays the least
  return kSizes[size_t(type)];
}

// ggml's types of numbers by their number; an empty name: there is none.
struct NumberType {
  std::string_view name;
  Stored stored = Stored::kOther;
};
constexpr NumberType kNumberTypes[] = {
    {"F32", Stored::kF32},
    {"F16", Stored::kF16},
    {"Q4_0", Stored::kQ4_0},
    {"Q4_1", Stored::kQ4_1},
    {"Q4_2"},
    {"Q4_3"},
    {"Q5_0", Stored::kQ5_0},
    {"Q5_1", Stored::kQ5_1},
    {"Q8_0", Stored::kQ8_0},
    {"Q8_1"},
    {"Q2_K", Stored::kQ2K},
    {"Q3_K", Stored::kQ3K},
    {"Q4_K", Stored::kQ4K},
    {"Q5_K", Stored::kQ5K},
    {"Q6_K", Stored::kQ6K},
    {"Q8_K"},
    {"IQ2_XXS"},
    {"IQ2_XS"},
    {"IQ3_XXS"},
    {"IQ1_S"},
    {"IQ4_NL", Stored::kIq4Nl},
    {"IQ3_S"},
    {"IQ2_S"},
    {"IQ4_XS", Stored::kIq4Xs},
    {"I8"},
    {"I16"},
    {"I32"},
    {"I64"},
    {"F64"},
    {"IQ1_M"},
    {"BF16", Stored::kBf16},
    {"Q4_0_4_4"},
    {"Q4_0_4_8"},
    {"Q4_0_8_8"},
    {"TQ1_0"},
    {"TQ2_0"},
    {"IQ4_NL_4_4"},
    {"IQ4_NL_4_8"},
    {"IQ4_NL_8_8"},
    {"MXFP4", Stored::kMxfp4},
    {"NVFP4"},
};
constexpr std::string_view kKnownTypes =
    "; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4 are "
    "supported";

base::Status malformed(std::string_view what) { return base::invalid("GGUF: " + std::string(what)); }
base::Status malformed(std::string_view name, std::string_view what) {
  return malformed("'" + base::presentable(name, 100) + "' " + std::string(what));
}

// Reads on through the file; a read beyond its end is nothing.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> file) : left_(file) {}
  uint64_t left() const { return left_.size(); }

  template <class T>
  std::optional<T> number() {
    T out;
    if (left_.size() < sizeof out) return {};
    std::memcpy(&out, left_.data(), sizeof out);
    left_ = left_.subspan(sizeof out);
    return out;
  }
  std::optional<std::string> text(uint64_t most) {
    auto length = number<uint64_t>();
    if (!length || *length > left_.size() || *length > most) return {};
    std::string out(reinterpret_cast<const char*>(left_.data()), *length);
    left_ = left_.subspan(*length);
    return out;
  }

 private:
  std::span<const std::byte> left_;
};

struct TensorInfo {
  std::string name;
  Array array;
  uint64_t offset = 0, bytes = 0;
};

class Parser {
 public:
  explicit Parser(std::span<const std::byte> file) : file_(file), cursor_(file) {}

  base::Result<Gguf> parse() {
    uint64_t tensors = 0, fields = 0;
    auto status = read_head(tensors, fields);
    for (uint64_t i = 0; i < fields && status.ok(); ++i) status = read_field();
    for (uint64_t i = 0; i < tensors && status.ok(); ++i) status = read_entry();
    if (status.ok()) status = place();
    if (!status.ok()) return status;
    return std::move(gguf_);
  }

 private:
  base::Status read_head(uint64_t& tensors, uint64_t& fields) {
    if (!begins_as_gguf(file_)) return malformed("the file does not begin as the format says");
    (void)cursor_.number<uint32_t>();
    auto version = cursor_.number<uint32_t>();
    if (!version) return malformed("the file is too short");
    if ((*version & 0xffff) == 0) return base::failure(base::Code::kUnimplemented, "GGUF: the file is big-endian");
    if (*version != 2 && *version != 3)
      return base::failure(base::Code::kUnimplemented,
                           "GGUF: version " + std::to_string(*version) + " is not supported; 2 and 3 are");
    auto n = cursor_.number<uint64_t>(), m = cursor_.number<uint64_t>();
    if (!n || !m) return malformed("the file is too short");
    if (*m > kMaxFields || *m > cursor_.left() / kLeastField) return malformed("more fields than there can be");
    if (*n > kMaxTensors || *n > cursor_.left() / kLeastEntry) return malformed("more tensors than there can be");
    tensors = *n, fields = *m;
    return {};
  }

  base::Status read_field() {
    auto name = cursor_.text(kMaxName);
    auto type = cursor_.number<uint32_t>();
    if (!name || !type) return malformed("the name of a field is too long for the file");
    if (*type >= uint32_t(FieldType::kEnd)) return malformed(*name, "is of a type that the format does not have");
    if (gguf_.fields.contains(*name)) return malformed(*name, "is there twice");
    auto value = FieldType(*type) == FieldType::kArray ? read_array(*name) : read_value(*name, FieldType(*type));
    if (!value) return value.error();
    gguf_.fields.emplace(std::move(*name), std::move(*value));
    return {};
  }

  base::Result<GgufValue> read_value(const std::string& name, FieldType type) {
    std::optional<GgufValue> value;
    if (type == FieldType::kString) {
      if (auto text = cursor_.text(UINT64_MAX)) value = std::move(*text);
    } else if (type == FieldType::kBool) {
      if (auto byte = cursor_.number<uint8_t>(); byte && *byte > 1)
        return malformed(name, "is neither true nor false");
      else if (byte)
        value = *byte == 1;
    } else if (type == FieldType::kFloat32 || type == FieldType::kFloat64) {
      if (auto real = read_real(type)) value = *real;
    } else if (auto whole = read_whole(type)) {
      value = *whole;
    }
    if (!value) return malformed(name, "is longer than the file, or out of range");
    return std::move(*value);
  }

  base::Result<GgufValue> read_array(const std::string& name) {
    auto type = cursor_.number<uint32_t>();
    auto count = cursor_.number<uint64_t>();
    if (!type || !count) return malformed(name, "is longer than the file");
    if (*type >= uint32_t(FieldType::kEnd)) return malformed(name, "is of a type that the format does not have");
    if (FieldType(*type) == FieldType::kArray) return malformed(name, "is an array of arrays");
    if (*count > cursor_.left() / size_of(FieldType(*type))) return malformed(name, "is longer than the file");
    if (*count > kMaxItems - items_) return malformed(name, "makes too many items of arrays");
    items_ += *count;
    if (FieldType(*type) == FieldType::kString)
      return read_items<std::string>(name, *count, [&] { return cursor_.text(UINT64_MAX); });
    if (FieldType(*type) == FieldType::kFloat32 || FieldType(*type) == FieldType::kFloat64)
      return read_items<double>(name, *count, [&] { return read_real(FieldType(*type)); });
    return read_items<int64_t>(name, *count, [&] { return read_whole(FieldType(*type)); });
  }

  template <class T, class Read>
  base::Result<GgufValue> read_items(const std::string& name, uint64_t count, Read&& read) {
    std::vector<T> items;
    items.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      auto item = read();
      if (!item) return malformed(name, "is longer than the file, or out of range");
      items.push_back(std::move(*item));
    }
    return GgufValue(std::move(items));
  }

  std::optional<double> read_real(FieldType type) {
    if (type == FieldType::kFloat64) return cursor_.number<double>();
    auto real = cursor_.number<float>();
    return real ? std::optional<double>(*real) : std::nullopt;
  }

  template <class T>
  std::optional<int64_t> whole() {
    auto number = cursor_.number<T>();
    if (!number || (std::is_same_v<T, uint64_t> && *number > T(INT64_MAX))) return {};
    return int64_t(*number);
  }
  std::optional<int64_t> read_whole(FieldType type) {
    switch (type) {
      case FieldType::kBool:
      case FieldType::kUint8: return whole<uint8_t>();
      case FieldType::kInt8: return whole<int8_t>();
      case FieldType::kUint16: return whole<uint16_t>();
      case FieldType::kInt16: return whole<int16_t>();
      case FieldType::kUint32: return whole<uint32_t>();
      case FieldType::kInt32: return whole<int32_t>();
      case FieldType::kUint64: return whole<uint64_t>();
      default: return whole<int64_t>();
    }
  }

  base::Status read_entry() {
    TensorInfo entry;
    auto name = cursor_.text(kMaxName);
    auto rank = cursor_.number<uint32_t>();
    if (!name || !rank) return malformed("the name of a tensor is too long for the file");
    entry.name = std::move(*name);
    if (*rank == 0 || *rank > kMostSizes) return malformed(entry.name, "has no rank from 1 to 4");
    for (uint32_t i = 0; i < *rank; ++i) {
      auto size = cursor_.number<uint64_t>();
      if (!size || *size == 0 || *size > kMaxSize) return malformed(entry.name, "has a size that cannot be");
      entry.array.shape.insert(entry.array.shape.begin(), *size);
    }
    auto type = cursor_.number<uint32_t>();
    auto offset = cursor_.number<uint64_t>();
    if (!type || !offset) return malformed(entry.name, "is not described to its end");
    entry.offset = *offset;
    if (auto s = set_type(*type, entry); !s.ok()) return s;
    entries_.push_back(std::move(entry));
    return {};
  }

  static base::Status set_type(uint32_t type, TensorInfo& entry) {
    const NumberType known = type < std::size(kNumberTypes) ? kNumberTypes[type] : NumberType{};
    if (known.stored == Stored::kOther)
      return base::failure(base::Code::kUnimplemented,
                           "GGUF: '" + base::presentable(entry.name, 100) + "' is stored as " +
                               (known.name.empty() ? "type " + std::to_string(type) : std::string(known.name)) +
                               std::string(kKnownTypes));
    entry.array.dtype = known.stored;
    BlockFormat format{1, known.stored == Stored::kF32 ? 4u : 2u};
    if (in_blocks(known.stored)) format = block_format(known.stored);
    uint64_t n = 1;
    for (uint64_t size : entry.array.shape)
      if (__builtin_mul_overflow(n, size, &n)) return malformed(entry.name, "is too large");
    if (entry.array.shape.back() % format.numbers != 0)
      return malformed(entry.name, "does not end its rows with a block of " + std::string(known.name));
    if (__builtin_mul_overflow(n / format.numbers, uint64_t(format.bytes), &entry.bytes))
      return malformed(entry.name, "is too large");
    return {};
  }

  base::Status read_alignment(uint64_t& alignment) {
    alignment = 32;
    if (!gguf_.has("general.alignment")) return {};
    auto given = gguf_.get<int64_t>("general.alignment");
    if (!given || *given < 1 || *given > int64_t(kMaxAlignment) || !std::has_single_bit(uint64_t(*given)))
      return malformed("general.alignment", "is no power of two up to 1048576");
    alignment = uint64_t(*given);
    return {};
  }

  // Cuts the arrays out of the data.
  base::Status place() {
    uint64_t alignment;
    if (auto s = read_alignment(alignment); !s.ok()) return s;
    const uint64_t head = file_.size() - cursor_.left();
    const uint64_t begin = std::min<uint64_t>((head + alignment - 1) / alignment * alignment, file_.size());
    auto data = file_.subspan(begin);
    std::sort(entries_.begin(), entries_.end(),
              [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
    uint64_t taken = 0;
    for (TensorInfo& entry : entries_) {
      if (entry.offset % alignment != 0) return malformed(entry.name, "begins at no multiple of general.alignment");
      if (entry.offset > data.size() || entry.bytes > data.size() - entry.offset)
        return malformed(entry.name, "lies outside of the file");
      if (entry.offset < taken) return malformed(entry.name, "overlaps another tensor");
      taken = entry.offset + entry.bytes;
      entry.array.data = data.subspan(entry.offset, entry.bytes);
      if (gguf_.tensors.contains(entry.name)) return malformed(entry.name, "is there twice");
      gguf_.tensors.emplace(std::move(entry.name), std::move(entry.array));
    }
    return {};
  }

  std::span<const std::byte> file_;
  Cursor cursor_;
  Gguf gguf_;
  std::vector<TensorInfo> entries_;
  uint64_t items_ = 0;
};

}  // namespace

std::optional<int64_t> number_of(const Gguf& gguf, std::string_view field) {
  if (auto number = gguf.get<int64_t>(field)) return *number;
  auto list = gguf.get<std::vector<int64_t>>(field);
  if (!list || list->empty()) return {};
  const bool same = std::all_of(list->begin(), list->end(), [&](int64_t n) { return n == list->front(); });
  return same ? std::optional(list->front()) : std::nullopt;
}

bool begins_as_gguf(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() && std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

base::Result<Gguf> parse_gguf(std::span<const std::byte> file) { return Parser(file).parse(); }

}  // namespace weir::llm
