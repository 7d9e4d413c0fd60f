#include "app/cluster_sessions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "session/session_state.h"

namespace weir::app {

using base::Code;
using base::Status;
using Phase = cluster::Node::Phase;
using Where = session::OtherNodes::Place::Where;

namespace {

using Place = session::OtherNodes::Place;

Status shutting_down() { return base::failure(Code::kUnavailable, "the server is shutting down"); }

Place at(const cluster::Node& node) { return {Where::kNode, "", node.id, node.address}; }

}  // namespace

void ClusterSessions::update(const cluster::Members& members) {
  std::vector<std::string> urls;
  for (const auto& node : members.nodes)
    if (!node.address.empty()) urls.push_back(node.address);
  targets_.set(urls);
  auto copy = std::make_shared<const cluster::Members>(members);
  std::lock_guard lock(mutex_);
  members_ = std::move(copy);
}

// As RoutedCall::adopt() has it.
Status ClusterSessions::can_take(const std::string& text) const {
  auto state = session::read_state(text);
  if (!state) return state.error();
  auto catalog = catalog_();
  auto served = catalog->find(state->model, state->version);
  if (served && (*served)->spec.text && (*served)->spec.text->vocabulary == state->vocabulary) return {};
  return base::failure(Code::kUnimplemented, "the session's model '" + state->model + "' is not served here");
}

void ClusterSessions::save(base::SessionId id, std::string state, base::ShardId shard, OtherNodes::Done then) {
  auto back = [this, shard, then](Status status) {
    post_(shard, [then, status = std::move(status)] { then(status); });
  };
  if (!cluster_->save_session(session::text(id), std::move(state), back)) back({});
}

// The tag first says who has opened the session; where another node has it since, that is known from the last find().
std::optional<Place> ClusterSessions::guess(base::SessionId id) const {
  const session::NodeTag tag = session::tag_of(id);
  std::lock_guard lock(mutex_);
  auto moved = moved_.find(id);
  for (const auto& node : members_->nodes) {
    const bool its = moved != moved_.end() ? node.id == moved->second : session::tag_of_node(node.id) == tag;
    if (its && !node.address.empty()) return at(node);
  }
  return std::nullopt;
}

std::optional<Place> ClusterSessions::node_named(const std::string& name) const {
  std::lock_guard lock(mutex_);
  for (const auto& node : members_->nodes)
    if (node.id == name && !node.address.empty()) return at(node);
  return std::nullopt;
}

// The one with the least to do.
std::optional<Place> ClusterSessions::node_with(std::string_view model, std::span<const std::string> tried) const {
  auto serves = [&](const cluster::Node& node) {
    return node.phase == Phase::kServing && !node.address.empty() &&
           std::find(tried.begin(), tried.end(), node.id) == tried.end() &&
           std::any_of(node.models.begin(), node.models.end(), [&](const auto& one) {
             return one.makes == cluster::NodeModel::Makes::kTokens && (model.empty() || one.name == model);
           });
  };
  const cluster::Node* best = nullptr;
  std::lock_guard lock(mutex_);
  for (const auto& node : members_->nodes)
    if (serves(node) && (!best || node.load < best->load)) best = &node;
  return best ? std::optional(at(*best)) : std::nullopt;
}

void ClusterSessions::note_moved(base::SessionId id, const std::string& node) {
  std::lock_guard lock(mutex_);
  if (moved_.size() >= kMostMoved) moved_.clear();
  if (session::tag_of_node(node) == session::tag_of(id))
    moved_.erase(id);
  else
    moved_[id] = node;
}

void ClusterSessions::find(base::SessionId id, std::string unreachable, base::ShardId shard, OtherNodes::Found then) {
  auto back = [this, shard, then](base::Result<Place> place) {
    post_(shard, [then, place = std::move(place)] { then(place); });
  };
  auto found = [this, id, back](base::Result<cluster::KeptSessions::Place> kept) {
    using Kept = cluster::KeptSessions::Place::Where;
    if (!kept) {
      if (kept.error().code == Code::kDataLoss)
        base::log::warning("a session is refused", {{"session", session::text(id)}, {"reason", kept.error().text}});
      return back(kept.error());
    }
    if (kept->where == Kept::kNowhere) return back(Place{});
    if (kept->where == Kept::kHere) return back(Place{Where::kHere, std::move(kept->state), "", ""});
    auto node = kept->node.empty() ? node_for(kept->state) : node_named(kept->node);
    if (!node)
      return back(base::try_again(Code::kUnavailable,
                                  kept->node.empty()
                                      ? "no node that is there serves the session's model"
                                      : "the node '" + kept->node + "', which has the session, says no address"));
    note_moved(id, node->node);
    back(std::move(*node));
  };
  if (!cluster_->find_session(session::text(id), std::move(unreachable), found)) back(shutting_down());
}

void ClusterSessions::keep_record(const std::string& owner, const std::string& id, std::string record,
                                  base::ShardId shard, SharedRecords::Done then) {
  auto back = [this, shard, then](Status status) {
    post_(shard, [then, status = std::move(status)] { then(status); });
  };
  const bool asked = cluster_->use_records([owner, id, record = std::move(record), back](auto* records) mutable {
    records ? records->keep(owner, id, std::move(record), back) : back({});
  });
  if (!asked) back({});
}

void ClusterSessions::read_record(const std::string& owner, const std::string& id, base::ShardId shard, Read then) {
  auto back = [this, shard, then](base::Result<SharedRecords::Found> found) {
    post_(shard, [then, found = std::move(found)] { then(found); });
  };
  const bool asked = cluster_->use_records([owner, id, back](auto* records) {
    if (!records) return back(SharedRecords::Found{});
    records->read(owner, id, [back](base::Result<cluster::KeptRecords::Found> kept) {
      if (!kept) return back(kept.error());
      back(SharedRecords::Found{SharedRecords::Found::State(kept->state), std::move(kept->record)});
    });
  });
  if (!asked) back(shutting_down());
}

void ClusterSessions::forget_record(const std::string& owner, const std::string& id) {
  (void)cluster_->use_records([owner, id](auto* records) {
    if (records) records->forget(owner, id);
  });
}

void ClusterSessions::erase_record(const std::string& owner, const std::string& id, base::ShardId shard,
                                   SharedRecords::Done then) {
  auto back = [this, shard, then](Status status) {
    post_(shard, [then, status = std::move(status)] { then(status); });
  };
  const bool asked =
      cluster_->use_records([owner, id, back](auto* records) { records ? records->erase(owner, id, back) : back({}); });
  if (!asked) back(shutting_down());
}

std::optional<Place> ClusterSessions::node_for(const std::string& state) const {
  auto read = session::read_state(state);
  return read ? node_with(read->model, {}) : std::nullopt;
}

}  // namespace weir::app
