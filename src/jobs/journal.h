// Journal: work that outlives the request that asked for it, and the process that took it on.
//
// A Job is one HTTP request that is run later, as its client would have sent it; a Batch is a number of them that
// belong together (one, for a single request). A Job is run at least once: a process that dies while it runs leaves it
// claimed, and the next process queues it again. Its result is written once: a second one changes nothing.
//
//   put() -> [waiting] -> claim(), put_claimed() -> [running] -> finish() -> [finished]
//                 ^---- release(), or a new process ----'
//
// The interfaces say nothing of where the records lie: database.h has SQLite behind them, and a work queue, an object
// store and a table of keys and values can take its place. All of a Storage is used on one thread (store.h). Errors:
// RESOURCE_EXHAUSTED, the quota of the disk is full; UNAVAILABLE, the disk itself is, or the file cannot be used;
// DATA_LOSS, what is stored cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"

namespace weir::jobs {

// The client that asked, as texts that mean the same to the next process. No secret is among them.
struct Requester {
  std::string owner;   // whose the records are: a tenant, or a host; nobody else sees them
  std::string caller;  // as wire::Authenticator::remember() has it; empty: nobody was asked
  std::string host;    // address of the client, for tenants that are told apart by it
};

struct JobId {
  std::string batch;
  uint64_t index = 0;  // within the batch
};
struct Job {
  JobId id;
  std::string label;   // the dialect's: a custom_id
  std::string model;   // that it asks, if the dialect knows
  std::string target;  // path of the request, which is a POST
  std::string fields;  // of its head, "name: value\n" each
  std::string body;
  uint32_t attempts = 0;  // claims that nobody ended: processes that died meanwhile
  std::string kind;       // the batch's, as the next; not put, but claimed
  Requester requester;
};
struct Outcome {
  int status = 0;      // HTTP; 0: it was never run
  std::string fields;  // of the answer's head, as above
  std::string body;
};
struct FinishedJob {
  JobId id;
  std::string label;
  std::optional<Outcome> outcome;  // nothing: it has not been run to its end
};
struct Counts {
  uint64_t total = 0, waiting = 0, running = 0, succeeded = 0, failed = 0;  // failed: a status of 400 or more
  uint64_t finished() const { return succeeded + failed; }
};

class Journal {
 public:
  // All or none. Their batch is there already.
  virtual base::Status put(std::span<const Job> jobs) = 0;
  // The same for jobs that run here already, as if this process had claimed them.
  virtual base::Status put_claimed(std::span<const Job> jobs) = 0;
  // Whether this process has claimed the job, and neither ended nor lost it since.
  virtual base::Result<bool> holds(const JobId& id) = 0;
  // At most `most` jobs that wait and whose time has come, of batches whose jobs run. Batches take turns; within one,
  // the lowest index first.
  virtual base::Result<std::vector<Job>> claim(size_t most, base::WallTime now) = 0;
  // False: it had a result already, or is gone; nothing has changed.
  virtual base::Result<bool> finish(const JobId& id, const Outcome& outcome) = 0;
  // A claimed job waits again, until `when` at least; the claim counts as no attempt.
  virtual base::Status release(const JobId& id, base::WallTime when) = 0;
  // The jobs of a batch from that index on, with their results: as many as have `bytes` together, and at least one.
  virtual base::Result<std::vector<FinishedJob>> list(const std::string& batch, uint64_t from, uint64_t bytes) = 0;
  virtual base::Result<Counts> count(const std::string& batch) = 0;
  // Those that wait never run.
  virtual base::Status withdraw(const std::string& batch) = 0;
  virtual base::Status remove(const std::string& batch) = 0;

 protected:
  ~Journal() = default;
};

struct Batch {
  std::string id;
  std::string kind;  // the dialect's: "openai", "oip"
  Requester requester;
  std::string state;     // the dialect's word
  std::string document;  // the dialect's, JSON
  base::WallTime created{}, expires{};
  // kWait: none of its jobs is claimed, until a change says kRun.
  enum class Jobs : uint8_t { kRun, kWait } jobs = Jobs::kRun;
};

enum class ListOrder : uint8_t { kNewestFirst, kOldestFirst };

inline constexpr uint64_t kBatchBytes = 512;  // that a batch counts for its owner beside its document and its jobs

class Batches {
 public:
  virtual base::Status add(const Batch& batch) = 0;
  // State, document and expiry of a batch that is there, and whether its jobs run. False: it is not.
  virtual base::Result<bool> change(const Batch& batch) = 0;
  // Nothing: there is none, or it is not the owner's.
  virtual base::Result<std::optional<Batch>> find(std::string_view owner, std::string_view id) = 0;
  // From behind the batch `after` on.
  virtual base::Result<std::vector<Batch>> list(std::string_view owner, std::string_view kind, ListOrder order,
                                                std::string_view after, size_t most) = 0;
  // All owners' in one of those states; the oldest first.
  virtual base::Result<std::vector<Batch>> in_states(std::string_view kind, std::span<const std::string_view> states,
                                                     size_t most) = 0;
  // In one of those states, and none of whose jobs waits or runs; the oldest first.
  virtual base::Result<std::vector<Batch>> idle(std::string_view kind, std::span<const std::string_view> states,
                                                size_t most) = 0;
  // In one of those states, and past its expiry.
  virtual base::Result<std::vector<Batch>> due(std::string_view kind, std::span<const std::string_view> states,
                                               base::WallTime now, size_t most) = 0;
  virtual base::Result<uint64_t> count(std::string_view owner, std::span<const std::string_view> states) = 0;
  // With its jobs.
  virtual base::Status remove(std::string_view id) = 0;

 protected:
  ~Batches() = default;
};

struct File {
  std::string id, owner;
  std::string name;     // as its client calls it; never a name on this machine
  std::string purpose;  // the dialect's word; empty: of its own, and no list has it
  uint64_t bytes = 0;
  base::WallTime created{}, expires{};
};

class Files {
 public:
  // Appends to the content of a file that nobody sees before add(). It counts for `owner` from now on.
  virtual base::Status append(std::string_view id, uint64_t part, std::string_view bytes, std::string_view owner) = 0;
  base::Status append(std::string_view id, uint64_t part, std::string_view bytes) {
    return append(id, part, bytes, {});
  }
  // How many bytes were appended to a file that is not added yet; 0: it was not begun, or its process or node has died,
  // and what there was is freed.
  virtual base::Result<uint64_t> appended(std::string_view id) = 0;
  // ABORTED, in a cluster: not all of its bytes are there; another node has freed them meanwhile.
  virtual base::Status add(const File& file) = 0;
  virtual base::Result<std::optional<File>> find(std::string_view owner, std::string_view id) = 0;
  // An empty `purpose` is any that is not empty. From behind the file `after` on.
  virtual base::Result<std::vector<File>> list(std::string_view owner, std::string_view purpose, ListOrder order,
                                               std::string_view after, size_t most) = 0;
  // Part by part, as they were appended; empty behind the last one.
  virtual base::Result<std::string> read(std::string_view id, uint64_t part) = 0;
  // With its content; also one that was never added.
  virtual base::Status remove(std::string_view id) = 0;
  virtual base::Result<std::vector<std::string>> expired(base::WallTime now, size_t most) = 0;
  struct Use {
    uint64_t files = 0;
    uint64_t bytes = 0;  // of files, of those that are not added yet, of batches and of jobs
  };
  virtual base::Result<Use> use(std::string_view owner) = 0;

 protected:
  ~Files() = default;
};

struct Storage {
  Journal& journal;
  Batches& batches;
  Files& files;
  // All that follows is one transaction, up to the end of `work`: an error undoes all of it.
  virtual base::Status together(base::Status (*run)(void* work), void* work) = 0;
  template <class Work>
  base::Status atomically(Work&& work) {
    return together([](void* w) { return (*static_cast<std::remove_reference_t<Work>*>(w))(); }, &work);
  }

 protected:
  Storage(Journal& j, Batches& b, Files& f) : journal(j), batches(b), files(f) {}
  ~Storage() = default;
};

}  // namespace weir::jobs
