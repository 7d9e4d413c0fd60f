// The parts that number_run.cc and number_run_avx2.cc share: stepping from number to number of a JSON array.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::marshal {

// How far a run of numbers has been read.
struct RunPlace {
  const char* next;   // where the next number begins
  const char* read;   // behind the last number that was read
  bool over = false;  // the run has ended: something else follows
};

// The bytes that must be readable where a number begins: the longest number of any kind, and what follows it.
inline constexpr ptrdiff_t kRunRoom = 36;

// Steps from one number to the next. Most texts have the same separator between all numbers ("," or ", "), so it is
// predicted: the processor begins to read the next number before it has compared the separator.
class RunSteps {
 public:
  explicit RunSteps(const RunPlace& from) : p_(from.next), after_(from.read) {}
  const char* at() const { return p_; }
  bool has_room(const char* end) const { return end - p_ >= kRunRoom; }
  RunPlace place() const { return {p_, after_, over_}; }

  // Steps over the separator behind the number that ends at `number_end`. False: no other number follows.
  [[gnu::always_inline]] bool pass(const char* number_end) {
    after_ = number_end;
    if (*number_end != ',') return over_ = true, false;
    if ((number_end[1] == ' ') != (gap_ == 2)) [[unlikely]] {
      gap_ = 3 - gap_;
      asm("" : "+r"(gap_));  // keeps the branch, which is predicted; a conditional move would wait for the separator
    }
    p_ = number_end + gap_;
    return true;
  }
  // Steps over one white space, where no number begins. False: there is something else.
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

// These read up to `most` numbers, as long as kRunRoom bytes can be read from the beginning of each, and return how
// many they have read. run_avx2() needs has_avx2() (avx2.h), and is for types of four bytes and more.
template <class T>
size_t run_portable(RunPlace& place, const char* end, T* to, size_t most);
#ifdef __x86_64__
template <class T>
size_t run_avx2(RunPlace& place, const char* end, T* to, size_t most);
#endif

}  // namespace weir::marshal
