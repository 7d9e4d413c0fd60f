#include "dialects/oip/trace.h"

#include <charconv>

#include "base/log.h"

namespace weir::oip {
namespace {

using base::Code;
using base::invalid;
using base::Status;

constexpr uint64_t kDefaultRate = 1000;
const std::map<std::string, std::string> kFixed{{"trace_file", ""}, {"log_frequency", "0"}};

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

Status level(const std::vector<std::string>& values, std::optional<bool>& out) {
  bool on = false;
  for (const auto& value : values) {
    if (value == "TENSORS") return base::failure(Code::kUnimplemented, "trace_level TENSORS is not offered");
    if (value != "OFF" && value != "TIMESTAMPS")
      return invalid("trace setting 'trace_level': expected OFF or TIMESTAMPS, got '" + value + "'");
    on = on || value == "TIMESTAMPS";
  }
  out = on;
  return {};
}

}  // namespace

Traces::Choice Traces::effective(std::string_view model) const {
  Choice choice = server_;
  if (auto at = models_.find(model); at != models_.end()) {
    if (at->second.on) choice.on = at->second.on;
    if (at->second.rate) choice.rate = at->second.rate;
    if (at->second.count) choice.count = at->second.count;
  }
  return choice;
}

Traces::Settings Traces::settings(std::string_view model) const {
  std::lock_guard lock(mutex_);
  Choice c = effective(model);
  return {{"trace_file", {kFixed.at("trace_file")}},
          {"trace_level", {c.on.value_or(false) ? "TIMESTAMPS" : "OFF"}},
          {"trace_rate", {std::to_string(c.rate.value_or(kDefaultRate))}},
          {"trace_count", {std::to_string(c.count.value_or(-1))}},
          {"log_frequency", {kFixed.at("log_frequency")}}};
}

Status Traces::change(std::string_view model, const Settings& wanted) {
  std::lock_guard lock(mutex_);
  Choice choice;
  if (model.empty())
    choice = server_;
  else if (auto at = models_.find(model); at != models_.end())
    choice = at->second;
  for (const auto& [key, values] : wanted) {
    Status status;
    if (key != "trace_level" && values.size() > 1)
      status = invalid("trace setting '" + key + "' takes one value");
    else if (key == "trace_level")
      values.empty() ? choice.on.reset() : void(status = level(values, choice.on));
    else if (key == "trace_rate")
      values.empty() ? choice.rate.reset() : void(status = number<uint64_t>(key, values[0], 1, choice.rate));
    else if (key == "trace_count")
      values.empty() ? choice.count.reset() : void(status = number<int64_t>(key, values[0], -1, choice.count));
    else if (auto fixed = kFixed.find(key); fixed == kFixed.end())
      status = invalid("unknown trace setting '" + key + "'");
    else if (!values.empty() && values[0] != fixed->second)  // what settings() says may be sent back
      status = base::failure(Code::kUnimplemented, "trace setting '" + key + "': traces go to the log");
    if (!status.ok()) return status;
  }
  (model.empty() ? server_ : models_[std::string(model)]) = choice;
  bool on = server_.on.value_or(false);
  for (const auto& [name, c] : models_) on = on || c.on.value_or(false);
  any_on_.store(on, std::memory_order_relaxed);
  return {};
}

void Traces::record(const std::string& model, const msg::Call& call, std::string_view protocol, Code code) {
  {
    std::lock_guard lock(mutex_);
    Choice choice = effective(model);
    if (!choice.on.value_or(false)) return;
    if (seen_[model]++ % choice.rate.value_or(kDefaultRate) != 0) return;
    if (int64_t count = choice.count.value_or(-1); count >= 0) {
      auto own = models_.find(model);
      auto& left = own != models_.end() && own->second.count ? own->second.count : server_.count;
      if (count == 0) return;
      left = count - 1;
    }
  }
  msg::Timeline t;
  if (call.sink)
    t = call.times;
  else  // the Inbox still has the Call, and writes the rest (marshal/call_times.h)
    t.received = call.times.received;
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
                            {"batch_rows", t.batch_rows}});
}

}  // namespace weir::oip
