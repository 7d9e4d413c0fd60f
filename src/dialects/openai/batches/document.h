// BatchDocument: what the journal keeps of a batch beside its state, and the batch as OpenAI's API shows it. Files too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/batches/line.h"
#include "jobs/journal.h"

namespace weir::openai::batches {

inline constexpr std::string_view kKind = "openai";
inline constexpr std::string_view kForBatches = "batch";  // the purpose of files that clients upload

// The states, OpenAI's words.
inline constexpr std::string_view kValidating = "validating", kInProgress = "in_progress", kFinalizing = "finalizing",
                                  kCompleted = "completed", kFailed = "failed", kExpired = "expired",
                                  kCancelling = "cancelling", kCancelled = "cancelled";
inline constexpr std::string_view kUnfinished[] = {kValidating, kInProgress, kFinalizing, kCancelling};
inline bool over(std::string_view state) {
  return state == kCompleted || state == kFailed || state == kExpired || state == kCancelled;
}

inline constexpr size_t kMostErrors = 100;  // of a batch that failed
// Seconds that a client may have a file kept for, from its creation on (`expires_after`), as OpenAI has them. No file
// is kept for longer than jobs.file_ttl.
inline constexpr uint64_t kShortestTtl = 3600, kLongestTtl = 2592000;

struct BatchDocument {
  std::string endpoint;    // "/v1/chat/completions"
  std::string input_file;  // ids; empty: none yet
  std::string output_file, error_file;
  std::string window;    // "24h"
  std::string metadata;  // JSON; empty: null
  int64_t deadline = 0;  // Unix seconds, as the next; 0: has not been
  int64_t in_progress = 0, finalizing = 0, completed = 0, failed = 0, expired = 0, cancelling = 0, cancelled = 0;
  uint64_t output_ttl = 0;  // seconds that the files of its results are kept; 0: as long as any file
  // kValidating and kFinalizing: how far it is.
  uint64_t lines = 0;
  std::string ends_as;  // the state after kFinalizing
  jobs::Counts counts;  // of a batch that is over: its jobs are gone
  struct Error {
    std::string code, message, param;
    uint64_t line = 0;
  };
  std::vector<Error> errors;
};

std::string show_document(const BatchDocument& document);
// A text that show_document() has not made: nothing.
std::optional<BatchDocument> read_document(const std::string& text);

// The object of OpenAI's API.
std::string batch_json(const jobs::Batch& batch, const BatchDocument& document, const jobs::Counts& counts);
std::string file_json(const jobs::File& file);
int64_t unix_seconds(base::WallTime at);

}  // namespace weir::openai::batches
