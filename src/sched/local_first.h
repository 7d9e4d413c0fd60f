// LocalFirst: the Inbox of a model that has instances here and runs on other servers, too. The instances here get Calls
// until they have `enough` of them; from then on a Call goes to whoever has less outstanding work, they or one of the
// others (power of two choices: Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001).
//
// Calls of a sequence or session stay here, and so do those that another server of the model has handed on, so that
// none goes in circles: they have the parameter kRelayed. A Call that comes back from the others before anything of an
// answer has come, since none of them could be reached, took it or does what it asks for, runs here.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "sched/remote_model.h"

namespace weir::sched {

inline constexpr std::string_view kRelayed = "weir_relayed";  // true; no engine behind a LocalFirst sees it

// `local` is the Inbox of the instances here, `remote` has load(). `spec` and `stats` as in RemoteModel::make_inbox.
std::unique_ptr<msg::Inbox> make_local_first(std::unique_ptr<msg::Inbox> local, const RemoteModel& remote,
                                             const msg::ModelSpec& spec, bus::ModelStats& stats, uint32_t enough);

// A Call that has failed elsewhere with this code, without a part of an answer, runs here then. UNIMPLEMENTED: an
// origin that forwards it found that it goes in circles, or what it asks for cannot be had of another server.
constexpr bool runs_here_then(base::Code code) {
  return code == base::Code::kUnavailable || code == base::Code::kResourceExhausted ||
         code == base::Code::kUnimplemented;
}

}  // namespace weir::sched
