#include "dialects/grps/form_data.h"

#include <algorithm>

#include "marshal/multipart.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

using base::invalid;
using base::Status;
using marshal::media_type;
using wire::same_text;
using wire::trim;

constexpr std::string_view kUrlencoded = "application/x-www-form-urlencoded", kMultipart = "multipart/form-data";

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
    status = form.read_parts(content_type, body);
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

// The body is in one piece: its parts are slices of it.
Status FormData::read_parts(std::string_view content_type, const base::Bytes& body) {
  auto boundary = marshal::boundary_of(content_type);
  if (!boundary) return boundary.error();
  std::string delimiter = "\r\n--" + *boundary;
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
  auto part = marshal::read_part_head(head);
  if (!part) return part.error();
  const bool plain = same_text(part->content_type, "application/octet-stream");
  fields_.push_back({std::move(part->name), std::move(octets), plain ? Field::Type::kOctets : Field::Type::kText});
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
