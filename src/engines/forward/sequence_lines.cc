#include "engines/forward/sequence_lines.h"

#include <algorithm>
#include <string>

namespace weir::forward {
namespace {

bool starts(const ForwardedCall& one) {
  const auto* value = msg::find(one.call->parameters, "sequence_start");
  const auto* flag = value ? std::get_if<bool>(value) : nullptr;
  return flag && *flag;
}

}  // namespace

base::Result<SequenceLines::Entered> SequenceLines::enter(ForwardedCall& one) {
  auto& line = lines_[key_of(one)];
  if (!line.empty() && line.back()->refusal && !starts(one)) return *line.back()->refusal;
  if (line.size() >= kMostInLine)
    return base::failure(base::Code::kResourceExhausted, "more than " + std::to_string(kMostInLine) +
                                                             " requests of one sequence at once, which has ended it");
  line.push_back(&one);
  return line.size() == 1 ? Entered::kGoes : Entered::kWaits;
}

std::vector<ForwardedCall*> SequenceLines::behind(const ForwardedCall& one) const {
  std::vector<ForwardedCall*> out;
  auto line = lines_.find(key_of(one));
  if (line == lines_.end()) return out;
  auto at = std::find(line->second.begin(), line->second.end(), &one);
  while (at != line->second.end() && ++at != line->second.end() && !starts(**at)) out.push_back(*at);
  return out;
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
