#include "engines/forward/sequence_lines.h"

#include <algorithm>
#include <string>

#include "msg/sequence.h"

namespace weir::forward {
namespace {

bool starts(const ForwardedCall& one) { return msg::is_set(one.call->parameters, "sequence_start"); }

// Another shard may have started the sequence anew between two requests of one line. Where a run is not known, nobody
// can tell.
bool same_run(const ForwardedCall& one, const ForwardedCall& behind) {
  if (starts(behind)) return false;
  return one.run == behind.run || one.run == SequenceRun::kUnknown || behind.run == SequenceRun::kUnknown;
}

}  // namespace

base::Result<SequenceLines::Entered> SequenceLines::enter(ForwardedCall& one, base::Time now) {
  const SequenceKey key = key_of(one);
  const auto run = starts(one) ? base::Result<SequenceRun>(table_.start(key)) : table_.go_on(key, now);
  if (!run) return run.error();
  one.run = *run;
  auto& line = lines_[key];
  if (line.size() >= kMostInLine)
    return base::failure(base::Code::kResourceExhausted, "more than " + std::to_string(kMostInLine) +
                                                             " requests of one sequence at once, which has ended it");
  line.push_back(&one);
  return line.size() == 1 ? Entered::kGoes : Entered::kWaits;
}

std::vector<ForwardedCall*> SequenceLines::end_run(const ForwardedCall& one, const base::Status& refusal,
                                                   base::Time now) {
  std::vector<ForwardedCall*> behind;
  const SequenceKey key = key_of(one);
  if (auto line = lines_.find(key); line != lines_.end()) {
    auto at = std::find(line->second.begin(), line->second.end(), &one);
    while (at != line->second.end() && ++at != line->second.end() && same_run(one, **at)) behind.push_back(*at);
    if (at != line->second.end()) return behind;
  }
  table_.break_off(key, one.run, refusal, now);
  return behind;
}

ForwardedCall* SequenceLines::leave(const ForwardedCall& one) {
  auto line = lines_.find(key_of(one));
  if (line == lines_.end()) return nullptr;
  const bool first = line->second.front() == &one;
  if (auto at = std::find(line->second.begin(), line->second.end(), &one); at != line->second.end())
    line->second.erase(at);
  if (!line->second.empty()) return first ? line->second.front() : nullptr;
  lines_.erase(line);
  return nullptr;
}

}  // namespace weir::forward
