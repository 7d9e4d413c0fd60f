#include "app/readiness_watch.h"

#include "bus/load_notes.h"

namespace weir::app {

void ReadinessWatch::look_at(const bus::Catalog& catalog) {
  std::map<Key, Model> now;
  for (const auto& [name, model] : catalog.models)
    for (const auto& [version, served] : model.versions) {
      auto probe = bus::readiness_probe(*served);
      if (!probe) continue;
      const Key key(name, version);
      const auto before = models_.find(key);
      const bool same = before != models_.end() && before->second.probe == probe;
      now.emplace(key, same ? before->second : Model{std::move(probe), said_before(key)});
    }
  if (now.empty() && models_.empty()) return;
  models_ = std::move(now);
  tell();
  env_.cancel(std::exchange(timer_, base::TimerId::kNone));
  if (!models_.empty()) ask();
}

std::optional<std::string> ReadinessWatch::said_before(const Key& key) const {
  if (const auto exact = models_.find(key); exact != models_.end()) return exact->second.why_not;
  const auto any = models_.lower_bound(Key(key.first, ""));
  if (any == models_.end() || any->first.first != key.first) return std::nullopt;
  return any->second.why_not;
}

void ReadinessWatch::ask() {
  for (auto& [key, model] : models_) {
    if (model.asked) continue;
    model.asked = readiness_
                      .ask(model.probe, [this, key = key, probe = model.probe.get()](
                                            const std::string& why_not) { answered(key, probe, why_not); })
                      .has_value();
  }
  timer_ = env_.at(env_.now() + kEvery, [this] { ask(); });
}

void ReadinessWatch::answered(const Key& key, const msg::ReadinessProbe* probe, const std::string& why_not) {
  const auto at = models_.find(key);
  if (at == models_.end() || at->second.probe.get() != probe) return;
  at->second.asked = false;
  if (at->second.why_not == why_not) return;
  at->second.why_not = why_not;
  tell();
}

void ReadinessWatch::tell() const {
  auto said = std::make_shared<bus::SaidReadiness>();
  for (const auto& [key, model] : models_)
    if (model.why_not) (*said)[key.first][key.second] = *model.why_not;
  changed_(std::move(said));
}

}  // namespace weir::app
