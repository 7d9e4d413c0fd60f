// ProxyInbox: an Inbox in front of others, and the Home of the Calls that it puts into them. Their Events come back
// here, and the derived class decides what becomes of them: that is its rule. A concurrency limiter hands a Call on and
// restores its home; pipelines and text adapters put Calls of their own, and answer the Call that they were given.
//
// Proxies stand behind each other, and an engine may answer inside put(). So that no engine is stepped while it is
// being stepped, and calls do not nest as deep as a queue is long, what one Event leads to is deferred until the
// outermost proxy on this thread has done its own work: enter().
//
// A proxy outlives the Calls inside of it. It may be gone as soon as the last of them has been answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "bus/load_notes.h"
#include "bus/mail_bursts.h"
#include "bus/memory_use.h"
#include "msg/call.h"

namespace weir::sched {

class ProxyInbox : public msg::Inbox, public bus::TellsMemory, public bus::HasLoadNotes, protected msg::Home {
 public:
  // A part that goes on once Calls have left a proxy.
  class Resumable {
   public:
    virtual void resume() = 0;

   protected:
    ~Resumable() = default;
  };

 protected:
  // When receive() is called: as soon as the Event comes, or only once nothing else runs in proxies of this thread.
  enum class Receives : uint8_t { kAtOnce, kDeferred };
  explicit ProxyInbox(Receives receives) : receives_(receives) {}

  // An Event of a Call inside, on the thread that it comes on. What is added to `out` is posted when the whole burst
  // has been received. Throws nothing.
  virtual void receive(msg::Mail&& mail, bus::MailBursts& out) = 0;

  // Runs `work`, which may put Calls, and then what has been deferred, unless a proxy further up the stack does that.
  // An exception of `work` is thrown on afterwards.
  template <class Work>
  static void enter(Work&& work);
  // Inside of enter(): resumes that later.
  static void defer(std::shared_ptr<Resumable> resumable);

  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override;

 private:
  struct Deferred {
    bool busy = false;  // this thread is inside of enter()
    std::deque<std::pair<ProxyInbox*, msg::Mail>> mail;
    std::vector<std::shared_ptr<Resumable>> resumable;
    size_t resumed = 0;  // of these
  };
  static Deferred& deferred();
  static void run_deferred(Deferred& deferred);

  const Receives receives_;
};

template <class Work>
void ProxyInbox::enter(Work&& work) {
  Deferred& d = deferred();
  if (std::exchange(d.busy, true)) return work();
  std::exception_ptr thrown;
  try {
    work();
  } catch (...) {
    thrown = std::current_exception();
  }
  run_deferred(d);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace weir::sched
