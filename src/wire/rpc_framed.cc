#include <algorithm>

#include "base/recycled.h"
#include "wire/answer_flow.h"
#include "wire/grpc_status.h"
#include "wire/limits.h"
#include "wire/rpc_call.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Code;

std::span<const std::byte> span_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

constexpr std::string_view kAcceptedCodings = "identity, deflate, gzip";

// A smaller message that mirrors its client's encoding goes out as it is, with flag 0.
constexpr size_t kWorthCompressing = 1024;

// Pieces smaller than this are cheaper to copy than to send as a piece of their own.
constexpr size_t kJoinBelow = 4096;

// A message that fits into the window that every stream has needs no announcement.
constexpr uint64_t kWorthTelling = 1 << 20;

}  // namespace

FramedCall::FramedCall(const RpcRoute& route, const RpcState& state, Exchange& exchange)
    : RpcCall(route, state, exchange), deframer_(state.slabs, state.options.max_message, pace_.owner()) {}

base::Status FramedCall::check_head() {
  const CodingFields fields = coding_fields();
  if (std::string_view wanted = metadata().find(fields.coding); wanted.data()) {
    auto known = wanted == name(Coding::kSnappy) ? std::optional(Coding::kSnappy) : coding_of(wanted);
    if (!known) {
      exchange_.record().reject = reason::kGrpcEncoding;
      initial(fields.accepted, kAcceptedCodings);
      return base::failure(Code::kUnimplemented, std::string(fields.coding) + " '" + std::string(wanted) +
                                                     "' is not supported; supported: " + std::string(kAcceptedCodings));
    }
    in_ = *known;
  }
  if (in_ != Coding::kIdentity && in_ != Coding::kSnappy && has_element(metadata().find(fields.accepted), name(in_)))
    out_ = in_;
  return {};
}

void FramedCall::compress(MessageCompress from_here_on) {
  compress_ = from_here_on;
  if (compress_ == MessageCompress::kAccepted && !exchange_.responding())
    out_ = choose_coding(metadata().find(coding_fields().accepted));
}

std::span<const std::byte> FramedCall::decode(std::span<const std::byte> bytes, std::string&) { return bytes; }

void FramedCall::on_data(Exchange&, std::span<const std::byte> bytes) {
  owed_ += bytes.size();
  if (!finished()) {
    std::string scratch;
    auto in = decode(bytes, scratch);
    if (held_.empty()) pump(in);
    hold(in);
  }
  pace_.received(bytes.size(), pending());
  settle();
}

// A string that grows takes up to twice its size.
void FramedCall::hold(std::span<const std::byte> in) {
  if (in.empty() || finished()) return;
  if (held_charge_.bytes() == 0)
    if (auto* ledger = state_.slabs.ledger()) held_charge_ = {*ledger, base::MemoryKind::kInput};
  if (!held_charge_.grow(2 * uint64_t(in.size()))) return break_off(no_memory("the request"));
  held_.append(reinterpret_cast<const char*>(in.data()), in.size());
}

base::Status FramedCall::no_memory(const char* what) {
  exchange_.record().reject = reason::kOverload;
  return base::overloaded("there is no memory for " + std::string(what) + "; try again later");
}

// The peer must keep up its rate only while nothing that it has sent waits here.
RequestPace::Pending FramedCall::pending() const {
  bool rest = !finished() && !ended_ && held_.empty() && coded_.empty() && !deframer_.at_boundary();
  return rest ? RequestPace::Pending::kRestOfMessage : RequestPace::Pending::kNothing;
}

void FramedCall::on_end(Exchange&) {
  ended_ = true;
  pace_.received(0, RequestPace::Pending::kNothing);
  settle();
}

// Keeps the last `left` bytes of `taken`. The bytes before them are dropped only once they are the larger part, so that
// most calls of resume() move nothing.
void FramedCall::hold_on(std::string taken, size_t left) {
  held_at_ = taken.size() - left;
  if (left == 0) {
    held_at_ = 0;
    held_charge_.clear();
    return;
  }
  if (held_at_ >= left) taken.erase(0, std::exchange(held_at_, 0));
  held_ = std::move(taken);
}

void FramedCall::resume() {
  if (!finished() && !(held_.empty() && coded_.empty())) {
    std::string taken = std::move(held_);  // out of the way: a method that finishes drops what is held
    held_.clear();
    auto in = span_of(taken).subspan(held_at_);
    pump(in);
    if (!finished()) hold_on(std::move(taken), in.size());
    pace_.received(0, pending());
  }
  settle();
}

// Delivers messages until `in` is used up, or something makes it wait.
void FramedCall::pump(std::span<const std::byte>& in) {
  pace_.fed();
  while (!finished() && !reading() && !congested() && !turns_.spent()) {
    if (!coded_.empty()) {
      if (!accept_message()) return;
      continue;
    }
    if (in.empty()) return;
    switch (deframer_.next(in)) {
      case Deframer::Step::kMore: break;
      case Deframer::Step::kStarved: return starved(deframer_.wanted());
      case Deframer::Step::kFailed: {
        exchange_.record().reject = reason::kGrpcLen;
        return break_off(deframer_.error());
      }
      case Deframer::Step::kMessage: {
        turns_.spend(kWorkPerFrame);
        bool compressed = deframer_.compressed();
        base::Bytes message = deframer_.take();
        if (!compressed) {
          came_compressed_ = false;
          read_message(std::move(message));
        } else if (in_ == Coding::kIdentity) {
          // grpc/doc/compression.md: the flag without an encoding is INTERNAL.
          return break_off(base::failure(Code::kInternal, "compressed message without a grpc-encoding"));
        } else if (message.empty()) {
          return break_off(base::failure(Code::kInternal, "the compressed message is broken"));
        } else {
          coded_ = std::move(message);
        }
      }
    }
  }
}

// Inflates the waiting message, in slices, and delivers it. False when it has to wait on, or the call is over.
bool FramedCall::accept_message() {
  const InflateLimits limits{state_.options.max_message, state_.options.inflate_ratio};
  if (!inflater_) inflater_.emplace(in_, coded_, limits);
  base::Bytes plain;
  const Inflate outcome = inflater_->step(state_.slabs, &plain);
  if (outcome == Inflate::kNoRoom) return starved(coded_.size()), false;
  if (outcome == Inflate::kMore) return turns_.spend(kWorkPerTurn), turns_.resume_next_turn(), false;
  turns_.spend(plain.size() % kInflateSlice / kInflatedPerWork);
  inflater_.reset();
  coded_ = {};
  if (outcome == Inflate::kDone) {
    came_compressed_ = true;
    read_message(std::move(plain));
    return true;
  }
  if (outcome == Inflate::kNoMemory) return break_off(no_memory("the message")), false;
  exchange_.record().reject = reason::kInflateBytes;
  if (outcome == Inflate::kTooBig)
    break_off(base::failure(Code::kResourceExhausted,
                            "message inflates past the limit of " + std::to_string(limits.bytes) + " bytes"));
  else if (outcome == Inflate::kOverRatio)
    break_off(base::failure(Code::kResourceExhausted, "message inflates to more than " + std::to_string(limits.ratio) +
                                                          " times its size (limits.inflate_ratio)"));
  else
    break_off(base::failure(Code::kInternal, "the compressed message is broken"));
  return false;
}

// Once per message, and back again after it: the next one's length is not known.
void FramedCall::let_in() {
  uint64_t expected = deframer_.expected();
  bool wide = expected > kWorthTelling;
  if (wide == wide_ || (expected > 0 && wide_)) return;
  wide_ = wide;
  exchange_.expect(wide ? expected : 0);
}

void FramedCall::drop_request() {
  held_.clear();
  held_at_ = 0;
  held_charge_.clear();
  coded_ = {};
  inflater_.reset();
  deframer_.drop();
  if (owed_ > 0) exchange_.consume(std::exchange(owed_, 0));
}

// Gives back what has been dealt with, and passes the half-close on once nothing is waiting before it.
void FramedCall::settle() {
  if (finished()) return drop_request();
  if (!held_.empty() || !coded_.empty() || reading()) return;
  if (transfer() == TransferState::kBroken)
    return break_off(base::failure(Code::kInternal, "the body is not valid base64"));
  if (owed_ > 0) exchange_.consume(std::exchange(owed_, 0));
  let_in();
  if (!ended_ || std::exchange(closed_, true)) return;
  if (!deframer_.at_boundary() || transfer() != TransferState::kWhole) {
    exchange_.record().reject = reason::kGrpcLen;
    return break_off(base::failure(Code::kInternal, "the request ends inside a message"));
  }
  half_close();
}

Response FramedCall::head() const {
  Response response;
  response.fields.add("content-type", content_type());
  if (out_ != Coding::kIdentity) response.fields.add(coding_fields().coding, name(out_));
  for (size_t i = 0; i < initial_.size(); ++i) response.fields.add(initial_[i].name, initial_[i].value);
  return response;
}

void FramedCall::send_head() {
  if (exchange_.responding()) return;
  if (exchange_.plain_grpc && out_ == Coding::kIdentity && initial_.size() == 0 && content_type() == "application/grpc")
    exchange_.plain_grpc->head_of_grpc();
  else
    exchange_.head(head());
}

void FramedCall::send(std::vector<base::Bytes> pieces) {
  if (finished()) return;
  if (auto status = send_message(pieces); !status.ok()) break_off(status);
  base::SpareVector<base::Bytes>::keep(std::move(pieces));
}

base::Status FramedCall::send_message(std::vector<base::Bytes>& pieces) {
  for (auto& piece : pieces)
    if (piece.size() >= base::kLeastCharged && !base::charge(exchange_.memory(), base::MemoryKind::kAnswers, piece))
      return no_memory("the answer");
  send_head();
  if (out_ != Coding::kIdentity && compress_ != MessageCompress::kNever) {
    size_t size = 0;
    for (const auto& p : pieces) size += p.size();
    size_t least = compress_ == MessageCompress::kMirror ? kWorthCompressing : 0;
    if (size >= least && size <= kMostCoded) {
      if (base::Bytes packed = deflate(out_, pieces); packed.size() < size)
        return write_frame(GrpcFlag::kCompressed, {&packed, 1}), base::Status();
    }
  }
  write_frame(GrpcFlag::kPlain, pieces);
  return {};
}

void write_pieces(Exchange& exchange, GrpcFlag flag, std::span<base::Bytes> pieces) {
  size_t total = 0;
  for (const auto& p : pieces) total += p.size();
  auto prefix = grpc_prefix(flag, uint32_t(total));
  size_t i = 0, lead = prefix.size();
  do {
    size_t end = i, joined = lead;
    while (end < pieces.size() && pieces[end].size() < kJoinBelow) joined += pieces[end++].size();
    if (joined > 0) {
      base::Block run(base::heap_slab(joined));
      run.append(prefix.data(), lead);
      for (; i < end; ++i) run.append(pieces[i].data(), pieces[i].size());
      exchange.body(run.freeze());
    }
    lead = 0;
    if (i < pieces.size()) exchange.body(std::move(pieces[i++]));
  } while (i < pieces.size());
}

}  // namespace weir::wire
