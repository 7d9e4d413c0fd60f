#include "dialects/grps/form.h"

#include <algorithm>

#include "wire/text.h"

namespace weir::grps {
namespace {

using base::invalid;
using base::Status;
using wire::same_text;
using wire::trim;

constexpr std::string_view kUrlencoded = "application/x-www-form-urlencoded", kMultipart = "multipart/form-data";
constexpr size_t kLongestBoundary = 70;  // RFC 2046 §5.1.1

int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = wire::lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// As browsers and most servers decode: never an error.
std::string decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    int high = -1, low = -1;
    if (text[i] == '%' && i + 2 < text.size()) high = nibble(text[i + 1]), low = nibble(text[i + 2]);
    if (high >= 0 && low >= 0) {
      out += char(high * 16 + low);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

// Takes text up to `end` and that from `rest`; all of it where there is no end.
std::string_view take_until(std::string_view& rest, std::string_view end) {
  size_t at = rest.find(end);
  std::string_view taken = rest.substr(0, at);
  rest = at == rest.npos ? std::string_view() : rest.substr(at + end.size());
  return taken;
}

// The value of `name` in `word *( ";" name "=" ( token / quoted-string ) )`; "" where there is none.
std::string parameter(std::string_view text, std::string_view name) {
  size_t at = text.find(';');
  while (at != text.npos) {
    size_t equals = text.find_first_of("=;", ++at);
    if (equals == text.npos) break;
    if (text[equals] == ';') {
      at = equals;
      continue;
    }
    bool wanted = same_text(trim(text.substr(at, equals - at)), name);
    std::string value;
    at = std::min(text.find_first_not_of(" \t", equals + 1), text.size());
    if (at < text.size() && text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        value += text[at];
      }
    } else {
      value = trim(text.substr(at, text.find(';', at) - at));
    }
    if (wanted) return value;
    at = text.find(';', at);
  }
  return {};
}

std::string_view media_type(std::string_view content_type) {
  return trim(content_type.substr(0, content_type.find(';')));
}

}  // namespace

bool FormData::is_one(std::string_view content_type) {
  std::string_view type = media_type(content_type);
  return same_text(type, kUrlencoded) || same_text(type, kMultipart);
}

base::Result<FormData> FormData::read(std::string_view content_type, const base::Bytes& body) {
  FormData form;
  Status status;
  std::string_view type = media_type(content_type);
  if (same_text(type, kUrlencoded))
    status = form.read_pairs(body.view());
  else if (same_text(type, kMultipart))
    status = form.read_parts(parameter(content_type, "boundary"), body);
  else
    status = invalid("Content type is not supported: " + std::string(kUrlencoded) + " or " + std::string(kMultipart) +
                     " is expected");
  if (!status.ok()) return status;
  return form;
}

const FormData::Field* FormData::find(std::string_view name) const {
  auto at = std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name == name; });
  return at == fields_.end() ? nullptr : &*at;
}

Status FormData::read_pairs(std::string_view body) {
  while (!body.empty()) {
    std::string_view pair = take_until(body, "&");
    if (pair.empty()) continue;
    if (fields_.size() == kMaxFields) return invalid("the form has more than 256 fields");
    std::string name = decode(take_until(pair, "="));
    fields_.push_back({std::move(name), base::Bytes::adopt(decode(pair)), Field::Type::kText});
  }
  return {};
}

Status FormData::read_parts(std::string_view boundary, const base::Bytes& body) {
  if (boundary.empty() || boundary.size() > kLongestBoundary)
    return invalid("multipart/form-data needs a boundary of 1 to 70 characters");
  std::string delimiter = "\r\n--" + std::string(boundary);
  std::string_view rest = body.view();
  if (rest.starts_with(delimiter.substr(2)))
    rest.remove_prefix(delimiter.size() - 2);
  else
    take_until(rest, delimiter);
  while (!rest.starts_with("--")) {
    if (!trim(take_until(rest, "\r\n")).empty() || rest.empty())
      return invalid("the multipart body does not follow its boundary, or is cut short");
    if (fields_.size() == kMaxFields) return invalid("the form has more than 256 fields");
    size_t end = rest.starts_with("\r\n") ? 0 : rest.substr(0, kMaxPartHead + 4).find("\r\n\r\n");
    if (end == rest.npos) return invalid("a part of the form has no blank line within 8 KiB");
    std::string_view head = rest.substr(0, end);
    rest.remove_prefix(end + (end == 0 ? 2 : 4));
    size_t stop = rest.find(delimiter);
    if (stop == rest.npos) return invalid("a part of the form has no end");
    if (Status status = read_part(head, body.slice(rest.substr(0, stop))); !status.ok()) return status;
    rest.remove_prefix(stop + delimiter.size());
  }
  return {};
}

Status FormData::read_part(std::string_view head, base::Bytes octets) {
  Field field{{}, std::move(octets), Field::Type::kText};
  bool disposed = false;
  while (!head.empty()) {
    std::string_view line = take_until(head, "\r\n");
    std::string_view name = trim(take_until(line, ":")), value = trim(line);
    if (same_text(name, "content-disposition")) {
      disposed = same_text(media_type(value), "form-data");
      field.name = parameter(value, "name");
    } else if (same_text(name, "content-type") && same_text(media_type(value), "application/octet-stream")) {
      field.type = Field::Type::kOctets;
    } else if (same_text(name, "content-transfer-encoding") && !same_text(value, "binary") &&
               !same_text(value, "8bit") && !same_text(value, "7bit")) {
      return invalid("a part of the form has a content-transfer-encoding, which RFC 7578 has deprecated");
    }
  }
  if (!disposed || field.name.empty())
    return invalid("a part of the form has no Content-Disposition: form-data with a name");
  fields_.push_back(std::move(field));
  return {};
}

std::string query_field(std::string_view pairs, std::string_view name) {
  while (!pairs.empty()) {
    std::string_view pair = take_until(pairs, "&");
    if (decode(take_until(pair, "=")) == name) return decode(pair);
  }
  return {};
}

}  // namespace weir::grps
