// KeptBody: a request's body that becomes a file of the journal, as it is or as what is made of it, in parts of 256 KiB
// as it comes; nothing else of it is held. While a part is written the peer is held back by flow control. Of a client
// that leaves before the file is added nothing is left.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/stepped_charge.h"
#include "dialects/openai/state.h"
#include "jobs/shard_jobs.h"
#include "wire/exchange.h"

namespace weir::openai::batches {

class KeptBody : public wire::ExchangeListener {
 public:
  struct Bound {
    uint64_t bytes;    // that may be kept; more is 413
    std::string text;  // that says so, and which setting it is
  };
  // There is a journal. `prefix`: of the file's id.
  KeptBody(OpenAiState& state, wire::Exchange& exchange, std::string_view prefix, Bound bound);
  ~KeptBody() override;

  void on_data(wire::Exchange& exchange, std::span<const std::byte> piece) override;
  void on_end(wire::Exchange& exchange) override;
  void on_close(wire::Exchange& exchange, bool clean) override;

 protected:
  // Asks or writes on the store's thread; null: nothing.
  using Work = std::function<base::Status(jobs::Storage&)>;

  // The next piece of the body: hands what is to be kept to keep(). Errors end it.
  virtual base::Status read(std::string_view piece) = 0;
  // A worker has what came, and nothing goes on before resume(): the peer is held back, but what it has sent already is
  // read() meanwhile.
  virtual bool waits() const { return false; }
  // The body is whole: completes file(). Errors: it is not what was expected.
  virtual base::Status finish() = 0;
  virtual Work before_part() { return nullptr; }
  // In one transaction with the file, once that is added.
  virtual Work with_file() { return nullptr; }
  // The file is there for good.
  virtual void answer() = 0;

  base::Status keep(std::string_view octets);
  // The worker is done; an error ends it, and this may be destroyed. Harmless where it has been answered.
  void resume(const base::Status& status);
  // Its id, its owner, when it was made and how much has come are known from the beginning on.
  jobs::File& file() { return file_; }
  OpenAiState& state() { return state_; }
  jobs::ShardJobs& journal() { return jobs_; }
  wire::Exchange& exchange() { return exchange_; }
  base::SteppedCharge& charge() { return charge_; }  // for what is held of the body

 private:
  void go_on();
  void take_end();
  void write_part();
  void add();
  template <class Asked, class Then>
  void ask(Asked work, Then then);
  base::Status too_large();
  void fail(const base::Status& why);
  void refuse_by(int status, std::string_view text);
  void watch();

  OpenAiState& state_;
  jobs::ShardJobs& jobs_;
  wire::Exchange& exchange_;
  const Bound bound_;
  base::SteppedCharge charge_;
  std::string buffer_;  // of the file, not written yet
  jobs::File file_;
  jobs::ShardJobs::Question question_;
  base::TimerId timer_ = base::TimerId::kNone;
  uint64_t part_ = 0, moved_ = 0, came_ = 0;
  size_t owed_ = 0;  // request bytes not yet given back with consume()
  bool ended_ = false, adding_ = false, added_ = false, over_ = false, too_large_ = false;
};

// The bound of whole files.
KeptBody::Bound largest_file(const jobs::Limits& limits);

}  // namespace weir::openai::batches
