#include "dialects/evergreen/session.h"

#include <algorithm>
#include <utility>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/reference.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kTranscripts = 8, kTranscriptBytes = 1 << 20;
constexpr size_t kLoads = 16, kMostLoads = 256;  // files open at once: no more is read above the first
constexpr base::Duration kAskAgain = std::chrono::seconds(1);

}  // namespace

Session::Session(House& house, wire::Exchange& exchange, Carrier& carrier)
    : house_(house), exchange_(exchange), carrier_(carrier), graph_(house.options.graph) {
  base::Env& env = house.bus.env();
  age_ = env.at(env.now() + house.options.max_age, [this] {
    age_ = base::TimerId::kNone;
    abort(failure(Code::kDeadlineExceeded, "the session has reached the age at which sessions end"));
    settle();
  });
}

Session::~Session() {
  base::Env& env = house_.bus.env();
  env.cancel(age_);
  for (auto& [node, timer] : ttls_) env.cancel(timer);
  actions_.clear();  // their Cursors, before the graph
}

void Session::on_message(const base::Bytes& message) {
  if (over_) return;
  if (Status s = read_message(message, *this); !s.ok()) abort(std::move(s));
  settle();
}

void Session::on_end() {
  ended_ = true;
  settle();
}

void Session::on_drain() {
  work();
  settle();
}

// Actions may come to their end here, but stay in the list until settle() sweeps them.
void Session::work() {
  for (size_t i = 0; i < actions_.size() && !over_; ++i) actions_[i]->run();
}

bool Session::full() const {
  if (over_) return false;
  // Room comes back by itself only while nodes have a time to live; else add() refuses what is too much.
  bool brimming = graph_.bytes() > graph_.limits().bytes / 16 * 15 && !ttls_.empty();
  return congested() || brimming || loads_.size() >= kLoads;
}

void Session::abort(Status status) {
  if (over_) return;
  over_ = true;
  status_ = std::move(status);
}

void Session::leave() {
  left_ = true;
  abort(failure(Code::kCancelled, "the client has left"));
  settle();
}

Status Session::on_fragment(session::Fragment& f, std::string_view reference) {
  if (over_) return status_;
  auto fate = graph_.add(f);
  if (!fate) return fate.error();
  if (*fate == session::NodeGraph::Fate::kDuplicate || !f.by_reference) return {};
  return load(*graph_.find(f.node), f.seq, reference);
}

Status Session::load(session::Node& node, int64_t seq, std::string_view uri) {
  uint64_t on_the_way = 0;
  for (const auto& l : loads_) on_the_way += l->size();
  // Both would be found out later, but then the memory and the files are taken.
  if (loads_.size() >= kMostLoads ||
      on_the_way > graph_.limits().bytes - std::min(graph_.bytes(), graph_.limits().bytes))
    return failure(Code::kResourceExhausted, "node '" + std::string(node.id()) + "', fragment " + std::to_string(seq) +
                                                 ": too much is being loaded at once");
  auto file = FileLoad::open(house_.bus.env(), house_.options.references, uri,
                             [this](FileLoad& load, base::Result<base::Bytes> data) { loaded(load, std::move(data)); });
  if (!file) {
    Status s = std::move(file).error();
    s.text = "node '" + std::string(node.id()) + "', fragment " + std::to_string(seq) + ": " + s.text;
    return s;
  }
  (*file)->node = node.id();
  (*file)->seq = seq;
  loads_.push_back(std::move(*file));
  return {};
}

void Session::loaded(FileLoad& load, base::Result<base::Bytes> data) {
  Status s = data ? Status{} : data.error();
  if (session::Node* node = graph_.find(load.node); node && s.ok())
    s = graph_.loaded(*node, load.seq, std::move(*data));
  std::erase_if(loads_, [&](const auto& l) { return l.get() == &load; });
  if (!s.ok()) abort(std::move(s));
  settle();
}

Status Session::on_action(ActionRequest&& request) {
  if (over_) return status_;
  if (actions_.size() >= house_.options.max_actions)
    return failure(Code::kResourceExhausted,
                   "a session runs at most " + std::to_string(house_.options.max_actions) + " actions at once");
  auto action = make_action(*this, std::move(request));
  if (!action) return action.error();
  actions_.push_back(std::move(*action));
  actions_.back()->start();
  return over_ ? status_ : Status{};
}

Status Session::emit(session::Node& node, OutFragment&& out, std::string_view role) {
  session::Metadata metadata{out.mimetype, std::string(role), {}, {}};
  std::vector<std::string_view> children(out.children.begin(), out.children.end());
  session::Fragment f;
  f.continued = out.continued;
  f.children = children;
  f.has_chunk = out.has_chunk;
  f.metadata = out.has_metadata ? &metadata : nullptr;
  f.data = out.data;
  if (Status s = graph_.append(node, std::move(f)); !s.ok()) return s;
  carrier_.send(out);
  return {};
}

Status Session::break_off(session::Node& node, const Status& why) {
  OutFragment end;
  end.node = node.id();
  end.seq = node.next();
  end.has_chunk = node.metadata() != nullptr;
  carrier_.send(end);
  graph_.fail(node, failure(Code::kFailedPrecondition, "node '" + std::string(node.id()) + "': " + why.text));
  return {};
}

Action* Session::maker(const session::Node& node) const {
  for (const auto& action : actions_)
    if (!action->over() && action->makes(node)) return action.get();
  return nullptr;
}

void Session::set_ttl(std::string_view node, base::Duration ttl) {
  base::Env& env = house_.bus.env();
  auto at = ttls_.find(node);
  if (at == ttls_.end()) at = ttls_.emplace(node, base::TimerId::kNone).first;
  env.cancel(at->second);
  at->second = env.at(env.now() + ttl, [this, name = at->first] { expire(name); });
}

void Session::expire(const std::string& name) {
  std::string id = name;  // the timer's own string goes with its entry
  ttls_.erase(ttls_.find(id));
  session::Node* node = graph_.find(id);
  if (!node) return;
  if (!graph_.drop(*node, session::NodeGraph::Reach::kWithChildren).ok()) return set_ttl(id, kAskAgain);
  settle();
}

void Session::remember(Transcript transcript) {
  if (transcript.text.size() > kTranscriptBytes) return;
  transcripts_.push_front(std::move(transcript));
  if (transcripts_.size() > kTranscripts) transcripts_.pop_back();
}

// Whether nothing can go on because of what the client has not sent, and will not.
bool Session::stuck(std::string& missing) const {
  if (!loads_.empty() || congested()) return false;
  return std::all_of(actions_.begin(), actions_.end(), [&](const auto& a) { return a->waits(missing); });
}

void Session::settle() {
  if (std::exchange(settling_, true)) return;
  while (!over_) {
    graph_.deliver();
    size_t before = actions_.size();
    std::erase_if(actions_, [](const auto& a) { return a->over(); });
    if (actions_.size() == before) break;
  }
  std::string missing;
  if (!over_ && ended_) {
    if (actions_.empty() && loads_.empty())
      abort({});
    else if (stuck(missing))
      abort(failure(Code::kFailedPrecondition, "the client has ended the session, but " + missing + " has not come"));
  }
  settling_ = false;
  if (over_) finish();
}

void Session::finish() {
  if (std::exchange(finished_, true)) return;
  actions_.clear();
  loads_.clear();
  base::Env& env = house_.bus.env();
  for (auto& [node, timer] : ttls_) env.cancel(timer);
  ttls_.clear();
  env.cancel(std::exchange(age_, base::TimerId::kNone));
  if (!left_) carrier_.finish(status_);
}

}  // namespace weir::evergreen
