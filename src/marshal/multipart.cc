#include "marshal/multipart.h"

#include <algorithm>
#include <utility>

#include "wire/text.h"

namespace weir::marshal {
namespace {

using base::invalid;
using base::Status;
using wire::same_text;
using wire::trim;

constexpr size_t kLongestBoundary = 70;  // RFC 2046 §5.1.1
constexpr std::string_view kBadBoundary = "the multipart body does not follow its boundary, or is cut short";

std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find("\r\n");
  std::string_view line = rest.substr(0, end);
  rest = end == rest.npos ? std::string_view() : rest.substr(end + 2);
  return line;
}

}  // namespace

std::string_view media_type(std::string_view field) { return trim(field.substr(0, field.find(';'))); }

std::string field_parameter(std::string_view text, std::string_view name) {
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

base::Result<std::string> boundary_of(std::string_view content_type) {
  std::string boundary = field_parameter(content_type, "boundary");
  if (boundary.empty() || boundary.size() > kLongestBoundary)
    return invalid("multipart/form-data needs a boundary of 1 to 70 characters");
  return boundary;
}

base::Result<PartHead> read_part_head(std::string_view head) {
  PartHead out;
  bool disposed = false;
  while (!head.empty()) {
    std::string_view line = take_line(head);
    const size_t colon = std::min(line.find(':'), line.size());
    std::string_view name = trim(line.substr(0, colon)), value = trim(line.substr(std::min(colon + 1, line.size())));
    if (same_text(name, "content-disposition")) {
      disposed = same_text(media_type(value), "form-data");
      out.name = field_parameter(value, "name");
      out.filename = field_parameter(value, "filename");
    } else if (same_text(name, "content-type")) {
      out.content_type = media_type(value);
    } else if (same_text(name, "content-transfer-encoding") && !same_text(value, "binary") &&
               !same_text(value, "8bit") && !same_text(value, "7bit")) {
      return invalid("a part of the form has a content-transfer-encoding, which RFC 7578 has deprecated");
    }
  }
  if (!disposed || out.name.empty())
    return invalid("a part of the form has no Content-Disposition: form-data with a name");
  return out;
}

Status MultipartReader::read(std::string_view piece) {
  if (state_ == State::kEpilogue) return {};
  held_.append(piece);
  Status status;
  for (bool more = true; more && status.ok();) {
    auto stepped = step();
    more = stepped && *stepped;
    if (!stepped) status = stepped.error();
  }
  held_.erase(0, std::exchange(at_, 0));
  return status;
}

Status MultipartReader::finish() const {
  if (state_ != State::kEpilogue) return invalid(std::string(kBadBoundary));
  return {};
}

base::Result<bool> MultipartReader::step() {
  switch (state_) {
    case State::kPreamble:
    case State::kOctets: return read_octets();
    case State::kBoundary: return read_boundary();
    case State::kHead: return read_head();
    default: at_ = held_.size(); return false;
  }
}

// Up to the next delimiter. The last bytes that have come may be its beginning.
base::Result<bool> MultipartReader::read_octets() {
  const std::string_view rest = std::string_view(held_).substr(at_);
  const size_t found = rest.find(delimiter_);
  const size_t kept = std::min(rest.size(), delimiter_.size() - 1);
  const std::string_view octets = rest.substr(0, found == rest.npos ? rest.size() - kept : found);
  if (state_ == State::kOctets && !octets.empty())
    if (Status s = listener_.on_octets(octets); !s.ok()) return s;
  at_ += octets.size();
  if (found == rest.npos) return false;
  at_ += delimiter_.size();
  if (std::exchange(state_, State::kBoundary) == State::kOctets)
    if (Status s = listener_.on_part_end(); !s.ok()) return s;
  return true;
}

// Behind a delimiter: "--", the end, or white space and a line's end.
base::Result<bool> MultipartReader::read_boundary() {
  const std::string_view rest = std::string_view(held_).substr(at_);
  if (rest.size() < 2) return false;
  if (rest.starts_with("--")) {
    state_ = State::kEpilogue;
    return true;
  }
  const size_t end = rest.substr(0, kMaxPartHead).find("\r\n");
  const bool cut = end == rest.npos;
  if (!trim(rest.substr(0, cut ? rest.size() - 1 : end)).empty() || (cut && rest.size() >= kMaxPartHead))
    return invalid(std::string(kBadBoundary));
  if (cut) return false;
  if (++parts_ > kMaxFormFields) return invalid("the form has more than 256 fields");
  at_ += end;  // the head begins with this line's end, so that an empty one is found like others
  state_ = State::kHead;
  return true;
}

base::Result<bool> MultipartReader::read_head() {
  const std::string_view rest = std::string_view(held_).substr(at_);
  const size_t end = rest.substr(0, kMaxPartHead + 6).find("\r\n\r\n");
  if (end == rest.npos) {
    if (rest.size() > kMaxPartHead + 6) return invalid("a part of the form has no blank line within 8 KiB");
    return false;
  }
  auto head = read_part_head(rest.substr(std::min<size_t>(2, end), end < 2 ? 0 : end - 2));
  if (!head) return head.error();
  at_ += end + 4;
  if (Status s = listener_.on_part(std::move(*head)); !s.ok()) return s;
  state_ = State::kOctets;
  return true;
}

}  // namespace weir::marshal
