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
//
// Long texts and long answers are offload tasks, one at a time each way: what comes behind one waits, so that the order
// stays.
#include <algorithm>
#include <deque>
#include <optional>

#include "base/attempt.h"

#include "wire/accept.h"
#include "wire/answer_flow.h"
#include "wire/body.h"
#include "wire/coding.h"
#include "wire/grpc_status.h"
#include "wire/limits.h"
#include "wire/rpc_json_work.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Code;

constexpr std::string_view kJson = "application/json", kNdjson = "application/x-ndjson";
constexpr int kTooLarge = 413;
constexpr size_t kAsked = 64 << 10;    // a text from which on there must be room for what it becomes
constexpr size_t kBlankLine = 16;      // what reading one costs, in bytes of JSON
constexpr size_t kWorkPerAnswer = 64;  // what writing one costs beside its bytes

// {"code":…,"message":"…","details":[…]}: google.rpc.Status in JSON.
std::string error_object(JsonForm& json, const base::Status& status) {
  if (!status.details.empty()) {
    auto whole = json.to_json("google.rpc.Status", status.details);
    if (whole.has_value()) return std::move(*whole);
  }
  std::string out = "{\"code\":" + std::to_string(int(status.code)) + ",\"message\":\"";
  append_json_text(out, status.text);
  return out += "\"}";
}

class JsonCall final : public RpcCall {
 public:
  JsonCall(const RpcRoute& route, const RpcState& state, Exchange& exchange) : RpcCall(route, state, exchange) {}

  using Rpc::send;
  void send(std::vector<base::Bytes> pieces) override;
  // With the answers that have no text yet.
  size_t backlog() override { return exchange_.backlog() + unwritten_bytes_; }
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
  std::string_view next_text();
  void feed_one(std::string_view json, base::Bytes place);
  bool room_for(size_t text, base::MemoryCharge& room);
  base::Status no_memory(std::string_view what);
  void text_read(ReadText& read);
  void write_on();
  bool took_all() { return unwritten_bytes_ == 0 && exchange_.backlog() <= Exchange::kHighWater; }
  bool write(std::vector<base::Bytes> pieces, size_t size);
  void answer_written(WriteText& written);
  void text_written(WriteText& written);
  void answer_failed(const base::Status& status);
  void write_last(const base::Status& status);
  void too_large(std::string_view why, std::string_view text);
  void open_stream();
  Framing framing() const { return one_response() ? Framing::kBare : sse_ ? Framing::kSse : Framing::kLine; }
  void respond_error(const base::Status& status);
  void copy_metadata(Response& response);

  BodyCollector collector_;
  size_t owed_ = 0;     // request bytes not yet given back with consume()
  base::Bytes text_;    // the request, once it is whole
  size_t at_ = 0;       // where the next line begins
  bool whole_ = false;  // text_ is there, and something of it waits
  bool sse_ = false, large_ = false;
  Coding coding_ = Coding::kIdentity;
  base::Bytes answer_;  // of one-response methods
  struct Unwritten {
    std::vector<base::Bytes> pieces;
    size_t size;
  };
  std::deque<Unwritten> unwritten_;   // answers that wait for the one that is being written, or for the next turn
  size_t unwritten_bytes_ = 0;        // theirs and its
  std::optional<base::Status> last_;  // what the method ended with, while there are such
  std::unique_ptr<SentTask> reading_, writing_;
};

base::Status JsonCall::check_head() {
  std::string_view coding = metadata().find("content-encoding");
  auto known = coding_of(coding);
  if (!known) return base::failure(Code::kInvalidArgument, "content-encoding '" + std::string(coding) + "' is unknown");
  coding_ = *known;
  sse_ = accepts(metadata().find("accept"), kSseName);
  int64_t length = exchange_.request().content_length;
  if (length > int64_t(state_.options.max_message)) large_ = true;
  if (large_)
    return base::failure(Code::kResourceExhausted,
                         "the body is over the limit of " + std::to_string(state_.options.max_message) + " bytes");
  collector_.begin(
      state_.slabs,
      {length, coding_, {state_.options.max_message, state_.options.inflate_ratio}, pace_.owner(), &state_.inflating});
  return {};
}

void JsonCall::on_data(Exchange&, std::span<const std::byte> bytes) {
  owed_ += bytes.size();
  if (finished()) return give_back();
  state_.inflating.enter(state_.env.now());
  collected(collector_.put(bytes), bytes.size());
}

void JsonCall::on_end(Exchange&) {
  if (!finished()) collected(collector_.end(), 0);
}

void JsonCall::resume() {
  const bool waited = !unwritten_.empty();
  write_on();
  if (finished()) return;
  if (waited && took_all()) return on_drain(exchange_);
  state_.inflating.enter(state_.env.now());
  if (collector_.state() == BodyCollector::State::kStalled)
    collected(collector_.retry(), 0);
  else
    feed();
}

void JsonCall::drop_request() {
  collector_.clear();
  reading_ = nullptr;
  text_ = {}, at_ = 0, whole_ = false;
  give_back();
}

// Without a slab nothing is given back, so that flow control holds the peer.
void JsonCall::collected(BodyCollector::State state, size_t came_now) {
  using State = BodyCollector::State;
  if (state != State::kStalled || collector_.paused()) pace_.fed();
  pace_.came(came_now, state == State::kOpen && !finished() ? RequestPace::Owes::kRest : RequestPace::Owes::kNothing);
  switch (state) {
    case State::kOpen: return give_back();
    case State::kStalled: return collector_.paused() ? turns_.resume_next_turn() : starved(collector_.wanted());
    case State::kTooBig:
      if (coding_ != Coding::kIdentity) return too_large(reason::kInflateBytes, "the body inflates too far");
      return too_large(reason::kBodyBytes,
                       "the body is over the limit of " + std::to_string(state_.options.max_message) + " bytes");
    case State::kNoMemory: return break_off(no_memory("the message"));
    case State::kCorrupt:
      exchange_.record().reject = reason::kParse;
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
  exchange_.record().reject = why;
  break_off(base::failure(Code::kResourceExhausted, std::string(text)));
}

void JsonCall::feed() {
  base::Bytes text = text_;  // delivering may drop text_
  while (whole_ && !reading_ && at_ < text.size()) {
    if (congested() || turns_.spent()) return;
    std::string_view json = next_text();
    const bool blank = trim(json).empty();
    turns_.spend(blank ? kBlankLine + json.size() : kWorkPerMessage);
    // An empty body is an empty message: curl -X POST needs no -d '{}'.
    if (!blank || one_request()) feed_one(blank ? "{}" : json, text.slice(json));
  }
  if (!whole_ || reading_ || at_ < text.size()) return;
  if (text.empty() && one_request()) feed_one("{}", {});
  whole_ = false;
  text_ = {};
  half_close();
}

// All of it, or the next line.
std::string_view JsonCall::next_text() {
  std::string_view all = text_.view();
  std::string_view json = one_request() ? all : all.substr(at_, all.find('\n', at_) - at_);
  at_ = one_request() ? all.size() : at_ + json.size() + 1;
  return json;
}

// The memory of a transcoder beside its text: a copy of it, and the other form while that grows. Little is not asked
// for.
bool JsonCall::room_for(size_t text, base::MemoryCharge& room) {
  constexpr uint64_t kHeld = 4;  // times the text
  if (text < kAsked) return true;
  if (auto* ledger = base::ledger_of(state_.slabs)) room = {*ledger, base::MemoryKind::kDecoding};
  return room.grow(kHeld * text);
}

base::Status JsonCall::no_memory(std::string_view what) {
  exchange_.record().reject = reason::kOverload;
  return base::overloaded("there is no memory for " + std::string(what) + "; try again later");
}

void JsonCall::feed_one(std::string_view json, base::Bytes place) {
  base::MemoryCharge room;
  if (!room_for(json.size(), room)) return break_off(no_memory("the message"));
  if (json.size() <= kLongText || !state_.offload) {
    turns_.spend(json.size());
    ReadText read(route_, state_, json, std::move(place));
    read.run();
    return text_read(read);
  }
  auto read = std::make_unique<ReadText>(route_, state_, json, std::move(place));
  read->room = std::move(room);
  auto done = [this](const base::Status& status, std::unique_ptr<base::OffloadTask> task) {
    reading_ = nullptr;
    guarded([&] {
      if (!status.ok()) return break_off(status);
      text_read(static_cast<ReadText&>(*task));
      resume();
    });
  };
  auto sent = state_.offload->send(std::move(read), json.size(), Offload::Part::kRequest, exchange_, std::move(done));
  if (!sent) return break_off(sent.error());
  reading_ = std::move(*sent);
}

void JsonCall::text_read(ReadText& read) {
  if (read.status.ok()) return deliver(std::move(read.message));
  large_ = read.too_large;
  if (!read.reject.empty()) exchange_.record().reject = read.reject;
  break_off(read.status);
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

void JsonCall::send(std::vector<base::Bytes> pieces) {
  if (finished()) return;
  size_t size = 0;
  for (const auto& p : pieces) size += p.size();
  unwritten_bytes_ += size;
  if (!writing_ && unwritten_.empty() && !turns_.spent()) return void(write(std::move(pieces), size));
  unwritten_.push_back({std::move(pieces), size});
}

// Answers become text in their order, as many as a turn has time for; behind the last of them goes the status, once it
// is known.
void JsonCall::write_on() {
  auto thrown = base::attempt("a method", [this] {
    while (!writing_ && !unwritten_.empty() && !turns_.spent()) {
      Unwritten next = std::move(unwritten_.front());
      unwritten_.pop_front();
      if (!write(std::move(next.pieces), next.size)) return;
    }
    if (!writing_ && unwritten_.empty() && last_) write_last(*std::exchange(last_, std::nullopt));
  });
  if (!thrown.ok()) answer_failed(thrown);
}

// False when the call is over.
bool JsonCall::write(std::vector<base::Bytes> pieces, size_t size) {
  base::MemoryCharge room;
  if (!room_for(size, room)) return answer_failed(no_memory("the answer")), false;
  turns_.spend(kWorkPerAnswer);
  if (size <= kLongMessage || !state_.offload) {
    turns_.spend(size);
    WriteText write(route_, state_, std::move(pieces), framing());
    write.run();
    unwritten_bytes_ -= size;
    text_written(write);
    return write.status.ok();
  }
  auto write = std::make_unique<WriteText>(route_, state_, std::move(pieces), framing());
  write->room = std::move(room);
  auto written = [this, size](const base::Status& status, std::unique_ptr<base::OffloadTask> task) {
    writing_ = nullptr;
    unwritten_bytes_ -= size;
    if (!status.ok()) return answer_failed(status);
    auto thrown = base::attempt("a method", [&] { answer_written(static_cast<WriteText&>(*task)); });
    if (!thrown.ok()) answer_failed(thrown);
  };
  auto sent = state_.offload->send(std::move(write), size, Offload::Part::kAnswer, exchange_, std::move(written));
  if (sent) writing_ = std::move(*sent);
  if (!sent) answer_failed(sent.error());
  return bool(sent);
}

void JsonCall::answer_written(WriteText& written) {
  text_written(written);
  if (!written.status.ok()) return;
  write_on();
  if (took_all()) on_drain(exchange_);
}

void JsonCall::text_written(WriteText& written) {
  if (!written.status.ok()) return answer_failed(written.status);
  written.room.clear();
  if (one_response()) {
    auto answer = base::adopt(memory_of(exchange_), base::MemoryKind::kAnswers, std::move(written.text));
    if (!answer) return answer_failed(written.status = no_memory("the answer"));
    answer_ = *std::move(answer);
    return;
  }
  open_stream();
  exchange_.body(base::Bytes::adopt(std::move(written.text)));
}

// The method may have said its last word already.
void JsonCall::answer_failed(const base::Status& status) {
  unwritten_.clear();
  unwritten_bytes_ = 0;
  if (!finished()) return break_off(status);
  last_.reset();
  exchange_.record().code = status.code;
  write_last(status);
}

void JsonCall::respond_error(const base::Status& status) {
  Response response;
  response.status = large_ ? kTooLarge : base::http_status(status);
  response.fields.add("content-type", kJson);
  copy_metadata(response);
  bool again = response.status == 429 || response.status == 503;
  if (again && !response.fields.has("retry-after")) response.fields.add("retry-after", "1");
  exchange_.respond(std::move(response), base::Bytes::adopt(error_object(*state_.json, status)));
}

void JsonCall::write_end(const base::Status& status) {
  if (!writing_ && unwritten_.empty()) return write_last(status);
  last_ = status;
  if (!writing_) turns_.resume_next_turn();  // the timer for that has gone with the others
}

void JsonCall::write_last(const base::Status& status) {
  if (exchange_.responding()) {
    if (!status.ok()) {
      std::string line = "{\"error\":" + error_object(*state_.json, status) + "}";
      exchange_.body(base::Bytes::adopt(framed(std::move(line), framing())));
    }
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

std::unique_ptr<RpcCall> make_json_call(const RpcRoute& route, const RpcState& state, Exchange& exchange) {
  return std::make_unique<JsonCall>(route, state, exchange);
}

}  // namespace weir::wire
