#include "base/log_writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

namespace weir::base {
namespace {

// The thread takes no signal: they are for those who wait for them. And a reader that has gone is an error, not an end.
std::thread without_signals(auto run) {
  struct Mask {
    sigset_t before;
    Mask() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Mask() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } mask;
  return std::thread(run);
}

uint64_t lines_in(std::string_view text) { return uint64_t(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

LogWriter::~LogWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LogWriter::put(std::string_view line) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.size() + line.size() > kMostWaiting) return count_lost(1);
    waiting_ += line;
    if (!thread_.joinable() && !start()) return write_here();
    wake = std::exchange(sleeping_, false);
  }
  if (wake) wake_.notify_one();
}

// False when there are no more threads.
bool LogWriter::start() {
  try {
    thread_ = without_signals([this] { run(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// Without a thread of its own the writer uses the one that logs, which may wait for the reader.
void LogWriter::write_here() {
  std::string batch;
  batch.swap(waiting_);
  write_all(batch);
}

bool LogWriter::flush(Duration most) {
  std::unique_lock lock(mutex_);
  return written_.wait_for(lock, most, [this] { return waiting_.empty() && lost_ == 0 && !writing_; });
}

void LogWriter::run() {
  pthread_setname_np(pthread_self(), "log");
  std::unique_lock lock(mutex_);
  for (std::string batch;;) {
    while (waiting_.empty() && lost_ == 0 && !stopping_) {
      sleeping_ = true;
      wake_.wait(lock);
    }
    sleeping_ = false;
    if (waiting_.empty() && lost_ == 0) return;
    batch.clear();
    batch.swap(waiting_);
    if (uint64_t lost = std::exchange(lost_, 0)) batch += note_(lost);
    writing_ = true;
    lock.unlock();
    write_all(batch);
    lock.lock();
    writing_ = false;
    written_.notify_all();
  }
}

// As many whole lines as a pipe takes in one piece, so that others that write to it (another process, the access log on
// standard output) do not cut them. A line that is longer goes alone.
std::string_view LogWriter::one_write(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  size_t end = text.substr(0, PIPE_BUF).rfind('\n');
  if (end == text.npos) end = text.find('\n', PIPE_BUF);
  return end == text.npos ? text : text.substr(0, end + 1);
}

void LogWriter::write_all(std::string_view text) {
  while (!text.empty()) {
    const std::string_view some = one_write(text);
    ssize_t n = ::write(fd_, some.data(), some.size());
    if (n >= 0) {
      text.remove_prefix(size_t(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd ready{fd_, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      // Not into lost_: a note that cannot be written would be followed by another one.
      dropped_.fetch_add(lines_in(text), std::memory_order_relaxed);
      return;
    }
  }
}

void LogWriter::count_lost(uint64_t lines) {
  lost_ += lines;
  dropped_.fetch_add(lines, std::memory_order_relaxed);
}

}  // namespace weir::base
