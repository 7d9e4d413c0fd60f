// A FakeExchange that a Router knows of: closed, and taken leave of, when it goes.
#pragma once

#include <memory>

#include "support/fake_wire.h"
#include "wire/router.h"

namespace weir::support {

struct CloseRouted {
  wire::Router* router;
  void operator()(FakeExchange* x) const {
    x->close(x->ended);
    router->closed(*x);
    delete x;
  }
};
using RoutedExchange = std::unique_ptr<FakeExchange, CloseRouted>;

}  // namespace weir::support
