// LogWriter: lines on their way to a file descriptor, written by one thread, so that nobody who logs waits for whoever
// reads them (a pipe whose reader is stopped, a full or slow disk).
//
// Lines of up to PIPE_BUF bytes come whole through a pipe that others write to.
// Lines keep their order. What would make more than kMostWaiting wait is dropped and counted, and so is what cannot be
// written; the next line that is written says how many.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/env.h"

namespace weir::base {

class LogWriter {
 public:
  static constexpr size_t kMostWaiting = 1 << 20;

  // `note` makes the line about lost ones, with its end. The descriptor is borrowed.
  using Note = std::string (*)(uint64_t lost);
  LogWriter(int fd, Note note) : fd_(fd), note_(note) {}
  // Waits for what is waiting, which must be writable.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // A line with its end. Any thread; takes a brief lock, and the first time starts the thread.
  void put(std::string_view line);
  // Returns once everything put before is written or lost; false when that takes longer than `most`. Any thread.
  bool flush(Duration most);
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  bool start();
  void write_here();
  void run();
  static std::string_view one_write(std::string_view text);
  void write_all(std::string_view text);
  void count_lost(uint64_t lines);

  const int fd_;
  const Note note_;
  std::mutex mutex_;
  std::condition_variable wake_, written_;
  std::string waiting_;  // this and what follows: under mutex_
  uint64_t lost_ = 0;    // since the last note
  bool writing_ = false, sleeping_ = false, stopping_ = false;
  std::atomic<uint64_t> dropped_{0};
  std::thread thread_;
};

}  // namespace weir::base
