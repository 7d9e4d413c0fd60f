// The part of Loader that makes models of sequences.
#include <algorithm>

#include "models/loader.h"
#include "sched/sequence_inbox.h"
#include "sched/sequence_spec.h"

namespace weir::models {
namespace {

constexpr size_t kMaxInitialState = 64 << 20;

base::Status read_initial_state(const ModelFolder& folder, msg::SequenceSpec::State& state) {
  if (!state.initial || state.initial->zero) return {};
  auto data = read_file(folder.path, "initial_state/" + state.initial->file, kMaxInitialState);
  if (!data) return data.error();
  uint64_t bytes = msg::size_of(state.dtype);
  for (int64_t d : state.initial->shape.dims())
    if (__builtin_mul_overflow(bytes, uint64_t(std::max<int64_t>(d, 1)), &bytes)) bytes = UINT64_MAX;
  if (state.dtype != msg::DType::kBytes && bytes != data->size())
    return base::invalid("initial_state/" + state.initial->file + " has " + std::to_string(data->size()) +
                         " bytes; state '" + state.input + "' has " + std::to_string(bytes));
  state.initial->data = base::Bytes::adopt(std::move(*data));
  return {};
}

// An engine that takes any tensors (identity) looks at no control, and would give them back.
base::Status drop_controls(msg::ModelSpec& spec, msg::SequenceSpec& sequences) {
  if (!sequences.states.empty())
    return base::failure(base::Code::kUnimplemented, "engine '" + spec.engine + "' keeps no states of sequences");
  for (const auto& control : sequences.controls)
    std::erase_if(spec.inputs, [&](const auto& input) { return input.name == control.input; });
  sequences.controls.clear();
  return {};
}

}  // namespace

// Each instance by itself, where it keeps the states of sequences; else all of them as one.
std::vector<Loader::Instances> Loader::parts_of_sequences(Instances instances) {
  std::vector<Instances> parts;
  if (!instances.engines.front()->keeps_states()) {
    parts.push_back(std::move(instances));
    return parts;
  }
  for (auto& engine : instances.engines) {
    auto& part = parts.emplace_back();
    part.first = uint32_t(parts.size() - 1);
    part.engines.push_back(std::move(engine));
  }
  return parts;
}

// Clients see `served->spec`, and the engines the whole of it. Rows of different sequences share batches as the
// sequence's own settings say.
base::Result<std::shared_ptr<bus::Served>> Loader::load_sequences(const Plan& plan, msg::ModelSpec spec,
                                                                  Instances instances,
                                                                  std::shared_ptr<bus::Served> served) const {
  auto sequences = std::make_shared<msg::SequenceSpec>(*plan.config.sequence);
  if (instances.engines.empty() || spec.decoupled)
    return base::failure(base::Code::kUnimplemented,
                         "sequence_batching goes with models of tensors that answer each request once");
  if (spec.any_tensors)
    if (auto s = drop_controls(spec, *sequences); !s.ok()) return s;
  sched::share_batches(spec, *sequences);
  auto seen = sched::without_sequence_tensors(spec, *sequences);
  if (!seen) return seen.error();
  for (auto& state : sequences->states)
    if (auto s = read_initial_state(plan.folder, state); !s.ok()) return s;
  sched::wait_for_slots(spec, *sequences);
  auto whole = std::make_shared<const msg::ModelSpec>(std::move(spec));
  served->spec = std::move(*seen);
  const Limiter own = own_limiter(plan.config);
  std::vector<std::unique_ptr<msg::Inbox>> inner;
  for (auto& part : parts_of_sequences(std::move(instances))) {
    make_inbox(*served, *whole, std::move(part), plan.config, own);
    inner.push_back(std::move(served->inbox));
  }
  served->inbox = sched::with_sequences(std::move(inner), std::move(whole), std::move(sequences), served->stats,
                                        slabs_.ledger(), options_.share, deadline_timer_);
  return served;
}

}  // namespace weir::models
