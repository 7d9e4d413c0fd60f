#include "dialects/openai/responses/replay.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <span>
#include <utility>

#include "base/attempt.h"
#include "base/memory_ledger.h"
#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/follower.h"
#include "dialects/openai/responses/input.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/answer_flow.h"
#include "wire/offload.h"
#include "wire/sse.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

// The beginning of a text with at most `bytes`, whole UTF-8 sequences.
size_t cut_at(std::string_view text, size_t bytes) {
  size_t at = std::min(bytes, text.size());
  while (at < text.size() && (uint8_t(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

// Makes the events behind `after`; those before it are counted alone. A delta, of which there are as many as tokens, is
// written by hand.
class Events {
 public:
  Events(const StreamCuts& cuts, int64_t after) : cuts_(cuts), after_(after) {}

  void begin(const OrderedJson& response) {
    if (after_ >= kBegun - 1) return void(number_ = kBegun);
    OrderedJson first = OrderedJson::object();
    for (const auto& [name, value] : response.items()) first[name] = name == "output" ? OrderedJson::array() : value;
    first["status"] = "in_progress", first["output"] = OrderedJson::array();
    for (const char* name : {"completed_at", "error", "incomplete_details", "usage"}) first[name] = nullptr;
    for (const char* type : {"response.created", "response.in_progress"})
      add(type, [&] { return OrderedJson{{"response", first}}; });
  }
  void item(const OrderedJson& item) {
    const std::string_view type = text_member(item, "type");
    add("response.output_item.added", [&] { return OrderedJson{{"output_index", index_}, {"item", begun(item)}}; });
    if (type == "message" || type == "reasoning") text_item(item);
    if (type == "function_call") call(item, "arguments", "response.function_call_arguments");
    if (type == "custom_tool_call") call(item, "input", "response.custom_tool_call_input");
    add("response.output_item.done", [&] { return OrderedJson{{"output_index", index_}, {"item", item}}; });
    ++index_;
  }
  // A stream may have told of a call that the response is without: the last number is as it was.
  void end(const OrderedJson& response) {
    const std::string_view status = text_member(response, "status");
    number_ = std::max<int64_t>(number_, int64_t(cuts_.events) - 1);
    const bool good = status == "completed" || status == "incomplete";
    add(good ? "response." + std::string(status) : "response.failed", [&] {
      return OrderedJson{{"response", response}};
    });
  }
  std::string take() { return std::move(out_); }

 private:
  static OrderedJson begun(OrderedJson item) {
    item["status"] = "in_progress";
    for (const char* text : {"arguments", "input"})
      if (item.contains(text)) item[text] = "";
    if (item.contains("content")) item["content"] = OrderedJson::array();
    return item;
  }
  void text_item(const OrderedJson& item) {
    const OrderedJson* content = member(item, "content");
    if (!content || content->empty()) return;
    const OrderedJson& part = content->front();
    OrderedJson place = place_of(item);
    place["content_index"] = 0;
    const std::string type = "response." + std::string(text_member(part, "type"));
    const bool logprobs = part.contains("logprobs");
    add("response.content_part.added", [&] {
      OrderedJson empty = part;
      empty["text"] = "";
      if (logprobs) empty["logprobs"] = OrderedJson::array();
      return with(place, {{"part", empty}});
    });
    deltas(text_member(part, "text"), type, place, logprobs ? R"(,"logprobs":[])" : "");
    add(type + ".done", [&] {
      OrderedJson done = with(place, {{"text", part.value("text", "")}});
      if (logprobs) done["logprobs"] = part["logprobs"];
      return done;
    });
    add("response.content_part.done", [&] { return with(place, {{"part", part}}); });
  }
  void call(const OrderedJson& item, const char* name, const std::string& type) {
    const OrderedJson place = place_of(item);
    deltas(text_member(item, name), type, place, "");
    add(type + ".done", [&] {
      OrderedJson done = with(place, {{name, item.value(name, "")}});
      if (type == "response.function_call_arguments") done["name"] = item.value("name", "");
      return done;
    });
  }
  void deltas(std::string_view text, const std::string& kind, const OrderedJson& place, std::string_view rest) {
    std::span<const uint32_t> lengths;
    if (index_ < cuts_.items.size()) lengths = cuts_.items[index_];
    const std::string type = kind + ".delta";
    const std::string head = R"({"type":")" + type + R"(","sequence_number":)";
    const std::string placed = place.dump();
    const std::string where = ',' + placed.substr(1, placed.size() - 2) + R"(,"delta":)";
    std::string data;
    for (size_t i = 0; !text.empty(); ++i) {
      const bool last = i + 1 >= lengths.size();
      const size_t length = last ? text.size() : cut_at(text, lengths[i]);
      if (const int64_t number = number_++; number > after_) {
        ((data = head) += std::to_string(number)) += where;
        marshal::write_string(data, text.substr(0, length));
        wire::append_sse(out_, (data += rest) += '}', type);
      }
      text.remove_prefix(length);
    }
  }
  OrderedJson place_of(const OrderedJson& item) const {
    return {{"output_index", index_}, {"item_id", item.value("id", "")}};
  }
  static OrderedJson with(OrderedJson object, const OrderedJson& more) {
    object.update(more);
    return object;
  }
  // `members`: OrderedJson(), asked for where the event is told.
  template <class Members>
  void add(const std::string& type, Members members) {
    const int64_t number = number_++;
    if (number <= after_) return;
    OrderedJson event{{"type", type}, {"sequence_number", number}};
    event.update(members());
    wire::append_sse(out_, event.dump(), type);
  }

  const StreamCuts& cuts_;
  const int64_t after_;
  int64_t number_ = 0;
  size_t index_ = 0;
  std::string out_;
};

class ReplayTask final : public base::OffloadTask {
 public:
  // `room`: charged for the events until they are there.
  ReplayTask(StoredResponse stored, int64_t after, base::MemoryCharge room)
      : stored_(std::move(stored)), after_(after), room_(std::move(room)) {}
  void run() override {
    thrown_ = base::attempt("telling a response once more",
                            [this] { events_ = replayed_events(stored_.response.view(), stored_.about, after_); });
  }
  void answer(Exchange& exchange) {
    base::Bytes events = base::Bytes::adopt(std::move(events_));
    room_.clear();
    base::Status bad = thrown_;
    if (bad.ok() && !base::charge(exchange.memory(), base::MemoryKind::kAnswers, events))
      bad = wire::no_room_for_answer();
    if (!exchange.responding()) {
      if (!bad.ok()) return respond(exchange, refuse(bad));
      exchange.head(wire::stream_head());
    }
    if (!bad.ok()) exchange.record().set_outcome(bad);
    if (bad.ok() && !events.empty()) exchange.body(std::move(events));
    exchange.end();
  }

 private:
  const StoredResponse stored_;
  const int64_t after_;
  base::MemoryCharge room_;
  std::string events_;
  base::Status thrown_;
};

// Bytes of the events at the most, about: `about` has two for each delta at least.
size_t weight_of(const StoredResponse& stored) {
  constexpr size_t kDelta = 200;
  return stored.response.size() + stored.about.size() / 2 * kDelta;
}

void tell(OpenAiState& state, Exchange& exchange, StoredResponse stored, int64_t after) {
  const size_t bytes = weight_of(stored);
  base::MemoryCharge room;
  if (auto* ledger = exchange.memory()) room = {*ledger, base::MemoryKind::kAnswers};
  if (!base::charge(exchange.memory(), base::MemoryKind::kInput, stored.response) || !room.grow(bytes))
    return exchange.responding() ? exchange.end() : respond(exchange, refuse(wire::no_room_for_answer()));
  auto task = std::make_unique<ReplayTask>(std::move(stored), after, std::move(room));
  const size_t work = wire::work_of_document(bytes);
  if (!state.options.offload || work <= wire::kLongBody) return task->run(), task->answer(exchange);
  wire::run_on_worker(*state.options.offload, std::move(task), work, wire::Offload::Part::kAnswer, exchange,
                      [&exchange](const base::Status& status, std::unique_ptr<base::OffloadTask> done) {
                        if (status.ok()) return static_cast<ReplayTask&>(*done).answer(exchange);
                        exchange.responding() ? exchange.end() : respond(exchange, refuse(status));
                      });
}

}  // namespace

std::string write_cuts(const StreamCuts& cuts) {
  std::string out = std::to_string(cuts.events);
  for (const auto& item : cuts.items) {
    out += ';';
    for (size_t i = 0; i < item.size(); ++i) (out += i > 0 ? "," : "") += std::to_string(item[i]);
  }
  return out;
}

std::optional<StreamCuts> read_cuts(std::string_view text) {
  StreamCuts out;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto& into) {
    const auto [next, error] = std::from_chars(at, end, into);
    return at = next, error == std::errc();
  };
  if (!number(out.events)) return std::nullopt;
  while (at != end) {
    const char mark = *at++;
    if (mark == ';') out.items.emplace_back();
    if (mark == ';' && (at == end || *at == ';')) continue;
    if ((mark != ';' && mark != ',') || out.items.empty() || !number(out.items.back().emplace_back()))
      return std::nullopt;
  }
  return out;
}

std::string beginning_events(std::string_view text, int64_t after) {
  const OrderedJson response = OrderedJson::parse(text, nullptr, false);
  if (!response.is_object()) return {};
  const StreamCuts none;
  Events events(none, after);
  events.begin(response);
  return events.take();
}

std::string replayed_events(std::string_view text, std::string_view cuts, int64_t after) {
  const OrderedJson response = OrderedJson::parse(text, nullptr, false);
  if (!response.is_object()) return {};
  const StreamCuts known = read_cuts(cuts).value_or(StreamCuts());
  Events events(known, after);
  events.begin(response);
  if (const OrderedJson* output = member(response, "output"))
    for (const OrderedJson& item : *output) events.item(item);
  events.end(response);
  return events.take();
}

void replay(OpenAiState& state, Exchange& exchange, const std::string& id, int64_t after) {
  if (auto* background = state.options.background)
    if (auto so_far = background->find(marshal::tenant_of(exchange.request()), id))
      return follow_here(state, exchange, id, after, *so_far);
  find_known(state, exchange, id, [&state, &exchange, id, after](base::Result<std::optional<KnownResponse>> found) {
    if (found && *found && (*found)->progress == KnownResponse::Progress::kUnderWay)
      return follow_elsewhere(state, exchange, id, after, (*found)->stored.response.view());
    if (found && *found) return tell(state, exchange, std::move((*found)->stored), after);
    if (exchange.responding()) return exchange.end();
    respond(exchange, found ? no_such_response() : refuse(found.error()));
  });
}

}  // namespace weir::openai::responses
