#include "dialects/openai/llama_cpp/timings.h"

#include <algorithm>
#include <chrono>

#include "marshal/json_tensor.h"

namespace weir::openai::llama_cpp {
namespace {

std::string number_json(double value) {
  std::string text;
  marshal::write_number(text, value);
  return text;
}

double milliseconds(base::Duration took) { return std::chrono::duration<double, std::milli>(took).count(); }

}  // namespace

std::vector<Member> timings_of(const wire::Exchange& exchange, const TokenFigures& figures) {
  const base::Time now = exchange.now();
  const double took = milliseconds(exchange.record().took(now));
  const double predicted = figures.first == base::kNever ? 0 : milliseconds(now - figures.first);
  std::vector<Member> out{{"cache_n", std::to_string(figures.cached)}};
  const auto part = [&out](std::string_view n, std::string_view time, std::string_view each, std::string_view rate,
                           uint64_t tokens, uint64_t timed, double spent) {
    out.push_back({n, std::to_string(tokens)});
    out.push_back({time, number_json(spent)});
    out.push_back({each, number_json(timed > 0 ? spent / double(timed) : 0)});
    out.push_back({rate, number_json(timed > 0 && spent > 0 ? 1000 * double(timed) / spent : 0)});
  };
  const uint64_t made = figures.prompt - std::min(figures.cached, figures.prompt);
  part("prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second", made, made,
       std::max(took - predicted, 0.0));
  // The step of the prompt gives the first token: the others are what took that time.
  part("predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second", figures.completion,
       std::max<uint64_t>(figures.completion, 1) - 1, predicted);
  return out;
}

void write_timings(std::string& out, const wire::Exchange& exchange, const TokenFigures& figures) {
  out += ",\"timings\":{";
  for (const auto& [name, json] : timings_of(exchange, figures)) {
    if (out.back() != '{') out += ',';
    (((out += '"') += name) += "\":") += json;
  }
  out += '}';
}

void write_progress(std::string& out, const wire::Exchange& exchange, const TokenFigures& figures) {
  const std::string total = std::to_string(figures.prompt);
  const base::Time end = figures.first == base::kNever ? exchange.now() : figures.first;
  out += ",\"prompt_progress\":{\"total\":" + total + ",\"cache\":" + std::to_string(figures.cached);
  out += ",\"processed\":" + total + ",\"time_ms\":";
  marshal::write_number(out, int64_t(milliseconds(exchange.record().took(end))));
  out += '}';
}

}  // namespace weir::openai::llama_cpp
