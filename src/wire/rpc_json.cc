// Remote calls as plain JSON, so that everything can be curled.
//
//   one response       200 and one JSON object; an error is its HTTP status and {"code":5,"message":"…"}
//   response streams   NDJSON lines, or SSE events where `accept` names text/event-stream; an error after the first
//                      message is a last line {"error":{"code":…,"message":"…"}}
//   request streams    NDJSON lines; they are handed on once the body is complete
//
// "details" is there when the status has any.
//
// The text lies in a slab, and the message that is made of it takes its place there: so requests of this form are held
// back by the same budget as all others, and no call waits for a second slab while it has one.
#include <algorithm>
#include <cstring>

#include "wire/answer_flow.h"
#include "wire/body.h"
#include "wire/coding.h"
#include "wire/grpc_status.h"
#include "wire/limits.h"
#include "wire/rpc_call.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Code;

constexpr std::string_view kJson = "application/json", kNdjson = "application/x-ndjson";
constexpr int kTooLarge = 413;
constexpr size_t kAsked = 64 << 10;  // a text from which on there must be room for what it becomes
constexpr size_t kLittle = 4096;     // a message that is longer than its text, but no longer than this, is the heap's

class JsonCall final : public RpcCall {
 public:
  JsonCall(const RpcRoute& route, const RpcHouse& house, Exchange& exchange) : RpcCall(route, house, exchange) {}

  using Rpc::send;
  void send(std::vector<base::Bytes> pieces) override;
  void on_data(Exchange&, std::span<const std::byte> bytes) override;
  void on_end(Exchange&) override;

 private:
  base::Status check_head() override;
  void write_end(const base::Status& status) override;
  void resume() override;
  uint64_t reserved() const override { return collector_.reserved(); }
  void drop_request() override;

  void collected(BodyCollector::State state, size_t came_now);
  void give_back();
  void feed();
  void feed_whole();
  void feed_one(std::string_view json, base::Bytes place);
  void feed_lines();
  bool room_for(std::string_view text, base::MemoryCharge& room);
  void no_memory(std::string_view what);
  void too_large(std::string_view why, std::string_view text);
  void open_stream();
  void write_line(std::string_view json);
  void respond_error(const base::Status& status);
  std::string error_object(const base::Status& status);
  void copy_metadata(Response& response);

  BodyCollector collector_;
  size_t owed_ = 0;     // request bytes not yet given back with consume()
  base::Bytes text_;    // the request, once it is whole
  size_t at_ = 0;       // where the next line begins
  bool whole_ = false;  // text_ is there, and something of it waits
  bool sse_ = false, large_ = false;
  Coding coding_ = Coding::kIdentity;
  base::Bytes answer_;  // of one-response methods
};

base::Status JsonCall::check_head() {
  std::string_view coding = metadata().find("content-encoding");
  auto known = coding_of(coding);
  if (!known) return base::failure(Code::kInvalidArgument, "content-encoding '" + std::string(coding) + "' is unknown");
  coding_ = *known;
  sse_ = metadata().find("accept").find("text/event-stream") != std::string_view::npos;
  int64_t length = exchange_.request().content_length;
  if (length > int64_t(house_.options.max_message)) large_ = true;
  if (large_)
    return base::failure(Code::kResourceExhausted,
                         "the body is over the limit of " + std::to_string(house_.options.max_message) + " bytes");
  collector_.begin(house_.slabs,
                   {length, coding_, {house_.options.max_message, house_.options.inflate_ratio}, owner()});
  return {};
}

void JsonCall::on_data(Exchange&, std::span<const std::byte> bytes) {
  owed_ += bytes.size();
  if (finished()) return give_back();
  collected(collector_.put(bytes), bytes.size());
}

void JsonCall::on_end(Exchange&) {
  if (!finished()) collected(collector_.end(), 0);
}

void JsonCall::resume() {
  if (finished()) return;
  if (collector_.state() == BodyCollector::State::kStalled)
    collected(collector_.retry(), 0);
  else
    feed();
}

void JsonCall::drop_request() {
  collector_.clear();
  text_ = {}, at_ = 0, whole_ = false;
  give_back();
}

// Without a slab nothing is given back, so that flow control holds the peer.
void JsonCall::collected(BodyCollector::State state, size_t came_now) {
  using State = BodyCollector::State;
  if (state != State::kStalled) fed();
  came(came_now, state == State::kOpen ? Owes::kRest : Owes::kNothing);
  switch (state) {
    case State::kOpen: return give_back();
    case State::kStalled: return starved(collector_.wanted());
    case State::kTooBig:
      if (coding_ != Coding::kIdentity) return too_large(reason::kInflateBytes, "the body inflates too far");
      return too_large(reason::kBodyBytes,
                       "the body is over the limit of " + std::to_string(house_.options.max_message) + " bytes");
    case State::kNoMemory: return no_memory("the message");
    case State::kCorrupt:
      exchange_.ledger().reject = reason::kParse;
      return break_off(base::failure(Code::kInvalidArgument, "the body is not what its content-encoding says"));
    case State::kDone: break;
  }
  give_back();
  text_ = collector_.take();
  whole_ = true;
  feed();
}

void JsonCall::give_back() {
  if (owed_ > 0) exchange_.consume(std::exchange(owed_, 0));
}

void JsonCall::too_large(std::string_view why, std::string_view text) {
  large_ = true;
  exchange_.ledger().reject = why;
  break_off(base::failure(Code::kResourceExhausted, std::string(text)));
}

void JsonCall::feed() {
  if (!whole_) return;
  one_request() ? feed_whole() : feed_lines();
}

void JsonCall::feed_whole() {
  whole_ = false;
  base::Bytes text = std::move(text_);
  std::string_view json = text.view();
  // An empty body is an empty message: curl -X POST needs no -d '{}'.
  feed_one(trim(json).empty() ? "{}" : json, text);
  text = {};
  half_close();
}

// What a transcoder has in hand beside its text: a copy of it, and the other form while that grows. Little is not asked
// for.
bool JsonCall::room_for(std::string_view text, base::MemoryCharge& room) {
  constexpr uint64_t kHeld = 4;  // times the text
  if (text.size() < kAsked) return true;
  if (auto* ledger = base::ledger_of(house_.slabs)) room = {*ledger, base::MemoryKind::kDecoding};
  return room.grow(kHeld * text.size());
}

void JsonCall::no_memory(std::string_view what) {
  exchange_.ledger().reject = reason::kOverload;
  break_off(base::overloaded("there is no memory for " + std::string(what) + "; try again later"));
}

// `place` is where the text lies: nobody else reads there, and the text is of no use once it is a message.
void JsonCall::feed_one(std::string_view json, base::Bytes place) {
  base::MemoryCharge room;
  if (!room_for(json, room)) return no_memory("the message");
  auto binary = house_.json->to_binary(route_.request_type, json);
  if (binary.has_error()) {
    exchange_.ledger().reject = reason::kParse;
    return break_off(binary.error());
  }
  size_t size = binary->size();
  if (size <= place.size()) {
    if (size > 0) std::memcpy(const_cast<std::byte*>(place.data()), binary->data(), size);
    return deliver(place.slice(0, size));
  }
  if (size <= kLittle) return deliver(base::Bytes::adopt(std::move(*binary)));
  if (size > house_.options.max_message)
    return too_large(reason::kBodyBytes, "the message of this text is over the limit of " +
                                             std::to_string(house_.options.max_message) + " bytes");
  // Numbers may be written shorter than they are.
  base::Block block(house_.slabs.take(size));
  if (!block) return no_memory("the message");
  block.append(binary->data(), size);
  deliver(block.freeze());
}

void JsonCall::feed_lines() {
  base::Bytes text = text_;  // delivering may drop text_
  std::string_view all = text.view();
  while (whole_ && !congested() && at_ < all.size()) {
    std::string_view line = all.substr(at_, all.find('\n', at_) - at_);
    at_ += line.size() + 1;
    if (line.find_first_not_of(" \t\r") != line.npos) feed_one(line, text.slice(line));
  }
  if (!whole_ || at_ < all.size()) return;
  whole_ = false;
  text_ = {};
  half_close();
}

void JsonCall::copy_metadata(Response& response) {
  for (size_t i = 0; i < initial_.size(); ++i) response.fields.add(initial_[i].name, initial_[i].value);
}

void JsonCall::open_stream() {
  if (exchange_.responding()) return;
  Response response;
  response.fields.add("content-type", sse_ ? kSseType : kNdjson);
  response.fields.add("cache-control", "no-cache");
  copy_metadata(response);
  exchange_.head(std::move(response));
}

void JsonCall::write_line(std::string_view json) {
  std::string out;
  if (sse_)
    append_sse(out, json);
  else
    out.append(json).append("\n");
  exchange_.body(base::Bytes::adopt(std::move(out)));
}

void JsonCall::send(std::vector<base::Bytes> pieces) {
  if (finished()) return;
  std::string joined;
  std::string_view binary;
  if (pieces.size() == 1) {
    binary = pieces[0].view();
  } else {
    for (const auto& p : pieces) joined += p.view();
    binary = joined;
  }
  base::MemoryCharge room;
  if (!room_for(binary, room)) return no_memory("the answer");
  auto json = house_.json->to_json(route_.response_type, binary);
  if (json.has_error())
    return break_off(base::failure(Code::kInternal, "the answer has no JSON form: " + json.error().text));
  room.clear();
  if (one_response()) {
    auto answer = base::adopt(memory_of(exchange_), base::MemoryKind::kAnswers, std::move(*json));
    if (!answer) return no_memory("the answer");
    answer_ = *std::move(answer);
    return;
  }
  open_stream();
  write_line(*json);
}

// {"code":…,"message":"…","details":[…]}: google.rpc.Status in JSON.
std::string JsonCall::error_object(const base::Status& status) {
  if (!status.details.empty()) {
    auto whole = house_.json->to_json("google.rpc.Status", status.details);
    if (whole.has_value()) return std::move(*whole);
  }
  std::string out = "{\"code\":" + std::to_string(int(status.code)) + ",\"message\":\"";
  append_json_text(out, status.text);
  return out += "\"}";
}

void JsonCall::respond_error(const base::Status& status) {
  Response response;
  response.status = large_ ? kTooLarge : base::http_status(status);
  response.fields.add("content-type", kJson);
  copy_metadata(response);
  bool again = response.status == 429 || response.status == 503;
  if (again && !response.fields.has("retry-after")) response.fields.add("retry-after", "1");
  exchange_.respond(std::move(response), base::Bytes::adopt(error_object(status)));
}

void JsonCall::write_end(const base::Status& status) {
  if (exchange_.responding()) {
    if (!status.ok()) write_line("{\"error\":" + error_object(status) + "}");
    return exchange_.end();
  }
  if (!status.ok()) return respond_error(status);
  if (!one_response()) {
    open_stream();
    return exchange_.end();
  }
  if (answer_.empty()) return respond_error(base::failure(Code::kInternal, "the method gave no answer"));
  Response response;
  response.fields.add("content-type", kJson);
  copy_metadata(response);
  exchange_.respond(std::move(response), std::move(answer_));
}

}  // namespace

std::unique_ptr<RpcCall> make_json_call(const RpcRoute& route, const RpcHouse& house, Exchange& exchange) {
  return std::make_unique<JsonCall>(route, house, exchange);
}

}  // namespace weir::wire
