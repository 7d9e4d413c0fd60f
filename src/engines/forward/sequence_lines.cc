#include "engines/forward/sequence_lines.h"

#include <algorithm>

namespace weir::forward {
namespace {

bool starts(const ForwardedCall& one) {
  const auto* value = msg::find(one.call->parameters, "sequence_start");
  const auto* flag = value ? std::get_if<bool>(value) : nullptr;
  return flag && *flag;
}

}  // namespace

bool SequenceLines::enter(ForwardedCall& one) {
  auto& line = lines_[key_of(one)];
  line.push_back(&one);
  return line.size() == 1;
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
  std::erase(line->second, &one);
  if (!line->second.empty()) return first ? line->second.front() : nullptr;
  lines_.erase(line);
  return nullptr;
}

}  // namespace weir::forward
