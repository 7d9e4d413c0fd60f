#include "dialects/openai/anthropic/request_lines.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/sip_hash.h"
#include "dialects/openai/batches/line.h"
#include "dialects/openai/translation.h"
#include "marshal/field_reader.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"

namespace weir::openai::anthropic {
namespace {

using base::Status;
using marshal::JsonCursor;

constexpr size_t kLongestCustomId = 64;
constexpr size_t kLongestName = 256, kLongestOther = 64 << 10;  // of members beside `requests`
// To read a value takes time for each of its members and elements: so many take some milliseconds.
constexpr uint32_t kMostMarks = 500'000;
constexpr std::string_view kBlanks = " \t\r\n";

Status wrong_form() {
  return base::invalid("requests: the body must be a JSON object with a list of requests, {\"requests\": [{…}]}");
}

}  // namespace

Status RequestLines::read(std::string_view piece, std::string& out) {
  while (!piece.empty()) {
    if (held_.empty()) {
      piece.remove_prefix(std::min(piece.find_first_not_of(kBlanks), piece.size()));
      if (piece.empty()) return {};
      if (!begins_value(piece[0])) {
        if (Status s = take_mark(piece[0]); !s.ok()) return s;
        piece.remove_prefix(1);
        continue;
      }
    }
    bool ends = false;
    const size_t bytes = scan(piece, ends);
    if (Status s = hold(piece.substr(0, bytes)); !s.ok()) return s;
    if (marks_ > kMostMarks) return refused("", "it has more than 500000 brackets, commas and colons");
    piece.remove_prefix(bytes);
    if (!ends) continue;
    if (Status s = take_value(out); !s.ok()) return s;
    held_.clear();
    marks_ = 0;
  }
  return {};
}

Status RequestLines::finish() const {
  if (state_ != State::kEnd) return base::invalid("requests: the body is cut short");
  return lines_ > 0 ? Status() : base::invalid("requests: expected a list of at least one request");
}

bool RequestLines::begins_value(char c) const {
  if (state_ == State::kName) return !(may_close_ && c == '}');
  if (state_ == State::kRequest) return !(may_close_ && c == ']');
  return state_ == State::kOther;
}

Status RequestLines::take_mark(char c) {
  const bool closes = may_close_;
  may_close_ = false;
  const auto go = [this](State next) { return state_ = next, Status(); };
  switch (state_) {
    case State::kBegin:
      if (c != '{') return wrong_form();
      may_close_ = true;
      return go(State::kName);
    case State::kColon:
      if (c != ':') return wrong_form();
      return go(is_requests_ ? State::kList : State::kOther);
    case State::kList:
      if (c != '[') return wrong_form();
      may_close_ = true;
      return go(State::kRequest);
    case State::kAfterRequest:
      if (c == ',') return go(State::kRequest);
      return c == ']' ? go(State::kAfterMember) : wrong_form();
    case State::kAfterMember:
      if (c == ',') return go(State::kName);
      return c == '}' ? go(State::kEnd) : wrong_form();
    case State::kName: return closes ? go(State::kEnd) : wrong_form();
    case State::kRequest: return closes ? go(State::kAfterMember) : wrong_form();
    default: return base::invalid("requests: something stands behind the JSON object");
  }
}

// How much of the piece belongs to the value that is read. Brackets are counted alone: whether it is JSON is seen once
// it is whole.
size_t RequestLines::scan(std::string_view piece, bool& ends) {
  for (size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    const bool at_top = depth_ == 0;
    if (in_string_) {
      const bool closes = c == '"' && !escaped_;
      escaped_ = c == '\\' && !escaped_;
      in_string_ = !closes;
      if (closes && at_top) return ends = true, i + 1;
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (at_top && (closes || c == ',' || c == ':' || kBlanks.find(c) != kBlanks.npos)) return ends = true, i;
    in_string_ = c == '"';
    if (closes || c == ',' || c == ':' || c == '{' || c == '[') ++marks_;
    if (c == '{' || c == '[') ++depth_;
    if (closes && --depth_ == 0) return ends = true, i + 1;
  }
  return piece.size();
}

Status RequestLines::hold(std::string_view text) {
  const bool is_request = state_ == State::kRequest;
  const uint64_t other = state_ == State::kName ? kLongestName : kLongestOther;
  if (held_.size() + text.size() > (is_request ? bounds_.line : other))
    return is_request ? refused("", "it has more than " + std::to_string(bounds_.line) + " bytes (jobs.max_line)")
                      : base::invalid("requests: another member of the body is too long");
  held_ += text;
  return {};
}

Status RequestLines::take_value(std::string& out) {
  if (state_ == State::kName) return take_name();
  if (state_ == State::kRequest) {
    state_ = State::kAfterRequest;
    return take_request(out);
  }
  state_ = State::kAfterMember;
  JsonCursor json(held_);
  return json.skip() && json.finish() ? Status() : json.error();
}

Status RequestLines::take_name() {
  JsonCursor json(held_);
  std::string name;
  if (!json.string(name) || !json.finish()) return json.error();
  is_requests_ = name == "requests";
  if (is_requests_ && has_requests_) return base::invalid("requests: it stands there more than once");
  has_requests_ = has_requests_ || is_requests_;
  if (!is_requests_) ignore_member(name, ignored_);
  state_ = State::kColon;
  return {};
}

Status RequestLines::refused(std::string_view member, std::string_view why) const {
  std::string text = "requests." + std::to_string(lines_);
  if (!member.empty()) (text += '.') += member;
  return base::invalid((text += ": ") += why);
}

Status RequestLines::take_request(std::string& out) {
  JsonCursor json(held_);
  marshal::FieldReader fields(json);
  std::string id, model;
  std::string_view params;
  bool stream = false;
  const bool ok = json.object([&](std::string_view name) {
    if (name == "custom_id") return fields.text(name, kLongestCustomId, id);
    if (name != "params" || json.peek() != JsonCursor::Kind::kObject) return json.skip();
    const size_t from = json.at();
    if (!batches::read_line_body(json, model, stream)) return false;
    params = json.since(from);
    return true;
  }) && json.finish();
  if (!ok) return refused(fields.param(), fields.error().text);
  if (id.empty()) return refused("custom_id", "it must have 1 to 64 characters");
  if (params.empty()) return refused("params", "it is missing, or is no object");
  if (stream) return refused("params.stream", "it must be false in a batch");
  if (lines_ >= bounds_.lines)
    return base::invalid("requests: a batch may have " + std::to_string(bounds_.lines) + " requests (jobs.max_lines)");
  if (!ids_.insert(base::hash64(base::process_key(), id)).second)
    return refused("custom_id", "'" + base::presentable(id, 64) + "' is the custom_id of another request, too");
  return add_line(id, params, out);
}

// Line ends between the values of JSON become blanks.
Status RequestLines::add_line(std::string_view id, std::string_view params, std::string& out) {
  const size_t from = out.size();
  out += "{\"custom_id\":";
  marshal::write_string(out, id);
  ((out += R"(,"method":"POST","url":")") += kMessagesPath) += "\",\"body\":";
  const size_t body = out.size();
  out += params;
  std::replace_if(
      out.begin() + ptrdiff_t(body), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  out += "}\n";
  if (out.size() - from > bounds_.line)
    return refused("", "it has more than " + std::to_string(bounds_.line) + " bytes (jobs.max_line)");
  ++lines_;
  return {};
}

}  // namespace weir::openai::anthropic
