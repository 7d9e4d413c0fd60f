// UploadRecord: what the journal keeps of an upload that comes in parts. It is a batch of a kind of its own; each part
// is a file without a purpose. What becomes of it by itself, on the store's thread:
//
//   pending -> joined  -> completed        the parts go one by one, on the way to the last state
//        '---> dropped -> cancelled        cancelled, or an hour is over; a copy that was begun goes first
// Both ends go when the hour is over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/journal.h"
#include "jobs/store.h"

namespace weir::openai::batches {

inline constexpr std::string_view kUploadKind = "openai-upload";
inline constexpr std::string_view kPending = "pending", kJoined = "joined", kDropped = "dropped",
                                  kUploadCompleted = "completed", kUploadCancelled = "cancelled";
inline constexpr base::Duration kUploadTime = std::chrono::hours(1);
inline constexpr size_t kMostParts = 1000;
inline constexpr uint64_t kMostPartBytes = uint64_t(64) << 20;

struct UploadRecord {
  jobs::Batch batch;  // its state, owner and times
  uint64_t bytes = 0;
  std::string name, purpose;
  uint64_t ttl = 0;  // seconds that the file is kept; 0: as long as any file
  struct Part {
    std::string id;
    uint64_t bytes = 0;
  };
  std::vector<Part> parts;
  // The file that parts are copied to, as far as that is. There is one, whoever asks for it, and how often.
  struct Copy {
    std::string file;              // its id
    std::vector<uint32_t> order;   // of its parts: places in `parts`
    size_t next = 0;               // place in `order` of the part whose row is copied next
    uint64_t row = 0;              // of that part
    uint64_t rows = 0, bytes = 0;  // that the file has
  };
  std::optional<Copy> copy;        // of one that is pending
  std::optional<jobs::File> file;  // of one that is complete

  const Part* part(std::string_view id) const;
};

// Nothing: it is no upload's.
std::optional<UploadRecord> read_upload(jobs::Batch batch);
// Errors: NOT_FOUND, the owner has no such upload; those of the journal.
base::Result<UploadRecord> find_upload(jobs::Storage& storage, const std::string& owner, const std::string& id);
// As find_upload(); INVALID_ARGUMENT, it is not pending at that time.
base::Result<UploadRecord> find_pending(jobs::Storage& storage, const std::string& owner, const std::string& id,
                                        base::WallTime now);
// As find_pending(), or one that is complete: a client that has missed the answer asks again.
base::Result<UploadRecord> find_to_complete(jobs::Storage& storage, const std::string& owner, const std::string& id,
                                            base::WallTime now);
// With its record as its document.
jobs::Batch batch_of(UploadRecord record);
base::Status save(jobs::Storage& storage, UploadRecord record);

// The object of OpenAI's API.
std::string upload_json(const UploadRecord& record);

class UploadDuty final : public jobs::Duty {
 public:
  base::Result<bool> step(jobs::Storage& storage, base::WallTime now) override;
};

}  // namespace weir::openai::batches
