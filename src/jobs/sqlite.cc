#include "jobs/sqlite.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "jobs/replica_state.h"

namespace weir::jobs {

using base::Code;
using base::failure;

int64_t milliseconds(base::WallTime at) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

base::WallTime from_milliseconds(int64_t at) { return base::WallTime(std::chrono::milliseconds(at)); }

base::Status status_of(int code, int error) {
  const bool write_failed = (code & 0xff) == SQLITE_FULL || (code & 0xff) == SQLITE_IOERR;
  if (write_failed && (error == ENOSPC || error == EDQUOT)) return disk_is_full();
  if (code == SQLITE_CONSTRAINT_COMMITHOOK) return file_is_gone();
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return {};
    case SQLITE_CONSTRAINT: return failure(Code::kAborted, "a record of that name is there already");
    case SQLITE_FULL: return failure(Code::kResourceExhausted, "there is no room on disk for it (jobs.disk)");
    case SQLITE_NOMEM: return failure(Code::kResourceExhausted, "there is no memory for it; try again later");
    case SQLITE_TOOBIG: return failure(Code::kResourceExhausted, "a record is too large for the journal");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return failure(Code::kDataLoss, "the journal's file is damaged (jobs.path)");
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return failure(Code::kUnavailable, "another process uses the journal's file (jobs.path)");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM: return failure(Code::kUnavailable, "the journal's file cannot be opened or written (jobs.path)");
    default:
      return failure(Code::kUnavailable,
                     std::string("the journal's file cannot be used (jobs.path): ") + sqlite3_errstr(code));
  }
}

Statement& Statement::operator<<(std::string_view text) {
  static const char kEmpty = 0;  // a null pointer would be NULL
  const char* data = text.data() ? text.data() : &kEmpty;
  return note(sqlite3_bind_text64(statement_.get(), ++bound_, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

Statement& Statement::blob(std::string_view bytes) {
  if (bytes.empty()) return note(sqlite3_bind_zeroblob(statement_.get(), ++bound_, 0));
  return note(sqlite3_bind_blob64(statement_.get(), ++bound_, bytes.data(), bytes.size(), SQLITE_STATIC));
}

base::Result<bool> Statement::step() {
  errno = 0;
  int code = failed_ != SQLITE_OK ? failed_ : sqlite3_step(statement_.get());
  const int error = errno;
  if (code == SQLITE_ROW) return true;
  reset();
  if (code == SQLITE_DONE) return false;
  return status_of(code, error);
}

base::Status Statement::run() {
  for (;;) {
    auto row = step();
    if (!row) return row.error();
    if (!*row) return {};
  }
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bound_ = 0, failed_ = SQLITE_OK;
}

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes ? std::string(static_cast<const char*>(bytes), size_t(size)) : std::string();
}

base::Result<Connection> Connection::open(const std::string& path) {
  Connection out;
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  out.connection_.reset(raw);
  if (code != SQLITE_OK) return status_of(code);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, 0);
  if (auto s = out.watch(path); !s.ok()) return s;
  return out;
}

bool Connection::Place::is_lost() const {
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0) return errno == ENOENT || errno == ENOTDIR;
  return now.st_dev != device || now.st_ino != number;
}

// SQLite has made the file. It would go on with one that has no name any more, and all that it keeps there is lost.
base::Status Connection::watch(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return status_of(SQLITE_CANTOPEN);
  place_ = std::make_unique<Place>(Place{path, file.st_dev, file.st_ino});
  auto refuses = [](void* place) { return static_cast<const Place*>(place)->is_lost() ? 1 : 0; };
  sqlite3_commit_hook(connection_.get(), refuses, place_.get());
  return {};
}

void Connection::stop_by(const std::atomic<bool>* stopping) {
  constexpr int kInstructions = 10'000;  // of SQLite's machine: less than a millisecond
  auto stopped = [](void* flag) { return static_cast<const std::atomic<bool>*>(flag)->load() ? 1 : 0; };
  sqlite3_progress_handler(connection_.get(), stopping ? kInstructions : 0, stopping ? +stopped : nullptr,
                           const_cast<std::atomic<bool>*>(stopping));
}

base::Status Connection::execute(const char* sql) {
  errno = 0;
  const int code = sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
  return status_of(code, errno);
}

base::Result<Statement> Connection::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v3(connection_.get(), sql.data(), int(sql.size()), SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return status_of(code);
  return Statement(raw);
}

base::Result<Statement*> Statements::find(const char* sql) {
  auto at = compiled_.find(sql);
  if (at == compiled_.end()) {
    auto made = connection_.prepare(sql);
    if (!made) return made.error();
    at = compiled_.emplace(sql, std::move(*made)).first;
  }
  return &at->second;
}

base::Result<int64_t> Connection::pragma(const char* sql) {
  auto statement = prepare(sql);
  if (!statement) return statement.error();
  auto row = statement->step();
  if (!row) return row.error();
  return *row ? statement->number(0) : 0;
}

}  // namespace weir::jobs
