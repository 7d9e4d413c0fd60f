// RowCalls: a request whose rows (texts, items) are a Call each, which the lane batches. A request may have more rows
// than a shard admits Calls at once, so a window of them is under way. Embeddings and scores derive from it, and write
// what a row asks the model and what its answer becomes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "bus/call_handle.h"
#include "dialects/openai/state.h"
#include "wire/gathered_answer.h"

namespace weir::openai {

class RowCalls : public wire::ExchangeListener {
 public:
  ~RowCalls() override;
  void on_close(wire::Exchange&, bool) override { leave(); }

 protected:
  // Calls that are under way at once.
  struct Window {
    size_t calls;
    uint64_t ids = uint64_t(1) << 19;  // of theirs, where there is more than one
  };

  RowCalls(OpenAiState& state, wire::Exchange& exchange, bus::Needs needs, uint32_t priority);

  // Memory of so many rows, which the derived class charges.
  static uint64_t bytes_of_rows(size_t rows) { return rows * sizeof(Row); }
  // The first of the Calls. This may be destroyed.
  void begin(const bus::Served& served, size_t rows, Window window);
  // The answer is this error. This may be destroyed.
  void fail(const base::Status& status);

  // Fills the row's Call, whose model, priority and caller are set. Returns how many ids it has.
  virtual base::Result<uint64_t> fill(msg::Call& call, const msg::ModelSpec& spec, size_t row) = 0;
  // An Event of the row's Call; an error is the answer of the request.
  virtual base::Status take(size_t row, const msg::Event& event) = 0;
  // The last of all rows' Events has been taken.
  virtual void finish() = 0;

  // For answers of outputs alone: they, or null where the event has none.
  static const msg::Outputs* final_outputs(const msg::Event& event);

  OpenAiState& state_;
  wire::Exchange& exchange_;
  std::string model_;              // after begin()
  wire::GatheredAnswer gathered_;  // what is held until the answer is written

 private:
  struct Row final : msg::Sink {
    Row(RowCalls& owner, bus::Bus& bus) : owner(owner), call(bus) {}
    void on(msg::Call& answered, msg::Event&& event) override { owner.on_event(*this, answered, event); }

    RowCalls& owner;
    bus::CallHandle call;
    size_t number = 0;
    uint64_t ids = 0;
  };

  void on_event(Row& row, const msg::Call& answered, const msg::Event& event);
  void submit_window();
  base::Status submit(Row& row);
  void leave();

  const bus::Needs needs_;
  const uint32_t priority_;
  Window window_{};
  std::deque<Row> rows_;
  size_t next_ = 0, done_ = 0;
  uint64_t running_ids_ = 0;  // of the Calls that are under way
};

}  // namespace weir::openai
