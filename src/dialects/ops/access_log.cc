#include "dialects/ops/access_log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/log.h"

namespace weir::ops {
namespace {

constexpr size_t kLongest = 256;  // bytes of any one text

void quote(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (unsigned char c : text.substr(0, kLongest)) {
    if (c == '"' || c == '\\')
      (out += '\\') += char(c);
    else if (c >= 0x20 && c < 0x7f)
      out += char(c);
    else
      ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
  }
  out += '"';
}

void text(std::string& out, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  ((out += ",\"") += key) += "\":";
  quote(out, value);
}

void number(std::string& out, std::string_view key, uint64_t value) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  (((out += ",\"") += key) += "\":").append(digits, end);
}

void seconds(std::string& out, std::string_view key, base::Duration d) {
  auto ns = uint64_t(std::max<int64_t>(d.count(), 0));
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof digits, double(ns) * 1e-9, std::chars_format::fixed, 6).ptr;
  (((out += ",\"") += key) += "\":").append(digits, end);
}

// RFC 3339 in UTC, with microseconds.
void timestamp(std::string& out, base::WallTime at) {
  auto whole = std::chrono::floor<std::chrono::seconds>(at);
  std::time_t seconds = std::chrono::system_clock::to_time_t(whole);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char buffer[48];
  size_t n = std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S.", &utc);
  auto micros = uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(at - whole).count());
  for (uint64_t scale = 100'000; scale > 0; scale /= 10) buffer[n++] = char('0' + micros / scale % 10);
  buffer[n++] = 'Z';
  out.append(buffer, n);
}

// A pipe whose reader has stopped must not hold up the writer for ever: it is asked for room before each piece that a
// pipe takes whole, and after a second of no room the rest is given up. Returns the bytes that are written; where they
// are not all, errno says why.
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

std::string_view reason(int error) { return error == ETIMEDOUT ? "nobody reads it" : std::strerror(error); }

}  // namespace

struct AccessLog::Parts {
  std::string where;
  int fd = -1;  // the writer's
  base::Counter* dropped_counter = nullptr;

  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;   // under mutex, as the rest
  uint64_t dropped = 0;  // since the last line that was written
  bool reopen = false, stopping = false;
  std::thread writer;

  // The writer's: what the file, and what the server's log has still to be told.
  uint64_t unsaid = 0;  // lines lost since the last one that was written
  bool torn = false;    // the file does not end with a whole line
  bool failing = false;
  uint64_t failed = 0;  // lines lost since it fails

  int open_file() const {
    if (where == "-") return ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return ::open(where.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
  }
  void run();
  void lose(uint64_t lines);
  void write(std::string& lines);
  void cannot_write(int error, uint64_t lines);
  void can_write();
  void look_again();
};

void AccessLog::Parts::run() {
  std::string lines;
  for (;;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || reopen || !waiting.empty(); });
    lines.swap(waiting);
    lose(std::exchange(dropped, 0));
    bool again = std::exchange(reopen, false), last = stopping;
    lock.unlock();
    if (!lines.empty()) write(lines);
    if (again) look_again();
    if (!last) continue;
    if (failing) base::log::error("the access log ends with lines lost", {{"file", where}, {"lines", failed}});
    return;
  }
}

void AccessLog::Parts::lose(uint64_t lines) {
  unsaid += lines;
  if (failing) failed += lines;
}

// A line that was cut short is ended first, so that no other one is lost with it.
void AccessLog::Parts::write(std::string& lines) {
  std::string text = torn ? "\n" : "";
  if (unsaid > 0) text += "{\"dropped\":" + std::to_string(unsaid) + "}\n";
  size_t note = text.size();
  text += lines;
  size_t done = write_all(fd, text);
  int error = errno;
  if (done >= note) unsaid = 0;
  if (done > 0) torn = text[done - 1] != '\n';
  auto rest = std::string_view(text).substr(std::max(done, note));
  lines.clear();
  if (done == text.size()) return can_write();
  cannot_write(error, uint64_t(std::count(rest.begin(), rest.end(), '\n')));
}

// The server's log hears of it once, and once more when it is over.
void AccessLog::Parts::cannot_write(int error, uint64_t lines) {
  if (!failing)
    base::log::error("the access log cannot be written; lines are dropped until it can",
                     {{"file", where}, {"reason", reason(error)}, {"lines", lines}});
  failing = true;
  lose(lines);
  dropped_counter->add(lines);
}

void AccessLog::Parts::can_write() {
  if (failing) base::log::warning("the access log is written again", {{"file", where}, {"lost_lines", failed}});
  failing = false, failed = 0;
}

void AccessLog::Parts::look_again() {
  int fresh = open_file();
  if (fresh < 0) {
    base::log::error("the access log cannot be reopened", {{"file", where}, {"reason", std::strerror(errno)}});
    return;
  }
  ::close(std::exchange(fd, fresh));
}

AccessLog::AccessLog() : parts_(std::make_unique<Parts>()) {}

base::Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& where, base::Metrics& metrics) {
  std::unique_ptr<AccessLog> log(new AccessLog);
  auto& parts = *log->parts_;
  parts.where = where;
  parts.fd = parts.open_file();
  if (parts.fd < 0) return base::invalid("access_log: '" + where + "' cannot be opened: " + std::strerror(errno));
  parts.dropped_counter = &metrics.counter("weir_access_log_dropped_total", "Lines that were lost.");
  parts.writer = std::thread([p = &parts] { p->run(); });
  return log;
}

AccessLog::~AccessLog() {
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

void AccessLog::reopen() {
  std::lock_guard lock(parts_->mutex);
  parts_->reopen = true;
  parts_->changed.notify_one();
}

void AccessLog::ShardLog::begin() {
  lines_ += "{\"time\":\"";
  timestamp(lines_, env_.wall());
  lines_ += '"';
  ++count_;
}

void AccessLog::ShardLog::finished(const wire::Exchange& exchange) {
  const wire::RequestRecord& record = exchange.record();
  begin();
  text(lines_, "request_id", record.request_id);
  if (exchange.request().peer) text(lines_, "peer", exchange.request().peer->address);
  text(lines_, "protocol", record.protocol);
  constexpr std::string_view kVersions[] = {"1.0", "1.1", "2"};
  text(lines_, "http", kVersions[size_t(exchange.request().version)]);
  text(lines_, "method", exchange.request().method);
  text(lines_, "route", record.route);
  text(lines_, "model", record.model);
  text(lines_, "version", record.version);
  number(lines_, "status", uint64_t(record.status));
  text(lines_, "code", base::name(record.code));
  text(lines_, "reason", record.reject);
  number(lines_, "bytes_in", record.bytes_in);
  number(lines_, "bytes_out", record.bytes_out);
  if (record.began != base::kNever) seconds(lines_, "seconds", record.took(exchange.now()));
  if (record.queue.count() > 0) seconds(lines_, "queue_seconds", record.queue);
  if (record.compute.count() > 0) seconds(lines_, "compute_seconds", record.compute);
  // W3C Trace Context: version-trace-parent-flags.
  if (record.traceparent.size() >= 35) text(lines_, "trace_id", std::string_view(record.traceparent).substr(3, 32));
  lines_ += "}\n";
}

void AccessLog::ShardLog::rejected(std::string_view reason, const wire::PeerInfo& peer) {
  begin();
  text(lines_, "peer", peer.address);
  text(lines_, "reason", reason);
  lines_ += "}\n";
}

void AccessLog::ShardLog::flush() {
  if (lines_.empty()) return;
  auto& parts = *log_.parts_;
  {
    std::lock_guard lock(parts.mutex);
    if (parts.waiting.size() + lines_.size() > kMostWaiting) {
      parts.dropped += count_;
      parts.dropped_counter->add(count_);
    } else {
      if (parts.waiting.empty()) parts.changed.notify_one();
      parts.waiting += lines_;
    }
  }
  lines_.clear();
  count_ = 0;
}

}  // namespace weir::ops
