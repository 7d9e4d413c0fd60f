// BatchDuty: what becomes of batches by itself, on the store's thread, a slice at a time:
//
//   validating -> in_progress -> finalizing -> completed | expired | cancelled
//        |              '-> cancelling -^
//        '-> failed (a line is wrong, or there is no room for the lines)
//
// No line runs before all are read and right: the batch's jobs wait until it is in_progress.
//
// All that it needs to go on is in the journal: after a crash a batch that was being read or written is begun again,
// and nobody has seen anything of it. A slice is one transaction.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "dialects/openai/batches/document.h"
#include "dialects/openai/batches/output_line.h"
#include "jobs/store.h"

namespace weir::openai::batches {

// The ways of one API with its batches.
struct BatchForm {
  std::string prefix;  // of the routes that lines are put to, in the place of /v1
  std::string_view kind = kKind;
  std::string (*line)(const jobs::FinishedJob& job, Missing missing) = output_line;
  // kClients: the input is a file of its client's, and so are results and errors. kOwn: the input goes once it is read,
  // and all results are one file; no list has either.
  enum class Files : uint8_t { kClients, kOwn } files = Files::kClients;
};

class BatchDuty final : public jobs::Duty {
 public:
  // The limits are borrowed.
  BatchDuty(const jobs::Limits& limits, BatchForm form) : limits_(limits), form_(std::move(form)) {}

  base::Result<bool> step(jobs::Storage& storage, base::WallTime now) override;
  void begin_anew() override { reading_ = {}, writing_ = {}; }

 private:
  struct Slice {
    jobs::Storage& storage;
    base::WallTime now;
    jobs::Batch batch;
    BatchDocument document;

    base::Status save(std::string_view state);
  };
  // The batch whose lines become jobs.
  struct Reading {
    std::string batch, rest;  // the beginning of a line
    uint64_t part = 0;        // of the input file that comes next
    uint64_t line = 0;
    std::unordered_set<uint64_t> ids;  // hashes of custom_ids
    bool whole = false;
  };
  // The batch whose results become files.
  struct Output {
    std::string file, text;  // id; what is not written yet
    uint64_t part = 0, bytes = 0;
  };
  struct Writing {
    std::string batch;
    uint64_t next = 0;    // index of a job
    jobs::Counts counts;  // of those that are written
    Output output, errors;
  };

  base::Result<bool> advance(Slice& slice);
  base::Status check_room(Slice& slice, const jobs::File& input, const std::vector<jobs::Job>& jobs);
  base::Result<bool> validate(Slice& slice);
  base::Status begin_reading(Slice& slice);
  void take_lines(Slice& slice, std::string_view text, std::vector<jobs::Job>& jobs);
  void take_line(Slice& slice, std::string_view text, std::vector<jobs::Job>& jobs);
  base::Status end_validation(Slice& slice);
  base::Result<bool> finalize(Slice& slice);
  base::Status begin_writing(Slice& slice);
  base::Status finish(Slice& slice);
  base::Status drop_input(Slice& slice);
  base::Status fail(Slice& slice, std::string_view code, std::string message);
  base::Status end_due(jobs::Storage& storage, base::WallTime now);
  base::Status settle_idle(jobs::Storage& storage, base::WallTime now);

  const jobs::Limits& limits_;
  const BatchForm form_;
  Reading reading_;
  Writing writing_;
  base::WallTime full_until_{};  // results wait for room on disk
  size_t turn_ = 0;              // of the batches that have something to do
};

}  // namespace weir::openai::batches
