#include "dialects/ops/front_page.h"

#include <functional>
#include <string>
#include <utility>

#include "dialects/ops/console/console.h"
#include "dialects/ops/html.h"
#include "favicon.h"
#include "front_page_html.h"
#include "wire/accept.h"

namespace weir::ops {
namespace {

class StaticPage final : public wire::Service {
 public:
  using Answer = std::function<void(wire::Exchange&)>;
  explicit StaticPage(Answer answer) : answer_(std::move(answer)) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs&) override { answer_(exchange); }

 private:
  Answer answer_;
};

std::string json_page(std::string_view version, std::span<const FrontPageLink> links) {
  std::string out = R"({"name":"weir","version":")" + std::string(version) + R"(","status":"alive","links":{)";
  for (const auto& link : links) {
    if (out.back() != '{') out += ',';
    (((((out += '"') += link.key) += "\":\"") += link.path) += '"');
  }
  return out + "}}\n";
}

std::string html_page(std::string_view version, std::span<const FrontPageLink> links) {
  std::string rows;
  for (const auto& link : links) {
    // From "/", which a proxy may have moved.
    ((((rows += "<dt><a href=\"") += link.path.substr(1)) += "\">") += link.path) += "</a></dt>";
    ((rows += "<dd>") += link.text) += "</dd>\n";
  }
  std::string page(web::kFrontPage);
  fill_mark(page, "<!--links-->\n", rows);
  fill_mark(page, "<!--version-->", version);
  return page;
}

// The request's authority holds no character that HTML gives a meaning, but '&' and "'": those are escaped.
std::string html_authority(std::string_view authority) {
  std::string out;
  for (char c : authority) out += c == '&' ? "&amp;" : c == '\'' ? "&#39;" : std::string(1, c);
  return out;
}

}  // namespace

struct FrontPage::Parts {
  Parts(wire::Router& r, std::string_view version, std::span<const FrontPageLink> links, base::Bytes page)
      : router(r),
        json(base::Bytes::copy_of(json_page(version, links))),
        html(html_page(version, links)),
        console(std::move(page)) {}

  // The console is for anybody, as its files are: it asks for a key itself. The links are for those who may read.
  void front(wire::Exchange& x) {
    const bool browser = wire::accepts(x.request().fields.find("accept"), "text/html");
    if (browser && !console.empty()) return respond_console(x, console);
    if (auto status = router.permit(x, wire::Permission::kRead); !status.ok()) return wire::respond_error(x, status);
    if (!browser) return respond_page(x, "application/json", json);
    std::string page = html;
    fill_mark(page, "<!--origin-->", html_authority(x.request().authority));
    respond_page(x, "text/html; charset=utf-8", base::Bytes::adopt(std::move(page)));
  }

  wire::Router& router;
  base::Bytes json;
  std::string html;
  base::Bytes console;
  StaticPage index{[this](auto& x) { front(x); }};
  StaticPage icon{[](auto& x) { x.respond(200, "image/svg+xml", base::Bytes::constant(web::kFavicon)); }};
};

FrontPage::FrontPage(wire::Router& router, std::string_view version, std::span<const FrontPageLink> links,
                     base::Bytes console)
    : parts_(std::make_unique<Parts>(router, version, links, std::move(console))) {
  constexpr wire::Plan kNoBody{wire::BodyPlan::kIgnore};
  router.add({"GET", "/", &parts_->index, "http", kNoBody, wire::Permission::kHealth});
  for (const char* path : {"/favicon.svg", "/favicon.ico"})
    router.add({"GET", path, &parts_->icon, "http", kNoBody, wire::Permission::kHealth});
}

FrontPage::~FrontPage() = default;

}  // namespace weir::ops
