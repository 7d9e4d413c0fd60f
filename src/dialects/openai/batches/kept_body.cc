#include "dialects/openai/batches/kept_body.h"

#include <utility>

#include "base/overload.h"
#include "base/release.h"
#include "base/units.h"
#include "dialects/openai/api_error.h"
#include "dialects/openai/batches/batches.h"

namespace weir::openai::batches {

using base::Code;
using base::failure;
using base::Result;
using base::Status;
using jobs::File;
using jobs::Storage;
using wire::Exchange;

namespace {

constexpr size_t kPart = 256 << 10;
constexpr size_t kMostAround = 4 << 20;  // of a body, around what is kept of it: heads of parts, blanks

Status check_room(const jobs::Files::Use& use, const jobs::Limits& limits) {
  if (use.bytes > limits.tenant_disk) return jobs::quota_is_used_up();
  if (use.files >= limits.max_files)
    return failure(Code::kResourceExhausted, "you have as many files as you may (jobs.max_files): delete some");
  return {};
}

Status no_memory() { return base::overloaded("there is no memory for the upload; try again later"); }

}  // namespace

KeptBody::Bound largest_file(const jobs::Limits& limits) {
  return {limits.max_file, "a file may have " + base::show_size(limits.max_file) + " (jobs.max_file)"};
}

KeptBody::KeptBody(OpenAiState& state, Exchange& exchange, std::string_view prefix, Bound bound)
    : state_(state),
      jobs_(*state.options.jobs),
      exchange_(exchange),
      bound_(std::move(bound)),
      charge_(exchange.memory(), base::MemoryKind::kInput) {
  file_.id = jobs_.new_id(prefix);
  file_.owner = jobs_.requester_of(exchange.request()).owner;
  file_.created = jobs_.wall();
  watch();
}

KeptBody::~KeptBody() { state_.bus.env().cancel(timer_); }

void KeptBody::on_data(Exchange&, std::span<const std::byte> piece) {
  if (over_) return exchange_.consume(piece.size());
  owed_ += piece.size();
  moved_ += piece.size();
  came_ += piece.size();
  Status status = came_ > bound_.bytes + bound_.bytes / 4 + kMostAround ? too_large() : Status();
  if (status.ok()) status = read({reinterpret_cast<const char*>(piece.data()), piece.size()});
  if (!status.ok()) return fail(status);
  go_on();
}

void KeptBody::on_end(Exchange&) {
  if (over_) return;
  ended_ = true;
  if (!waits()) take_end();
}

void KeptBody::take_end() {
  if (Status s = finish(); !s.ok()) return fail(s);
  go_on();
}

void KeptBody::resume(const Status& status) {
  if (over_) return;
  if (!status.ok()) return fail(status);
  if (waits()) return;
  ended_ ? take_end() : go_on();
}

// Parts that were written of a file that does not become one go. A client that leaves while the file is added may have
// it all the same.
void KeptBody::on_close(Exchange&, bool) {
  question_ = nullptr;
  over_ = true;
  if (added_ || part_ == 0) return;
  jobs_.tell([id = file_.id, owner = file_.owner, adding = adding_](Storage& s) {
    if (adding)
      if (auto there = s.files.find(owner, id); !there || *there) return there ? Status() : there.error();
    return s.atomically([&] { return s.files.remove(id); });
  });
}

Status KeptBody::keep(std::string_view octets) {
  if ((file_.bytes += octets.size()) > bound_.bytes) return too_large();
  if (!charge_.take(octets.size())) return no_memory();
  buffer_ += octets;
  return {};
}

Status KeptBody::too_large() {
  too_large_ = true;
  return failure(Code::kResourceExhausted, bound_.text);
}

// One part is written at a time.
void KeptBody::go_on() {
  if (question_ || over_ || waits()) return;
  if (buffer_.size() >= kPart || (ended_ && !buffer_.empty())) return write_part();
  if (ended_) return add();
  exchange_.consume(std::exchange(owed_, 0));
}

void KeptBody::write_part() {
  // It keeps its charge while it waits for the journal, also where the client leaves.
  charge_.give(buffer_.size());
  auto text = base::adopt(exchange_.memory(), base::MemoryKind::kInput, std::exchange(buffer_, {}));
  if (!text) return fail(no_memory());
  auto work = [id = file_.id, owner = file_.owner, part = part_++, text = *std::move(text), check = before_part(),
               most = jobs_.limits().tenant_disk](Storage& s) -> Result<bool> {
    if (Status bad = check ? check(s) : Status(); !bad.ok()) return bad;
    auto use = s.files.use(owner);
    if (!use) return use.error();
    if (use->bytes + text.size() > most) return jobs::quota_is_used_up();
    if (Status written = s.files.append(id, part, text.view(), owner); !written.ok()) return written;
    return true;
  };
  ask(std::move(work), [this] { go_on(); });
}

void KeptBody::add() {
  adding_ = true;
  auto work = [file = file_, limits = jobs_.limits(), more = with_file()](Storage& s) -> Result<bool> {
    auto use = s.files.use(file.owner);
    if (!use) return use.error();
    Status status = check_room(*use, limits);
    if (status.ok())
      status = s.atomically([&] {
        Status added = s.files.add(file);
        return added.ok() && more ? more(s) : added;
      });
    if (status.ok()) return true;
    // Another node took this one for gone, and has freed what had come.
    if (status.code == Code::kAborted) status = base::try_again(Code::kUnavailable, "a part of it was lost; try again");
    (void)s.atomically([&] { return s.files.remove(file.id); });
    return status;
  };
  ask(std::move(work), [this] {
    added_ = over_ = true;
    answer();
  });
}

template <class Asked, class Then>
void KeptBody::ask(Asked work, Then then) {
  auto question = jobs_.ask(std::move(work), [this, then](Result<bool> done) {
    question_ = nullptr;
    adding_ = false;
    wire::guarded(exchange_, [&] { done ? then() : fail(done.error()); });
  });
  if (!question) return fail(question.error());
  question_ = *std::move(question);
}

void KeptBody::fail(const Status& why) {
  over_ = true;
  base::release(buffer_);
  exchange_.consume(std::exchange(owed_, 0));
  if (too_large_) return refuse_by(413, why.text);
  respond(exchange_, journal_error(why));
}

void KeptBody::refuse_by(int status, std::string_view text) {
  const bool anthropic = exchange_.record().protocol == kAnthropic;
  (anthropic ? respond_anthropic_status : respond_status)(exchange_, status, text);
}

// A sender that is not held back keeps up the rate that bodies must have.
void KeptBody::watch() {
  const wire::Limits* limits = state_.options.limits;
  if (!limits || limits->min_body_rate == 0) return;
  const uint64_t least = uint64_t(limits->min_body_rate) *
                         uint64_t(std::chrono::duration_cast<std::chrono::seconds>(limits->grace).count());
  base::Env& env = state_.bus.env();
  timer_ = env.at(env.now() + limits->grace, [this, least] {
    timer_ = base::TimerId::kNone;
    if (over_ || ended_) return;
    if (std::exchange(moved_, 0) >= least || question_ || waits()) return watch();
    over_ = true;
    refuse_by(408, "the upload is slower than limits.min_body_rate");
  });
}

}  // namespace weir::openai::batches
