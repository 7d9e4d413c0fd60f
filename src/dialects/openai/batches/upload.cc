// POST /files: the body goes to the journal in parts of 256 KiB as it comes; nothing else of it is held. While a part
// is written the peer is held back by flow control.
#include "base/encoding.h"
#include "base/overload.h"
#include "base/release.h"
#include "base/stepped_charge.h"
#include "base/units.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "jobs/shard_jobs.h"
#include "marshal/multipart.h"

namespace weir::openai::batches {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;
using jobs::File;
using jobs::Storage;
using wire::Exchange;

constexpr size_t kPart = 256 << 10;
constexpr size_t kMostFieldBytes = 4 << 10, kMostName = 255;

class Upload final : public wire::ExchangeListener, marshal::PartListener {
 public:
  Upload(OpenAiState& state, Exchange& exchange, const std::string& boundary)
      : state_(state),
        jobs_(*state.options.jobs),
        exchange_(exchange),
        reader_(boundary, *this),
        charge_(exchange.memory(), base::MemoryKind::kInput) {
    file_.id = jobs_.new_id("file-");
    file_.owner = jobs_.requester_of(exchange.request()).owner;
    file_.created = jobs_.wall();
    ttl_ = jobs_.limits().file_ttl;
    watch();
  }
  ~Upload() override { state_.bus.env().cancel(timer_); }

  void on_data(Exchange&, std::span<const std::byte> piece) override {
    if (over_) return exchange_.consume(piece.size());
    owed_ += piece.size();
    moved_ += piece.size();
    Status status = reader_.read({reinterpret_cast<const char*>(piece.data()), piece.size()});
    if (!status.ok()) return fail(status);
    go_on();
  }
  void on_end(Exchange&) override {
    if (over_) return;
    ended_ = true;
    if (Status s = reader_.finish(); !s.ok()) return fail(s);
    go_on();
  }
  // Parts that were written of a file that does not become one go. A client that leaves while the file is added may
  // have it all the same.
  void on_close(Exchange&, bool) override {
    question_ = nullptr;
    over_ = true;
    if (added_ || part_ == 0) return;
    jobs_.tell([id = file_.id, owner = file_.owner, adding = adding_](Storage& s) {
      if (adding)
        if (auto there = s.files.find(owner, id); !there || *there) return there ? Status() : there.error();
      return s.atomically([&] { return s.files.remove(id); });
    });
  }

 private:
  // marshal::PartListener
  Status on_part(marshal::PartHead head) override {
    field_ = std::move(head.name);
    value_.clear();
    if (field_ != "file") return {};
    if (has_file_) return base::invalid("the form has more than one file");
    has_file_ = true;
    file_.name = base::presentable(head.filename.empty() ? "file" : head.filename, kMostName);
    return {};
  }
  Status on_octets(std::string_view octets) override {
    std::string& to = field_ == "file" ? buffer_ : value_;
    if (field_ != "file" && value_.size() + octets.size() > kMostFieldBytes)
      return base::invalid("the field '" + std::string(base::cut_text(field_, 64)) + "' is too long");
    if (field_ == "file" && (file_.bytes += octets.size()) > jobs_.limits().max_file) return too_large();
    if (!charge_.take(octets.size())) return base::overloaded("there is no memory for the upload; try again later");
    to += octets;
    return {};
  }
  Status on_part_end() override {
    if (field_ == "purpose") purpose_ = value_;
    if (field_ != "file") charge_.give(value_.size());
    if (field_ == "expires_after[anchor]") {
      anchored_ = true;
      if (value_ != "created_at") return base::invalid("expires_after.anchor must be created_at");
    }
    if (field_ != "expires_after[seconds]") return {};
    timed_ = true;
    auto seconds = base::parse_count(value_);
    if (!seconds || *seconds < kShortestTtl || *seconds > kLongestTtl)
      return base::invalid("expires_after.seconds must be 3600 to 2592000");
    ttl_ = std::min<base::Duration>(ttl_, std::chrono::seconds(*seconds));
    return {};
  }

  Status too_large() {
    too_large_ = true;
    return failure(Code::kResourceExhausted,
                   "a file may have " + base::show_size(jobs_.limits().max_file) + " (jobs.max_file)");
  }

  // One part is written at a time.
  void go_on() {
    if (question_ || over_) return;
    if (buffer_.size() >= kPart || (ended_ && !buffer_.empty())) return write_part();
    if (ended_) return add();
    exchange_.consume(std::exchange(owed_, 0));
  }
  void write_part() {
    // It keeps its charge while it waits for the journal, also where the client leaves.
    charge_.give(buffer_.size());
    auto text = base::adopt(exchange_.memory(), base::MemoryKind::kInput, std::exchange(buffer_, {}));
    if (!text) return fail(base::overloaded("there is no memory for the upload; try again later"));
    auto work = [id = file_.id, owner = file_.owner, part = part_++, text = *std::move(text),
                 most = jobs_.limits().tenant_disk](Storage& s) -> Result<bool> {
      auto use = s.files.use(owner);
      if (!use) return use.error();
      if (use->bytes + text.size() > most) return jobs::quota_is_used_up();
      if (Status written = s.files.append(id, part, text.view(), owner); !written.ok()) return written;
      return true;
    };
    ask(std::move(work), [this](Result<bool> written) {
      if (!written) return fail(written.error());
      go_on();
    });
  }
  void add() {
    if (!has_file_) return fail(base::invalid("the form has no part named file"));
    if (purpose_ != "batch") return fail(base::invalid("purpose must be batch: files are kept for batches alone"));
    if (anchored_ != timed_) return fail(base::invalid("expires_after takes the anchor created_at, and seconds"));
    if (file_.bytes == 0) return fail(base::invalid("the file is empty"));
    file_.purpose = purpose_;
    file_.expires = file_.created + ttl_;
    adding_ = true;
    auto work = [file = file_, limits = jobs_.limits()](Storage& s) -> Result<bool> {
      auto use = s.files.use(file.owner);
      if (!use) return use.error();
      Status status;
      if (use->bytes > limits.tenant_disk) status = jobs::quota_is_used_up();
      if (use->files >= limits.max_files)
        status = failure(Code::kResourceExhausted, "you have as many files as you may (jobs.max_files): delete some");
      if (status.ok()) status = s.files.add(file);
      if (status.ok()) return true;
      // Another node took this one for gone, and has freed what had come.
      if (status.code == Code::kAborted)
        status = base::try_again(Code::kUnavailable, "a part of it was lost; try again");
      (void)s.atomically([&] { return s.files.remove(file.id); });
      return status;
    };
    ask(std::move(work), [this](Result<bool> added) {
      adding_ = false;
      if (!added) return fail(added.error());
      added_ = over_ = true;
      respond_json(exchange_, file_json(file_));
    });
  }
  template <class Work, class Then>
  void ask(Work work, Then then) {
    auto question = jobs_.ask(std::move(work), [this, then](Result<bool> answer) {
      question_ = nullptr;
      wire::guarded(exchange_, [&] { then(std::move(answer)); });
    });
    if (!question) return fail(question.error());
    question_ = *std::move(question);
  }

  void fail(const Status& why) {
    over_ = true;
    base::release(buffer_), base::release(value_);
    exchange_.consume(std::exchange(owed_, 0));
    if (!too_large_) return respond(exchange_, refuse(why));
    respond_status(exchange_, 413, why.text);
  }

  // A sender that is not held back keeps up the rate that bodies must have.
  void watch() {
    const wire::Limits* limits = state_.options.limits;
    if (!limits || limits->min_body_rate == 0) return;
    const uint64_t least = uint64_t(limits->min_body_rate) *
                           uint64_t(std::chrono::duration_cast<std::chrono::seconds>(limits->grace).count());
    base::Env& env = state_.bus.env();
    timer_ = env.at(env.now() + limits->grace, [this, least] {
      timer_ = base::TimerId::kNone;
      if (over_ || ended_) return;
      if (std::exchange(moved_, 0) >= least || question_) return watch();
      over_ = true;
      respond_status(exchange_, 408, "the upload is slower than limits.min_body_rate");
    });
  }

  OpenAiState& state_;
  jobs::ShardJobs& jobs_;
  Exchange& exchange_;
  marshal::MultipartReader reader_;
  base::SteppedCharge charge_;  // for what follows
  std::string buffer_;          // of the file, not written yet
  std::string field_, value_;   // the part that is read
  std::string purpose_;
  File file_;
  base::Duration ttl_{};
  jobs::ShardJobs::Question question_;
  base::TimerId timer_ = base::TimerId::kNone;
  uint64_t part_ = 0, moved_ = 0;
  size_t owed_ = 0;  // request bytes not yet given back with consume()
  bool has_file_ = false, ended_ = false, adding_ = false, added_ = false, over_ = false;
  bool too_large_ = false, anchored_ = false, timed_ = false;  // expires_after has an anchor, and seconds
};

}  // namespace

void upload(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const wire::Request& request = exchange.request();
  const std::string_view type = request.fields.find("content-type");
  if (marshal::media_type(type) != "multipart/form-data")
    return respond(exchange, refuse(base::invalid("a file is sent as multipart/form-data")));
  auto boundary = marshal::boundary_of(type);
  if (!boundary) return respond(exchange, refuse(boundary.error()));
  exchange.attach(std::make_unique<Upload>(state, exchange, *boundary));
}

}  // namespace weir::openai::batches
