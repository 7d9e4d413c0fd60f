// LoadNotes: what is known of a model version since it was loaded, apart from its spec.
#pragma once

#include <memory>
#include <utility>

#include "base/env.h"
#include "bus/catalog.h"
#include "msg/readiness_probe.h"

namespace weir::bus {

struct LoadNotes {
  base::Duration took{0};                            // from its files to an Inbox
  std::shared_ptr<msg::ReadinessProbe> readiness{};  // null: it is ready while it serves
};

// An Inbox that may stand in front of a model's engines is one of these, too. Whoever loads the model tells the
// outermost one, before anybody reads.
class HasLoadNotes {
 public:
  const LoadNotes& load_notes() const { return notes_; }
  void set_load_notes(LoadNotes notes) { notes_ = std::move(notes); }

 protected:
  ~HasLoadNotes() = default;

 private:
  LoadNotes notes_;
};

// Null: nobody has told any, as of a model that is not in memory.
inline const LoadNotes* load_notes(const Served& served) {
  const auto* has = dynamic_cast<const HasLoadNotes*>(served.inbox.get());
  return has ? &has->load_notes() : nullptr;
}

// Null: the model is ready while it serves.
inline std::shared_ptr<msg::ReadinessProbe> readiness_probe(const Served& served) {
  const auto* notes = load_notes(served);
  return notes ? notes->readiness : nullptr;
}

}  // namespace weir::bus
