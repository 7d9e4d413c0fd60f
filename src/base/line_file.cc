#include "base/line_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"

namespace weir::base {
namespace {

struct FileState {
  bool regular = false, character = false;
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t size = 0;

  explicit FileState(int fd) {
    struct stat now {};
    if (::fstat(fd, &now) < 0) return;
    regular = S_ISREG(now.st_mode), character = S_ISCHR(now.st_mode);
    device = now.st_dev, inode = now.st_ino, size = uint64_t(now.st_size);
  }
  bool same_as(const FileState& other) const { return device == other.device && inode == other.inode; }
};

// How many of the first `most` bytes are whole lines.
size_t whole_lines(std::string_view text, uint64_t most) {
  return text.substr(0, most).rfind('\n') + 1;  // none: npos + 1 = 0
}

// Waits for room before each write: a pipe has room for PIPE_BUF bytes or none, and another process that writes to it
// may take it first. If a pipe's reader has stopped, the rest is given up after a second without room. Returns how many
// bytes were written; if they are not all, errno says why.
size_t write_all(int fd, std::string_view data) {
  using Clock = std::chrono::steady_clock;
  const size_t piece = FileState(fd).regular ? size_t(1) << 20 : PIPE_BUF;
  size_t done = 0;
  auto since = Clock::now();  // nothing was written
  while (done < data.size()) {
    pollfd room{fd, POLLOUT, 0};
    int ready = ::poll(&room, 1, 1000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) errno = ETIMEDOUT;
    if (ready <= 0) return done;
    const size_t left = std::min(data.size() - done, piece), whole = whole_lines(data.substr(done), left);
    ssize_t n = ::write(fd, data.data() + done, whole > 0 ? whole : left);
    const bool taken = n < 0 && errno == EAGAIN;
    if (n < 0 && !taken && errno != EINTR) return done;
    if (taken && Clock::now() - since >= std::chrono::seconds(1)) {
      errno = ETIMEDOUT;
      return done;
    }
    if (n > 0) done += size_t(n), since = Clock::now();
  }
  return done;
}

// A pipe that nobody reads yet is opened to be read as well: to open it for writing alone waits for a reader, and so
// would the start of the server, or its end behind a reopen(). It stays O_NONBLOCK: a write for which there is no room
// any more must not wait, either.
int open_to_append(const char* path, unsigned mode) {
  constexpr int kFlags = O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int fd = ::open(path, kFlags | O_WRONLY, mode);
  if (fd < 0 && errno == ENXIO) fd = ::open(path, kFlags | O_RDWR, mode);
  return fd;
}

// The file is this process's alone, and empty. False: errno says why. Where the file system knows no locks, it is taken
// to be so, and /dev/null is everybody's.
bool begin_alone(int fd) {
  const FileState file(fd);
  if (file.character) return true;
  if (::flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) return errno = EBUSY, false;
  return !file.regular || ::ftruncate(fd, 0) == 0;
}

std::string_view reason(int error) {
  if (error == ETIMEDOUT) return "nobody reads it";
  if (error == EBUSY) return "another process writes it";
  if (error == EFBIG) return "it has as many bytes as it may";
  return std::strerror(error);
}

}  // namespace

struct LineFile::Parts {
  Names names;
  std::string where;
  unsigned mode = 0;
  int fd = -1;  // the writer's

  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;              // under mutex, as the rest
  uint64_t dropped = 0;             // since the last line that was written
  std::optional<size_t> reopen_at;  // what waits from there on is for the file that is opened then
  bool stopping = false, ended = false;
  std::thread writer;

  std::mutex outside;                  // over what follows: what the writer uses of those who may not outlive it
  Counter* dropped_counter = nullptr;  // null: the LineFile is gone

  // Used by the writer's thread alone: what has still to be said in the file and in the server's log.
  uint64_t unsaid = 0;  // lines lost since the last one that was written
  std::string mend;     // where the file does not end with a whole line: what the next write begins with
  bool begun = false;   // something was written to this file
  bool empty = true;    // nothing of an element was: the first one has no comma
  bool failing = false;
  uint64_t failed = 0;  // lines lost since it fails

  ~Parts() {
    if (fd >= 0) ::close(fd);
  }
  int open_file() const {
    if (where == "-") return ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return open_to_append(where.c_str(), mode);
  }
  bool elements() const { return names.form == Form::kElements; }
  void run();
  void count_lost(uint64_t lines);
  void begin_anew();
  size_t head_size() const { return begun || !elements() ? mend.size() : 2; }
  std::string head();
  void write(std::string_view lines);
  void cannot_write(int error, uint64_t lines);
  void can_write();
  void reopen_file();
  void end_file();
  void end();
};

void LineFile::Parts::run() {
  std::string lines;
  for (;;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || reopen_at || !waiting.empty(); });
    lines.clear();
    lines.swap(waiting);
    count_lost(std::exchange(dropped, 0));
    const auto again = std::exchange(reopen_at, std::nullopt);
    const bool last = stopping;
    lock.unlock();
    std::string_view rest = lines;
    if (again) {
      write(rest.substr(0, *again));
      rest.remove_prefix(*again);
      reopen_file();
    }
    write(rest);
    if (last) return end();
  }
}

void LineFile::Parts::count_lost(uint64_t lines) {
  unsaid += lines;
  if (failing) failed += lines;
}

void LineFile::Parts::begin_anew() { begun = false, empty = true, mend.clear(); }

// The beginning of a write: what mends the last one or begins the array, of head_size() bytes, and how many lines are
// lost.
std::string LineFile::Parts::head() {
  std::string text = begun || !elements() ? mend : "[\n";
  if (unsaid > 0) text += names.note + std::to_string(unsaid) + "}\n";
  return text;
}

// A line that was cut short is ended first, so that no other one is lost with it; an element is continued, and is not
// lost. A file that somebody has emptied is begun anew.
void LineFile::Parts::write(std::string_view lines) {
  if (lines.empty()) return;
  const FileState file(fd);
  if (file.regular && file.size == 0) begin_anew();
  const size_t first = head_size();
  std::string text = head();
  size_t note = text.size();
  text += lines;
  if (elements() && empty && text[first] == ',') text.erase(first, 1), note = std::max<size_t>(note - 1, first);
  size_t fits = text.size();
  if (file.regular && fits > names.most - std::min(names.most, file.size))
    fits = whole_lines(text, names.most - std::min(names.most, file.size));
  const size_t done = write_all(fd, std::string_view(text).substr(0, fits));
  const int error = done < fits ? errno : EFBIG;
  if (done > 0) {
    begun = true, empty = empty && done <= first;
    const bool whole = text[done - 1] == '\n';
    mend = whole ? "" : elements() ? text.substr(done, text.find('\n', done) + 1 - done) : "\n";
  }
  const size_t kept = done + (elements() ? mend.size() : 0);
  if (kept >= note) unsaid = 0;
  if (done == text.size()) return can_write();
  const auto rest = std::string_view(text).substr(std::max(kept, note));
  cannot_write(error, uint64_t(std::count(rest.begin(), rest.end(), '\n')));
}

// The server's log gets one line when writing fails, and one when it works again.
void LineFile::Parts::cannot_write(int error, uint64_t lines) {
  std::lock_guard lock(outside);
  if (!failing && dropped_counter)
    log::error(std::string(names.log) + " cannot be written; lines are dropped until it can",
               {{"file", where}, {"reason", reason(error)}, {"lines", lines}});
  failing = true;
  count_lost(lines);
  if (dropped_counter) dropped_counter->add(lines);
}

void LineFile::Parts::can_write() {
  std::lock_guard lock(outside);
  if (failing && dropped_counter)
    log::warning(std::string(names.log) + " is written again", {{"file", where}, {"lost_lines", failed}});
  failing = false, failed = 0;
}

void LineFile::Parts::reopen_file() {
  int fresh = open_file();
  if (fresh >= 0 && FileState(fresh).same_as(FileState(fd))) return void(::close(fresh));
  if (fresh >= 0 && elements() && !begin_alone(fresh)) {
    const int error = errno;
    ::close(std::exchange(fresh, -1));
    errno = error;
  }
  if (fresh < 0) {
    const int error = errno;
    std::lock_guard lock(outside);
    if (dropped_counter)
      log::error(std::string(names.log) + " cannot be reopened", {{"file", where}, {"reason", reason(error)}});
    return;
  }
  end_file();
  ::close(std::exchange(fd, fresh));
  begin_anew();
}

// Ends the array. What says how many lines are lost has room there in any case.
void LineFile::Parts::end_file() {
  if (!elements()) return;
  if (const FileState file(fd); file.regular && file.size == 0) begin_anew();
  std::string text = head();
  if (const size_t first = head_size(); empty && text.size() > first) text.erase(first, 1);
  text += "]\n";
  if (write_all(fd, text) == text.size()) unsaid = 0;
}

void LineFile::Parts::end() {
  end_file();
  {
    std::lock_guard lock(outside);
    if (failing && dropped_counter)
      log::error(std::string(names.log) + " ends with lines lost", {{"file", where}, {"lines", failed}});
  }
  std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

LineFile::LineFile() : parts_(std::make_shared<Parts>()) {}

Result<std::unique_ptr<LineFile>> LineFile::open(const Names& names, const std::string& where, unsigned mode,
                                                 Metrics& metrics) {
  std::unique_ptr<LineFile> file(new LineFile);
  auto& parts = *file->parts_;
  parts.names = names, parts.where = where, parts.mode = mode;
  parts.fd = parts.open_file();
  if (parts.fd < 0 || (parts.elements() && !begin_alone(parts.fd))) {
    const std::string why(reason(errno));
    return invalid(std::string(names.setting) + ": '" + where + "' cannot be opened: " + why);
  }
  parts.dropped_counter = &metrics.counter(names.counter, "Lines that were lost.");
  parts.writer = std::thread([p = file->parts_] { p->run(); });
  return file;
}

LineFile::~LineFile() {
  if (!parts_->writer.joinable()) return;
  std::unique_lock lock(parts_->mutex);
  parts_->stopping = true;
  parts_->changed.notify_all();
  const bool ended = parts_->changed.wait_for(lock, kPatience, [this] { return parts_->ended; });
  lock.unlock();
  if (ended) {
    parts_->writer.join();
    return;
  }
  std::lock_guard outside(parts_->outside);
  parts_->dropped_counter = nullptr;
  parts_->writer.detach();
  log::error(std::string(parts_->names.log) + " is given up: a write does not return", {{"file", parts_->where}});
}

void LineFile::reopen() {
  std::lock_guard lock(parts_->mutex);
  if (!parts_->reopen_at) parts_->reopen_at = parts_->waiting.size();
  parts_->changed.notify_all();
}

bool LineFile::put(std::string_view lines, uint64_t count) {
  std::lock_guard lock(parts_->mutex);
  if (parts_->waiting.size() + lines.size() > kMostWaiting) {
    parts_->dropped += count;
    parts_->dropped_counter->add(count);
    return false;
  }
  if (parts_->waiting.empty()) parts_->changed.notify_all();
  parts_->waiting += lines;
  return true;
}

}  // namespace weir::base
