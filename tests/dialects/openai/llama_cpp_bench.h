// The bench for llama.cpp's native routes.
#pragma once

#include <string>

#include "bench.h"
#include "support/held_workers.h"

namespace weir::openai {

class LlamaCpp : public OpenaiBench {
 protected:
  Opened ask(Json body, std::string path = "/completion") {
    body.emplace("model", "m");
    return open("POST", std::move(path), body.dump());
  }
  static std::string refusal(const Opened& x) {
    const Json error = json(x)["error"];
    EXPECT_EQ(error["code"], x->response.status);
    return std::to_string(x->response.status) + ' ' + error["type"].get<std::string>() + ' ' +
           error["message"].get<std::string>();
  }
  std::string ignored(const Opened& x) { return std::string(x->extra_fields().find("weir-ignored")); }

  support::HeldWorkers workers;  // of tests that give them to the bus
};

}  // namespace weir::openai
