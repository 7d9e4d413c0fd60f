// Runs of JSON numbers (float_run.h): what the ways of reading them share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::marshal {

// How far a run has come.
struct RunPlace {
  const char* next;   // where its next number begins
  const char* read;   // behind its last number
  bool over = false;  // there is no next number that it takes
};

// Bytes that can be read where a number begins: the longest of any kind, and what follows it.
inline constexpr ptrdiff_t kRunRoom = 36;

// From number to number. Most texts have always as many bytes between two of them, so that the next one is looked at
// before it is known for sure where this one ends.
class RunSteps {
 public:
  explicit RunSteps(const RunPlace& from) : p_(from.next), after_(from.read) {}
  const char* at() const { return p_; }
  bool has_room(const char* end) const { return end - p_ >= kRunRoom; }
  RunPlace place() const { return {p_, after_, over_}; }

  // A number ends there. False: no other follows.
  [[gnu::always_inline]] bool pass(const char* number_end) {
    after_ = number_end;
    if (*number_end != ',') return over_ = true, false;
    if ((number_end[1] == ' ') != (gap_ == 2)) [[unlikely]] {
      gap_ = 3 - gap_;
      asm("" : "+r"(gap_));  // a branch that is foreseen, in place of waiting for what stands there
    }
    p_ = number_end + gap_;
    return true;
  }
  // Where no number begins there may be white space. False: something else.
  bool pass_space() {
    if (*p_ != ' ' && *p_ != '\n' && *p_ != '\r' && *p_ != '\t') return over_ = true, false;
    ++p_;
    return true;
  }

 private:
  const char *p_, *after_;
  ptrdiff_t gap_ = 1;
  bool over_ = false;
};

// Read up to `most` numbers while kRunRoom bytes can be read from where they begin, and return how many: on any
// processor, and where has_avx2() (avx2.h). The second is for types of four bytes and more.
template <class T>
size_t run_portable(RunPlace& place, const char* end, T* to, size_t most);
#ifdef __x86_64__
template <class T>
size_t run_avx2(RunPlace& place, const char* end, T* to, size_t most);
#endif

}  // namespace weir::marshal
