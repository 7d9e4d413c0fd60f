// ModelStreamInfer of grpc_infer.h.
//
// Requests of a sequence come without waiting for each other's answers. One that is refused before the model's Inbox
// has seen it (for a limit, or for want of memory) ends its sequence here: those behind it are refused until the next
// start, so that none runs on a state that lacks it. Behind a request that ends its sequence nothing comes, so none is
// remembered for it. While one is still on its way to the model, the stream reads no further.
#include <algorithm>
#include <list>
#include <utility>

#include "dialects/oip/grpc_infer.h"
#include "dialects/oip/inference.h"
#include "dialects/oip/pb_infer.h"
#include "msg/broken_sequences.h"
#include "msg/sequence.h"

namespace weir::oip {
namespace {

using base::Status;

constexpr size_t kMaxPending = 256;  // requests of one stream that have not been answered; more wait on the wire

enum class OnError : uint8_t { kMessage, kEndStream };
enum class Submitted : uint8_t { kNo, kYes };  // whether the model was given the request

class Stream;

// A sequence of a model that keeps sequences.
struct Sequence {
  std::string model, version;
  base::SessionId id;
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

// One request of a stream.
class StreamedInfer final : public Inference {
 public:
  StreamedInfer(OipState& state, wire::Rpc& rpc, Stream& stream, uint32_t& pending)
      : Inference(state, rpc.exchange(), kGrpc, {}), rpc_(rpc), stream_(stream), pending_(pending) {
    ++pending_;
  }
  ~StreamedInfer() { --pending_; }

  // Reads the message and starts its Call. Errors: the caller sends them (Stream::failed).
  Status begin(const base::Bytes& message, base::Time deadline);
  // Reads only what identifies the request, for an error message. Returns `why`.
  Status refuse(const base::Bytes& message, Status why);
  // Whether requests behind it have to wait, because it belongs to a sequence and has not been submitted to the model.
  bool holds_back() const { return sequence && !over && !submitted_; }

  bool decoupled = false;  // answers need not wait for their turn
  bool over = false;
  std::vector<std::vector<base::Bytes>> ready;  // answers that wait for their turn
  std::string model, version, id;               // for error messages
  std::optional<Sequence> sequence;             // that it belongs to
  bool ends_sequence = false;                   // as the last request of it

 private:
  void answered(const InferReply& reply, const OutputForms& forms, More more) override;
  void ended(const Status& status) override;
  void request_read(Status status) override;
  bool has_room() override { return rpc_.has_room(); }
  Status go_on(Status status);
  void note();

  wire::Rpc& rpc_;
  Stream& stream_;
  uint32_t& pending_;  // of the connection
  bool told_final_ = false;
};

class Stream final : public wire::RpcListener {
 public:
  Stream(OipState& state, wire::Rpc& rpc, OnError on_error)
      : state_(state),
        rpc_(rpc),
        on_error_(on_error),
        peer_(rpc.exchange().request().peer),
        conn_(state.streams[peer_]) {
    ++conn_.open;
  }
  ~Stream() override {
    requests_.clear();
    if (--conn_.open == 0) state_.streams.erase(peer_);
  }

  void on_message(wire::Rpc&, base::Bytes message) override {
    if (closed_) return;
    StreamedInfer& request = requests_.emplace_back(state_, rpc_, *this, conn_.pending);
    Status status = admit();
    status = status.ok() ? request.begin(message, rpc_.deadline()) : request.refuse(message, std::move(status));
    if (!status.ok()) failed(request, status, Submitted::kNo);
  }
  bool full() const override { return asked_while_full_ = is_full(); }
  // Called when a request of this stream has been submitted or is over: reads on if there is room again. Whether the
  // connection's other streams have left room is asked every 5 ms (RpcListener::full).
  void wake() {
    if (asked_while_full_ && !closed_ && !full()) rpc_.wake();
  }
  void on_half_close(wire::Rpc&) override {
    half_closed_ = true;
    settle();
  }
  void on_drain(wire::Rpc&) override {
    for (auto& request : requests_) request.drained();
  }
  void on_close(wire::Rpc&) override {
    closed_ = true;
    for (auto& request : requests_) request.leave();
    requests_.clear();
  }

  void send(StreamedInfer& request, std::vector<base::Bytes> pieces) {
    if (closed_) return;
    if (request.decoupled)
      rpc_.send(std::move(pieces));
    else
      request.ready.push_back(std::move(pieces));
  }
  // Ends the request with this failure: by an error message, or by ending the stream (OnError).
  void failed(StreamedInfer& request, const Status& status, Submitted submitted) {
    if (closed_) return;
    if (on_error_ == OnError::kEndStream) return end(status);
    if (submitted == Submitted::kNo) break_sequence(request, status);
    msg::Parameters parameters;
    if (submitted == Submitted::kYes) parameters.emplace_back("triton_final_response", true);
    send_error(request, status, parameters);
    over(request);
  }
  void send_error(StreamedInfer& request, const Status& status, const msg::Parameters& parameters) {
    std::string text = status.text.empty() ? std::string(base::name(status.code)) : status.text;
    std::vector<base::Bytes> pieces;
    pieces.push_back(write_stream_error(request.model, request.version, request.id, parameters, text));
    send(request, std::move(pieces));
  }
  bool goes_on_after_errors() const { return on_error_ == OnError::kMessage; }
  void over(StreamedInfer& request) {
    request.over = true;
    settle();
  }
  // Errors: an earlier request of the sequence was refused. `sequence_start` begins the sequence anew.
  Status check_sequence(const Sequence& sequence, const msg::Call& call) {
    const Status* why = broken_.find(sequence);
    if (!why) return {};
    if (msg::is_set(call.parameters, "sequence_start")) return broken_.erase(sequence), Status();
    return base::failure(why->code, "an earlier request of the sequence was refused, which has ended it: " + why->text);
  }

 private:
  // A stream without a request under way is never full, so that the connection's other streams do not starve it.
  bool is_full() const {
    if (!requests_.empty() && requests_.back().holds_back()) return true;
    return requests_.size() >= kMaxPending || (!requests_.empty() && conn_.pending >= state_.options.conn_calls);
  }
  // The stream was let in with its first message; each further one is a request of its own.
  Status admit() {
    if (std::exchange(first_, false)) return {};
    base::Env& env = state_.bus.env();
    return wire::admit_another(rpc_.exchange().request().identity, env.now(), env.wall());
  }
  // Remembers that the request's sequence lacks it: the model was not given the request.
  void break_sequence(const StreamedInfer& request, const Status& why) {
    if (!request.sequence || !msg::ends_sequence(why.code)) return;
    if (request.ends_sequence)
      broken_.erase(*request.sequence);
    else
      broken_.add(*request.sequence, why);
  }
  // Sends the answers whose turn it is, in the order of their requests, and ends the stream after the last one.
  void settle() {
    if (settling_ || closed_) return;
    settling_ = true;
    bool turn = true;  // no earlier request of an ordinary model is still running
    for (auto at = requests_.begin(); at != requests_.end();) {
      if (turn && !at->decoupled) {
        for (auto& pieces : at->ready) rpc_.send(std::move(pieces));
        at->ready.clear();
      }
      bool done = at->over && at->ready.empty();
      if (!at->over && !at->decoupled) turn = false;
      at = done ? requests_.erase(at) : std::next(at);  // it may be the one whose ended() this is
    }
    settling_ = false;
    if (half_closed_ && requests_.empty()) end({});
    wake();
  }
  void end(const Status& status) {
    closed_ = true;
    for (auto& request : requests_) request.leave();
    rpc_.finish(status);
  }

  OipState& state_;
  wire::Rpc& rpc_;
  OnError on_error_;
  const wire::PeerInfo* const peer_;
  OipState::Streams& conn_;  // a map's elements stay where they are
  bool half_closed_ = false, closed_ = false, settling_ = false, first_ = true;
  mutable bool asked_while_full_ = false;
  msg::BrokenSequences<Sequence, Status> broken_;  // and why the request was refused
  std::list<StreamedInfer> requests_;              // in order of arrival
};

Status StreamedInfer::begin(const base::Bytes& message, base::Time deadline) {
  call().deadline = deadline;
  if (!takes_long(message.view())) return go_on(read_infer(message, state_.slabs, call(), options));
  Status status = read_on_worker(message);
  note();
  return status;
}

Status StreamedInfer::refuse(const base::Bytes& message, Status why) {
  if (read_head(message, call(), options).ok()) (void)find();
  note();
  return why;
}

// Keeps what says whose request this is, as far as that has been read.
void StreamedInfer::note() {
  model = call().model, version = call().version, id = call().id;
  if (!served_ || !call().session) return;
  if (dynamic_cast<const msg::KeepsSequences*>(served_->inbox.get()))
    sequence = {spec().name, spec().version, call().session};
  ends_sequence = msg::is_set(call().parameters, "sequence_end");
}

void StreamedInfer::request_read(Status status) {
  Stream& stream = stream_;  // it may be answered by then, and gone
  status = go_on(std::move(status));
  status.ok() ? stream.wake() : stream.failed(*this, status, Submitted::kNo);
}

Status StreamedInfer::go_on(Status status) {
  if (status.ok()) status = find();
  note();
  if (!status.ok()) return status;
  decoupled = spec().decoupled || spec().text;  // text may be streamed
  if (decoupled) limit_answers();
  call().takes_errors = spec().decoupled && stream_.goes_on_after_errors();
  version = spec().version;
  if (sequence) status = stream_.check_sequence(*sequence, call());
  return status.ok() ? start() : status;
}

void StreamedInfer::answered(const InferReply& reply, const OutputForms&, More more) {
  bool final = more == More::kNo;
  told_final_ = final;
  if (reply.error) return stream_.send_error(*this, *reply.error, {{"triton_final_response", false}});
  if (final && decoupled && reply.tensors.empty() && reply.parameters.empty() && !options.empty_final) return;
  msg::Parameters parameters = reply.parameters;
  parameters.emplace_back("triton_final_response", final);
  stream_.send(*this, write_infer({reply.model, reply.version, reply.id, parameters, reply.tensors, reply.asked},
                                  Envelope::kStream));
}

void StreamedInfer::ended(const Status& status) {
  if (!status.ok()) return stream_.failed(*this, status, submitted_ ? Submitted::kYes : Submitted::kNo);
  if (!told_final_ && options.empty_final) {
    msg::Parameters parameters{{"triton_final_response", true}};
    std::vector<msg::Tensor> none;
    stream_.send(*this, write_infer({model, version, id, parameters, none}, Envelope::kStream));
  }
  stream_.over(*this);
}

}  // namespace

void ModelStreamInfer::open(wire::Rpc& rpc) {
  bool end = rpc.metadata().find("triton_grpc_error") == "true";
  rpc.attach(std::make_unique<Stream>(state_, rpc, end ? OnError::kEndStream : OnError::kMessage));
}

}  // namespace weir::oip
