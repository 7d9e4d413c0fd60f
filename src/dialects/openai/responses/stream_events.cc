#include "dialects/openai/responses/stream_events.h"

#include "wire/sse.h"

namespace weir::openai::responses {

std::string StreamEvents::opening(std::string_view type) {
  return "{\"type\":\"" + std::string(type) + "\",\"sequence_number\":" + std::to_string(count_++);
}

void StreamEvents::add(std::string& out, std::string_view type, std::string_view members) {
  std::string data = opening(type);
  data += members;
  wire::append_sse(out, data += '}', type);
}

// As append_sse() writes it: JSON without a line break is one line.
void StreamEvents::begin(SplicedText& out, std::string_view type) {
  ((out.own += "event: ") += type) += "\ndata: ";
  out.own += opening(type);
}

std::string StreamEvents::place() const { return ",\"output_index\":" + std::to_string(items_.size() - 1); }

std::string StreamEvents::part_place() const {
  std::string out = place();
  add_string(out, "item_id", items_.back().id);
  if (!items_.back().calls()) out += ",\"content_index\":0";
  return out;
}

void StreamEvents::begin_item(std::string& out) {
  SplicedText events;
  begin(events, "response.output_item.added");
  events.own += place() + ",\"item\":";
  write_item(events, items_.back(), Progress::kBegun);
  end(events);
  if (!items_.back().calls()) {
    begin(events, "response.content_part.added");
    events.own += part_place() + ",\"part\":";
    write_part(events, items_.back(), {});
    end(events);
  }
  events.append_to(out);
}

void StreamEvents::end_item(SplicedText& out, Progress how) {
  const Item& item = items_.back();
  const bool custom = item.kind == Item::Kind::kCustomCall;
  begin(out, std::string(names_of(item).delta) + ".done");
  out.own += part_place();
  add_string(out, custom ? "input" : item.calls() ? "arguments" : "text", custom ? item.input : item.text);
  if (item.kind == Item::Kind::kMessage) write_list(out, ",\"logprobs\":[", item.logprobs);
  if (item.kind == Item::Kind::kCall) add_string(out.own, "name", client_name(item));
  end(out);
  if (!item.calls()) {
    begin(out, "response.content_part.done");
    out.own += part_place() + ",\"part\":";
    write_part(out, item, item.text);
    end(out);
  }
  begin(out, "response.output_item.done");
  out.own += place() + ",\"item\":";
  write_item(out, item, how);
  end(out);
}

}  // namespace weir::openai::responses
