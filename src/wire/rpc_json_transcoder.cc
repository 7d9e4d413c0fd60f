#include "wire/rpc_json_transcoder.h"

#include <utility>

#include "base/attempt.h"
#include "base/overload.h"
#include "wire/limits.h"

namespace weir::wire {
namespace {

constexpr size_t kAsked = 64 << 10;    // a text from which on there must be room for what it becomes
constexpr size_t kWorkPerAnswer = 64;  // what writing one costs beside its bytes

base::Status no_room(std::string_view what) {
  return base::overloaded("there is no memory for " + std::string(what) + "; try again later");
}

}  // namespace

// The memory of a transcoder beside its text: a copy of it, and the other form while that grows. Little is not asked
// for.
bool JsonTranscoder::room_for(size_t text, base::MemoryCharge& room) const {
  constexpr uint64_t kHeld = 4;  // times the text
  if (text < kAsked) return true;
  if (auto* ledger = state_.slabs.ledger()) room = {*ledger, base::MemoryKind::kDecoding};
  return room.grow(kHeld * text);
}

void JsonTranscoder::read(std::string_view json, base::Bytes place) {
  base::MemoryCharge room;
  if (!room_for(json.size(), room))
    return owner_.message_refused(no_room("the message"), reason::kOverload, Owner::Size::kAllowed);
  if (json.size() > kLongText && state_.offload) return read_by_worker(json, std::move(place), std::move(room));
  turns_.spend(json.size());
  ReadText read(route_, state_, json, std::move(place));
  read.run();
  settle(read);
}

void JsonTranscoder::read_by_worker(std::string_view json, base::Bytes place, base::MemoryCharge room) {
  auto read = std::make_unique<ReadText>(route_, state_, json, std::move(place));
  read->room = std::move(room);
  auto done = [this](const base::Status& status, std::unique_ptr<base::OffloadTask> task) {
    reading_ = nullptr;
    auto thrown = base::attempt("a method", [&] {
      if (!status.ok()) return owner_.message_refused(status, {}, Owner::Size::kAllowed);
      settle(static_cast<ReadText&>(*task));
      owner_.go_on();
    });
    if (!thrown.ok()) owner_.message_refused(thrown, reason::kOverload, Owner::Size::kAllowed);
  };
  auto sent = state_.offload->send(std::move(read), json.size(), Offload::Part::kRequest, exchange_, std::move(done));
  if (!sent) return owner_.message_refused(sent.error(), {}, Owner::Size::kAllowed);
  reading_ = std::move(*sent);
}

void JsonTranscoder::settle(ReadText& read) {
  if (read.status.ok()) return owner_.message_read(std::move(read.message));
  owner_.message_refused(read.status, read.reject, read.too_large ? Owner::Size::kTooLarge : Owner::Size::kAllowed);
}

void JsonTranscoder::write(std::vector<base::Bytes> answer, Framing framing) {
  size_t size = 0;
  for (const auto& piece : answer) size += piece.size();
  unwritten_bytes_ += size;
  Unwritten next{std::move(answer), size, framing};
  if (!writing_ && unwritten_.empty() && !turns_.spent()) return void(write_one(std::move(next)));
  unwritten_.push_back(std::move(next));
}

void JsonTranscoder::write_on() {
  auto thrown = base::attempt("a method", [this] {
    while (!writing_ && !unwritten_.empty() && !turns_.spent()) {
      Unwritten next = std::move(unwritten_.front());
      unwritten_.pop_front();
      if (!write_one(std::move(next))) return;
    }
    if (!writing_ && unwritten_.empty() && last_) owner_.put_status(*std::exchange(last_, std::nullopt));
  });
  if (!thrown.ok()) fail(thrown);
}

// False when there are no more answers.
bool JsonTranscoder::write_one(Unwritten answer) {
  base::MemoryCharge room;
  if (!room_for(answer.size, room)) {
    exchange_.record().reject = reason::kOverload;
    return fail(no_room("the answer")), false;
  }
  turns_.spend(kWorkPerAnswer);
  if (answer.size > kLongMessage && state_.offload) return write_by_worker(std::move(answer), std::move(room));
  turns_.spend(answer.size);
  WriteText write(route_, state_, std::move(answer.pieces), answer.framing);
  write.run();
  unwritten_bytes_ -= answer.size;
  return settle(write);
}

bool JsonTranscoder::write_by_worker(Unwritten answer, base::MemoryCharge room) {
  const size_t size = answer.size;
  auto write = std::make_unique<WriteText>(route_, state_, std::move(answer.pieces), answer.framing);
  write->room = std::move(room);
  auto done = [this, size](const base::Status& status, std::unique_ptr<base::OffloadTask> task) {
    written(status, std::move(task), size);
  };
  auto sent = state_.offload->send(std::move(write), size, Offload::Part::kAnswer, exchange_, std::move(done));
  if (sent) writing_ = std::move(*sent);
  if (!sent) fail(sent.error());
  return bool(sent);
}

void JsonTranscoder::written(const base::Status& status, std::unique_ptr<base::OffloadTask> task, size_t size) {
  writing_ = nullptr;
  unwritten_bytes_ -= size;
  if (!status.ok()) return fail(status);
  auto thrown = base::attempt("a method", [&] {
    if (!settle(static_cast<WriteText&>(*task))) return;
    write_on();
    if (unwritten_bytes_ == 0) owner_.answers_written();
  });
  if (!thrown.ok()) fail(thrown);
}

bool JsonTranscoder::settle(WriteText& write) {
  write.room.clear();
  base::Status put = write.status.ok() ? owner_.put_answer(std::move(write.text)) : write.status;
  if (!put.ok()) fail(put);
  return put.ok();
}

void JsonTranscoder::end(const base::Status& status) {
  if (!writing_ && unwritten_.empty()) return owner_.put_status(status);
  last_ = status;
  if (!writing_) turns_.resume_next_turn();  // the timer for that has gone with the others
}

void JsonTranscoder::fail(const base::Status& why) {
  unwritten_.clear();
  unwritten_bytes_ = 0;
  last_.reset();
  owner_.answers_failed(why);
}

}  // namespace weir::wire
