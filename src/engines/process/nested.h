// Nested: the requests that a model makes to other models while it runs (Triton's BLS). Each is a Call of its own,
// which goes to the other model's Inbox as a pipeline's do; its answer goes to the child in a region of its own.
//
// They are nobody's in particular: limits of clients and the models of a key do not hold for them, and a sequence that
// they belong to is another one than a client's of the same id. They have come through as many servers as the farthest
// of the requests that the model has then, so that none goes in circles. Their parameters are those of a client's
// request (marshal/call_parameters.h). Models of text are refused, and decoupled models where the child takes one
// answer. Others are kWindow answers ahead of it at most. Used by the thread that talks to the child; events come from
// any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "engines/process/engine.h"
#include "engines/process/host.h"
#include "msg/call.h"

namespace weir::process {

inline uint32_t hops_of(const msg::Call& call) { return call.trace ? call.trace->hops : 0; }

class Nested final : private msg::Home {
 public:
  // `wake` is an eventfd, written when there is something for answer().
  Nested(FindModel find, Host& host, int wake) : find_(std::move(find)), host_(host), wake_(wake) {}
  ~Nested() { cancel(); }

  // Takes kExec, kTook and kForget; false for others. A request that cannot be made is answered at once. `hops`: the
  // most of the requests that the model has. Errors: the child's fault.
  base::Result<bool> handle(const Message& message, uint32_t hops);
  // Sends the answers that have come.
  base::Status answer();
  bool some() const { return !open_.empty(); }
  // Nobody wants them any more: waits until they are over.
  void cancel();

 private:
  struct Open {
    msg::Call call;
    uint64_t number = 0;
    bool many = false;          // the child takes any number of answers
    bool cancelled = false;     // and wants no more, but the last
    bool forgotten = false;     // and not even that
    std::deque<int32_t> ahead;  // answers that it has not read: what each has cost of the credit
    Target target;
  };
  base::Status begin(const Message& message, uint32_t hops);
  base::Status took(const Message& message);
  static void cancel_call(Open& open);
  base::Status lend(Open& open);
  base::Status reply(Open& open, msg::Event&& event);
  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override;
  std::vector<msg::Mail> take();

  const FindModel find_;
  Host& host_;
  const int wake_;
  std::list<Open> open_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<msg::Mail> mail_;  // under mutex_
};

}  // namespace weir::process
