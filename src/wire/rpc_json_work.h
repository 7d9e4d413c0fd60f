// The work of a call's JSON form: a text becomes a message, a message becomes a text; here or as a task. Private
// to wire/rpc_json.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/memory_ledger.h"
#include "base/offload_task.h"
#include "wire/rpc_call.h"

namespace weir::wire {

// The message of a text, in the place of the text: nobody else reads there, and the text is of no use any more. What is
// longer than its text gets a slab, where there is one; a little is the heap's.
class ReadText final : public base::OffloadTask {
 public:
  // `text` lies in `place`, or is constant.
  ReadText(const RpcRoute& route, const RpcState& state, std::string_view text, base::Bytes place)
      : route_(route), state_(state), text_(text), place_(std::move(place)) {}
  void run() override;

  // After run(). Why there is no message: with the reason for the request's record, where it is not that the text is
  // wrong.
  base::Status status;
  std::string_view reject;
  bool too_large = false;
  base::Bytes message;

  base::MemoryCharge room;  // for what this has in hand meanwhile

 private:
  void settle(std::string binary);

  const RpcRoute& route_;  // outlives every task, as state_ does
  const RpcState& state_;
  const std::string_view text_;
  base::Bytes place_;
};

// How an answer stands in the response.
enum class Framing : uint8_t { kBare, kLine, kSse };
std::string framed(std::string json, Framing framing);

// The text of an answer, framed.
class WriteText final : public base::OffloadTask {
 public:
  WriteText(const RpcRoute& route, const RpcState& state, std::vector<base::Bytes> pieces, Framing framing)
      : route_(route), state_(state), pieces_(std::move(pieces)), framing_(framing) {}
  void run() override;

  base::Status status;  // after run()
  std::string text;

  base::MemoryCharge room;  // for what this has in hand meanwhile

 private:
  void work();

  const RpcRoute& route_;
  const RpcState& state_;
  std::vector<base::Bytes> pieces_;
  const Framing framing_;
};

}  // namespace weir::wire
