// JsonTranscoder: the messages of one call out of JSON, and its answers into it. Private to wire/rpc*.cc.
//
// Short texts are transcoded on the shard, as many as a turn has time for; long ones by a worker, one at a time each
// way. What comes behind one waits, so that the order stays. The memory that a long one takes meanwhile is charged.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/rpc_call.h"
#include "wire/rpc_json_work.h"

namespace weir::wire {

class JsonTranscoder {
 public:
  class Owner {
   public:
    virtual void message_read(base::Bytes message) = 0;
    // The text is no message, or has no room: `reject` is for the record, unless empty.
    enum class Size : uint8_t { kAllowed, kTooLarge };
    virtual void message_refused(const base::Status& why, std::string_view reject, Size size) = 0;
    // A worker has read a message, and more may be read.
    virtual void go_on() = 0;

    // The next answer, framed. An error ends the answers.
    virtual base::Status put_answer(std::string text) = 0;
    // Behind the last answer.
    virtual void put_status(const base::Status& status) = 0;
    // An answer cannot be written, and none follows.
    virtual void answers_failed(const base::Status& why) = 0;
    // A worker has written all answers that there were.
    virtual void answers_written() = 0;

   protected:
    ~Owner() = default;
  };

  // All outlive it.
  JsonTranscoder(const RpcRoute& route, const RpcState& state, Exchange& exchange, CallTurns& turns, Owner& owner)
      : route_(route), state_(state), exchange_(exchange), turns_(turns), owner_(owner) {}

  // One text, which lies in `place` or is constant; not while reading(). Its message takes that place.
  void read(std::string_view json, base::Bytes place);
  // A worker has a text.
  bool reading() const { return reading_ != nullptr; }
  void drop_reading() { reading_ = nullptr; }

  void write(std::vector<base::Bytes> answer, Framing framing);
  // Goes on with answers that wait for the turn.
  void write_on();
  // No more answers: put_status() comes behind the last of them, or at once.
  void end(const base::Status& status);
  // Some answers have no text yet: so many, of so many bytes.
  bool waiting() const { return !unwritten_.empty(); }
  size_t unwritten_bytes() const { return unwritten_bytes_; }
  // All answers have their text, and the peer does not lag behind: the method may go on.
  bool all_taken() const { return unwritten_bytes_ == 0 && exchange_.backlog() <= Exchange::kHighWater; }

 private:
  struct Unwritten {
    std::vector<base::Bytes> pieces;
    size_t size;
    Framing framing;
  };

  bool room_for(size_t text, base::MemoryCharge& room) const;
  void read_by_worker(std::string_view json, base::Bytes place, base::MemoryCharge room);
  void settle(ReadText& read);
  bool write_one(Unwritten answer);
  bool write_by_worker(Unwritten answer, base::MemoryCharge room);
  bool settle(WriteText& write);
  void written(const base::Status& status, std::unique_ptr<base::OffloadTask> task, size_t size);
  void fail(const base::Status& why);

  const RpcRoute& route_;
  const RpcState& state_;
  Exchange& exchange_;
  CallTurns& turns_;
  Owner& owner_;
  std::deque<Unwritten> unwritten_;   // answers that wait for the one that is being written, or for the next turn
  size_t unwritten_bytes_ = 0;        // theirs and its
  std::optional<base::Status> last_;  // what the method ended with, while there are such
  std::unique_ptr<SentTask> reading_, writing_;
};

// A call that is a `BaseCall` (RpcCall or FramedCall) whose messages may be JSON texts, with its transcoder. The
// protocol that derives from it reads request texts, puts answers and the status, and says what a refused message does.
template <class BaseCall>
class TranscodedCall : public BaseCall, protected JsonTranscoder::Owner {
 public:
  TranscodedCall(const RpcRoute& route, const RpcState& state, Exchange& exchange)
      : BaseCall(route, state, exchange), transcoder_(route, state, exchange, this->turns_, *this) {}

  // With the answers that have no text yet.
  size_t backlog() override { return this->exchange_.backlog() + transcoder_.unwritten_bytes(); }

 protected:
  void write_end(const base::Status& status) override { transcoder_.end(status); }

  JsonTranscoder transcoder_;  // idle where messages are protobuf

 private:
  void message_read(base::Bytes message) final { this->deliver(std::move(message)); }
  void go_on() final { this->resume(); }
  void answers_failed(const base::Status& why) final {
    if (!this->finished()) return this->break_off(why);
    this->exchange_.record().set_outcome(why);  // the method has ended the call already
    put_status(why);
  }
  void answers_written() final {
    if (transcoder_.all_taken()) this->on_drain(this->exchange_);
  }
};

}  // namespace weir::wire
