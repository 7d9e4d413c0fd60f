// BenchAnswer: reads one answer of `weir bench` as far as it has to: whether it is one, and when its tokens came. Pure.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "app/tools/bench_request.h"
#include "base/env.h"
#include "wire/exchange.h"

namespace weir::app {

class BenchAnswer {
 public:
  virtual ~BenchAnswer() = default;
  // `call`: its place among the calls of a BenchRequest.
  virtual void begin(size_t call) = 0;
  virtual void head(int status, const wire::Fields& fields) = 0;
  // Returns how many tokens the piece brings.
  virtual uint32_t body(std::string_view piece) = 0;
  // Says what is wrong with the answer, on one line; empty: nothing.
  virtual std::string end(const wire::Fields& trailers) = 0;
  // The id of the session that a first call has opened; empty: none. Until the next begin().
  virtual std::string session() const { return {}; }

 protected:
  static constexpr size_t kMostKept = 64 << 10;  // bytes of a body that says what is wrong
};

std::unique_ptr<BenchAnswer> make_bench_answer(BenchProtocol protocol);

}  // namespace weir::app
