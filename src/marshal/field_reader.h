// FieldReader: members of a JSON object that have a type and bounds. What is refused is refused by name.
//
//   FieldReader fields(json);
//   bool ok = json.object([&](std::string_view name) {
//     if (name == "top_p") return fields.real(name, 0, 1, top_p);
//     …
//   });
//   if (!ok) return fields.error();   // "top_p must be >= 0 and <= 1, not 1.5"
//
// Each call consumes one value. null stands for a member that is not there: `out` stays as it is.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "marshal/json_cursor.h"

namespace weir::marshal {

inline constexpr size_t kMaxQuoted = 40;  // bytes of a value that an error repeats

// ">= 0 and <= 100"
std::string range_text(double least, double most);
// A number as an error repeats it, also one that JSON does not have.
std::string number_text(double value);

class FieldReader {
 public:
  explicit FieldReader(JsonCursor& json) : json_(json) {}
  JsonCursor& json() { return json_; }

  bool flag(std::string_view name, bool& out);
  // A whole number from `least` to `most`.
  template <std::integral T>
  bool whole(std::string_view name, int64_t least, int64_t most, T& out) {
    int64_t value = 0;
    return read_whole(name, least, most, value) && (null_ || (out = T(value), true));
  }
  template <std::integral T>
  bool whole(std::string_view name, int64_t least, int64_t most, std::optional<T>& out) {
    int64_t value = 0;
    return read_whole(name, least, most, value) && (null_ || (out = T(value), true));
  }
  bool real(std::string_view name, double least, double most, std::optional<float>& out);
  // At most `most` bytes.
  bool text(std::string_view name, size_t most, std::string& out);
  // A list of at most `most` token ids, each below 2^32.
  bool ids(std::string_view name, size_t most, std::vector<uint32_t>& out);
  // Consumes null if that comes next; else nothing.
  bool none();

  // Always false; the first refusal stays. "<name>: <why>".
  bool refuse(std::string_view name, std::string_view why);
  // The same: "<name> must be <what>, not " and the number or word that comes next.
  bool unexpected(std::string_view name, std::string_view what);
  // The same, with a text that has the name in it.
  bool fail(std::string_view name, std::string text);

  // Which member was refused; empty where the document itself is at fault.
  const std::string& param() const { return param_; }
  // INVALID_ARGUMENT in the words of the refusal, or of the cursor.
  base::Status error() const;

 private:
  bool read_whole(std::string_view name, int64_t least, int64_t most, int64_t& out);

  JsonCursor& json_;
  bool null_ = false;  // what was read last
  std::string param_, why_;
};

}  // namespace weir::marshal
