// A file system that is full, beside a file that has not grown to jobs.disk.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <optional>

#include "folder.h"
#include "jobs/database.h"
#include "jobs/sqlite.h"

namespace weir::jobs {
namespace {

// While it lives, what SQLite writes finds no room on its file system.
class FullDisk {
 public:
  FullDisk() {
    set("pwrite64", sqlite3_syscall_ptr(&refuse_at));
    set("pwrite", sqlite3_syscall_ptr(&refuse_at));
    set("write", sqlite3_syscall_ptr(&refuse));
  }
  ~FullDisk() {
    for (const char* call : {"pwrite64", "pwrite", "write"}) set(call, nullptr);
  }

 private:
  static void set(const char* call, sqlite3_syscall_ptr to) {
    sqlite3_vfs* system = sqlite3_vfs_find(nullptr);
    (void)system->xSetSystemCall(system, call, to);
  }
  static ssize_t refuse_at(int, const void*, size_t, off_t) { return errno = ENOSPC, -1; }
  static ssize_t refuse(int, const void*, size_t) { return errno = ENOSPC, -1; }
};

TEST(Database, ADiskThatIsFullIsNotItsQuota) {
  Folder folder;
  auto db = *open_database(folder.path(), uint64_t(64) << 20);
  Storage& s = db->storage();
  {
    FullDisk full;
    const base::Status one = s.files.append("f", 0, std::string(100'000, 'x'));
    EXPECT_EQ(base::Code::kUnavailable, one.code) << one.text;
    EXPECT_NE(std::string::npos, one.text.find("jobs.path"));
    EXPECT_EQ(std::string::npos, one.text.find("jobs.disk"));
    EXPECT_EQ(disk_is_full(), s.atomically([&] { return s.files.append("f", 0, std::string(100'000, 'x')); }));
  }
  EXPECT_TRUE(s.files.append("f", 0, std::string(100'000, 'x')).ok());
}

// Whoever removes the folder of a server that runs would lose what is acknowledged afterwards.
TEST(Database, WhatAFileWithoutANameWouldKeepIsRefused) {
  for (const bool replaced : {false, true}) {
    Folder folder;
    auto db = *open_database(folder.path(), uint64_t(64) << 20);
    Storage& s = db->storage();
    ASSERT_TRUE(s.files.append("f", 0, "kept").ok());
    std::filesystem::remove_all(folder.path());
    std::optional<std::unique_ptr<Database>> other;
    if (replaced) other = *open_database(folder.path(), uint64_t(64) << 20);
    EXPECT_EQ(file_is_gone(), s.files.append("g", 0, "lost"));
    EXPECT_EQ(file_is_gone(), s.atomically([&] { return s.files.append("g", 0, "lost"); }));
    EXPECT_EQ("kept", s.files.read("f", 0).value()) << "what there was is there until the end";
    EXPECT_EQ("", s.files.read("g", 0).value());
  }
}

// Clients would take it for their own fault, and not ask another node.
TEST(Database, AFileThatCannotBeUsedIsNoFaultOfTheRequest) {
  for (int code :
       {SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_IOERR, SQLITE_NOTADB})
    EXPECT_LE(500, base::http_status(status_of(code).code)) << sqlite3_errstr(code);
}

}  // namespace
}  // namespace weir::jobs
