// ExtraWork: what an OffloadTask takes beside its text. Workers are shared by the work and not by the bytes that wait:
// the form of an answer is 70 bytes, and may take seconds to compile.
#pragma once

#include <cstdint>

namespace weir::base {

// To compile a form, in bytes of text to tokenize: about two seconds of a worker, which is what a form may take
// (text/grammar_cache.h). Until it is compiled nobody knows better.
inline constexpr uint64_t kCompileWork = uint64_t(4) << 20;

// For tasks to derive from, beside OffloadTask.
class ExtraWork {
 public:
  // In bytes of text to tokenize. Asked for when the task is given to the workers.
  virtual uint64_t extra_work() const = 0;

 protected:
  ~ExtraWork() = default;
};

}  // namespace weir::base
