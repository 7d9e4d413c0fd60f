// Any bytes as the documents that a child process sends (engines/process/document.h): read within their bounds, nothing
// made of them that is many times their size, and what was read is written so that it reads the same again.
//
// Input: bytes that say what is read, in turns, then a zero byte and the document.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "engines/process/document.h"
#include "require.h"

namespace {

using weir::process::DocumentReader;
using weir::process::Writer;

// Reads what `plan` says, and writes it down again.
std::string copy_of(std::string_view plan, std::string_view document, bool& whole) {
  DocumentReader in(document);
  Writer out;
  for (char what : plan) {
    switch (uint8_t(what) % 7) {
      case 0: out.put_string(in.get_string()); break;
      case 1: out.put_shape(in.get_shape()); break;
      case 2: out.put_specs(in.get_specs()); break;
      case 3: out.put_value(in.get_value()); break;
      case 4: out.put_parameters(in.get_parameters()); break;
      case 5: weir::process::put_tensor(out, weir::process::get_tensor(in)); break;
      case 6: out.put(in.get<uint64_t>()); break;
    }
    if (!in.ok()) break;
    weir::require(out.text().size() <= document.size(), "no more is written than was read");
  }
  whole = in.at_end();
  return out.text();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  if (end == input.npos || end > 64) return 0;
  const std::string_view plan = input.substr(0, end);
  bool whole = false, again = false;
  const std::string copy = copy_of(plan, input.substr(end + 1), whole);
  if (!whole) return 0;
  weir::require(copy_of(plan, copy, again) == copy && again, "a document reads as it was written");
  return 0;
}
