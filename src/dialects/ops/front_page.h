// FrontPage: what GET / answers: a page of links for a browser, JSON for everybody else, and the page's icon.
// One per shard, on its thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "dialects/dialect.h"
#include "wire/router.h"

namespace weir::ops {

using dialects::FrontPageLink;

class FrontPage {
 public:
  // Adds GET /, /favicon.svg and /favicon.ico. `links` is copied; this outlives every Exchange of the router.
  FrontPage(wire::Router& router, std::string_view version, std::span<const FrontPageLink> links);
  ~FrontPage();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::ops
