// RequestLines: the body of a new batch of Anthropic's as it comes, as lines of a batch's input (batches/line.h):
//
//   {"requests": [{"custom_id":"a","params":{…}}, …]}
//   -> {"custom_id":"a","method":"POST","url":"/v1/messages","body":{…}}
//
// Pure. It holds one request at most, and 8 bytes of each custom_id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/status.h"

namespace weir::openai::anthropic {

inline constexpr std::string_view kMessagesPath = "/v1/messages";

class RequestLines {
 public:
  struct Bounds {
    uint64_t line;   // bytes, jobs.max_line
    uint64_t lines;  // jobs.max_lines
  };
  explicit RequestLines(Bounds bounds) : bounds_(bounds) {}

  // Appends the lines that the next piece completes. Errors: INVALID_ARGUMENT; nothing is read after one.
  base::Status read(std::string_view piece, std::string& out);
  // The body is complete. Errors: INVALID_ARGUMENT, it is cut short, or has no requests.
  base::Status finish() const;
  uint64_t lines() const { return lines_; }
  size_t held() const { return held_.capacity() + ids_.size() * kIdBytes; }
  // Bytes of the request that is read.
  size_t begun() const { return held_.size(); }
  // Names of members beside `requests`, which are passed over: "a, b".
  const std::string& ignored() const { return ignored_; }

 private:
  static constexpr size_t kIdBytes = 40;  // of one in a set
  enum class State : uint8_t { kBegin, kName, kColon, kList, kRequest, kOther, kAfterRequest, kAfterMember, kEnd };
  bool begins_value(char c) const;
  base::Status take_mark(char c);
  size_t scan(std::string_view piece, bool& ends);
  base::Status hold(std::string_view text);
  base::Status take_value(std::string& out);
  base::Status take_name();
  base::Status take_request(std::string& out);
  base::Status add_line(std::string_view id, std::string_view params, std::string& out);
  base::Status refused(std::string_view member, std::string_view why) const;

  const Bounds bounds_;
  State state_ = State::kBegin;
  bool may_close_ = false;  // nothing has come of the list, or of the object
  bool has_requests_ = false, is_requests_ = false;
  int depth_ = 0;       // within the value that is read, as the next three
  uint32_t marks_ = 0;  // brackets, commas and colons
  bool in_string_ = false, escaped_ = false;
  std::string held_;
  uint64_t lines_ = 0;
  std::unordered_set<uint64_t> ids_;  // hashes
  std::string ignored_;
};

}  // namespace weir::openai::anthropic
