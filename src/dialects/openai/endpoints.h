// The routes, each answered by one function.
#pragma once

#include <string_view>

#include "dialects/openai/house.h"
#include "wire/router.h"

namespace weir::openai {

using Serve = void (*)(House&, wire::Exchange&, const wire::PathArgs&);
enum class Access : uint8_t { kKey, kOpen };  // whether a configured API key must be shown

class Endpoint final : public wire::Service {
 public:
  Endpoint(House& house, Serve serve, Access access) : house_(house), serve_(serve), access_(access) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override;
  bool refuse(wire::Exchange& exchange, const base::Status& why) override;

 private:
  House& house_;
  Serve serve_;
  Access access_;
};

void chat_completions(House& house, wire::Exchange& exchange, const wire::PathArgs& args);
void completions(House& house, wire::Exchange& exchange, const wire::PathArgs& args);
void embeddings(House& house, wire::Exchange& exchange, const wire::PathArgs& args);  // embeddings.cc
void tokenize(House& house, wire::Exchange& exchange, const wire::PathArgs& args);    // tokenize.cc
void detokenize(House& house, wire::Exchange& exchange, const wire::PathArgs& args);
void list_models(House& house, wire::Exchange& exchange, const wire::PathArgs& args);  // models.cc
void show_model(House& house, wire::Exchange& exchange, const wire::PathArgs& args);

}  // namespace weir::openai
