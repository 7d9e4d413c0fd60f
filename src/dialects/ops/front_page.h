// FrontPage: what GET / answers: the console for a browser, or a page of links where there is no console; JSON for
// everybody else. And the icon.
// One per shard, on its thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "dialects/dialect.h"
#include "wire/router.h"

namespace weir::ops {

using dialects::FrontPageLink;

class FrontPage {
 public:
  // Adds GET /, /favicon.svg and /favicon.ico. `links` is copied; `console` is the console's page, or empty. This and
  // the router outlive every Exchange.
  FrontPage(wire::Router& router, std::string_view version, std::span<const FrontPageLink> links, base::Bytes console);
  ~FrontPage();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::ops
