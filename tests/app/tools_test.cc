#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "app/remote.h"
#include "app/tools/chat.h"
#include "app/tools/line_reader.h"
#include "app/tools/metrics_page.h"
#include "app/tools/sse_reader.h"
#include "app/tools/terminal.h"
#include "app/tools/top.h"

namespace weir::app {
namespace {

constexpr const char* kBefore =
    "# HELP x y\n# TYPE weir_requests_total counter\n"
    "weir_requests_total{protocol=\"oip\",code=\"OK\"} 10\n"
    "weir_model_requests_total{model=\"m\\\"\\\\1\",outcome=\"success\"} 5\n"
    "weir_model_queue_seconds_bucket{model=\"m\\\"\\\\1\",le=\"0.1\"} 0\n"
    "weir_model_queue_seconds_bucket{model=\"m\\\"\\\\1\",le=\"0.2\"} 0\n"
    "weir_model_queue_seconds_bucket{model=\"m\\\"\\\\1\",le=\"+Inf\"} 0\n"
    "weir_connections 7\nnonsense\nbroken{a=\"b\n";
constexpr const char* kNow =
    "weir_requests_total{protocol=\"oip\",code=\"OK\"} 30\n"
    "weir_requests_total{protocol=\"oip\",code=\"INTERNAL\"} 4\n"
    "weir_model_requests_total{model=\"m\\\"\\\\1\",outcome=\"success\"} 25\n"
    "weir_model_queue_seconds_bucket{model=\"m\\\"\\\\1\",le=\"0.1\"} 10\n"
    "weir_model_queue_seconds_bucket{model=\"m\\\"\\\\1\",le=\"0.2\"} 20\n"
    "weir_model_queue_seconds_bucket{model=\"m\\\"\\\\1\",le=\"+Inf\"} 20\n"
    "weir_overload_step 99\nweir_ready 1\nweir_build_info{version=\"9.9\"} 1\nweir_connections 8\n";

TEST(MetricsPage, ReadsSamplesAndPassesOverWhatIsNone) {
  auto page = MetricsPage::parse(kBefore);
  EXPECT_EQ(page.sum("weir_connections"), 7);
  EXPECT_EQ(page.sum("weir_requests_total", {{"code", "OK"}}), 10);
  EXPECT_EQ(page.sum("weir_requests_total", {{"code", "INTERNAL"}}), 0);
  EXPECT_EQ(page.values("weir_model_requests_total", "model"), std::vector<std::string>{"m\"\\1"});
  EXPECT_TRUE(page.samples("nonsense").empty());
  EXPECT_TRUE(page.samples("broken").empty());
}

TEST(MetricsPage, EstimatesQuantilesAsPrometheusDoes) {
  auto before = MetricsPage::parse(kBefore), now = MetricsPage::parse(kNow);
  const MetricsPage::Matchers model{{"model", "m\"\\1"}};
  EXPECT_NEAR(quantile_between(before, now, "weir_model_queue_seconds", model, 0.5), 0.1, 1e-9);
  EXPECT_NEAR(quantile_between(before, now, "weir_model_queue_seconds", model, 0.75), 0.15, 1e-9);
  EXPECT_TRUE(std::isnan(quantile_between(now, now, "weir_model_queue_seconds", model, 0.5)));
  EXPECT_TRUE(std::isnan(quantile_between(before, now, "weir_nothing", {}, 0.5)));
}

TEST(Top, AFrameHasRatesAndNoControlCharacters) {
  std::string now = kNow;
  now += "weir_model_ready{model=\"\x1b[2Jevil\",version=\"1\"} 1\n";
  const std::string frame = top_frame(MetricsPage::parse(kBefore), MetricsPage::parse(now), 2);
  EXPECT_NE(frame.find("weir 9.9  ready"), frame.npos) << frame;
  EXPECT_NE(frame.find("12.0 requests/s  2.0 not OK/s"), frame.npos) << frame;
  EXPECT_NE(frame.find("overload stop"), frame.npos) << "a step beyond the ladder is its last";
  EXPECT_NE(frame.find("?[2Jevil"), frame.npos) << frame;
  EXPECT_NE(frame.find("not OK:  INTERNAL 2.0/s\n"), frame.npos) << frame;
  EXPECT_EQ(frame.find('\x1b'), frame.npos);
}

TEST(Top, APageOfNonsenseMakesAFrameAllTheSame) {
  auto page = MetricsPage::parse(
      "weir_overload_step nan\nweir_requests_total{protocol=\"x\",code=\"OK\"} 1e308\n"
      "weir_request_duration_seconds_bucket{protocol=\"x\",le=\"nan\"} 3\n"
      "weir_request_duration_seconds_bucket{protocol=\"x\",le=\"-Inf\"} -3\nprocess_start_time_seconds -1e300\n");
  EXPECT_NE(top_frame(MetricsPage::parse(""), page, 0).find("up ?"), std::string::npos);
}

TEST(Terminal, LinesAreCutToTheScreenByCharacters) {
  EXPECT_EQ(fit_lines("ab\ncdef\ngh\n", 2, 3, "|"), "ab|cde|");
  EXPECT_EQ(fit_lines("äöü\n", 5, 2, "\x1b[K\r\n"), "äö\x1b[K");
  EXPECT_EQ(fit_lines("a\n\nb", 9, 9, ";"), "a;;b;");
  EXPECT_EQ(fit_lines("", 9, 9, ";"), "");
}

TEST(Terminal, WhatCouldCommandItIsNotShown) {
  EXPECT_EQ(printable("a\x1b[2J\nb\xc2\x9b"
                      "1m\xff"),
            "a?[2J?b?1m?");
  EXPECT_EQ(for_terminal("a\x1b[2J\n\tb\xc2\x9b"
                         "1mü\x7f"),
            "a[2J\n\tb1mü");
}

TEST(LineReader, LinesComeWholeAndTheLastOneWithoutItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text = "one\r\n\ntwo\nthree";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), ssize_t(text.size()));
  ::close(ends[1]);
  std::atomic<bool> stop{false};
  LineReader lines(ends[0]);
  for (const char* line : {"one", "", "two", "three"}) EXPECT_EQ(lines.next(stop), line);
  EXPECT_EQ(lines.next(stop), std::nullopt);
  ::close(ends[0]);
}

TEST(Remote, AUrlSaysWhereAndHow) {
  Remote remote;
  remote.key = "secret";
  for (const char* plain : {"127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080"}) {
    remote.url = plain;
    auto where = find(remote);
    ASSERT_TRUE(where) << where.error().text;
    EXPECT_EQ(where->address, "127.0.0.1:8080");
    EXPECT_EQ(where->tls, nullptr);
    EXPECT_EQ(where->fields.at(0).second, "Bearer secret");
  }
  remote.url = "https://[::1]";
  auto where = find(remote);
  ASSERT_TRUE(where) << where.error().text;
  EXPECT_EQ(where->address, "[::1]:443");
  EXPECT_EQ(where->authority, "[::1]");
  EXPECT_EQ(where->tls_host, "::1");
  EXPECT_NE(where->tls, nullptr);
}

TEST(Remote, WhatCannotBeSaidIsNamedByItsOption) {
  Remote remote;
  remote.url = "http://host/path";
  EXPECT_TRUE(find(remote).error().text.starts_with("--url: "));
  remote.url = "https://localhost:1", remote.ca_file = "/nowhere.pem";
  EXPECT_TRUE(find(remote).error().text.starts_with("--ca: "));
  remote.key = "two\r\nlines";
  EXPECT_TRUE(find(remote).error().text.starts_with("--key: "));
}

TEST(Remote, AComplaintHasTheServersWords) {
  auto of = [](int status, std::string body) {
    net::Client::Reply reply;
    reply.status = status, reply.body = std::move(body);
    return complaint(reply);
  };
  EXPECT_EQ(of(200, "{\"error\":\"x\"}"), "");
  EXPECT_EQ(of(404, "{\"error\":\"no \\u001b[2Jmodel\"}"), "no ?[2Jmodel");
  EXPECT_EQ(of(503, "{\"error\":{\"message\":\"later\"}}"), "later");
  EXPECT_EQ(of(500, "<html>"), "the server answered 500");
  EXPECT_EQ(of(401, "{}"), "the server answered 401 (a key is given by --key or WEIR_API_KEY)");
  EXPECT_EQ(of(304, ""), "the server answered 304");
  net::Client::Reply moved;
  moved.status = 302, moved.fields = {{"location", "https://login.example/\x1b[2J"}};
  EXPECT_EQ(complaint(moved), "the server answered 302: what was asked for is at https://login.example/?[2J");
}

TEST(SseReader, EventsThatAreSplitAnywhereAreWhole) {
  const std::string text = "data: {\"a\":1}\r\n\r\n: comment\ndata:two\n\nid: 3\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    std::vector<std::string> got;
    SseReader reader;
    auto take = [&](std::string_view data) { got.emplace_back(data); };
    EXPECT_TRUE(reader.feed(std::string_view(text).substr(0, cut), take));
    EXPECT_TRUE(reader.feed(std::string_view(text).substr(cut), take));
    EXPECT_EQ(got, (std::vector<std::string>{"{\"a\":1}", "two"})) << cut;
  }
}

}  // namespace
}  // namespace weir::app
