// Answers in the form of the Responses API: a response of output items, or the events that make one.
//
//   event: response.created, response.in_progress     {"type","sequence_number","response":{…,"output":[]}}
//   event: response.output_item.added                 {…,"output_index":0,"item":{"id","type":"message",…}}
//   event: response.content_part.added                {…,"item_id","output_index":0,"content_index":0,"part":{…}}
//   event: response.output_text.delta                 {…,"delta":"Hi"}         … .done {…,"text":"Hi"}
//   event: response.content_part.done, response.output_item.done
//   event: response.completed, response.incomplete, response.failed          {…,"response":{…}}
// An item is a message, thoughts ("reasoning", with reasoning_text), or a call of a tool ("function_call", with
// function_call_arguments; "custom_tool_call", whose custom_tool_call_input comes in one delta, when it is whole). The
// events that end an item repeat it: a stream holds what it has said, and is charged for it. Where that is much, those
// of the last item, and the one with the response, are written while the client takes them. A call that a stop string
// or the model's end cuts is in no response.
#include <algorithm>
#include <memory>
#include <utility>

#include "dialects/openai/conversations/conversations.h"
#include "dialects/openai/event_answer.h"
#include "dialects/openai/pieces_text.h"
#include "dialects/openai/responses/continuations.h"
#include "dialects/openai/responses/edits.h"
#include "dialects/openai/responses/input.h"
#include "dialects/openai/responses/output_item.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/replay.h"
#include "dialects/openai/responses/responses.h"
#include "dialects/openai/responses/stream_events.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"
#include "wire/service_guard.h"
#include "wire/sse.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

// Bytes of an answer whose last events are not written at once.
constexpr uint64_t kLongAnswer = 256 << 10;

// The inside of a JSON list, with more items.
std::string with_items(std::string list, const std::vector<Item>& more) {
  for (const Item& item : more) {
    SplicedText text;
    text.own = list.empty() ? "" : ",";
    write_item(text, item, Progress::kDone);
    text.append_to(list);
  }
  return list;
}

int64_t unix_seconds(OpenAiState& state) {
  const auto since = state.bus.env().wall().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

// `,"logprobs":[…]`
void add_logprobs(std::string& out, const JsonElements& logprobs) {
  out += ",\"logprobs\":[";
  logprobs.append_to(out);
  out += ']';
}

// llama.cpp's, which no stored response has. Where a sign of life opened the stream the prompt is not through yet.
template <class Choices>
std::string progress_of(const Exchange& exchange, const Request& request, const Choices& choices) {
  std::string out;
  if (!request.progress || choices.empty() || choices.front().figures().first == base::kNever) return out;
  llama_cpp::write_progress(out, exchange, choices.front().figures());
  return out;
}
template <class Choices>
void add_timings(std::string& event, const Exchange& exchange, const Request& request, const Choices& choices) {
  if (request.timings && !choices.empty()) llama_cpp::write_timings(event, exchange, choices.front().figures());
}

std::string_view status_of(Progress how) { return how == Progress::kCut ? "incomplete" : "completed"; }

// The turns of the chat to the end of this response. A warm-up has said nothing.
std::string all_turns(const Request& request, const std::vector<Item>& items) {
  const auto join = [](std::string& list, std::string_view more) {
    if (!list.empty() && !more.empty()) list += ',';
    list += more;
  };
  const std::string own = request.warms_up ? std::string() : assistant_turn(items);
  std::string turns;
  turns.reserve(request.earlier.size() + request.turns.size() + own.size() + 2);
  turns += request.earlier.view();
  join(turns, request.turns);
  join(turns, own);
  return turns;
}

class ResponseAnswer final : public EventAnswer {
 public:
  ResponseAnswer(OpenAiState& state, Exchange& exchange, Kind kind, Request request)
      : EventAnswer(state, exchange, kind, std::move(request)) {
    created_ = unix_seconds(state_);
    id_ = request_.response_id.empty() ? "resp_" + random_id(kIdDigits) : request_.response_id;
  }

  ~ResponseAnswer() override { *open_exchange_ = false; }
  void on_close(Exchange& exchange, bool complete) override {
    *open_exchange_ = false;
    EventAnswer::on_close(exchange, complete);
  }

 private:
  void grew(Choice& choice) override {
    std::string events;
    if (request_.stream) open(events);
    take(choice.delta, events);
    if (!events.empty()) stream_.send(std::move(events));
    if (!charge_bytes(charged_, held_ + logprobs_.held() + request_.echoed.size())) fail(wire::no_room_for_answer());
  }
  void ended(Choice&) override {}

  void over() override {
    Choice& choice = choices_.front();
    std::string events;
    if (request_.stream) open(events);
    take(choice.delta, events);
    // The events of a stream have told of a call at the place that an empty message would have.
    const bool told = request_.stream && !items_.empty();
    if (choice.end.cut_call) drop_cut_call(events);
    if (items_.empty() && !told && !request_.warms_up) begin_item(Item::Kind::kMessage, events);
    const bool whole = choice.end.why == End::Why::kStop || request_.warms_up;
    const Progress how = whole ? Progress::kDone : Progress::kCut;
    long_ = is_long();
    end_item(how, events);
    // Their numbers are taken: they go out also where the response fails for all that.
    if (request_.stream && !events.empty()) stream_.send(std::move(events));
    may_be_kept_ = held_for_answer() <= most_kept();
    const bool in_one_text =
        (request_.stream && !long_) || (may_be_kept_ && (request_.store || !request_.conversation.empty()));
    if (in_one_text && !gathered_.charge_text()) return failed(wire::no_room_for_answer());
    complete(how, 1);
  }
  // A job's outcome is kept, too.
  uint64_t most_kept() const {
    const bool of_job = is_job_of_response(state_, exchange_) && state_.options.jobs;
    return std::max<uint64_t>(StoredResponses::kMostBytes, of_job ? state_.options.jobs->limits().max_result : 0);
  }
  // The conversation has what was asked, and what was answered, before the client is told. Where others change it at
  // the same time it is tried again, in a later turn of the loop.
  void complete(Progress how, int tries) {
    std::optional<ApiError> added = add_to_conversation();
    if (!added && tries < kMostTries) {
      base::Env& env = state_.bus.env();
      env.at(env.now(), [this, open = open_exchange_, how, tries] {
        if (*open) wire::guarded(exchange_, [&] { complete(how, tries + 1); });
      });
      return;
    }
    if (const ApiError bad = added.value_or(edit_conflict()); !bad.ok()) return fail_with(bad);
    if (request_.store && may_be_kept_) return store(how);
    if (Continuations* kept = continuations_of(exchange_); kept && may_be_kept_)
      kept->keep(id_, all_turns(request_, items_));
    const ResponseView all = view(status_of(how), how, {});
    if (request_.stream) return end_stream(all);
    finish_text(
        std::make_unique<PiecesText>(all.pieces(), [all](size_t piece, SplicedText& out) { all.write(piece, out); }));
  }
  std::optional<ApiError> add_to_conversation() {
    const std::string& id = request_.conversation;
    if (id.empty()) return ApiError();
    if (!may_be_kept_) return conversations::conversation_is_full();
    return conversations::append_items(state_, exchange_, id, with_items(request_.new_items, items_));
  }
  bool is_long() const { return request_.stream && held_ > kLongAnswer; }
  // The last event has all of the response. It comes behind those of the last item.
  void end_stream(const ResponseView& all) {
    SplicedText begin = std::exchange(ending_, {});
    events_.begin(begin, "response." + std::string(all.status));
    begin.own += ",\"response\":";
    std::string timings;
    if (all.error.empty()) add_timings(timings, exchange_, request_, choices_);
    auto text = std::make_unique<PiecesText>(
        all.pieces(), [all, begin = std::move(begin), timings = std::move(timings)](size_t piece, SplicedText& out) {
          if (piece == 0) out = begin;
          all.write(piece, out);
          if (piece + 1 == all.pieces()) out.own += timings, StreamEvents::end(out);
        });
    stream_.stop();
    if (long_) return finish_text(std::move(text));
    std::string events;
    (void)text->write(events, SIZE_MAX);
    stream_.end(std::move(events));
  }
  void let_go() override {
    items_.clear();
    EventAnswer::let_go();
  }

  void sign_life(std::string& events) override {
    if (choices_.empty()) return;
    open(events);
    EventAnswer::sign_life(events);
  }

  // Where there is no room the response is not found later: it has been said by then that it is stored. The client
  // waits until other nodes would find it, where there are any.
  void store(Progress how) {
    StoredResponse stored;
    stored.turns = base::Bytes::adopt(all_turns(request_, items_));
    const ResponseView all = view(status_of(how), how, {});
    stored.response = base::Bytes::adopt(all.json());
    cuts_.events = events_.count() + 1;  // with the last one, which is still to come
    if (request_.stream) stored.about = write_cuts(cuts_);
    const bool of_job = is_job_of_response(state_, exchange_);
    const base::Bytes whole = of_job ? outcome_of(state_, stored) : stored.response;
    store_response(state_, exchange_, id_, std::move(stored), [this, open = open_exchange_, whole, all] {
      if (*open) wire::guarded(exchange_, [&] { request_.stream ? end_stream(all) : finish_written(whole); });
    });
  }
  void break_off(const ApiError& error) override {
    failure_ = error.status.text;
    long_ = is_long();
    end_stream(view("failed", Progress::kCut, failure_));
  }

  // ---- Items

  // Takes what is new, and tells of it where it is streamed.
  void take(ChoiceDelta& delta, std::string& events) {
    if (request_.warms_up) return delta.clear();
    // A token may be told of before its text is certain. Those of thoughts and calls are told of nowhere.
    logprobs_.append(delta.logprob_entries());
    if (delta.text.empty() && !delta.says_nothing()) logprobs_.clear();
    if (!delta.reasoning.empty()) grow(Item::Kind::kThoughts, delta.reasoning, events);
    if (!delta.text.empty()) grow(Item::Kind::kMessage, delta.text, events);
    for (CallDelta& call : delta.calls) {
      if (!call.name.empty()) begin_call(call, events);
      if (!call.arguments.empty()) append_delta(call.arguments, events);
    }
    delta.clear();
  }
  void grow(Item::Kind kind, std::string_view text, std::string& events) {
    if (!open_ || items_.back().kind != kind) begin_item(kind, events);
    append_delta(text, events);
  }
  void begin_call(CallDelta& call, std::string& events) {
    end_item(Progress::kDone, events);
    Item& item = items_.emplace_back();
    item.call_id = std::move(call.id), item.name = std::move(call.name);
    for (const ClientTool& tool : request_.client_tools)
      if (tool.shown == item.name) item.tool = &tool;
    item.kind = item.tool && item.tool->custom ? Item::Kind::kCustomCall : Item::Kind::kCall;
    add_item(events);
  }
  void begin_item(Item::Kind kind, std::string& events) {
    end_item(Progress::kDone, events);
    items_.emplace_back().kind = kind;
    add_item(events);
  }
  // A client would run it with other arguments than the model meant, and packages parse the arguments of all calls in a
  // completed response. So the response is without it; the events of a stream say that it is incomplete.
  void drop_cut_call(std::string& events) {
    if (items_.empty() || !items_.back().calls()) return;
    end_item(Progress::kCut, events);
    items_.pop_back();
  }
  void add_item(std::string& events) {
    constexpr size_t kHeld = 256;  // what an item holds beside its text
    Item& item = items_.back();
    item.id = item_id(names_of(item).prefix, id_, items_.size() - 1);
    held_ += kHeld + item.name.size();
    cuts_.items.emplace_back();
    open_ = true;
    if (request_.stream) events_.begin_item(events);
  }
  void append_delta(std::string_view text, std::string& events) {
    Item& item = items_.back();
    item.text += text;
    held_ += text.size();
    JsonElements logprobs;
    if (item.kind == Item::Kind::kMessage) std::swap(logprobs, logprobs_);
    held_ -= item.logprobs.held();
    item.logprobs.append(logprobs);
    held_ += item.logprobs.held();
    if (!request_.stream || item.kind == Item::Kind::kCustomCall) return;
    cuts_.items.back().push_back(uint32_t(text.size()));
    held_ += sizeof(uint32_t);
    std::string data = events_.part_place();
    add_string(data, "delta", text);
    if (item.kind == Item::Kind::kMessage) add_logprobs(data, logprobs);
    add_timings(data, exchange_, request_, choices_);
    events_.add(events, std::string(names_of(item).delta) + ".delta", data);
  }
  void end_item(Progress how, std::string& events) {
    if (!std::exchange(open_, false)) return;
    Item& item = items_.back();
    if (item.kind == Item::Kind::kCustomCall) end_input(item, events);
    if (!request_.stream) return;
    events_.end_item(ending_, how);
    if (!long_) std::exchange(ending_, {}).append_to(events);
  }
  // The text that the arguments hold is known once they are whole.
  void end_input(Item& item, std::string& events) {
    item.input = custom_input(item.text);
    held_ += item.input.size();
    if (!request_.stream || item.input.empty()) return;
    std::string data = events_.part_place();
    add_string(data, "delta", item.input);
    events_.add(events, std::string(names_of(item).delta) + ".delta", data);
  }

  // ---- Events

  void open(std::string& events) {
    if (exchange_.responding()) return;
    stream_.open();
    const std::string begun = ",\"response\":" + view("in_progress", Progress::kBegun, {}).json();
    events_.add(events, "response.created", begun);
    events_.add(events, "response.in_progress", begun + progress_of(exchange_, request_, choices_));
  }

  // The response with its items, of which the last has come so far; `error`: why it failed.
  ResponseView view(std::string_view status, Progress last, std::string_view error) const {
    const bool filtered = !choices_.empty() && choices_.front().end.why == End::Why::kFiltered;
    Usage used = usage();
    if (request_.warms_up) used.completion = used.thoughts = 0;  // the token that it was made with is told of nowhere
    return {id_, model_, request_.echoed, created_, unix_seconds(state_), status, error, filtered, items_, last, used};
  }

  std::string id_;
  int64_t created_ = 0;
  std::vector<Item> items_;
  JsonElements logprobs_;     // of tokens whose text has not come
  bool open_ = false;         // more may come to the last
  bool may_be_kept_ = false;  // what is longer is kept nowhere, so that no text is made of it
  uint64_t held_ = 0, charged_ = 0;
  StreamEvents events_{items_};
  SplicedText ending_;   // events of the last item that are still to be written
  bool long_ = false;    // what comes last is written while the client takes it
  std::string failure_;  // why it failed
  StreamCuts cuts_;
  const std::shared_ptr<bool> open_exchange_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<Answer> response_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<ResponseAnswer>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai::responses
