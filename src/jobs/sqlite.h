// Connection, Statement: SQLite's C interface with owners and Status. Only files of this room named sqlite* include it.
#pragma once

#include <sqlite3.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/status.h"

namespace weir::jobs {

int64_t milliseconds(base::WallTime at);  // since 1970, as times are stored
base::WallTime from_milliseconds(int64_t at);

// A prepared statement, one execution at a time. Parameters are bound in their order.
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  Statement& operator<<(int64_t value) { return note(sqlite3_bind_int64(statement_.get(), ++bound_, value)); }
  Statement& operator<<(uint64_t value) { return *this << int64_t(value); }
  Statement& operator<<(base::WallTime at) { return *this << milliseconds(at); }
  // Borrowed until the next reset(); a BLOB where it holds bytes that are no text.
  Statement& operator<<(std::string_view text);
  Statement& blob(std::string_view bytes);

  // True: there is a row. After the last one, and after an error, the statement is ready for new parameters.
  base::Result<bool> step();
  base::Status run();  // to its end
  void reset();
  uint64_t take_steps() { return uint64_t(sqlite3_stmt_status(statement_.get(), SQLITE_STMTSTATUS_VM_STEP, 1)); }

  int64_t number(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string text(int column) const;  // also of a BLOB
  bool null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  base::WallTime time(int column) const { return from_milliseconds(number(column)); }

 private:
  Statement& note(int code) {
    if (code != SQLITE_OK) failed_ = code;
    return *this;
  }
  struct Finalize {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int failed_ = SQLITE_OK;
};

class Connection {
 public:
  // Once the file is removed or replaced, transactions that have written end with file_is_gone(). Errors:
  // FAILED_PRECONDITION.
  static base::Result<Connection> open(const std::string& path);

  base::Status execute(const char* sql);
  // Aborts on a statement that SQLite cannot compile for another reason than the file's.
  base::Result<Statement> prepare(std::string_view sql);
  base::Result<int64_t> pragma(const char* sql);  // the number that it answers
  // Statements end with UNAVAILABLE once that is true, looked at all the time; null: no more.
  void stop_by(const std::atomic<bool>* stopping);
  int changes() const { return sqlite3_changes(connection_.get()); }
  // SQLite ends one by itself after some errors, SQLITE_FULL among them.
  bool in_transaction() const { return sqlite3_get_autocommit(connection_.get()) == 0; }

 private:
  // Where the file is, and which one it was.
  struct Place {
    bool is_lost() const;
    std::string path;
    dev_t device;
    ino_t number;
  };
  // From now on nothing is committed once the file has lost its place.
  base::Status watch(const std::string& path);

  struct Close {
    void operator()(sqlite3* c) const { sqlite3_close_v2(c); }
  };
  std::unique_ptr<Place> place_;  // outlives the connection
  std::unique_ptr<sqlite3, Close> connection_;
};

// Bytes that are no text, as a parameter.
struct Blob {
  std::string_view bytes;
};
inline Statement& operator<<(Statement& to, Blob blob) { return to.blob(blob.bytes); }

// A Connection with the statements that were run on it, each compiled once. `sql` is a literal.
class Statements {
 public:
  explicit Statements(Connection connection) : connection_(std::move(connection)) {}
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

  // Runs it to its end; `row` is called with the Statement for each row.
  template <class Row, class... Values>
  base::Status each(const char* sql, Row&& row, const Values&... values) {
    auto statement = find(sql);
    if (!statement) return statement.error();
    Statement& s = **statement;
    (void)(s << ... << values);
    for (;;) {
      auto there = s.step();
      if (!there) return there.error();
      if (!*there) return {};
      row(s);
    }
  }
  // The rows, each as `read` makes it of the Statement.
  template <class Read, class... Values>
  auto all(const char* sql, Read&& read, const Values&... values)
      -> base::Result<std::vector<std::invoke_result_t<Read&, Statement&>>> {
    std::vector<std::invoke_result_t<Read&, Statement&>> out;
    auto status = each(
        sql, [&](Statement& s) { out.push_back(read(s)); }, values...);
    if (!status.ok()) return status;
    return out;
  }
  // The last row, as `read` makes it of the Statement.
  template <class Read, class... Values>
  auto one(const char* sql, Read&& read, const Values&... values)
      -> base::Result<std::optional<std::invoke_result_t<Read&, Statement&>>> {
    std::optional<std::invoke_result_t<Read&, Statement&>> out;
    auto status = each(
        sql, [&](Statement& s) { out = read(s); }, values...);
    if (!status.ok()) return status;
    return out;
  }
  template <class... Values>
  base::Status run(const char* sql, const Values&... values) {
    return each(
        sql, [](Statement&) {}, values...);
  }
  // For tests: instructions of SQLite's machine since this was asked last.
  uint64_t take_steps() {
    uint64_t out = 0;
    for (auto& [sql, statement] : compiled_) out += statement.take_steps();
    return out;
  }
  // The number in the first column of the first row; 0 where there is none.
  template <class... Values>
  base::Result<int64_t> number(const char* sql, const Values&... values) {
    int64_t out = 0;
    auto status = each(
        sql, [&](Statement& s) { out = s.number(0); }, values...);
    if (!status.ok()) return status;
    return out;
  }

 private:
  base::Result<Statement*> find(const char* sql);

  Connection connection_;
  std::unordered_map<const char*, Statement> compiled_;  // finalized before the connection closes
};

// A Status of SQLite's result code, for clients, too: none says that the request was at fault. The text holds no path.
// `error`: errno behind the call, which was 0 before it: SQLite says the same of a full disk and of max_page_count.
base::Status status_of(int code, int error = 0);

}  // namespace weir::jobs
