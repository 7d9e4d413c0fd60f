#include "engines/forward/gather.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "bus/mail_bursts.h"
#include "engines/forward/refusal.h"
#include "marshal/encoder.h"

namespace weir::forward {

using base::Code;
using base::Status;

namespace {

constexpr size_t kBytesPerTurn = 4 << 20;  // of inputs that are read
constexpr size_t kMostOpen = 8;            // requests that a Call may join
constexpr size_t kAlonePerTurn = 64;       // Calls of requests that were refused

// An origin says so of what is in the request, not of itself.
bool is_of_content(Code code) {
  return code == Code::kInvalidArgument || code == Code::kOutOfRange || code == Code::kFailedPrecondition;
}

bool same_trace(const msg::Call& a, const msg::Call& b) {
  if (!a.trace || !b.trace) return !a.trace == !b.trace;
  return a.trace->traceparent == b.trace->traceparent && a.trace->tracestate == b.trace->tracestate &&
         a.trace->hops == b.trace->hops;
}

bool same_purpose(const msg::Call& a, const msg::Call& b) {
  return a.tenant == b.tenant && a.priority == b.priority && a.version == b.version && a.outputs == b.outputs &&
         same_trace(a, b);
}

}  // namespace

struct Gather::Group {
  msg::Call whole;
  std::vector<Member> members;
  TextRows rows;
  size_t bytes = 0, longest = 0;  // of all rows; of one
};

Gather::Gather(base::Env& env, const msg::ModelSpec& spec, RowsFor what, Put put)
    : env_(env), spec_(spec), what_(what), put_(std::move(put)) {}

Gather::~Gather() {
  base::check(waiting_.empty() && alone_.empty() && halves_.empty() && sent_.empty(),
              "a forwarded model outlives its Calls");
  env_.cancel(timer_);
}

void Gather::take(msg::Call* call, ShardModel::Came came) {
  waiting_.push_back({call, came});
  repeats_ = std::min(kMostRepeats, repeats_ + kRepeatShare);
  wake();
}

void Gather::wake() {
  if (timer_ == base::TimerId::kNone) timer_ = env_.at(env_.now(), [this] { turn(); });
}

void Gather::turn() {
  timer_ = base::TimerId::kNone;
  over_.clear();
  for (size_t left = std::min(alone_.size(), kAlonePerTurn); left > 0; --left) {
    const Member member = alone_.front();
    alone_.pop_front();
    put_(member.call, member.came);
  }
  send_halves();
  send_waiting();
  if (!waiting_.empty() || !alone_.empty() || !halves_.empty()) wake();
}

void Gather::send_halves() {
  for (size_t bytes = 0; !halves_.empty() && bytes < kBytesPerTurn;) {
    std::vector<Member> members = std::move(halves_.front());
    halves_.pop_front();
    auto group = std::make_unique<Group>();
    for (Member& member : members) {
      if (leaves(member)) continue;
      bytes += input_bytes(*member.call) + 1;
      auto rows = read_text_rows(*member.call, what_, spec_.encoder->vocabulary);
      base::check(rows.has_value(), "what was in a request can be read");
      if (group->members.empty())
        group->rows = *std::move(rows);
      else
        append(group->rows, *std::move(rows));
      group->members.push_back(member);
    }
    if (!group->members.empty()) send(std::move(group));
  }
}

// Those whose tensors cannot be read go alone, and are refused on their way.
void Gather::send_waiting() {
  std::vector<std::unique_ptr<Group>> open;
  std::vector<Member> singles;
  for (size_t bytes = 0; !waiting_.empty() && bytes < kBytesPerTurn;) {
    Member member = waiting_.front();
    waiting_.pop_front();
    if (leaves(member)) continue;
    bytes += input_bytes(*member.call) + 1;
    auto rows = read_text_rows(*member.call, what_, spec_.encoder->vocabulary);
    if (!rows) {
      singles.push_back(member);
      continue;
    }
    member.weight = rows->weight(0) + rows->query.size();
    if (join(member, *rows, open)) continue;
    auto group = std::make_unique<Group>();
    group->bytes = group->longest = member.weight;
    group->rows = *std::move(rows);
    group->members.push_back(member);
    open.push_back(std::move(group));
  }
  for (const Member& member : singles) put_(member.call, member.came);
  for (auto& group : open) send(std::move(group));
}

// Ids of several rows are padded to the longest: one long text among many short ones would be all padding.
bool Gather::join(const Member& member, TextRows& rows, std::vector<std::unique_ptr<Group>>& open) const {
  const size_t least = open.size() - std::min(open.size(), kMostOpen);
  for (size_t i = open.size(); i-- > least;) {
    Group& group = *open[i];
    if (group.members.size() >= spec_.max_batch || group.bytes + member.weight > kMostRowBytes) continue;
    if (!same_purpose(*group.members.front().call, *member.call) || !same_kind(group.rows, rows)) continue;
    const size_t longest = std::max(group.longest, member.weight);
    const size_t padded = longest / sizeof(uint32_t) * (group.members.size() + 1);
    if (!rows.ids.empty() && padded > kMostPaddedIds) continue;
    append(group.rows, std::move(rows));
    group.bytes += member.weight, group.longest = longest;
    group.members.push_back(member);
    return true;
  }
  return false;
}

// Limits of time are each Call's own: the request may take as long as the last of them.
void Gather::send(std::unique_ptr<Group> group) {
  if (group->members.size() == 1) return put_(group->members.front().call, group->members.front().came);
  msg::Call& whole = group->whole;
  const msg::Call& first = *group->members.front().call;
  whole.model = first.model, whole.version = first.version, whole.id = first.id, whole.outputs = first.outputs;
  whole.priority = first.priority, whole.tenant = first.tenant, whole.trace = first.trace;
  whole.cache_scope = first.cache_scope;
  whole.times.received = first.times.received, whole.times.queued = first.times.queued;
  whole.deadline = first.deadline;
  for (const Member& member : group->members) whole.deadline = std::max(whole.deadline, member.call->deadline);
  whole.rows = uint32_t(group->members.size());
  whole.inputs = write_text_rows(std::exchange(group->rows, {}), what_);
  whole.home = this;
  sent_.emplace(&whole, std::move(group));
  put_(&whole, ShardModel::Came::kHere);
}

void Gather::post(std::vector<msg::Mail>& burst) {
  for (auto& mail : std::exchange(burst, {})) post_here(std::move(mail));
}

void Gather::post_here(msg::Mail&& mail) {
  const auto found = sent_.find(mail.call);
  base::check(found != sent_.end(), "an answer is of a request that was sent");
  std::unique_ptr<Group> group = std::move(found->second);
  sent_.erase(found);
  if (auto* outputs = std::get_if<msg::Outputs>(&mail.event.what))
    answer(*group, std::move(*outputs));
  else
    fail(*group, std::get<msg::Failed>(mail.event.what).status);
  group->whole.inputs.clear();
  over_.push_back(std::move(group));
  wake();
}

// Tokens are each row's share by its length, and together what the origin says.
void Gather::answer(Group& group, msg::Outputs&& outputs) {
  const auto counted = marshal::counted_tokens(outputs);
  const msg::Tensor& tensor = outputs.tensors.front();
  const size_t size = tensor.data.size() / group.members.size();
  uint64_t weight = 0, before = 0, told = 0;
  for (const Member& member : group.members) weight += std::max<size_t>(member.weight, 1);
  for (size_t i = 0; i < group.members.size(); ++i) {
    Member& member = group.members[i];
    before += std::max<size_t>(member.weight, 1);
    const auto until = uint64_t(double(counted.value_or(0)) * double(before) / double(weight) + 0.5);
    const uint64_t share = until - std::exchange(told, until);
    if (!member.call) continue;
    member.call->times.started = group.whole.times.started, member.call->times.computing = group.whole.times.computing;
    member.call->times.computed = group.whole.times.computed, member.call->times.finished = group.whole.times.finished;
    member.call->times.batch_rows = group.whole.rows;
    msg::Outputs row;
    row.tensors.push_back({tensor.name, tensor.dtype, {1, tensor.shape[1]}, tensor.data.slice(i * size, size)});
    if (counted) row.parameters.emplace_back(marshal::kPromptTokens, int64_t(share));
    end(member, {std::move(row)});
  }
}

bool Gather::may_repeat(size_t requests) {
  if (repeats_ < double(requests)) return false;
  repeats_ -= double(requests);
  return true;
}

// The text that is bad may be one whose client has left: the last one of several rows, too, goes again.
void Gather::fail(Group& group, const Status& status) {
  auto& members = group.members;
  std::erase_if(members, [](const Member& member) { return !member.call; });
  const bool again = is_failed_answer(status) && group.whole.rows > 1 && !members.empty();
  if (again && may_repeat(std::min<size_t>(members.size(), 2))) {
    if (members.size() == 1) return alone_.push_back(members.front());
    const auto middle = members.begin() + std::ptrdiff_t(members.size() / 2);
    halves_.emplace_back(members.begin(), middle);
    halves_.emplace_back(middle, members.end());
    return;
  }
  for (Member& member : members) {
    if (is_of_content(status.code))
      alone_.push_back(member);
    else
      end(member, {msg::Failed{status}});
  }
}

void Gather::end(Member& member, msg::Event&& event) {
  msg::Call* const call = std::exchange(member.call, nullptr);
  if (member.came == ShardModel::Came::kHere)
    call->home->post_here({call, std::move(event)});
  else
    bus::post_one(call, std::move(event));
}

// Whether the client has left; then it is answered.
bool Gather::leaves(Member& member) {
  if (!member.call || !member.call->cancelled.load(std::memory_order_acquire)) return false;
  end(member, {msg::Failed{base::failure(Code::kCancelled, "the client has left")}});
  return true;
}

void Gather::look() {
  std::erase_if(waiting_, [](Member& member) { return leaves(member); });
  std::erase_if(alone_, [](Member& member) { return leaves(member); });
  for (auto& half : halves_) std::erase_if(half, [](Member& member) { return leaves(member); });
  for (auto& [call, group] : sent_) {
    bool waits = false;
    for (Member& member : group->members) {
      leaves(member);
      waits = waits || member.call;
    }
    if (!waits) group->whole.cancelled.store(true, std::memory_order_release);
  }
}

}  // namespace weir::forward
