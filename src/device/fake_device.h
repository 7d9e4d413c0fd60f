// A device for tests: its memory is the host's, and what is queued is done later: by a thread of its own, by the test
// step by step, or whenever somebody asks how far an event is. It can run out of memory, break, and hang.
//
// It is stricter than a real one: a copy from or to host memory that was not pinned, or beyond a buffer, breaks it.
// Copies run outside of its lock, so that ThreadSanitizer sees whoever touches their memory before an event is done.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/device.h"
#include "device/recording.h"

namespace weir::device {

class FakeDevice final : public Device {
 public:
  enum class Drive : uint8_t { kThread, kStepped, kWhenAsked };

  explicit FakeDevice(Drive drive, uint64_t memory = uint64_t(64) << 20, size_t index = 0);
  ~FakeDevice() override;

  // Does one operation that may be done now; false when there is none. For kStepped.
  bool step();
  size_t queued() const;
  uint64_t used() const;  // bytes in buffers

  // From now on; any thread.
  void run_out(uint32_t buffers);                      // the next that many buffers do not fit
  void break_after(uint32_t operations);               // the one after these breaks the device; a restart mends it
  enum class Trouble : uint8_t { kHang, kNoRestart };  // nothing is done any more; restart() fails
  void have(Trouble trouble);

  bool pinned(const void* data, size_t bytes) const override;

 private:
  struct Mark {  // an event
    uint64_t recorded = 0, reached = 0;
  };
  struct Op {
    enum class What : uint8_t { kWork, kRecord, kWait, kDone } what = What::kWork;
    Recording work;
    std::shared_ptr<const Recording> graph;  // or `work`
    std::shared_ptr<Mark> mark;
    uint64_t turn = 0;  // of the mark: to reach, or to wait for
    Done* done = nullptr;
  };
  struct Queue {  // a stream
    std::deque<Op> ops;
    bool busy = false;
    std::shared_ptr<Recording> recording;  // while it captures
  };
  struct Event {
    std::shared_ptr<Mark> mark = std::make_shared<Mark>();
  };

  base::Result<void*> do_make(Kind kind, size_t bytes, Priority priority) override;
  void do_free(Kind kind, void* raw) override;
  base::Result<Memory> do_memory() override;
  base::Status do_copy(void* stream, Way way, std::span<const Copy> copies) override;
  base::Status do_record(void* event, void* stream) override;
  base::Status do_wait(void* stream, void* event) override;
  base::Result<Progress> do_progress(void* event) override;
  base::Status do_then(void* stream, Done& done) override;
  base::Status do_run(void* stream, Work work) override;
  base::Status do_capture(void* stream) override;
  base::Result<void*> do_captured(void* stream) override;
  base::Status do_launch(void* stream, void* graph) override;
  base::Status do_pin(std::byte* data, size_t bytes) override;
  void do_unpin(std::byte* data, size_t bytes) override;
  base::Status do_restart() override;

  base::Status push(void* stream, Op op);
  base::Status push(void* stream, Recording::Op work);
  bool on_device(const void* data, size_t bytes) const;
  base::Status broken(std::string why);
  bool do_one(std::unique_lock<std::mutex>& lock);
  void work_off();

  const Drive drive_;
  const uint64_t memory_;
  mutable std::mutex mutex_;  // over all that follows
  std::condition_variable changed_;
  std::map<Queue*, std::unique_ptr<Queue>> streams_;
  std::map<Event*, std::unique_ptr<Event>> events_;
  std::map<Recording*, std::shared_ptr<Recording>> graphs_;
  std::map<std::byte*, size_t> buffers_, pins_;
  uint64_t used_ = 0;
  uint32_t no_room_ = 0;
  int64_t left_ = -1;  // operations until it breaks; -1 = never
  bool hangs_ = false, refuses_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace weir::device
