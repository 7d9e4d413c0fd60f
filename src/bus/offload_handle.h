// OffloadHandle owns an OffloadTask that the bus's workers run for a request (Bus::send), until it has ended or nobody
// waits for it. On the shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bus/bus.h"

namespace weir::bus {

class OffloadListener {
 public:
  // OK and the task, which has run; or why it has not run, and null. In a later turn than send(). The model version is
  // still there. The handle may be destroyed here, or given the next task.
  virtual void on_task(base::Status status, std::unique_ptr<OffloadTask> task) = 0;

 protected:
  ~OffloadListener() = default;
};

class OffloadHandle final : msg::Sink {
 public:
  OffloadHandle(Bus& bus, OffloadListener& listener) : bus_(bus), listener_(listener) {}
  ~OffloadHandle() { abandon(); }
  OffloadHandle(const OffloadHandle&) = delete;
  OffloadHandle& operator=(const OffloadHandle&) = delete;

  // One task at a time. Arguments and errors: those of Bus::send(); after an error the listener is not called.
  base::Status send(std::unique_ptr<OffloadTask> task, size_t bytes, Served& served, base::Ticket ticket,
                    uint64_t tenant, Admission admission = Admission::kAsked);
  bool running() const { return call_ != nullptr; }
  // The listener is not called for the task any more.
  void abandon();

 private:
  void on(msg::Call& call, msg::Event&& event) override;

  Bus& bus_;
  OffloadListener& listener_;
  msg::Call* call_ = nullptr;  // the task's
};

}  // namespace weir::bus
