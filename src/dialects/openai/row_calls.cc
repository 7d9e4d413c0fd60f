#include "dialects/openai/row_calls.h"

#include "marshal/call_times.h"
#include "marshal/tenant.h"

namespace weir::openai {

RowCalls::RowCalls(OpenAiState& state, wire::Exchange& exchange, bus::Needs needs, uint32_t priority)
    : state_(state), exchange_(exchange), gathered_(exchange.memory()), needs_(needs), priority_(priority) {
  state_.load.running.fetch_add(1, std::memory_order_relaxed);
}

RowCalls::~RowCalls() {
  leave();
  state_.load.running.fetch_sub(1, std::memory_order_relaxed);
}

void RowCalls::begin(const bus::Served& served, size_t rows, Window window) {
  model_ = served.spec.name;
  window_ = window;
  for (size_t i = 0; i < rows; ++i) rows_.emplace_back(*this, state_.bus).number = i;
  submit_window();
}

void RowCalls::fail(const base::Status& status) {
  leave();
  respond(exchange_, refuse(status));
}

const msg::Outputs* RowCalls::final_outputs(const msg::Event& event) {
  const auto* outputs = std::get_if<msg::Outputs>(&event.what);
  return outputs && outputs->final ? outputs : nullptr;
}

void RowCalls::on_event(Row& row, const msg::Call& answered, const msg::Event& event) {
  const bool last = row.call.on_event(event);
  if (const auto* failed = std::get_if<msg::Failed>(&event.what)) return fail(failed->status);
  if (base::Status bad = take(row.number, event); !bad.ok()) return fail(bad);
  if (!last) return;
  running_ids_ -= row.ids;
  if (++done_ < rows_.size()) {
    marshal::record_spans(exchange_.record(), answered);
    return submit_window();
  }
  marshal::record_call(exchange_.record(), answered);
  finish();
}

void RowCalls::submit_window() {
  while (next_ < rows_.size() && next_ - done_ < window_.calls && (next_ == done_ || running_ids_ < window_.ids))
    if (base::Status bad = submit(rows_[next_++]); !bad.ok()) return fail(bad);
}

// The model is looked up anew: it may have been replaced while the first rows ran.
base::Status RowCalls::submit(Row& row) {
  auto found = state_.bus.catalog(marshal::models_of(exchange_.request())).resolve(model_, "", needs_);
  if (!found) return std::move(found).error();
  msg::Call& call = row.call.fill();
  call.model = model_;
  call.priority = priority_;
  marshal::set_caller(call, exchange_);
  auto ids = fill(call, (*found)->spec, row.number);
  if (!ids) return std::move(ids).error();
  running_ids_ += row.ids = *ids;
  return row.call.submit(**found, row, exchange_.ticket());
}

void RowCalls::leave() {
  for (Row& row : rows_) row.call.abandon();
}

}  // namespace weir::openai
