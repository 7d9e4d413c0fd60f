#include "session/session_table.h"

#include <algorithm>

#include "base/check.h"
#include "session/session_id.h"

namespace weir::session {
namespace {

using base::Code;
using base::explained;
using base::failure;
using std::to_string;

base::Status offset_mismatch(const Append& append, size_t length) {
  std::string text = "offset is " + to_string(append.offset) + ", but the session has " + to_string(length) + " tokens";
  if (append.offset < length) text += " (truncating would cut it)";
  return explained(Code::kFailedPrecondition, std::move(text), "OFFSET_MISMATCH", {{"length", to_string(length)}});
}

base::Status splits_image(const char* what, uint32_t at, const msg::Image& image, size_t length) {
  return explained(Code::kFailedPrecondition,
                   std::string(what) + ' ' + to_string(at) + " is inside the image at [" + to_string(image.start) +
                       ", " + to_string(image.end) + "); the session has " + to_string(length) + " tokens",
                   "IMAGE_SPLIT",
                   {{"start", to_string(image.start)}, {"end", to_string(image.end)}, {"length", to_string(length)}});
}

base::Status too_many(const std::string& what, uint64_t limit) {
  return explained(Code::kResourceExhausted, what + " (limit " + to_string(limit) + ")", "SESSION_QUOTA");
}

base::Status no_memory_left() {
  return base::try_again(Code::kResourceExhausted, "the memory for sessions is spent; try again later");
}

constexpr size_t kEndAtOnce = 1024;  // sessions

// How many images begin before `at`. Images are in order and do not overlap.
size_t images_before(const std::vector<msg::Image>& images, uint32_t at) {
  auto later = [](uint32_t position, const msg::Image& image) { return position <= image.start; };
  return size_t(std::upper_bound(images.begin(), images.end(), at, later) - images.begin());
}

// The image that position `at` would cut in two, or null.
const msg::Image* image_across(const std::vector<msg::Image>& images, uint32_t at) {
  size_t n = images_before(images, at);
  return n > 0 && images[n - 1].end > at ? &images[n - 1] : nullptr;
}

}  // namespace

base::Status no_such_session() { return explained(Code::kNotFound, "there is no such session", "SESSION_NOT_FOUND"); }

struct SessionTable::Session {
  base::SessionId id;
  Tenant tenant{};
  base::ClientRef client;
  SessionModel model;
  std::vector<uint32_t> tokens;
  std::vector<msg::Image> images;
  base::Time created{}, used{};
  std::pair<base::Time, uint64_t> due;  // its place in due_
  uint64_t number = 0;                  // counts the sessions of this shard
  uint64_t lease = 0;                   // 0 = not lent
  uint64_t charged = 0;
  base::SessionId parent;
  uint64_t parent_number = 0;  // of when it was forked: what is adopted under that id later counts anew
  uint32_t depth = 0, children = 0;
  std::string tenant_name;
  uint64_t epoch = 0;  // as of when it became this node's
  EverLent ever_lent = EverLent::kNo;
};

SessionTable::SessionTable(base::Env& env, base::ShardId home, size_t shards, Quota& quota, SessionLimits limits,
                           OnRemoved on_removed, Keeping keeping)
    : env_(env),
      home_(home),
      shards_(shards),
      quota_(quota),
      limits_(limits),
      on_removed_(std::move(on_removed)),
      keeping_(std::move(keeping)),
      sessions_(Hash{base::KeyedHash(base::HashKey::drawn(env))}) {}

SessionTable::~SessionTable() {
  env_.cancel(timer_);
  sessions_.for_each([this](const auto& session) { return_quota(*session); });
  for (auto& [serial, lent] : lent_)
    if (lent.removed) return_quota(*lent.removed);
}

void SessionTable::return_quota(const Session& s) {
  quota_.charge(s.tenant, s.charged, 0);
  quota_.give(s.tenant);
  if (!s.client) return;
  s.client->take_off(base::Held::kSessionBytes, s.charged);
  s.client->take_off(base::Held::kSessions, 1);
}

SessionTable::Session* SessionTable::find(Tenant tenant, base::SessionId id) const {
  const auto* at = sessions_.find({tenant, id});
  return at && (*at)->epoch == epoch() ? at->get() : nullptr;
}

base::Status SessionTable::admit(Tenant tenant, const base::Client* client) const {
  if (!client || client->may_have(base::Held::kSessions, 1, limits_.share, quota_.taken(tenant), limits_.per_tenant))
    return {};
  return too_many("your host holds " + to_string(client->held(base::Held::kSessions)) +
                      " sessions, and more than half of all are in use: limits.client_share",
                  limits_.share.share(limits_.per_tenant));
}

base::Result<SessionTable::Session*> SessionTable::add(Tenant tenant, SessionModel model, base::ClientRef client,
                                                       base::SessionId id) {
  if (auto status = admit(tenant, client.get()); !status.ok()) return status;
  if (!quota_.take(tenant, limits_.per_tenant)) return too_many("too many sessions", limits_.per_tenant);
  if (client) client->add(base::Held::kSessions, 1);
  auto session = std::make_unique<Session>();
  Session& s = *session;
  s.id = id ? id : make_session_id(env_, home_, shards_, keeping_.tag);
  s.epoch = epoch();
  s.tenant = tenant;
  s.client = std::move(client);
  s.model = std::move(model);
  s.created = env_.now();
  s.number = ++last_number_;
  sessions_.emplace(Key{tenant, s.id}, std::move(session));
  touch(s);
  return &s;
}

base::Result<base::SessionId> SessionTable::open(Tenant tenant, SessionModel model, base::ClientRef client,
                                                 std::string tenant_name) {
  auto made = add(tenant, std::move(model), std::move(client));
  if (!made) return made.error();
  (*made)->tenant_name = std::move(tenant_name);
  return (*made)->id;
}

std::optional<uint64_t> SessionTable::close(Tenant tenant, base::SessionId id) {
  const Session* session = find(tenant, id);
  if (!session) return std::nullopt;
  const uint64_t lease = session->lease;
  remove({tenant, id});
  return lease ? std::optional(lease) : std::nullopt;
}

base::Result<base::SessionId> SessionTable::fork(Tenant tenant, base::SessionId id, uint32_t at) {
  Session* from = find(tenant, id);
  if (!from) return no_such_session();
  size_t length = from->tokens.size();
  if (at > length)
    return explained(Code::kFailedPrecondition,
                     "at_position is " + to_string(at) + ", but the session has " + to_string(length) + " tokens",
                     "OFFSET_MISMATCH", {{"length", to_string(length)}});
  if (auto* image = image_across(from->images, at)) return splits_image("at_position", at, *image, length);
  if (from->depth >= limits_.depth) return too_many("too many forks of forks", limits_.depth);
  if (from->children >= limits_.children) return too_many("too many forks of one session", limits_.children);
  const auto images = ptrdiff_t(images_before(from->images, at));
  uint64_t bytes = at * sizeof(uint32_t);
  for (auto image = from->images.begin(); image != from->images.begin() + images; ++image) bytes += image->data.size();
  if (auto status = check_room(tenant, from->client.get(), bytes); !status.ok()) return status;
  auto made = add(tenant, from->model, from->client);
  if (!made) return made.error();
  Session& fork = **made;
  fork.tokens.assign(from->tokens.begin(), from->tokens.begin() + at);
  fork.images.assign(from->images.begin(), from->images.begin() + images);
  fork.tenant_name = from->tenant_name;
  fork.parent = id;
  fork.parent_number = from->number;
  fork.depth = from->depth + 1;
  ++from->children;
  charge(fork);
  if (!from->lease) touch(*from);
  return fork.id;
}

base::Result<std::vector<uint32_t>> SessionTable::dump(Tenant tenant, base::SessionId id) const {
  Session* session = find(tenant, id);
  if (!session) return no_such_session();
  return session->tokens;
}

base::Result<Lease> SessionTable::begin(Tenant tenant, base::SessionId id, const Append& append) {
  Session* session = find(tenant, id);
  if (!session) return no_such_session();
  if (session->lease) return explained(Code::kAborted, "another Generate of this session is running", "SESSION_BUSY");
  size_t length = session->tokens.size();
  bool rewinds = append.offset < length && append.rewind == Append::Rewind::kYes;
  if (append.offset != length && !rewinds) return offset_mismatch(append, length);
  if (auto* image = image_across(session->images, append.offset))
    return splits_image("offset", append.offset, *image, length);
  size_t images = images_before(session->images, append.offset);
  uint64_t bytes = append.image_bytes + sizeof(uint32_t) * (append.offset + append.tokens);
  for (size_t i = 0; i < images; ++i) bytes += session->images[i].data.size();
  if (bytes > limits_.bytes) return too_many("the session would have " + to_string(bytes) + " bytes", limits_.bytes);
  if (bytes > session->charged)
    if (auto status = check_room(tenant, session->client.get(), bytes - session->charged); !status.ok()) return status;

  session->lease = ++leases_;
  session->ever_lent = EverLent::kYes;
  due_.erase(session->due);
  lent_.emplace(session->lease, Lent{session, append.offset, nullptr});
  return Lease{id,
               home_,
               session->lease,
               session->model,
               std::span(session->tokens).first(append.offset),
               std::span(session->images).first(images),
               tenant};
}

bool SessionTable::settle(uint64_t serial, Outcome&& outcome) {
  auto node = lent_.extract(serial);
  base::check(!node.empty(), "a lease is settled once");
  Lent& lent = node.mapped();
  if (lent.removed) {
    --removed_while_lent_;
    retire(std::move(lent.removed));
    return false;
  }
  Session& s = *lent.session;
  s.lease = 0;
  if (outcome.kind == Outcome::Kind::kAppended) {
    s.images.resize(images_before(s.images, uint32_t(lent.tokens)));
    s.tokens.resize(lent.tokens);
    s.tokens.insert(s.tokens.end(), outcome.appended.begin(), outcome.appended.end());
    s.tokens.insert(s.tokens.end(), outcome.generated.begin(), outcome.generated.end());
    std::move(outcome.images.begin(), outcome.images.end(), std::back_inserter(s.images));
    charge(s);
  }
  touch(s);
  return true;
}

// Sets when the session expires. Not called for one that is lent: its time starts when the lease ends.
void SessionTable::touch(Session& s) {
  due_.erase(s.due);
  s.used = env_.now();
  s.due = {std::min(s.used + limits_.idle, s.created + limits_.lifetime), s.number};
  due_.emplace(s.due, &s);
  if (s.due.first < timer_at_) set_timer();
}

void SessionTable::charge(Session& s) {
  uint64_t before = s.charged;
  s.charged = sizeof(uint32_t) * s.tokens.size();
  for (const auto& image : s.images) s.charged += image.data.size();
  bytes_ += s.charged - before;
  quota_.charge(s.tenant, before, s.charged);
  if (!s.client) return;
  s.client->add(base::Held::kSessionBytes, s.charged);
  s.client->take_off(base::Held::kSessionBytes, before);
}

// `more` bytes for the session: the limit of one tenant counts only if there are several tenants.
base::Status SessionTable::check_room(Tenant tenant, const base::Client* client, uint64_t more) const {
  if (client && !client->may_have(base::Held::kSessionBytes, more, limits_.share, quota_.bytes(), limits_.total_bytes))
    return too_many("the sessions of your host would have " +
                        to_string(client->held(base::Held::kSessionBytes) + more) +
                        " bytes, and more than half of all is in use: limits.client_share",
                    limits_.share.share(limits_.total_bytes));
  if (uint64_t bytes = quota_.bytes(tenant) + more; quota_.tenants() > 1 && bytes > limits_.tenant_bytes)
    return too_many("all your sessions would have " + to_string(bytes) + " bytes", limits_.tenant_bytes);
  return quota_.bytes() + more > limits_.total_bytes || !quota_.room(more) ? no_memory_left() : base::Status();
}

void SessionTable::remove(const Key& key) {
  auto session = sessions_.take(key);
  if (keeping_.ended && session->epoch == epoch()) keeping_.ended(session->id);
  Session* parent = find(session->tenant, session->parent);
  if (parent && parent->number == session->parent_number) --parent->children;
  if (auto lent = lent_.find(session->lease); lent != lent_.end()) {
    ++removed_while_lent_;
    lent->second.removed = std::move(session);
    return;
  }
  due_.erase(session->due);
  retire(std::move(session));
}

std::optional<SessionState> SessionTable::state(Tenant tenant, base::SessionId id) const {
  const Session* s = find(tenant, id);
  if (!s) return std::nullopt;
  SessionState out{s->tenant_name,          s->model.name, s->model.version, 0,
                   env_.now() - s->created, s->tokens,     s->images,        0};
  if (auto text = s->model.text.lock()) out.vocabulary = text->vocabulary;
  return out;
}

base::Status SessionTable::adopt(Tenant tenant, base::SessionId id, SessionModel model, SessionState&& state) {
  forget(tenant, id);
  uint64_t bytes = sizeof(uint32_t) * state.tokens.size();
  for (const auto& image : state.images) bytes += image.data.size();
  if (auto status = check_room(tenant, nullptr, bytes); !status.ok()) return status;
  auto made = add(tenant, std::move(model), {}, id);
  if (!made) return made.error();
  Session& s = **made;
  s.tenant_name = std::move(state.tenant);
  s.tokens = std::move(state.tokens), s.images = std::move(state.images);
  s.created = env_.now() - state.age;
  charge(s);
  touch(s);
  return {};
}

// A session that is lent goes with its lease.
void SessionTable::forget(Tenant tenant, base::SessionId id) {
  auto* at = sessions_.find({tenant, id});
  if (!at) return;
  (*at)->epoch = ~epoch();
  remove({tenant, id});
}

void SessionTable::retire(std::unique_ptr<Session> session) {
  bytes_ -= session->charged;
  return_quota(*session);
  on_removed_(session->id, session->model, session->ever_lent);
}

void SessionTable::set_timer() {
  env_.cancel(timer_);
  timer_at_ = due_.empty() ? base::kNever : due_.begin()->first.first;
  timer_ = due_.empty() ? base::TimerId::kNone : env_.at(timer_at_, [this] { expire(); });
}

// The first to end may have been used again since the timer was set: then it is only set anew. Many may end at one
// moment: those that are left do so in the next turns.
void SessionTable::expire() {
  for (size_t n = 0; n < kEndAtOnce && !due_.empty() && due_.begin()->first.first <= env_.now(); ++n) {
    Session* s = due_.begin()->second;
    remove({s->tenant, s->id});
  }
  set_timer();
}

}  // namespace weir::session
