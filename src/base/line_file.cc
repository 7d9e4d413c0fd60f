#include "base/line_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace weir::base {
namespace {

// Writes in pieces of PIPE_BUF bytes, which a pipe takes whole, and waits for room before each. If a pipe's reader has
// stopped, the rest is given up after a second without room. Returns how many bytes were written; if they are not all,
// errno says why.
size_t write_all(int fd, std::string_view data) {
  constexpr size_t kPiece = PIPE_BUF;
  size_t done = 0;
  while (done < data.size()) {
    pollfd room{fd, POLLOUT, 0};
    int ready = ::poll(&room, 1, 1000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) errno = ETIMEDOUT;
    if (ready <= 0) return done;
    ssize_t n = ::write(fd, data.data() + done, std::min(data.size() - done, kPiece));
    if (n < 0 && errno != EINTR) return done;
    if (n > 0) done += size_t(n);
  }
  return done;
}

// A pipe that nobody reads yet is opened to be read as well: to open it for writing alone waits for a reader, and so
// would the start of the server, or its end behind a reopen().
int open_to_append(const char* path, unsigned mode) {
  constexpr int kFlags = O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int fd = ::open(path, kFlags | O_WRONLY, mode);
  if (fd < 0 && errno == ENXIO) fd = ::open(path, kFlags | O_RDWR, mode);
  if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // write_all() asks for room
  return fd;
}

std::string_view reason(int error) { return error == ETIMEDOUT ? "nobody reads it" : std::strerror(error); }

}  // namespace

struct LineFile::Parts {
  Names names;
  std::string where;
  unsigned mode = 0;
  int fd = -1;  // the writer's
  Counter* dropped_counter = nullptr;

  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;   // under mutex, as the rest
  uint64_t dropped = 0;  // since the last line that was written
  bool reopen = false, stopping = false;
  std::thread writer;

  // Used by the writer's thread alone: what has still to be said in the file and in the server's log.
  uint64_t unsaid = 0;  // lines lost since the last one that was written
  std::string mend;     // where the file does not end with a whole line: what the next write begins with
  bool begun = false;   // something was written
  bool failing = false;
  uint64_t failed = 0;  // lines lost since it fails

  int open_file() const {
    if (where == "-") return ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return open_to_append(where.c_str(), mode);
  }
  void run();
  void count_lost(uint64_t lines);
  void write(std::string& lines);
  void cannot_write(int error, uint64_t lines);
  void can_write();
  void reopen_file();
};

void LineFile::Parts::run() {
  std::string lines;
  for (;;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || reopen || !waiting.empty(); });
    lines.swap(waiting);
    count_lost(std::exchange(dropped, 0));
    bool again = std::exchange(reopen, false), last = stopping;
    lock.unlock();
    if (last && names.form == Form::kElements) lines += "]\n";
    if (!lines.empty()) write(lines);
    if (again) reopen_file();
    if (!last) continue;
    if (failing) log::error(std::string(names.log) + " ends with lines lost", {{"file", where}, {"lines", failed}});
    return;
  }
}

void LineFile::Parts::count_lost(uint64_t lines) {
  unsaid += lines;
  if (failing) failed += lines;
}

// A line that was cut short is ended first, so that no other one is lost with it; an element is continued, and is not
// lost.
void LineFile::Parts::write(std::string& lines) {
  std::string text = mend;
  if (unsaid > 0) text += names.note + std::to_string(unsaid) + "}\n";
  size_t note = text.size();
  text += lines;
  const bool elements = names.form == Form::kElements;
  const size_t skipped = elements && !begun && text.front() == ',';
  size_t done = skipped + write_all(fd, std::string_view(text).substr(skipped));
  int error = errno;
  if (done > skipped) {
    begun = true;
    const bool whole = text[done - 1] == '\n';
    mend = whole ? "" : elements ? text.substr(done, text.find('\n', done) + 1 - done) : "\n";
  }
  const size_t kept = done + (elements ? mend.size() : 0);
  if (kept >= note) unsaid = 0;
  auto rest = std::string_view(text).substr(std::max(kept, note));
  lines.clear();
  if (done == text.size()) return can_write();
  cannot_write(error, uint64_t(std::count(rest.begin(), rest.end(), '\n')));
}

// The server's log gets one line when writing fails, and one when it works again.
void LineFile::Parts::cannot_write(int error, uint64_t lines) {
  if (!failing)
    log::error(std::string(names.log) + " cannot be written; lines are dropped until it can",
               {{"file", where}, {"reason", reason(error)}, {"lines", lines}});
  failing = true;
  count_lost(lines);
  dropped_counter->add(lines);
}

void LineFile::Parts::can_write() {
  if (failing) log::warning(std::string(names.log) + " is written again", {{"file", where}, {"lost_lines", failed}});
  failing = false, failed = 0;
}

void LineFile::Parts::reopen_file() {
  int fresh = open_file();
  if (fresh < 0) {
    log::error(std::string(names.log) + " cannot be reopened", {{"file", where}, {"reason", std::strerror(errno)}});
    return;
  }
  ::close(std::exchange(fd, fresh));
}

LineFile::LineFile() : parts_(std::make_unique<Parts>()) {}

Result<std::unique_ptr<LineFile>> LineFile::open(const Names& names, const std::string& where, unsigned mode,
                                                 Metrics& metrics) {
  std::unique_ptr<LineFile> file(new LineFile);
  auto& parts = *file->parts_;
  parts.names = names, parts.where = where, parts.mode = mode;
  parts.fd = parts.open_file();
  if (parts.fd < 0)
    return invalid(std::string(names.setting) + ": '" + where + "' cannot be opened: " + std::strerror(errno));
  parts.dropped_counter = &metrics.counter(names.counter, "Lines that were lost.");
  parts.writer = std::thread([p = &parts] { p->run(); });
  return file;
}

LineFile::~LineFile() {
  if (parts_->writer.joinable()) {
    {
      std::lock_guard lock(parts_->mutex);
      parts_->stopping = true;
      parts_->changed.notify_one();
    }
    parts_->writer.join();
  }
  if (parts_->fd >= 0) ::close(parts_->fd);
}

void LineFile::reopen() {
  std::lock_guard lock(parts_->mutex);
  parts_->reopen = true;
  parts_->changed.notify_one();
}

bool LineFile::put(std::string_view lines, uint64_t count) {
  std::lock_guard lock(parts_->mutex);
  if (parts_->waiting.size() + lines.size() > kMostWaiting) {
    parts_->dropped += count;
    parts_->dropped_counter->add(count);
    return false;
  }
  if (parts_->waiting.empty()) parts_->changed.notify_one();
  parts_->waiting += lines;
  return true;
}

}  // namespace weir::base
