#include "marshal/field_reader.h"

#include <cmath>
#include <limits>

#include "marshal/json_tensor.h"

namespace weir::marshal {
std::string number_text(double value) {
  std::string out;
  if (value >= -0x1p63 && value < 0x1p63 && value == double(int64_t(value)))
    write_number(out, int64_t(value));
  else if (std::isfinite(value))
    write_number(out, value);
  else
    out = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  return out;
}

std::string range_text(double least, double most) {
  return ">= " + number_text(least) + " and <= " + number_text(most);
}

bool FieldReader::none() {
  null_ = json_.peek() == JsonCursor::Kind::kNull;
  return null_ && json_.null();
}

bool FieldReader::fail(std::string_view name, std::string text) {
  if (why_.empty() && json_.ok()) param_ = name, why_ = std::move(text);
  return json_.fail(why_);
}

bool FieldReader::refuse(std::string_view name, std::string_view why) {
  return fail(name, std::string(name) + ": " + std::string(why));
}

bool FieldReader::unexpected(std::string_view name, std::string_view what) {
  std::string text = std::string(name) + " must be " + std::string(what);
  size_t at = json_.at();
  switch (json_.peek()) {
    case JsonCursor::Kind::kObject: text += ", not an object"; break;
    case JsonCursor::Kind::kArray: text += ", not a list"; break;
    case JsonCursor::Kind::kString: text += ", not a string"; break;
    default:
      if (json_.skip() && json_.since(at).size() <= kMaxQuoted) text += ", not " + std::string(json_.since(at));
  }
  if (!json_.ok()) param_ = name;  // not JSON at all
  return fail(name, std::move(text));
}

base::Status FieldReader::error() const { return why_.empty() ? json_.error() : base::invalid(why_); }

bool FieldReader::flag(std::string_view name, bool& out) {
  if (none()) return true;
  if (json_.peek() != JsonCursor::Kind::kBool) return unexpected(name, "true or false");
  return json_.boolean(out);
}

bool FieldReader::read_whole(std::string_view name, int64_t least, int64_t most, int64_t& out) {
  if (none()) return true;
  size_t at = json_.at();
  JsonNumber number;
  if (json_.at_number() && json_.number(number) && number.to(out) && out >= least && out <= most) return true;
  if (json_.ok()) json_.rewind(at);
  return unexpected(name, "a whole number >= " + std::to_string(least) + " and <= " + std::to_string(most));
}

bool FieldReader::real(std::string_view name, double least, double most, std::optional<float>& out) {
  if (none()) return true;
  size_t at = json_.at();
  JsonNumber number;
  double value = 0;
  if (json_.at_number() && json_.number(number) && number.to(value) && value >= least && value <= most) {
    out = float(value);
    return true;
  }
  if (json_.ok()) json_.rewind(at);
  return unexpected(name, range_text(least, most));
}

bool FieldReader::text(std::string_view name, size_t most, std::string& out) {
  if (none()) return true;
  if (json_.peek() != JsonCursor::Kind::kString) return unexpected(name, "a string");
  std::string_view view;
  if (!json_.string(view)) return false;
  if (view.size() > most) return refuse(name, "at most " + std::to_string(most) + " bytes");
  out.assign(view);
  return true;
}

bool FieldReader::ids(std::string_view name, size_t most, std::vector<uint32_t>& out) {
  if (none()) return true;
  if (json_.peek() != JsonCursor::Kind::kArray) return unexpected(name, "a list of token ids");
  out.clear();
  return json_.array([&] {
    if (out.size() == most) return refuse(name, "at most " + std::to_string(most) + " token ids");
    if (!json_.at_number()) return unexpected(name, "token ids");
    out.push_back(0);
    return whole(name, 0, std::numeric_limits<uint32_t>::max(), out.back());
  });
}

}  // namespace weir::marshal
