// ReplicaState: what a Replica asks of its Database beside the Storage: one transaction with marks in it, how far the
// log is applied, and who holds what. On the Store's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jobs/journal.h"

namespace weir::jobs {

// RESOURCE_EXHAUSTED, naming jobs.disk. Also where a transaction has ended for want of it.
base::Status no_room_on_disk();
// UNAVAILABLE, naming jobs.path: its file system is full, whatever jobs.disk allows. The operator has to make room.
base::Status disk_is_full();
// UNAVAILABLE, naming jobs.path: somebody has removed the file there, or put another in its place. What is written
// would be gone with the process; a server that is started anew has the other file.
base::Status file_is_gone();
// FAILED_PRECONDITION: the copy has applied what is not in the log, nor was dropped from it.
base::Status log_is_another();

class ReplicaState {
 public:
  virtual Storage& storage() = 0;
  // Jobs that are claimed and uploads that are begun from now on are that node's; it releases its own alone.
  virtual void act_as(std::string holder) = 0;

  // As Journal::claim(). kLeave: the jobs come without their bodies, for whoever does not run them.
  enum class Bodies : uint8_t { kRead, kLeave };
  virtual base::Result<std::vector<Job>> claim(size_t most, base::WallTime now, Bodies bodies) = 0;

  virtual base::Status begin() = 0;
  virtual base::Status commit() = 0;
  virtual void rollback() = 0;
  // False also after an error that has ended the transaction and undone all of it: a disk that is full, a read that
  // failed. What is written from then on would be there for good.
  virtual bool in_transaction() const = 0;
  // Within it, and within each other. Errors: RESOURCE_EXHAUSTED where it has ended.
  virtual base::Status mark() = 0;
  virtual base::Status keep() = 0;  // what came since the last mark
  virtual void undo() = 0;

  struct Position {
    std::string identity;   // of the log; empty: nothing of any is applied
    uint64_t sequence = 0;  // of the last entry that is applied
  };
  virtual base::Result<Position> position() = 0;
  virtual base::Status set_position(const Position& position) = 0;
  // False: an entry of that id is there already. If not, ids of entries up to `forget` are forgotten.
  virtual base::Result<bool> take_id(std::string_view id, uint64_t sequence, uint64_t forget) = 0;
  struct TakenId {
    std::string id;
    uint64_t sequence = 0;  // 0: there is none
  };
  // The last one whose id was taken: all behind it was skipped.
  virtual base::Result<TakenId> newest_entry() = 0;

  // Whether anything is there of a file, added or not.
  virtual base::Result<bool> has_file(std::string_view id) = 0;
  // How often the batch was changed; 0 where there is none.
  virtual base::Result<uint64_t> version(std::string_view batch) = 0;
  // Those that hold a job or an upload.
  virtual base::Result<std::vector<std::string>> holders() = 0;
  // Its jobs wait again, the attempt is counted; its uploads are gone.
  virtual base::Status free(std::string_view holder) = 0;
  // The node that looks after the duties; empty: none does yet.
  virtual base::Result<std::string> duty_holder() = 0;
  virtual base::Status set_duty_holder(std::string_view holder) = 0;

  // Copies of all of it as files in the same folder.
  class CopyFiles {
   public:
    virtual std::string path_of(const std::string& name) const = 0;
    // Makes one of that name, which is replaced; and takes all from one, whose position must be that;
    // FAILED_PRECONDITION: it lacks this copy's newest entry. Outside of a transaction.
    virtual base::Status save(const std::string& name) = 0;
    // As save(), for another log that begins with it at that position; of the entries that it has applied it keeps the
    // ids.
    virtual base::Status save_beginning(const std::string& name, const Position& position) = 0;
    virtual base::Status load(const std::string& name, const Position& position) = 0;
    // Ends a save() or load() that goes on once that is true; before any of them. UNAVAILABLE then, and nothing is
    // changed.
    virtual void stop_by(const std::atomic<bool>& stopping) = 0;

   protected:
    ~CopyFiles() = default;
  };
  virtual CopyFiles& copies() = 0;
  virtual base::Result<uint64_t> used() = 0;  // bytes that hold records

  // Gives pages that are free back to the system, some at a time. Outside of a transaction.
  virtual void tidy() = 0;

 protected:
  ~ReplicaState() = default;
};

}  // namespace weir::jobs
