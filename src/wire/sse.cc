#include "wire/sse.h"

namespace weir::wire {
namespace {

bool breaks(char c) { return c == '\n' || c == '\r'; }

// Control text that must stay on one line.
void append_line(std::string& out, std::string_view text) {
  for (char c : text) out += breaks(c) || c == '\0' ? ' ' : c;
  out += '\n';
}

}  // namespace

Response stream_head(std::string_view content_type) {
  Response head;
  head.fields.add("content-type", content_type);
  head.fields.add("cache-control", "no-cache");
  head.fields.add("x-accel-buffering", "no");
  return head;
}

void append_sse(std::string& out, std::string_view data, std::string_view event, std::string_view id) {
  out.reserve(out.size() + data.size() + event.size() + id.size() + 24);
  if (!event.empty()) out += "event: ", append_line(out, event);
  if (!id.empty()) out += "id: ", append_line(out, id);
  while (true) {
    size_t end = data.find_first_of("\r\n");
    out += "data: ";
    out += data.substr(0, end);
    out += '\n';
    if (end == data.npos) break;
    data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  out += '\n';
}

void append_sse_comment(std::string& out, std::string_view text) {
  out += ": ";
  append_line(out, text);
  out += '\n';
}

}  // namespace weir::wire
