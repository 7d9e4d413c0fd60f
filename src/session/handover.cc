#include "session/handover.h"

#include "base/encoding.h"
#include "session/state_reader.h"

namespace weir::session {
namespace {

constexpr std::string_view kHeldHead = "weir-held 1\nwhose ";

}  // namespace

std::string write_held(std::string_view whose, std::string_view state) {
  return std::string(kHeldHead).append(base::percent_encode(whose)).append("\n").append(state);
}

base::Result<std::string_view> read_held(std::string_view text, std::string_view whose) {
  StateReader in(text);
  in.skip(kHeldHead);
  const std::string its = in.word("owner", '\n');
  if (!in.good()) return in.error();
  if (its != whose) return base::failure(base::Code::kNotFound, "there is no such session");
  return in.rest();
}

}  // namespace weir::session
