#include "models/residence.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "models/adapter_models.h"
#include "msg/sequence.h"
#include "sched/demand_inbox.h"

namespace weir::models {

using bus::ModelState;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kMissing = "not in memory: the next request loads it";
// How long Calls inside what has left memory have to end before what is loaded in its place is given up; how often
// their end is looked for, as nobody tells of it.
constexpr auto kMostWait = std::chrono::seconds(30);
constexpr auto kLook = std::chrono::milliseconds(5);

}  // namespace

// The version may leave the slot while the new one is made, and while this waits.
base::Status Residence::may_arrive(const ModelTable::Slot& slot, uint64_t bytes, const Loader& loader) const {
  if (memory_ > 0 && bytes > memory_)
    return base::failure(
        base::Code::kFailedPrecondition,
        "it takes " + std::to_string(bytes) + " bytes of memory, and models.memory is " + std::to_string(memory_));
  const auto until = Clock::now() + kMostWait;
  while (slot.missing && !inbox(slot).settle()) {
    if (Clock::now() >= until || !loader.loads())
      return base::try_again(base::Code::kUnavailable, "requests inside what was loaded before have not ended yet");
    table_.lock_.wait_until(Clock::now() + kLook);
  }
  return {};
}

// Sequences would lose their states; what a load request has brought could not be brought again.
bool Residence::may_leave(const ModelTable::Slot& slot) {
  return slot.served && !slot.missing && !slot.pipeline &&
         !dynamic_cast<const msg::KeepsSequences*>(slot.served->inbox.get());
}

sched::DemandInbox& Residence::inbox(const ModelTable::Slot& slot) {
  return static_cast<sched::DemandInbox&>(*slot.stand_in->inbox);
}

void Residence::arrived(const ModelTable::Slot& before, ModelTable::Slot& now) const {
  if (before.missing) {
    keep_adapters(before.adapters, now.loaded);
    inbox(before).loaded(now.served);
  }
  if (now.stand_in || !may_leave(now)) return;
  now.stand_in = stand_in_(*now.served);
  inbox(now).loaded(now.served);
}

// The loaded version goes when `slot.served` does: with its retirement, or now where nobody has seen it.
void Residence::reserve(ModelTable::Slot& slot) const {
  if (!may_leave(slot) || !slot.stand_in) return;
  inbox(slot).close();
  inbox(slot).settle();
  slot.loaded.leave_memory();
  slot.served = slot.stand_in;
  slot.missing = true;
  slot.reason = kMissing;
}

void Residence::let_go(const std::string& name) {
  auto found = table_.models_.find(name);
  if (found == table_.models_.end()) return;
  for (auto& [version, slot] : found->second.versions) {
    auto loaded = slot.served;
    reserve(slot);
    if (loaded == slot.served) continue;
    slot.retire_adapters(name, version, table_.retired_);
    table_.leaving_[name] += slot.bytes;
    table_.retired_.push_back({name, version, std::move(loaded), slot.bytes});
    base::log::info("model left memory", {{"model", name}, {"version", version}, {"bytes", slot.bytes}});
  }
}

void Residence::give_up(const ModelTable::Slot& slot) {
  inbox(slot).failed(base::failure(base::Code::kUnavailable, "the model was unloaded"), base::Time::max());
}

void Residence::settle() {
  for (const auto& [name, model] : table_.models_)
    for (const auto& [version, slot] : model.versions)
      if (slot.missing) inbox(slot).settle();
}

bool Residence::is_settled(const std::string& name) const {
  auto found = table_.models_.find(name);
  return found == table_.models_.end() ||
         std::all_of(found->second.versions.begin(), found->second.versions.end(),
                     [](const auto& slot) { return !slot.second.missing || inbox(slot.second).settle(); });
}

std::vector<Residence::Resident> Residence::residents() const {
  std::vector<Resident> out;
  for (const auto& [name, model] : table_.models_) {
    if (model.upload) continue;
    Resident resident{name};
    bool any = false;
    for (const auto& [version, slot] : model.versions) {
      if (!may_leave(slot) || !slot.stand_in) continue;
      any = true;
      resident.bytes += slot.bytes;
      resident.busy = resident.busy || !slot.idle() || inbox(slot).busy();
      resident.last_used_ms = std::max({resident.last_used_ms, slot.loaded_ms, slot.served->stats.runs.latest()});
    }
    if (any) out.push_back(std::move(resident));
  }
  return out;
}

uint64_t Residence::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, model] : table_.models_)
    for (const auto& [version, slot] : model.versions)
      if (slot.served && !slot.missing) bytes += slot.bytes;
  return bytes;
}

uint64_t Residence::missing_bytes(const std::string& name) const {
  uint64_t bytes = 0;
  if (auto found = table_.models_.find(name); found != table_.models_.end())
    for (const auto& [version, slot] : found->second.versions)
      if (slot.missing) bytes += slot.bytes;
  return bytes;
}

bool Residence::is_missing(const std::string& name) const {
  auto found = table_.models_.find(name);
  return found != table_.models_.end() && std::any_of(found->second.versions.begin(), found->second.versions.end(),
                                                      [](const auto& slot) { return slot.second.missing; });
}

void Residence::mark_missing(const std::string& name, ModelState state, const std::string& why) {
  for (auto& [version, slot] : table_.models_[name].versions)
    if (slot.missing) slot.state = state, slot.reason = why.empty() ? kMissing : why;
}

void Residence::fail_waiting(const std::string& name, const base::Status& why, base::Time retry_at) {
  auto found = table_.models_.find(name);
  if (found == table_.models_.end()) return;
  for (auto& [version, slot] : found->second.versions)
    if (slot.missing) inbox(slot).failed(why, retry_at);
}

void Residence::refuse_models(const std::string& name, const base::Status& why, base::Time retry_at) {
  for (auto& [version, slot] : table_.models_[name].versions)
    if (slot.missing) inbox(slot).refuse_models(why, retry_at);
}

bool Residence::clients_wait(const std::string& name) const {
  auto found = table_.models_.find(name);
  return found != table_.models_.end() &&
         std::any_of(found->second.versions.begin(), found->second.versions.end(),
                     [](const auto& slot) { return slot.second.missing && inbox(slot.second).clients_wait(); });
}

}  // namespace weir::models
