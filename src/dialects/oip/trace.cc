#include "dialects/oip/trace.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"

namespace weir::oip {
namespace {

using base::Code;
using base::invalid;
using base::Status;

constexpr uint64_t kDefaultRate = 1000;

int64_t microseconds(base::Time from, base::Time to) {
  if (from == base::kNever || to == base::kNever) return -1;
  return std::chrono::duration_cast<std::chrono::microseconds>(to - from).count();
}

template <class T>
Status number(std::string_view key, std::string_view text, T least, std::optional<T>& out) {
  T value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    return invalid("trace setting '" + std::string(key) + "': expected a whole number, at least " +
                   std::to_string(least) + ", got '" + std::string(text) + "'");
  out = value;
  return {};
}

Status level(const std::vector<std::string>& values, std::optional<uint8_t>& out) {
  uint8_t levels = 0;
  for (const auto& value : values) {
    if (value != "OFF" && value != "TIMESTAMPS" && value != "TENSORS")
      return invalid("trace setting 'trace_level': expected OFF, TIMESTAMPS or TENSORS, got '" + value + "'");
    if (value == "TIMESTAMPS") levels |= Traced::kTimestamps;
    if (value == "TENSORS") levels |= Traced::kTensors;
  }
  out = levels;
  return {};
}

std::vector<std::string> level_words(uint8_t levels) {
  std::vector<std::string> out;
  if (levels & Traced::kTimestamps) out.emplace_back("TIMESTAMPS");
  if (levels & Traced::kTensors) out.emplace_back("TENSORS");
  if (out.empty()) out.emplace_back("OFF");
  return out;
}

// A value that cannot be chosen: what settings() says may be sent back.
Status fixed(std::string_view value, std::string_view is, std::string_view why) {
  return value == is ? Status() : base::failure(Code::kUnimplemented, std::string(why));
}

Status one_value(const std::string& key, std::string_view value, const std::string& file, std::optional<uint64_t>& rate,
                 std::optional<int64_t>& count, std::optional<uint64_t>& frequency) {
  if (key == "trace_rate") return number<uint64_t>(key, value, 1, rate);
  if (key == "trace_count") return number<int64_t>(key, value, -1, count);
  if (key == "log_frequency") return number<uint64_t>(key, value, 0, frequency);
  if (key == "trace_file")
    return fixed(value, file,
                 "trace file location can not be updated through network protocol: oip.trace_file names it at start");
  if (key == "trace_mode")
    return fixed(value, "triton", "trace setting 'trace_mode': OpenTelemetry's spans have settings of their own");
  return invalid("unknown trace setting '" + key + "'");
}

}  // namespace

Traces::Choice Traces::over(const Choice& first, const Choice& second) {
  return {first.levels ? first.levels : second.levels, first.rate ? first.rate : second.rate,
          first.log_frequency ? first.log_frequency : second.log_frequency, first.count ? first.count : second.count};
}

Traces::Choice Traces::effective(std::string_view model) const {
  const Choice server = over(server_, initial_);
  auto at = models_.find(model);
  return at == models_.end() ? server : over(at->second, server);
}

Traces::Settings Traces::settings(std::string_view model) const {
  std::lock_guard lock(mutex_);
  const Choice c = effective(model);
  return {{"trace_file", {file()}},
          {"trace_level", level_words(c.levels.value_or(0))},
          {"trace_rate", {std::to_string(c.rate.value_or(kDefaultRate))}},
          {"trace_count", {std::to_string(c.count.value_or(-1))}},
          {"log_frequency", {std::to_string(c.log_frequency.value_or(0))}},
          {"trace_mode", {"triton"}}};
}

Status Traces::change(Choice& choice, const Settings& wanted, const std::string& file) {
  for (const auto& [key, values] : wanted) {
    Status status;
    if (key != "trace_level" && values.size() > 1)
      status = invalid("trace setting '" + key + "' takes one value");
    else if (key == "trace_level")
      values.empty() ? choice.levels.reset() : void(status = level(values, choice.levels));
    else if (!values.empty())
      status = one_value(key, values[0], file, choice.rate, choice.count, choice.log_frequency);
    else if (key == "trace_rate")
      choice.rate.reset();
    else if (key == "trace_count")
      choice.count.reset();
    else if (key == "log_frequency")
      choice.log_frequency.reset();
    else if (key != "trace_file" && key != "trace_mode")
      status = invalid("unknown trace setting '" + key + "'");
    if (!status.ok()) return status;
  }
  return {};
}

Status Traces::begin_with(const Settings& wanted) {
  std::lock_guard lock(mutex_);
  Status status = change(initial_, wanted, file());
  any_on_.store(initial_.levels.value_or(0) != 0, std::memory_order_relaxed);
  return status;
}

void Traces::charge_to(base::MemoryLedger& memory, base::Metrics& metrics) {
  memory_ = &memory;
  left_out_ = &metrics.counter("weir_trace_tensors_dropped_total",
                               "Tensors that were left out of traces, because there was no memory for them.");
}

Status Traces::change(std::string_view model, const Settings& wanted) {
  std::lock_guard lock(mutex_);
  Choice choice;
  if (model.empty())
    choice = server_;
  else if (auto at = models_.find(model); at != models_.end())
    choice = at->second;
  if (Status status = change(choice, wanted, file()); !status.ok()) return status;
  (model.empty() ? server_ : models_[std::string(model)]) = choice;
  bool on = over(server_, initial_).levels.value_or(0) != 0;
  for (const auto& [name, c] : models_) on = on || c.levels.value_or(0) != 0;
  any_on_.store(on, std::memory_order_relaxed);
  return {};
}

std::unique_ptr<Traced> Traces::sample(const std::string& model) {
  std::lock_guard lock(mutex_);
  const Choice choice = effective(model);
  if (choice.levels.value_or(0) == 0) return nullptr;
  if (seen_[model]++ % choice.rate.value_or(kDefaultRate) != 0) return nullptr;
  if (int64_t count = choice.count.value_or(-1); count >= 0) {
    auto own = models_.find(model);
    auto& left = own != models_.end() && own->second.count ? own->second.count : server_.count;
    if (count == 0) return nullptr;
    left = count - 1;
  }
  return std::make_unique<Traced>(Traced{*choice.levels, TracedTensors(memory_)});
}

void Traces::finished(const Traced& traced, const std::string& model, const msg::Call& call, std::string_view protocol,
                      Code code) {
  msg::Timeline t;
  if (call.sink)
    t = call.times;
  else  // the Inbox still has the Call, and writes the rest (marshal/call_times.h)
    t.received = call.times.received;
  const bool timestamps = (traced.levels & Traced::kTimestamps) != 0;
  const uint64_t id = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (left_out_ && traced.tensors.left_out() > 0) left_out_->add(traced.tensors.left_out());
  if (file_) {
    const FinishedTrace over{id, model, call.version, call.id, protocol, timestamps ? &t : nullptr, &traced.tensors};
    return file_->put(over);
  }
  if (timestamps)
    base::log::info("trace", {{"model", model},
                              {"version", call.version},
                              {"id", call.id},
                              {"protocol", protocol},
                              {"code", base::name(code)},
                              {"received_to_queued_us", microseconds(t.received, t.queued)},
                              {"queue_us", microseconds(t.queued, t.started)},
                              {"compute_input_us", microseconds(t.started, t.computing)},
                              {"compute_infer_us", microseconds(t.computing, t.computed)},
                              {"compute_output_us", microseconds(t.computed, t.finished)},
                              {"batch_rows", t.batch_rows},
                              {"trace", id}});
  for (const auto& tensor : traced.tensors.all())
    base::log::info("trace tensor", {{"model", model},
                                     {"trace", id},
                                     {"activity", tensor.activity},
                                     {"name", tensor.name},
                                     {"dtype", tensor.dtype},
                                     {"shape", tensor.whole.empty() ? tensor.shape : tensor.whole},
                                     {"data", tensor.data}});
}

}  // namespace weir::oip
